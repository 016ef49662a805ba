"""`refold explore --design 0.8`: search a simulated cluster without a controller."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import typer

from controller.cli.output import print_result
from replay.cli.exit_status import interrupted_by_sigterm
from replay.cli.progress import LINE_S, progress
from replay.progress import Progress

if TYPE_CHECKING:
    from replay.explore.kafka_0_8.search import BrokenRun, Searched


class Saved(NamedTuple):
    """A shrunk run, how many acts it had before, and where it is saved."""

    run: "BrokenRun"
    before: int
    folder: Path
    logs: list[Path]


def explore_brokers(
    seed: int,
    seconds: float | None,
    runs: int | None,
    workers: int,
    folder: Path,
    *,
    as_json: bool,
) -> bool:
    """Search for so long or so many runs, save the runs that break an invariant, and print the
    result. Returns whether a run broke an invariant that is not a known flaw of the design. Raises
    ReplayError, LogError."""
    from replay.explore.kafka_0_8.search import search

    if not as_json:
        typer.echo(f"seed {seed}")
    start = time.monotonic()
    with progress(what="exploring", total=runs, every=1, line_s=LINE_S) as report:

        def goes_on(done: int) -> bool:
            report(f"exploring: {done} runs", done, runs)
            is_late = seconds is not None and time.monotonic() - start >= seconds
            return not is_late and (runs is None or done < runs)

        with interrupted_by_sigterm("refold explore: ending"):
            found = search(seed, workers, goes_on)
        elapsed_s = time.monotonic() - start
        saved = [_saved(one, folder / one.invariant, seed, report) for one in found.broken]
    document = {
        **msgspec.to_builtins(found),
        "workers": workers,
        "seconds": round(elapsed_s, 3),
        "shrunk": [{**msgspec.to_builtins(one.run), "folder": str(one.folder)} for one in saved],
    }
    print_result(
        document, lambda: _print(found, saved, _amount(found, workers, elapsed_s)), as_json=as_json
    )
    return found.violation is not None


def _saved(broken: "BrokenRun", folder: Path, seed: int, report: Progress) -> Saved:
    from replay.explore.kafka_0_8.saved import save
    from replay.explore.kafka_0_8.search import shrunk

    report(f"shrinking a run that breaks {broken.invariant}", 0, None)
    least = shrunk(broken)
    return Saved(least, len(broken.acts), folder, save(least, folder, seed=seed))


def _amount(found: "Searched", workers: int, elapsed_s: float) -> str:
    processes = "1 worker" if workers == 1 else f"{workers} workers"
    end = ", interrupted" if found.was_interrupted else ""
    amount = f"{found.runs} runs, {found.events} events in {elapsed_s:.1f} s with {processes}{end}"
    return f"{amount}, seed {found.seed}"


def _print(found: "Searched", saved: list[Saved], amount: str) -> None:
    from replay.explore.kafka_0_8.monitor import INVARIANTS, KNOWN_FLAWS

    what = "no violation" if found.violation is None else "a violation"
    typer.echo(f"{what} in {amount}")
    for run, before, folder, logs in saved:
        if run.invariant in KNOWN_FLAWS:
            times, why = found.flaw_runs[run.invariant], KNOWN_FLAWS[run.invariant]
            typer.echo(f"known flaw of the design in {times} of {found.runs} runs: {why}")
        typer.echo(f"{run.invariant} does not hold in run {run.run}: {run.text}")
        typer.echo(f"shrunk from {before} to {len(run.acts)} acts:")
        for act in run.acts:
            typer.echo(f"  {act}")
        typer.echo(f"saved in {folder}; run it again: refold explore --reproduce {folder}")
        for log in logs:
            typer.echo(f"a log for replay, events, decisions and inspect: {log}")
    typer.echo(f"checked: {', '.join(INVARIANTS)} (docs/design-0.8.md#the-search)")


def reproduce_broker_run(path: Path, *, as_json: bool) -> bool:
    """Run a saved run again, and print the result. Returns whether it breaks an invariant. Raises
    ReplayError."""
    from replay.explore.kafka_0_8.saved import digest_of, read_broker_run
    from replay.explore.kafka_0_8.search import play

    saved = read_broker_run(path)
    cluster, violation = play(saved.acts)
    digest = digest_of(cluster)
    document = {
        "violation": {"invariant": violation.invariant, "text": violation.text}
        if violation is not None
        else None,
        "expected": {"invariant": saved.invariant, "text": saved.text},
        "digest": digest,
        "is_same_run": digest == saved.digest,
    }

    def show() -> None:
        if violation is None:
            typer.echo(f"no violation; the run was saved with a violation of {saved.invariant}")
        else:
            typer.echo(f"{violation.invariant} does not hold: {violation.text}")
        if digest == saved.digest:
            typer.echo("the same run: all events and commands are as saved")
        else:
            typer.echo(f"not the same run as saved (by refold {saved.version}, core {saved.core})")

    print_result(document, show, as_json=as_json)
    return violation is not None
