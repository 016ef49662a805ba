"""`refold explore --reproduce`: run a saved run of either design again."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from controller.cli.output import print_result

if TYPE_CHECKING:
    from replay.explore.kafka_0_8.run import Run08
    from replay.explore.kafka_0_8.saved import SavedRun08
    from replay.explore.run import RunOutcome
    from replay.explore.saved import SavedRun


def reproduce(path: Path, *, as_json: bool) -> bool:
    """Run a saved run again, and print the result. Returns whether it breaks an invariant or has a
    flaw. Raises ReplayError."""
    from replay.explore.verdict import violation_text

    saved, outcome = _run_again(path)
    is_same = outcome.digest == saved.digest
    document = {
        "violation": outcome.violation,
        "expected": saved.violation,
        "digest": outcome.digest,
        "is_same_run": is_same,
    }

    def show() -> None:
        if outcome.violation is None:
            typer.echo(f"no violation; the run was saved with {_expected_violation(saved)}")
        else:
            typer.echo(violation_text(outcome.violation))
        if is_same:
            typer.echo("the same run: all events, commands and znodes are as saved")
        else:
            by = f"by refold {saved.version}, core {saved.core}"
            typer.echo(f"not the same run as saved ({by})")

    print_result(document, show, as_json=as_json)
    return outcome.violation is not None


def _run_again(path: Path) -> "tuple[SavedRun, RunOutcome] | tuple[SavedRun08, Run08]":
    from replay.explore.saved import CONTROLLER, design_of, read_run, run_again

    if design_of(path) == CONTROLLER:
        saved = read_run(path)
        return saved, run_again(saved).outcome(with_digest=True)
    from replay.explore.kafka_0_8.run import Run08
    from replay.explore.kafka_0_8.saved import read_run_08

    saved_08 = read_run_08(path)
    return saved_08, Run08(saved_08.scenario, saved_08.inputs)


def _expected_violation(saved: "SavedRun | SavedRun08") -> str:
    """The violation that a saved run led to, in words. A run of the 0.8 design may have a flaw and
    no violation."""
    from replay.explore.saved import SavedRun

    if saved.violation is None:
        return "none"
    name = saved.violation.invariant
    return f"a violation of {name}" if isinstance(saved, SavedRun) else name
