"""`refold debug`: step through a log in a terminal, in both directions."""

import sys
from contextlib import ExitStack
from typing import Annotated

import typer

from replay.cli.exit_status import INTERNAL_ERROR, errors_in_one_line
from replay.cli.log_notes import note_changed_commands
from replay.cli.options import LogWithoutStdin, log_position
from replay.cli.progress import progress
from replay.errors import ReplayError

app = typer.Typer(add_completion=False, rich_markup_mode=None)


def _require_terminal() -> None:
    """Raises ReplayError. The program draws on standard error, as textual does."""
    streams = {
        "standard input": sys.stdin,
        "standard output": sys.stdout,
        "standard error": sys.__stderr__,
    }
    for name, stream in streams.items():
        if stream is None or not stream.isatty():
            raise ReplayError(
                f"this needs a terminal, and {name} is not one; without a terminal use `refold "
                "events`, `decisions`, `inspect` and `why`"
            )


@app.command(name="debug")
def debug(
    log: LogWithoutStdin,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="SEQ|TIME", help="Begin at this event number or time; default: the first event."
        ),
    ] = None,
) -> None:
    """Step through a log in a terminal, forward and backward, and search it in both directions.
    Press ? for the keys.

    Exit status: 0 done, 2 LOG cannot be used, or there is no terminal.
    """
    seq, wall_ns = log_position(at, "--at")
    with errors_in_one_line("debug"):
        _require_terminal()
        from replay.cli.debug.app import DebugApp
        from replay.cli.debug.session import DebugSession
        from replay.debug.cursor import Cursor
        from replay.debug.seekable_log import SeekableLog
        from replay.index.opening import index_of
        from replay.index.store import has_index
        from replay.logs.open_log import open_log, seq_at

        with open_log(log, is_checked=has_index) as opened, ExitStack() as resources:
            with progress() as report:
                index = resources.enter_context(index_of(opened, report))
                seekable = SeekableLog(opened, report, index)
                asked = at is not None
                begin = seq_at(opened.reader, seq, wall_ns) if asked else seekable.first_seq
                cursor = Cursor(seekable, max(begin, seekable.first_seq))
            # An event that cannot be read is reported before the screen opens.
            cursor.clusters()
            program = DebugApp(DebugSession(log, opened, cursor, index))
            program.run()
            if program.return_code:
                # Textual has printed the traceback of an unexpected exception.
                raise typer.Exit(INTERNAL_ERROR)
            note_changed_commands("debug", log, opened)
