"""`refold explore --design 0.8`: search a simulated cluster without a controller."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from controller.cli.output import print_result
from controller.core.values import counted
from replay.cli.exit_status import interrupted_by_sigterm
from replay.cli.progress import LINE_S, progress
from replay.progress import Progress

if TYPE_CHECKING:
    from replay.explore.invariants.invariant import Violation
    from replay.explore.kafka_0_8.run import Coverage
    from replay.explore.kafka_0_8.search import BrokenRun, SearchResult

_PAGE = "docs/design-0.8.md#the-search"


class Limits(NamedTuple):
    """When a search ends, and how long a run is shrunk."""

    seconds: float | None
    runs: int | None
    shrink_seconds: float


class Saved(NamedTuple):
    """A shrunk run, how many inputs it had before, and where it is saved."""

    run: "BrokenRun"
    before: int
    folder: Path
    logs: list[Path]


def explore_brokers(
    seed: int, limits: Limits, workers: int, folder: Path, *, as_json: bool
) -> "SearchResult":
    """Search up to the limits, save the runs that break an invariant, and print the result, which
    is returned. Raises ReplayError, LogError."""
    from replay.explore.kafka_0_8.search import search
    from replay.explore.verdict import rates

    if not as_json:
        typer.echo(f"seed {seed}")
    start = time.monotonic()
    with progress(what="exploring", total=limits.runs, every=1, line_s=LINE_S) as report:

        def goes_on(coverage: "Coverage") -> bool:
            check_interrupt()
            elapsed_s, runs = time.monotonic() - start, limits.runs
            report(f"exploring: {rates(coverage, elapsed_s)}", coverage.runs, runs)
            is_late = limits.seconds is not None and elapsed_s >= limits.seconds
            return not is_late and (runs is None or coverage.runs < runs)

        with interrupted_by_sigterm("refold explore: ending") as check_interrupt:
            found = search(seed, workers, goes_on)
        elapsed_s = time.monotonic() - start
        saved = [
            _saved(one, folder / one.violation.invariant, seed, limits.shrink_seconds, report)
            for one in found.runs_to_save
        ]
    document = _document(found, workers, elapsed_s, saved)
    lines = _lines(found, workers, elapsed_s, saved)
    print_result(document, lambda: typer.echo("\n".join(lines)), as_json=as_json)
    return found


def _saved(broken: "BrokenRun", folder: Path, seed: int, seconds: float, report: Progress) -> Saved:
    from replay.explore.kafka_0_8.saved import save
    from replay.explore.kafka_0_8.search import shrunk

    report(f"shrinking a run with {broken.violation.invariant}", 0, None)
    with interrupted_by_sigterm("refold explore: ending the shrinking"):
        least = shrunk(broken, seconds=seconds, report=report)
    return Saved(least, len(broken.inputs), folder, save(least, folder, seed=seed))


def _document(
    found: "SearchResult", workers: int, elapsed_s: float, saved: list[Saved]
) -> dict[str, object]:
    from replay.explore.kafka_0_8.run import checked, never_issued

    return {
        "seed": found.seed,
        "workers": workers,
        "seconds": round(elapsed_s, 3),
        "was_interrupted": found.was_interrupted,
        "violation": found.broken,
        "flaws": found.flaws,
        "flaw_runs": found.flaw_runs,
        "shrunk": [{"folder": str(one.folder), "run": one.run} for one in saved],
        "coverage": found.coverage,
        "rules_never_issued": never_issued(found.coverage),
        "checked": checked(),
    }


def _lines(
    found: "SearchResult", workers: int, elapsed_s: float, saved: list[Saved]
) -> Iterator[str]:
    from replay.explore.kafka_0_8.invariants import ALWAYS, RECOVERY
    from replay.explore.kafka_0_8.run import RULES, never_issued
    from replay.explore.verdict import amount_text, rates

    coverage = found.coverage
    what = "no violation" if found.broken is None else "a violation"
    amount = amount_text(coverage.runs, elapsed_s, workers, found.was_interrupted)
    yield f"{what} in {amount}, seed {found.seed}"
    for one in saved:
        yield from _lines_of_run(found, one)
    yield f"speed: {rates(coverage, elapsed_s)}"
    never = never_issued(coverage)
    yield f"rules: {len(RULES) - len(never)} of {len(RULES)} were the reason of a command"
    if never:
        yield f"not reached: {', '.join(never)}"
    yield f"checked after every step: {len(ALWAYS)} invariants ({_PAGE})"
    yield (
        f"checked after the last fault: {len(RECOVERY)} invariants, all of them in "
        f"{coverage.recovered} of {coverage.runs} runs"
    )


def _lines_of_run(found: "SearchResult", saved: Saved) -> Iterator[str]:
    from replay.explore.kafka_0_8.losses import KNOWN_FLAWS
    from replay.explore.verdict import input_line

    run, before, folder, logs = saved
    name = run.violation.invariant
    if name in KNOWN_FLAWS:
        times, runs = found.flaw_runs[name], found.coverage.runs
        yield f"known flaw of the design in {times} of {runs} runs: {name}: {KNOWN_FLAWS[name]}"
    yield f"run {run.run}: {_text(run.violation)}"
    yield f"shrunk from {before} to {counted(len(run.inputs), 'input')}:"
    for one in run.inputs:
        yield f"  {input_line(one)}"
    yield f"saved in {folder}; run it again: refold explore --reproduce {folder}"
    for log in logs:
        yield f"a log for replay, events, decisions and inspect: {log}"


def _text(violation: "Violation") -> str:
    """A violation or a flaw in one line."""
    from replay.explore.kafka_0_8.losses import KNOWN_FLAWS
    from replay.explore.verdict import violation_text

    if violation.invariant not in KNOWN_FLAWS:
        return violation_text(violation)
    at_s = violation.at_us / 1_000_000
    return f"{violation.invariant} at {at_s:.3f} s: {violation.subject}: {violation.text}"


def reproduce_broker_run(path: Path, *, as_json: bool) -> bool:
    """Run a saved run again, and print the result. Returns whether it breaks an invariant or has a
    flaw. Raises ReplayError."""
    from replay.explore.kafka_0_8.run import Run08
    from replay.explore.kafka_0_8.saved import read_broker_run
    from replay.explore.saved import same_run_line

    saved = read_broker_run(path)
    played = Run08(saved.scenario, saved.inputs)
    is_same = played.digest == saved.digest
    document = {
        "violation": played.violation,
        "expected": saved.violation,
        "digest": played.digest,
        "is_same_run": is_same,
    }

    def show() -> None:
        if played.violation is None:
            typer.echo(f"no violation; the run was saved with {saved.violation.invariant}")
        else:
            typer.echo(_text(played.violation))
        typer.echo(same_run_line(saved, is_same=is_same))

    print_result(document, show, as_json=as_json)
    return played.violation is not None
