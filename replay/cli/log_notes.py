"""Notes about a log that a command read, for people and scripts, on stderr."""

import shlex

import typer

from replay.logs.open_log import OpenedLog, RecordedLog
from replay.logs.opened_broker_log import BrokerLog


def note_changed_commands(command: str, log: str, opened: OpenedLog | BrokerLog) -> None:
    """Print a line if the log does not have the commands that its events lead to."""
    if isinstance(opened, (RecordedLog, BrokerLog)) and (note := opened.commands.note(log)):
        typer.echo(f"refold {command}: {note}", err=True)


def note_unchecked(log: str) -> None:
    """Print that a command shows records as they are stored."""
    quoted = shlex.quote(log)
    typer.echo(
        f"refold log: not checked: checksums (refold log verify {quoted}), and whether the commands"
        f" are those that the events lead to (refold replay {quoted})",
        err=True,
    )
