"""`refold replay`: fold recorded logs again and compare every decision."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import Struct
from rich.progress import BarColumn, TextColumn

from controller.cli.output import print_result
from eventstore.errors import LogError
from replay.cli.exit_status import UNUSABLE, errors_in_one_line, unwound_by_sigterm
from replay.cli.log.conventions import open_end
from replay.cli.options import WORKERS_MAX, Json
from replay.cli.progress import progress
from replay.diff.logs import open_logs
from replay.errors import ReplayError
from replay.index.making import make_index
from replay.logs.caches import keeps_caches
from replay.logs.open_log import open_reader
from replay.logs.other_core import diff_command
from replay.progress import Progress
from replay.verify.differences import DIFFERENCES_MAX
from replay.verify.parts import verify_log
from replay.verify.verification import (
    NO_ORDINAL,
    Mismatch,
    Verification,
    Verifier,
    damage_reported,
)

_SHOWN = 50
_AGREED, _DIFFERS = 0, 1

app = typer.Typer(add_completion=False, rich_markup_mode=None)


class _ReplayedLog(Struct, frozen=True):
    """A log of a folder, with its result or the error that prevents one."""

    log: str
    result: Verification | None = None
    error: str = ""
    is_imported: bool = False


@app.command(name="replay")
def replay(
    log: Annotated[
        Path,
        typer.Argument(
            metavar="LOG",
            help="A log of the daemon, may be packed; an incident; a folder of these; or - for"
            " stdin.",
        ),
    ],
    as_json: Json = False,
    index: Annotated[
        bool,
        typer.Option(
            "--index",
            help="In the same pass, make the index with which `why`, `events`, `decisions` and"
            " `inspect` answer quickly. LOG is a folder of segments that no daemon writes.",
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            max=WORKERS_MAX,
            help="The number of processes for a log with snapshots. Default: all cores.",
        ),
    ] = None,
) -> None:
    """Derive the controller's decisions again from LOG and compare them with the recorded ones.

    For a log of another version, the wording of reasons and notices is not compared. Imported logs
    in a folder are named and passed over: they have no decisions of refold.

    A log that has snapshots (see --index) is verified in parts, on all cores.

    Exit status: 0 every command agrees, 1 at least one does not, 2 a log cannot be used.
    """
    columns = (TextColumn("folding"), BarColumn(), TextColumn("{task.completed} events"))
    processes = workers or os.cpu_count() or 1
    with (
        unwound_by_sigterm(),
        errors_in_one_line("replay"),
        progress(*columns) as report,
        _paths(log) as paths,
    ):
        if index and (len(paths) != 1 or not keeps_caches(paths[0][1])):
            raise ReplayError(
                "--index is for one log, whose folder can be written and has no running daemon"
            )
        if len(paths) == 1:
            path = paths[0][1]
            only = (
                _verify_and_index(path, report) if index else _verify_path(path, report, processes)
            )
            several = []
        else:
            only = None
            several = [_replay_log(name, path, report, processes) for name, path in paths]
    if only is not None:
        print_result(_document(only), lambda: _print(only, str(log)), as_json=as_json)
        raise typer.Exit(_DIFFERS if only.mismatched else _AGREED)
    print_result(
        {"logs": [_document_of_several(one) for one in several]},
        lambda: _print_several(several),
        as_json=as_json,
    )
    raise typer.Exit(_status(several))


@contextmanager
def _paths(log: Path) -> Iterator[list[tuple[str, Path]]]:
    """The name and path of the given log, or of each log in the given folder."""
    if not log.is_dir():
        yield [(str(log), log)]
        return
    with open_logs([log]) as found:
        yield [(one.name, one.path) for one in found]


def _verify_path(path: Path, report: Progress, processes: int) -> Verification:
    with open_reader(path) as reader:
        return verify_log(reader, report, processes)


def _verify_and_index(path: Path, report: Progress) -> Verification:
    with open_reader(path) as reader, damage_reported():
        verifier = Verifier(reader)
        make_index(path, report, verifier=verifier)
        return verifier.result()


def _replay_log(name: str, path: Path, report: Progress, processes: int) -> _ReplayedLog:
    try:
        with open_reader(path) as reader:
            if reader.header.kind != "recorded":
                return _ReplayedLog(name, is_imported=True)
            return _ReplayedLog(name, verify_log(reader, report, processes))
    except (LogError, ReplayError) as error:
        return _ReplayedLog(name, error=str(error))


def _status(several: list[_ReplayedLog]) -> int:
    if any(one.error for one in several):
        return UNUSABLE
    return _DIFFERS if any(one.result and one.result.mismatched for one in several) else _AGREED


def _document(result: Verification) -> dict[str, object]:
    return {
        "events": result.events,
        "commands": result.commands,
        "agreed": result.agreed,
        "unrecorded": result.unrecorded,
        "is_closed": result.is_closed,
        "events_without_commands": result.events_without_commands,
        "notes": result.notes,
        "other_core": result.other_core,
        "mismatches": msgspec.to_builtins(result.mismatches),
    }


def _document_of_several(one: _ReplayedLog) -> dict[str, object]:
    of_result = _document(one.result) if one.result is not None else {}
    return {"log": one.log, "error": one.error, "is_imported": one.is_imported, **of_result}


def _print_several(several: list[_ReplayedLog]) -> None:
    for one in several:
        if one.result is not None:
            _print(one.result, one.log)
        elif one.error:
            typer.echo(f"{one.log}: cannot be used: {one.error}")
        else:
            typer.echo(f"{one.log}: passed over: it is an imported log, use `refold agree`")
    replayed = [one.result for one in several if one.result is not None]
    agreed = sum(not one.mismatched for one in replayed)
    errors = sum(bool(one.error) for one in several)
    typer.echo(
        f"{agreed} of {len(replayed)} logs agree"
        + (f", {errors} cannot be used" if errors else "")
        + (f", {rest} passed over" if (rest := len(several) - len(replayed) - errors) else "")
    )


def _print(result: Verification, log: str) -> None:
    for one in result.mismatches[:_SHOWN]:
        _print_mismatch(one)
    if result.mismatched > _SHOWN:
        typer.echo(f"... and {result.mismatched - _SHOWN} more; --json lists up to 1000")
    for note in result.notes:
        typer.echo(f"{log}: {note}")
    if not result.is_closed:
        typer.echo(f"{log}: not closed: {open_end(result.events_without_commands)}")
    verdict = "agrees" if not result.mismatched else f"{result.mismatched} records do not agree"
    typer.echo(
        f"{log}: {verdict}: {result.events} events, {result.commands} commands, "
        f"{result.agreed} agreed, {result.unrecorded} unrecorded"
    )
    if result.other_core:
        typer.echo(
            f"{log}: recorded by {result.other_core}; the wording of reasons and notices was not "
            "compared"
        )
        if result.mismatched:
            typer.echo(f"{log}: to compare the two versions: {diff_command(log)}")


def _print_mismatch(mismatch: Mismatch) -> None:
    event = f"event {mismatch.event} ({mismatch.event_kind})"
    differing = f" ({', '.join(mismatch.differs)})" if mismatch.differs else ""
    if mismatch.ordinal == NO_ORDINAL:
        typer.echo(f"{event}: {mismatch.what}{differing}")
    else:
        typer.echo(
            f"{event}, command {mismatch.ordinal}: {mismatch.what}{differing}\n"
            f"  recorded: {mismatch.recorded or 'nothing'}\n"
            f"  derived:  {mismatch.derived or 'nothing'}"
        )
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
