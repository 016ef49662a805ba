"""`python -m tools.planted_changes`: exit 0 if `refold diff` finds every planted change.

1: a change is missed or found under another rule, or an innocuous change is reported. 2: the run
cannot begin.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TaskID

from replay.diff.logs import open_logs
from replay.errors import ReplayError
from tools.mutations.errors import MutationError
from tools.mutations.functions import Function, module_paths, read_functions
from tools.mutations.rules import MutationRule, Value, read_rules, target_of
from tools.mutations.settings import read_settings
from tools.planted_changes.comparing import Comparer, measure
from tools.planted_changes.verdicts import Verdict, table

ROOT: Final = Path(__file__).parents[2]
INCIDENTS: Final = Path("tests/incidents")
_UNUSABLE: Final = 2
_errors: Final = Console(stderr=True)


class _Change(msgspec.Struct, frozen=True):
    rule: MutationRule
    target: Function | Value
    is_innocuous: bool


def main(
    logs: Annotated[
        list[Path] | None,
        typer.Argument(help="Logs as for refold diff; default: tests/incidents."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Changes with this text in their rule or function."),
    ] = None,
    whole: Annotated[
        bool,
        typer.Option("--whole", help="Compare all logs, also those that a change cannot affect."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, not a table.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Comparisons at a time.")] = 2,
) -> None:
    """Plant changes in copies of the working tree, and compare each copy with it by `refold diff`.

    The changes are in tests/tools/mutations/rules.toml. A change is found if `refold diff` reports
    it under the expected rule, or names its code as never executed. Innocuous changes must not be
    reported.

    Exit status: 0 every change is found, 1 a change is missed or an innocuous one is reported, 2
    the run cannot begin.
    """
    try:
        changes = _changes(only or [])
        with Progress(
            *Progress.get_default_columns(), MofNCompleteColumn(), console=_errors, transient=True
        ) as progress:
            verdicts = asyncio.run(
                _try_changes(changes, logs or [ROOT / INCIDENTS], progress, jobs, whole=whole)
            )
    except (MutationError, ReplayError) as error:
        _errors.print(str(error), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(_UNUSABLE) from None
    typer.echo(msgspec.json.encode(verdicts) if as_json else table(verdicts))
    raise typer.Exit(int(not all(one.is_good for one in verdicts)))


def _changes(only: Sequence[str]) -> list[_Change]:
    """The planted changes with their targets. Raises MutationError."""
    settings = read_settings(ROOT)
    functions, modules = read_functions(ROOT, settings), module_paths(ROOT, settings)
    rules = read_rules(ROOT)
    planted = [one for one in (*rules.rule, *rules.planted) if one.diff]
    changes = [
        _Change(one, target_of(one, functions, modules), is_innocuous)
        for is_innocuous, group in ((False, planted), (True, rules.innocuous))
        for one in group
        if not only or any(text in f"{one.rule} {one.function} {one.value}" for text in only)
    ]
    if not changes:
        raise MutationError(f"--only {', '.join(only)}: no planted change has this text")
    return changes


async def _try_changes(
    changes: Sequence[_Change], given: Sequence[Path], progress: Progress, jobs: int, *, whole: bool
) -> list[Verdict]:
    with open_logs(given) as logs:
        task = progress.add_task("Folding the logs", total=len(logs))
        measured = []
        for one in measure(ROOT, logs):
            measured.append(one)
            progress.advance(task)
        progress.remove_task(task)
        comparer = Comparer(ROOT, measured, whole=whole)
        task = progress.add_task("Comparing", total=len(changes))
        places = asyncio.Semaphore(jobs)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(_try(comparer, one, places, progress, task)) for one in changes
            ]
    return [one.result() for one in tasks]


async def _try(
    comparer: Comparer,
    change: _Change,
    places: asyncio.Semaphore,
    progress: Progress,
    task: TaskID,
) -> Verdict:
    async with places:
        verdict = await comparer.try_change(
            change.rule, change.target, is_innocuous=change.is_innocuous
        )
    progress.advance(task)
    text = f"{verdict.outcome}: {verdict.change}"
    progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
    return verdict


if __name__ == "__main__":
    typer.run(main)
