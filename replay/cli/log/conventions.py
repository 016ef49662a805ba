"""Shared by the sub-commands of `refold log`: the LOG argument, exit codes, notes to people."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from eventstore import stream
from replay.cli.exit_status import DAMAGED, errors_in_one_line
from replay.logs.packed import log_at

Log = Annotated[
    str,
    typer.Argument(
        metavar="LOG", help="A folder, segment, packed log or incident; or - for stdin."
    ),
]


@contextmanager
def log_errors() -> Iterator[None]:
    """Print errors in one line, with exit code DAMAGED for a damaged log. Ctrl-C ends with 0."""
    try:
        with errors_in_one_line("log", DAMAGED):
            yield
    except KeyboardInterrupt:
        raise typer.Exit() from None


@contextmanager
def local_log(log: str) -> Iterator[Path]:
    """Yield the path of a log. A packed log or a stream is stored in a temporary folder."""
    if log != "-":
        with log_at(log) as path:
            yield Path(path)
        return
    with TemporaryDirectory(prefix="refold-") as folder:
        stream.receive(stream.standard_input(), Path(folder))
        yield Path(folder)


def open_end(events_without_commands: int) -> str:
    """Records that may be missing at the end of a log that is not closed."""
    match events_without_commands:
        case 0:
            return "records at the end may be missing"
        case 1:
            return "records at the end may be missing; the last event has no stored commands"
        case count:
            return (
                f"records at the end may be missing; the last {count} events have no stored "
                "commands"
            )


def print_note(line: str) -> None:
    """Print a line to a person at a terminal. Scripts use the exit code instead."""
    if sys.stderr.isatty():
        typer.echo(line, err=True)
