"""Opening what is to be diffed: logs, packed logs, folders of incidents, recordings to import."""

import tarfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import Struct

from eventstore.errors import LogError
from eventstore.folders import is_segment, segments_in
from replay.diff.errors import DiffError
from replay.errors import ReplayError
from replay.imports.importing import Selection, import_source

_PACKED: Final = (".tar.xz", ".tar.gz")
_LOG_OF_INCIDENT: Final = "log.tar.xz"


class GivenLog(Struct, frozen=True):
    """A log: what it is called, and where it is now."""

    name: str
    path: Path


@contextmanager
def opened(given: Iterable[Path]) -> Iterator[list[GivenLog]]:
    """All logs, for as long as they are needed. Raises DiffError."""
    with TemporaryDirectory(prefix="refold-diff-") as scratch:
        logs = [
            GivenLog(str(name), _opened(path, Path(scratch) / str(number)))
            for number, (name, path) in enumerate(_found(given))
        ]
        if not logs:
            raise DiffError("there is no log in what was given")
        yield logs


def _found(given: Iterable[Path]) -> Iterator[tuple[Path, Path]]:
    """Each log's name, and its path, a folder of logs being as many as are in it."""
    for path in given:
        if not path.exists():
            raise DiffError(f"{path}: there is nothing of that name")
        if _is_one(path):
            yield path, path
        elif (path / _LOG_OF_INCIDENT).is_file():
            yield path, path / _LOG_OF_INCIDENT
        else:
            below = [one for one in sorted(path.iterdir()) if _is_named(one)]
            if not below:
                raise DiffError(f"{path} is no log, and no folder of logs or incidents")
            yield from _found(below)


def _is_one(path: Path) -> bool:
    return path.is_file() or bool(segments_in(path))


def _is_named(path: Path) -> bool:
    """Whether it is a log by its name, in a folder with other files."""
    if path.is_file():
        return path.name.endswith(_PACKED)
    return bool(segments_in(path)) or (path / _LOG_OF_INCIDENT).is_file()


def _opened(path: Path, scratch: Path) -> Path:
    """The log itself: as it is, unpacked, or imported."""
    if path.is_dir() or is_segment(path):
        return path.resolve()
    if not path.name.endswith(_PACKED):
        raise DiffError(f"{path} is no log: neither a folder of segments nor a packed one")
    try:
        unpacked = _unpacked(path, scratch)
        if unpacked is not None:
            return unpacked
        import_source(path, scratch / "log", Selection(), lambda *_: None)
    except (OSError, tarfile.TarError, LogError, ReplayError) as error:
        raise DiffError(f"{path} cannot be opened: {error}") from None
    return scratch / "log"


def _unpacked(path: Path, scratch: Path) -> Path | None:
    """The folder of a packed log; None where no log is in it."""
    with tarfile.open(path) as archive:
        segments = [one for one in archive.getmembers() if is_segment(Path(one.name))]
        if not segments:
            return None
        archive.extractall(scratch, segments, filter="data")
    return (scratch / segments[0].name).parent
