"""The exceptions of `refold fleet`."""

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from controller.suggestions import there_are
from eventstore.errors import LogError
from replay.errors import ReplayError


class FleetError(ReplayError):
    """Spark, a source or the table cannot be used. The text says why and what to do."""


class OutputError(FleetError):
    """The results cannot be written, for example because the disk of the table is full."""


@contextmanager
def converting_os_errors(folder: Path) -> Iterator[None]:
    """Convert an OSError to a FleetError that names the file or the folder."""
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        raise FleetError(f"{where} cannot be used: {error.strerror or error}") from error


@contextmanager
def hidden_traceback() -> Iterator[None]:
    """In a Python worker of Spark, report errors that are meant for people without a traceback."""
    try:
        yield
    except (ReplayError, LogError):
        os.environ["SPARK_HIDE_TRACEBACK"] = "1"
        raise


def reason_of(error: Exception) -> str:
    """The reason of a failure in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if isinstance(error, (ReplayError, LogError)) else f"{type(error).__name__}: {text}"


def check_known(option: str, name: str, known: Collection[str]) -> None:
    """Check a name that was given with an option. Raises FleetError, which lists similar names and
    the known ones."""
    if name not in known:
        names = {one or "(none)" for one in known}
        raise FleetError(f"{option} {name} is unknown; {there_are('known names', name, names)}")
