"""The exceptions of `refold fleet`."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eventstore.errors import LogError
from replay.errors import ReplayError


class FleetError(ReplayError):
    """Spark, a source or the table cannot be used. The text says why and what to do."""


class OutputError(FleetError):
    """The results cannot be written, for example because the disk of the table is full."""


@contextmanager
def usable(folder: Path) -> Iterator[None]:
    """Convert an OSError to a FleetError that names the file or the folder."""
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        raise FleetError(f"{where} cannot be used: {error.strerror or error}") from error


def reason_of(error: Exception) -> str:
    """The reason of a failure in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if isinstance(error, (ReplayError, LogError)) else f"{type(error).__name__}: {text}"
