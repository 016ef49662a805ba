"""`refold explore --design 0.8`: search a simulated cluster without a controller."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from controller.cli.output import print_result
from replay.cli.exit_status import interrupted_by_sigterm
from replay.cli.progress import LINE_S, progress
from replay.progress import Progress

if TYPE_CHECKING:
    from replay.explore.kafka_0_8.run import Coverage
    from replay.explore.kafka_0_8.search import BrokenRun, SearchResult
    from replay.explore.parallel import Budget

_PAGE = "docs/design-0.8.md#the-search"


class Saved(NamedTuple):
    """A shrunk run, how many inputs it had before, and where it is saved."""

    run: "BrokenRun"
    before: int
    folder: Path
    logs: list[Path]


def explore_08(
    seed: int,
    budget: "Budget",
    workers: int,
    folder: Path,
    shrink_seconds: float,
    *,
    as_json: bool,
) -> "SearchResult":
    """Search until the budget is spent, save the runs that break an invariant, and print the
    result, which is returned. Raises ReplayError, LogError."""
    from replay.explore.kafka_0_8.search import search
    from replay.explore.verdict import rates

    if not as_json:
        typer.echo(f"seed {seed}")
    start = time.monotonic()
    with progress(what="exploring", total=budget.runs, every=1, line_s=LINE_S) as report:

        def goes_on(coverage: "Coverage") -> bool:
            check_interrupt()
            elapsed_s = time.monotonic() - start
            report(f"exploring: {rates(coverage, elapsed_s)}", coverage.runs, budget.runs)
            return not budget.is_spent(coverage.runs, elapsed_s)

        with interrupted_by_sigterm("refold explore: ending") as check_interrupt:
            found = search(seed, workers, goes_on)
        elapsed_s = time.monotonic() - start
        saved: list[Saved] = []
        for one in found.runs_to_save:
            least = _shrink(one, shrink_seconds, report)
            saved.append(_save(least, len(one.inputs), folder / least.violation.invariant, seed))
    document = _document(found, workers, elapsed_s, saved)
    lines = _lines(found, workers, elapsed_s, saved)
    print_result(document, lambda: typer.echo("\n".join(lines)), as_json=as_json)
    return found


def _shrink(broken: "BrokenRun", seconds: float, report: Progress) -> "BrokenRun":
    from replay.explore.kafka_0_8.search import shrink_run

    report(f"shrinking a run with {broken.violation.invariant}", 0, None)
    with interrupted_by_sigterm("refold explore: ending the shrinking"):
        return shrink_run(broken, seconds=seconds, report=report)


def _save(run: "BrokenRun", before: int, folder: Path, seed: int) -> Saved:
    """Save a shrunk run, which had `before` inputs."""
    from replay.explore.kafka_0_8.saved import save

    return Saved(run, before, folder, save(run, folder, seed=seed))


def _document(
    found: "SearchResult", workers: int, elapsed_s: float, saved: list[Saved]
) -> dict[str, object]:
    from replay.explore.kafka_0_8.run import invariant_names, never_issued

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
        "checked": invariant_names(),
    }


def _lines(
    found: "SearchResult", workers: int, elapsed_s: float, saved: list[Saved]
) -> Iterator[str]:
    from replay.explore.kafka_0_8.invariants import ALWAYS, RECOVERY
    from replay.explore.kafka_0_8.run import RULES, never_issued
    from replay.explore.verdict import amount_text, checked_lines, rates

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
    yield from checked_lines(coverage, len(ALWAYS), len(RECOVERY), _PAGE)


def _lines_of_run(found: "SearchResult", saved: Saved) -> Iterator[str]:
    from replay.explore.kafka_0_8.losses import KNOWN_FLAWS
    from replay.explore.verdict import shrunk_lines, violation_text

    run, before, folder, logs = saved
    name = run.violation.invariant
    if name in KNOWN_FLAWS:
        times, runs = found.flaw_runs[name], found.coverage.runs
        yield f"known flaw of the design in {times} of {runs} runs: {name}: {KNOWN_FLAWS[name]}"
    yield f"run {run.run}: {violation_text(run.violation)}"
    uses = "replay, events, decisions and inspect"
    yield from shrunk_lines(run.inputs, before, folder, logs, uses)
