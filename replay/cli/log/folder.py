"""What the sub-commands of `refold log` have in common: a log as a path, errors as exit codes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import typer

from eventstore import stream
from eventstore.errors import LogCorrupt, LogError
from replay.errors import ReplayError
from replay.logs.packed import log_at

DAMAGED: Final = 1
UNUSABLE: Final = 2


@contextmanager
def log_errors() -> Iterator[None]:
    """A clear line and an exit code in the place of a traceback."""
    try:
        yield
    except (LogError, ReplayError) as error:
        typer.echo(f"refold log: {error}", err=True)
        raise typer.Exit(DAMAGED if isinstance(error, LogCorrupt) else UNUSABLE) from None
    except KeyboardInterrupt:
        raise typer.Exit() from None


@contextmanager
def local_log(log: str) -> Iterator[Path]:
    """The log as a path; what is packed, and a stream, becomes one in a temporary folder."""
    if log != "-":
        with log_at(log) as path:
            yield Path(path)
        return
    with TemporaryDirectory(prefix="refold-") as folder:
        stream.receive(stream.standard_input(), Path(folder))
        yield Path(folder)
