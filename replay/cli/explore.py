"""`refold explore`: search a simulated cluster for orders of events that break an invariant."""

import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from textwrap import fill
from typing import TYPE_CHECKING, Annotated, Final

import typer

from controller.cli.output import print_result
from eventstore.errors import LogError
from replay.cli.exit_status import UNUSABLE, errors_in_one_line, interrupted_by_sigterm
from replay.cli.explore_0_8 import explore_08
from replay.cli.explore_reproduce import reproduce as reproduce_run
from replay.cli.options import WORKERS_MAX, Json
from replay.cli.progress import LINE_S, progress
from replay.errors import ReplayError

if TYPE_CHECKING:
    from replay.explore.coverage import Coverage
    from replay.explore.generators.strategies import ExplorationStart
    from replay.explore.parallel import Budget, ExplorationResult, ReportCoverage
    from replay.explore.saved import SavedRun
    from replay.explore.verdict import Amounts

_NOTHING, _VIOLATION = 0, 1
_SECONDS: Final = 60.0
_SECONDS_MAX: Final = 1e9
_SHRINK_SECONDS: Final = 60.0
_SEED_BITS: Final = 63
_CONTROLLER: Final = "controller"
_COLUMNS: Final = 120
_INDENT: Final = "  "

app = typer.Typer(add_completion=False, rich_markup_mode=None)

FromLog = Annotated[
    Path | None,
    typer.Option(
        metavar="LOG",
        help="Start from an incident: a log of the daemon or an imported log, may be packed.",
    ),
]
Strategies = Annotated[
    list[str] | None,
    typer.Option(
        help="random, disturbances, pct, crash-points, staleness or systematic."
        " Can be repeated. Default: all in turn."
    ),
]
Seconds = Annotated[
    float | None,
    typer.Option(
        min=0.1,
        max=_SECONDS_MAX,
        metavar="N",
        help="The seconds to explore. Default: 60; with --runs, no limit.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        max=WORKERS_MAX,
        metavar="N",
        help="The number of processes. Default: all cores.",
    ),
]

Design = Annotated[
    str,
    typer.Option(
        metavar="controller|0.8",
        help="0.8: brokers without a controller, as Kafka's first replication design has them.",
    ),
]


@app.command(name="explore")
def explore(
    scenario: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Start from this cluster, and vary its inputs (TOML or JSON)."
        ),
    ] = None,
    from_log: FromLog = None,
    reproduce: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Run the saved run.json, or that of a folder, again."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The same seed makes the same runs. Default: random.")
    ] = None,
    strategy: Strategies = None,
    seconds: Seconds = None,
    runs: Annotated[int | None, typer.Option(min=1, help="The number of runs to explore.")] = None,
    workers: Workers = None,
    shrink_seconds: Annotated[
        float, typer.Option(min=0, help="The seconds to shrink a run that breaks an invariant.")
    ] = _SHRINK_SECONDS,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Save it there. Default: explored-SEED."),
    ] = None,
    design: Design = _CONTROLLER,
    as_json: Json = False,
) -> None:
    """Run a simulated cluster in many orders, with faults and acts of administrators, and check
    after every step what must hold. Stop at the first violation, shrink it, and save it.

    The code that runs is refold's own: the core and its ZooKeeper session. The command opens no
    connections.

    Exit status: 0 nothing found, 1 an invariant does not hold, 2 a file or log cannot be used, or
    no run has ended. With --reproduce: 0 the run breaks no invariant any more, 1 it breaks one.
    """
    from replay.explore.parallel import Budget
    from replay.explore.saved import reserved

    with errors_in_one_line("explore"):
        limits: dict[str, object] = {"--seed": seed, "--seconds": seconds, "--runs": runs}
        sources: dict[str, object] = {"--scenario": scenario, "--from-log": from_log}
        sources |= {"--strategy": strategy}
        if reproduce is not None:
            others: dict[str, object] = {"--workers": workers, "--out": out}
            _refuse(limits | sources | others, "--reproduce", "a saved run is run as it is")
            raise typer.Exit(_VIOLATION if reproduce_run(reproduce, as_json=as_json) else _NOTHING)
        seed = secrets.randbits(_SEED_BITS) if seed is None else seed
        folder = out or Path(f"explored-{seed}")
        workers = workers or os.cpu_count() or 1
        budget = Budget(_SECONDS if seconds is None and runs is None else seconds, runs)
        if design != _CONTROLLER:
            _check_design(design, sources)
            with reserved(folder):
                result = explore_08(seed, budget, workers, folder, shrink_seconds, as_json=as_json)
            raise typer.Exit(_status(result.broken, result.coverage))
        start, notes = _start(scenario, from_log, strategy or ())
        with reserved(folder):
            if not as_json:
                typer.echo(f"seed {seed}")
            found = _explore(start, seed, budget, workers)
            saved = _shrink(found, shrink_seconds)
            where, logs = _save_or_print(saved, folder)
    document = {**_document(found, seed, workers, saved, where), "notes": notes}
    print_result(
        document, lambda: _print(found, seed, workers, saved, where, logs), as_json=as_json
    )
    raise typer.Exit(_status(found.violation, found.coverage))


def _status(violation: object, coverage: "Amounts") -> int:
    """The exit status. A search that ended before its first run has not shown anything."""
    if violation is not None:
        return _VIOLATION
    if coverage.runs:
        return _NOTHING
    typer.echo("refold explore: no run has ended, so nothing was checked", err=True)
    return UNUSABLE


def _refuse(options: dict[str, object], option: str, why: str) -> None:
    """Refuse options that cannot be combined with another one. Raises typer.BadParameter."""
    given = [name for name, value in options.items() if value is not None and value != []]
    if given:
        raise typer.BadParameter(f"{why}: leave out {', '.join(given)}", param_hint=option)


def _check_design(design: str, sources: dict[str, object]) -> None:
    """Refuse an unknown design, and options that another design does not have. Raises
    typer.BadParameter."""
    from controller.kafka_0_8.configuration import KAFKA_0_8

    if design != KAFKA_0_8:
        text = f"{design!r} is not a design; use {_CONTROLLER} or {KAFKA_0_8}"
        raise typer.BadParameter(text, param_hint="--design")
    _refuse(sources, "--design", "a search of the 0.8 design draws its own clusters and acts")


def _start(
    scenario: Path | None, from_log: Path | None, strategies: Sequence[str]
) -> tuple["ExplorationStart", tuple[str, ...]]:
    """The start, and notes about what a log has and the start has not."""
    from replay.explore.generators.strategies import STRATEGIES, ExplorationStart
    from replay.explore.saved import read_scenario

    if scenario is not None and from_log is not None:
        raise typer.BadParameter("use only one of them", param_hint="--scenario, --from-log")
    for one in strategies:
        if one not in STRATEGIES:
            raise typer.BadParameter(
                f"{one!r}: use one of {', '.join(STRATEGIES)}", param_hint="--strategy"
            )
    if scenario is not None:
        return ExplorationStart(*read_scenario(scenario), tuple(strategies)), ()
    if from_log is not None:
        from replay.explore.from_log.reading import start_of_log

        with progress() as report:
            begun = start_of_log(from_log, report)
        for note in begun.notes:
            typer.echo(f"note: {note}", err=True)
        return ExplorationStart(begun.scenario, begun.inputs, tuple(strategies)), begun.notes
    return ExplorationStart(strategies=tuple(strategies)), ()


def _explore(
    start: "ExplorationStart", seed: int, budget: "Budget", workers: int
) -> "ExplorationResult":
    from replay.explore.parallel import explore as explore_runs

    message = "refold explore: ending"
    with (
        _exploration_progress(budget) as report,
        interrupted_by_sigterm(message) as check_interrupt,
    ):

        def on_run(coverage: "Coverage", elapsed_s: float) -> None:
            check_interrupt()
            report(coverage, elapsed_s)

        return explore_runs(start, seed, budget, workers, on_run)


@contextmanager
def _exploration_progress(budget: "Budget") -> "Iterator[ReportCoverage]":
    """Show runs and simulated seconds a second, and what they reached."""
    from rich.progress import TextColumn

    from replay.explore.verdict import progress_lines, rates

    total = budget.runs if budget.seconds is None else int(budget.seconds)
    column = TextColumn("{task.description}")
    with progress(column, what="exploring", total=total, every=1, line_s=LINE_S) as shown:

        def report(coverage: "Coverage", elapsed_s: float) -> None:
            done = coverage.runs if budget.seconds is None else int(elapsed_s)
            lines = (f"exploring: {rates(coverage, elapsed_s)}", *progress_lines(coverage))
            shown("\n  ".join(lines), done, total)

        yield report


def _shrink(found: "ExplorationResult", seconds: float) -> "SavedRun | None":
    """Shrink the run with a violation to one that can be saved. Returns None without a
    violation."""
    if found.case is None or found.violation is None:
        return None
    from replay.explore.run import breaks
    from replay.explore.saved import saved_run
    from replay.explore.shrink import shrink

    case, invariant = found.case, found.violation.invariant
    typer.echo(f"{invariant} does not hold; shrinking the run", err=True)
    message = "refold explore: ending the shrinking"
    shown = progress(what="shrinking", every=1, line_s=LINE_S)
    with shown as report, interrupted_by_sigterm(message):
        shrunk = shrink(
            case.scenario,
            case.inputs,
            lambda scenario, inputs: breaks(scenario, inputs, invariant) is not None,
            seconds=seconds,
            report=report,
        )
    return saved_run(
        shrunk.scenario,
        shrunk.inputs,
        seed=case.seed,
        strategy=case.strategy,
        before=len(case.inputs),
    )


def _save_or_print(saved: "SavedRun | None", folder: Path) -> tuple[Path | None, list[Path]]:
    """Save a run in the folder, else in a temporary one, else print it, so that it is not lost.
    Returns the folder, None if the run was printed or there is none, and the logs in it."""
    if saved is None:
        return None, []
    from replay.explore.saved import document_of, save

    try:
        return folder, save(saved, folder)
    except (ReplayError, LogError, OSError) as error:
        typer.echo(f"refold explore: the run cannot be saved in {folder}: {error}", err=True)
    try:
        elsewhere = Path(mkdtemp(prefix="refold-explored-"))
        return elsewhere, save(saved, elsewhere)
    except (ReplayError, LogError, OSError) as error:
        typer.echo(f"refold explore: nor in a temporary folder: {error}. run.json:", err=True)
    typer.echo(document_of(saved).decode(), err=True)
    return None, []


def _document(
    found: "ExplorationResult",
    seed: int,
    workers: int,
    saved: "SavedRun | None",
    folder: Path | None,
) -> dict[str, object]:
    from replay.explore.verdict import invariant_names, not_checked

    return {
        "seed": seed,
        "workers": workers,
        "seconds": round(found.seconds, 3),
        "was_interrupted": found.was_interrupted,
        "violation": saved.violation if saved is not None else found.violation,
        "strategy": found.case.strategy if found.case is not None else None,
        "shrunk": saved,
        "folder": str(folder) if folder is not None else None,
        "coverage": found.coverage,
        "checked": invariant_names(),
        "not_checked": not_checked(found.coverage),
    }


def _print(
    found: "ExplorationResult",
    seed: int,
    workers: int,
    saved: "SavedRun | None",
    folder: Path | None,
    logs: list[Path],
) -> None:
    from replay.explore.verdict import (
        amount_text,
        checked_lines,
        coverage_lines,
        not_checked,
        rates,
        shrunk_lines,
        violation_text,
    )

    coverage = found.coverage
    amount = amount_text(coverage.runs, found.seconds, workers, found.was_interrupted)
    if found.violation is None or found.case is None or saved is None:
        typer.echo(f"no violation in {amount}, seed {seed}")
    else:
        shown = saved.violation or found.violation
        typer.echo(violation_text(shown))
        typer.echo(f"found by {found.case.strategy} in {amount}, seed {seed}")
        uses = "replay, why, inspect and diff"
        before = saved.inputs_before_shrinking
        for line in shrunk_lines(saved.inputs, before, folder, logs, uses):
            typer.echo(line)
    typer.echo(f"speed: {rates(coverage, found.seconds)}")
    for line in coverage_lines(coverage):
        typer.echo(line)
    for line in checked_lines(coverage):
        typer.echo(line)
    for text in not_checked(coverage):
        typer.echo(_wrapped_text(f"not checked: {text}"))


def _wrapped_text(text: str) -> str:
    """A long list in lines; a name or a path is never divided."""
    return fill(
        text,
        _COLUMNS,
        subsequent_indent=_INDENT,
        break_long_words=False,
        break_on_hyphens=False,
    )
