"""`python -m tools.mutations`: exit 0 when every survivor is in the reviewed list.

1: a mutant that is not in the list survived, a rule can be broken without a test that notices, or
a test that a page names as evidence notices no mutant. 2: the run cannot begin.
"""

import signal
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from replay.cli.progress import progress
from tools.mutations.checking import list_errors
from tools.mutations.choosing import changed_functions, rotated
from tools.mutations.errors import MutationError
from tools.mutations.functions import Function
from tools.mutations.operators import mutants_of
from tools.mutations.report import report
from tools.mutations.run import MutationRun, RunPlan
from tools.mutations.settings import read_settings
from tools.mutations.suite import run_in_suite
from tools.mutations.survivors import (
    Reviewed,
    by_short_name,
    read_survivors,
    reason_of,
    test_named,
    with_verdicts,
    without_missing,
    write_survivors,
)

_UNUSABLE = 2
_LINE_S = 30.0
"""How often progress is a line, if there is no terminal."""
_errors = Console(stderr=True)


def main(
    only: Annotated[
        list[str] | None,
        typer.Option(help="A function, class, module or package; no rules.", metavar="NAME"),
    ] = None,
    base: Annotated[
        str, typer.Option(help="First what changed since this commit.", metavar="COMMIT")
    ] = "",
    minutes: Annotated[
        float,
        typer.Option(
            min=0,
            help="Time after the rules: half of it for the tests that pages name, the rest for "
            "mutants; 0: all.",
        ),
    ] = 0,
    write: Annotated[bool, typer.Option("--write", help="Write the list of survivors.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Mutants at a time.")] = 2,
) -> None:
    """Change the code of the current folder, one place at a time, and run the tests."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    root = Path.cwd()
    seconds = minutes * 60 if minutes else float("inf")
    try:
        settings = read_settings(root)
        with progress(what="mutants", every=1, line_s=_LINE_S) as report_progress:
            run = MutationRun(root, settings, jobs, report_progress)
            if not write and (errors := list_errors(root)):
                raise MutationError("\n".join(errors))
            listed, _ = by_short_name(read_survivors(root), run.functions)
            functions = _chosen_functions(root, run.functions, only or [], base)
            test_for = partial(test_named, listed)
            chosen = RunPlan(
                functions,
                seconds,
                with_rules=not only,
                test_for=test_for,
                may_survive=lambda mutant: reason_of(listed, mutant) is not None,
            )
            if minutes:
                chosen.page_test_order = lambda names: rotated(root, names, str)
            with tempfile.TemporaryDirectory(prefix="mutations-") as folder:
                output = Path(folder) / "pytest"
                try:
                    run_in_suite(settings.tests, output, lambda suite: run(suite, chosen))
                except (KeyboardInterrupt, SystemExit):
                    if write:
                        _write(root, run, listed)
                    raise
    except MutationError as error:
        _errors.print(str(error), markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(_UNUSABLE) from None
    if write:
        listed = _write(root, run, listed)
    is_good = report(run.result, listed, Console())
    raise typer.Exit(int(not is_good))


def _write(root: Path, run: MutationRun, listed: Reviewed) -> Reviewed:
    """Write the list with what was tried until now, and return it."""
    everything = [mutant for one in run.functions for mutant in mutants_of(one)]
    listed = without_missing(listed, everything)
    listed = with_verdicts(listed, run.result.survival(), everything)
    write_survivors(root, listed)
    return listed


def _chosen_functions(
    root: Path, functions: list[Function], only: list[str], base: str
) -> list[Function]:
    """The functions whose mutants are tried, in order. Raises MutationError for an unknown name,
    or if git fails."""
    if only:
        found = [one for one in functions if any(_is_in(one, name) for name in only)]
        if not found:
            raise MutationError(f"--only {', '.join(only)}: no function in scope is in it")
        return found
    if not base:
        return functions
    changed = changed_functions(root, functions, base)
    names = {one.full_name for one in changed}
    others = rotated(root, functions, _short_name)
    return [*changed, *(one for one in others if one.full_name not in names)]


def _short_name(function: Function) -> str:
    return function.short_name


def _is_in(function: Function, name: str) -> bool:
    return f".{name}." in f".{function.full_name}."


if __name__ == "__main__":
    typer.run(main)
