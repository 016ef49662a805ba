"""`refold log export` and `refold log import`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from eventstore.errors import LogError
from eventstore.reader import LogReader
from replay.cli.log.conventions import Log, local_log, log_errors, print_note
from replay.cli.progress import progress
from replay.cli.redacted import Redact, redacted_logs
from replay.progress import Progress

if TYPE_CHECKING:
    from replay.redaction.names import StandIns


class ExportFormat(StrEnum):
    """The format of an export."""

    JSONL = "jsonl"
    PARQUET = "parquet"


def export(
    log: Log,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            metavar="FILE",
            help="The new file, compressed if its name ends in .gz or .xz; - for stdout; for"
            " Parquet a new folder.",
        ),
    ] = "-",
    as_format: Annotated[
        ExportFormat,
        typer.Option("--format", help="JSON lines, or two Parquet tables for analysis."),
    ] = ExportFormat.JSONL,
    redact: Redact = False,
    names: Annotated[
        Path | None,
        typer.Option(help="With --redact: a new file with the replaced names. Keep it secret."),
    ] = None,
) -> None:
    """Write LOG as JSON lines. `refold log import` makes the same log from them.

    With --redact, the decisions remain the same under other names. This is checked event by event.

    Exit status: 0 done, 1 the log is damaged, 2 the log cannot be used or FILE cannot be written.
    """
    if names is not None and not redact:
        raise typer.BadParameter("needs --redact", param_hint="--names")
    with log_errors(), local_log(log) as path:
        if redact:
            with redacted_logs([path]) as other:
                if names is not None:
                    _write_names(names, other.stand_ins)
                _export(other.logs[0], out, as_format)
        else:
            _export(path, out, as_format)


def import_command(
    source: Annotated[
        str,
        typer.Argument(metavar="FILE", help="A file of `refold log export`, or - for stdin."),
    ],
    log: Annotated[Path, typer.Argument(metavar="LOG", help="The folder of the new log.")],
) -> None:
    """Make a log from JSON lines. The log is the same as the exported one, including its checksums.

    If the command fails, it leaves no log.

    Exit status: 0 done, 1 FILE was cut or changed, 2 FILE is not an export or LOG cannot be
    written.
    """
    from eventstore.stream import standard_input
    from replay.export.files import old_file
    from replay.export.importing import import_lines

    with log_errors(), _event_progress() as report:
        if source == "-":
            made = import_lines(standard_input(), "standard input", log, report)
        else:
            with old_file(Path(source)) as file:
                made = import_lines(file, source, log, report)
    print_note(
        f"{log}: {made.events} events, {made.commands} commands in {made.segments} segment(s)"
    )


def _export(path: Path, out: str, as_format: ExportFormat) -> None:
    from replay.export.exporting import export_log
    from replay.export.files import new_file

    with LogReader(path) as reader:
        total = reader.last_seq - reader.header.first_seq + 1
    with _event_progress(total) as report:
        if as_format is ExportFormat.PARQUET:
            from replay.export.parquet import export_parquet

            if out == "-":
                raise LogError(
                    "standard output", "cannot hold Parquet: name a new folder with --out"
                )
            events = export_parquet(path, Path(out), report)
        elif out == "-":
            if sys.stdout.isatty():
                raise LogError("standard output", "is a terminal: name a file with --out")
            export_log(path, sys.stdout.buffer, report)
            return
        else:
            with new_file(Path(out)) as file:
                events = export_log(path, file, report)
    print_note(f"{out}: {events} events")


@contextmanager
def _event_progress(total: int | None = None) -> Iterator[Progress]:
    """Progress with the number of events."""
    # The other commands of `refold log` start faster without this import.
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("events"),
    )
    with progress(*columns, total=total) as report:
        yield report


def _write_names(path: Path, stand_ins: "StandIns") -> None:
    from replay.export.files import new_file

    with new_file(path) as file:
        file.write(msgspec.json.format(msgspec.json.encode(stand_ins.of, order="sorted")))
