"""`refold replay`: fold a recorded log again and compare every decision."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.progress import BarColumn, TextColumn

from controller.cli.output import print_result
from replay.cli.exit_status import errors_in_one_line
from replay.cli.options import Json
from replay.cli.progress import progress
from replay.logs.open_log import open_reader
from replay.verify.differences import DIFFERENCES_MAX
from replay.verify.verification import Mismatch, Verification, verify_decisions

_SHOWN = 50
_AGREED, _DIFFERS = 0, 1

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="replay")
def replay(
    log: Annotated[
        Path,
        typer.Argument(help="A log of the daemon, may be packed; an incident; or - for stdin."),
    ],
    as_json: Json = False,
) -> None:
    """Derive the controller's decisions again from LOG and compare them with the recorded ones.

    For a log of another version, the wording of reasons and notices is not compared.

    Exit status: 0 every command agrees, 1 at least one does not, 2 the log cannot be used.
    """
    columns = (TextColumn("folding"), BarColumn(), TextColumn("{task.completed} events"))
    with errors_in_one_line("replay"), open_reader(log) as reader, progress(*columns) as report:
        result = verify_decisions(reader, report)
    print_result(_document(result), lambda: _print(result, log), as_json=as_json)
    raise typer.Exit(_DIFFERS if result.mismatched else _AGREED)


def _document(result: Verification) -> dict[str, object]:
    return {
        "events": result.events,
        "commands": result.commands,
        "agreed": result.agreed,
        "unrecorded": result.unrecorded,
        "other_core": result.other_core,
        "mismatches": msgspec.to_builtins(result.mismatches),
    }


def _print(result: Verification, log: Path) -> None:
    for one in result.mismatches[:_SHOWN]:
        differing = f" ({', '.join(one.differs)})" if one.differs else ""
        typer.echo(
            f"event {one.event} ({one.event_kind}), command {one.ordinal}: {one.what}{differing}\n"
            f"  recorded: {one.recorded or 'nothing'}\n"
            f"  derived:  {one.derived or 'nothing'}"
        )
        _print_differences(one)
    if result.mismatched > _SHOWN:
        typer.echo(f"... and {result.mismatched - _SHOWN} more; --json lists up to 1000")
    verdict = "agrees" if not result.mismatched else f"{result.mismatched} commands do not agree"
    typer.echo(
        f"{log}: {verdict}: {result.events} events, {result.commands} commands, "
        f"{result.agreed} agreed, {result.unrecorded} unrecorded"
    )
    if result.other_core:
        typer.echo(
            f"{log}: recorded by {result.other_core}; the wording of reasons and notices was not "
            "compared" + ("; refold diff compares two versions" if result.mismatched else "")
        )


def _print_differences(mismatch: Mismatch) -> None:
    for one in mismatch.differences:
        typer.echo(
            f"  {one.part}:\n"
            f"    recorded: {one.recorded if one.recorded is not None else 'nothing'}\n"
            f"    derived:  {one.derived if one.derived is not None else 'nothing'}"
        )
    if len(mismatch.differences) == DIFFERENCES_MAX:
        typer.echo(f"  ... only the first {DIFFERENCES_MAX} values that differ")
    if not mismatch.is_stored:
        typer.echo("  the content is too large to be in the log: only its digest was compared")
