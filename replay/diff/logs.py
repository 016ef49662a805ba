"""Opens the logs of a diff: logs, packed logs, incidents, recordings, and folders of these."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from eventstore.folders import is_segment, segments_in
from replay.errors import DiffError
from replay.logs.packed import LOG_OF_INCIDENT, PACKED, log_at, packed_at


class NamedLog(Struct, frozen=True):
    """A log: its name in reports, and its unpacked path."""

    name: str
    path: Path


@contextmanager
def open_logs(given: Iterable[Path]) -> Iterator[list[NamedLog]]:
    """Yield all logs, unpacked. Raises ReplayError."""
    with ExitStack() as stack:
        yield [
            NamedLog(str(path), Path(stack.enter_context(log_at(path))).resolve())
            for path in _all_logs(given)
        ]


def _all_logs(given: Iterable[Path]) -> Iterator[Path]:
    """All logs, including those in a folder of logs."""
    for path in given:
        if not path.exists():
            raise DiffError(f"{path} does not exist")
        below = [] if _is_log(path) else sorted(filter(_is_log_by_name, path.iterdir()))
        if below:
            yield from _all_logs(below)
        elif _is_log(path) or packed_at(path) is not None:
            yield path
        else:
            raise DiffError(f"{path} is neither a log nor a folder of logs or incidents")


def _is_log(path: Path) -> bool:
    """Whether a path is a log or an incident, packed or not. Raises DiffError for another file."""
    if not path.is_file():
        return bool(segments_in(path)) or (path / LOG_OF_INCIDENT).is_file()
    if is_segment(path) or path.name.endswith(PACKED):
        return True
    raise DiffError(f"{path} is not a log: neither a folder of segments nor a packed log")


def _is_log_by_name(path: Path) -> bool:
    # A daemon that runs has its status socket next to its logs.
    return _is_log(path) if path.is_dir() else path.name.endswith(PACKED)
