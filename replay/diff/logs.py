"""Opens the logs of a diff: logs, packed logs, incidents, recordings, and folders of these."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec import Struct

from eventstore.folders import is_segment, segments_in
from replay.errors import DiffError, ReplayError
from replay.logs.packed import LOG_OF_INCIDENT, PACKED, is_recording, unpacked


class GivenLog(Struct, frozen=True):
    """A log: its name in reports, and its unpacked path."""

    name: str
    path: Path


@contextmanager
def opened(given: Iterable[Path]) -> Iterator[list[GivenLog]]:
    """Yield all logs, unpacked. Raises DiffError."""
    with TemporaryDirectory(prefix="refold-diff-") as scratch:
        logs = [
            GivenLog(str(name), _opened(path, Path(scratch) / str(number)))
            for number, (name, path) in enumerate(_found(given))
        ]
        if not logs:
            raise DiffError("no log was given")
        yield logs


def _found(given: Iterable[Path]) -> Iterator[tuple[Path, Path]]:
    """The name and the path of each log, including all logs in a folder of logs."""
    for path in given:
        if not path.exists():
            raise DiffError(f"{path} does not exist")
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
                raise DiffError(f"{path} is neither a log nor a folder of logs or incidents")
            yield from _found(below)


def _is_one(path: Path) -> bool:
    return path.is_file() or bool(segments_in(path))


def _is_named(path: Path) -> bool:
    """Whether a path in a folder of logs is a log, by its name."""
    if path.is_file():
        return path.name.endswith(PACKED)
    return bool(segments_in(path)) or (path / LOG_OF_INCIDENT).is_file()


def _opened(path: Path, scratch: Path) -> Path:
    """The path of the log, which is unpacked or imported if necessary."""
    if is_segment(path) or (path.is_dir() and segments_in(path)):
        return path.resolve()
    if path.is_file() and not path.name.endswith(PACKED):
        raise DiffError(f"{path} is not a log: neither a folder of segments nor a packed log")
    try:
        return unpacked(path, scratch)
    except ReplayError as error:
        raise DiffError(str(error)) from None
