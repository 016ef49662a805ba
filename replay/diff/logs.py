"""Opening what is to be diffed: logs, packed logs, folders of incidents, recordings to import."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from eventstore.folders import is_segment, segments_in
from replay.diff.errors import DiffError
from replay.errors import ReplayError
from replay.logs.packed import LOG_OF_INCIDENT, PACKED, is_recording, unpacked


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
        elif (path / LOG_OF_INCIDENT).is_file():
            yield path, path / LOG_OF_INCIDENT
        else:
            below = [one for one in sorted(path.iterdir()) if _is_named(one)]
            if not below and is_recording(path):
                yield path, path
                continue
            if not below:
                raise DiffError(f"{path} is no log, and no folder of logs or incidents")
            yield from _found(below)


def _is_one(path: Path) -> bool:
    return path.is_file() or bool(segments_in(path))


def _is_named(path: Path) -> bool:
    """Whether it is a log by its name, in a folder with other files."""
    if path.is_file():
        return path.name.endswith(PACKED)
    return bool(segments_in(path)) or (path / LOG_OF_INCIDENT).is_file()


def _opened(path: Path, scratch: Path) -> Path:
    """The log itself: as it is, unpacked, or imported."""
    if is_segment(path) or (path.is_dir() and segments_in(path)):
        return path.resolve()
    if path.is_file() and not path.name.endswith(PACKED):
        raise DiffError(f"{path} is no log: neither a folder of segments nor a packed one")
    try:
        return unpacked(path, scratch)
    except ReplayError as error:
        raise DiffError(str(error)) from None
