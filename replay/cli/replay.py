"""`refold replay`: fold a recorded log again and compare every decision."""

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.progress import BarColumn, TextColumn

from controller.cli.output import OutputFault
from eventstore.errors import LogError
from eventstore.reader import LogReader
from replay.cli.progress import progress
from replay.errors import ReplayError
from replay.logs.open_log import open_reader
from replay.verify.differences import DIFFERENCES_MAX
from replay.verify.verification import Mismatch, Verification, verify_decisions

_SHOWN = 50
_AGREED, _DIFFERS, _UNUSABLE = 0, 1, 2

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command(name="replay")
def replay(
    log: Annotated[Path, typer.Argument(help="A log folder, or - for a stream on stdin.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Derive the controller's decisions again from LOG and compare them with what it did.

    A log that another version recorded is compared without the wording of reasons and notices.
    Exit status: 0 every command agrees, 1 at least one does not, 2 the log cannot be used.
    """
    try:
        with open_reader(log) as reader:
            result = _verify_with_progress(reader)
    except (LogError, ReplayError) as error:
        typer.echo(f"refold replay: {error}", err=True)
        raise typer.Exit(_UNUSABLE) from None
    with suppress(OutputFault):
        if as_json:
            typer.echo(_as_json(result))
        else:
            _print(result, log)
    raise typer.Exit(_DIFFERS if result.mismatched else _AGREED)


def _verify_with_progress(reader: LogReader) -> Verification:
    columns = (TextColumn("folding"), BarColumn(), TextColumn("{task.completed} events"))
    with progress(*columns) as report:
        return verify_decisions(reader, report)


def _as_json(result: Verification) -> str:
    document = {
        "events": result.events,
        "commands": result.commands,
        "agreed": result.agreed,
        "unrecorded": result.unrecorded,
        "other_core": result.other_core,
        "mismatches": msgspec.to_builtins(result.mismatches),
    }
    return msgspec.json.encode(document).decode()


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
        typer.echo(f"  ... the first {DIFFERENCES_MAX} values that differ")
    if not mismatch.is_stored:
        typer.echo("  its content is too large to be in the log: only a digest of it is compared")
