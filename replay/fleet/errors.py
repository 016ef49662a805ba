"""The exceptions of the fleet's pipeline."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eventstore.errors import LogError
from replay.errors import ReplayError


class FleetError(ReplayError):
    """Spark, a source or the table cannot be used; the text says why and what to do."""


class OutputError(FleetError):
    """What was read cannot be written: the disk of the table is full, or gone."""


@contextmanager
def usable(folder: Path) -> Iterator[None]:
    """Raises FleetError, which names the file or the folder, in the place of an OSError."""
    try:
        yield
    except OSError as error:
        where = error.filename or folder
        raise FleetError(f"{where} cannot be used: {error.strerror or error}") from error


def reason_of(error: Exception) -> str:
    """Why a log fails, in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if isinstance(error, (ReplayError, LogError)) else f"{type(error).__name__}: {text}"
