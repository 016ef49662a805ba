"""A log as it may be given: itself, packed, as an incident, as a packed recording."""

import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from eventstore.errors import LogError
from eventstore.folders import is_segment
from replay.errors import ReplayError
from replay.imports.importing import Selection, import_source

PACKED: Final = (".tar.xz", ".tar.gz")
LOG_OF_INCIDENT: Final = "log.tar.xz"


@contextmanager
def log_at(path: Path | str) -> Iterator[Path | str]:
    """The log itself, for as long as it is needed; "-" stays what it is. Raises ReplayError."""
    archive = packed_at(Path(path))
    if archive is None:
        yield path
        return
    with TemporaryDirectory(prefix="refold-packed-") as scratch:
        yield unpacked(archive, Path(scratch))


def packed_at(path: Path) -> Path | None:
    """The archive that is given: the path itself, or the one of an incident; None for another."""
    of_incident = path / LOG_OF_INCIDENT
    if of_incident.is_file():
        return of_incident
    return path if path.name.endswith(PACKED) and path.is_file() else None


def unpacked(archive: Path, scratch: Path) -> Path:
    """The folder of a packed log, or of the log of a packed recording. Raises ReplayError."""
    try:
        with tarfile.open(archive) as packed:
            segments = [one for one in packed.getmembers() if is_segment(Path(one.name))]
            packed.extractall(scratch, segments, filter="data")
        if segments:
            return (scratch / segments[0].name).parent
        import_source(archive, scratch / "log", Selection(), lambda *_: None)
    except (OSError, tarfile.TarError, LogError, ReplayError) as error:
        why = str(error).partition("\n")[0].removesuffix(":")
        raise ReplayError(f"{archive} cannot be opened: {why}") from None
    return scratch / "log"
