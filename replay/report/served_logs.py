"""The logs in a folder and the folders below it, for `refold serve`."""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import Struct, structs

from eventstore.errors import LogError
from eventstore.folders import is_segment, segments_in
from eventstore.reader import LogReader
from replay.errors import ReplayError
from replay.logs.packed import LOG_OF_INCIDENT, PACKED, packed_at, unpack_log
from replay.times import iso_time

_LOGS_MAX: Final = 1000
_DEPTH_MAX: Final = 5
_UNPACKED_MAX: Final = 4 << 20
"""The list does not unpack archives with more bytes."""


class ServedLog(Struct, frozen=True):
    """A log below the folder. `name` is its path there; `version` changes when the log grows."""

    name: str
    path: Path
    kind: str
    changed_ns: int
    version: str


class LogContent(Struct, frozen=True):
    """The columns of the list about the events of a log: the time of the first one, and how many
    there are. `unknown` is why neither is known; "" if they are."""

    kind: str
    begin: str = ""
    events: int = 0
    unknown: str = ""


def logs_in(folder: Path) -> list[ServedLog]:
    """The logs of daemons, imported and packed logs, and incidents; the newest first. Raises
    ReplayError."""
    if not folder.is_dir():
        raise ReplayError(f"{folder} is not a folder: give the folder that has the logs")
    found = []
    for path, kind in _logs_below(folder, 0):
        try:
            found.append(_served_log(path, kind, folder))
        except FileNotFoundError:
            continue  # It was deleted meanwhile, as retention does.
        if len(found) == _LOGS_MAX:
            break
    return sorted(found, key=lambda one: (-one.changed_ns, one.name))


def version_of(path: Path) -> str:
    """A text that changes when the events of a log change. Raises OSError."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    stats = [one.stat() for one in files if _has_events(one)]
    return "-".join(f"{one.st_size:x}.{one.st_mtime_ns:x}" for one in stats if one.st_size)


def _has_events(file: Path) -> bool:
    """Whether a file has events of a log. The index and the lock have none, and change when a log
    is read."""
    name = file.name.removesuffix("-wal")
    return is_segment(file.with_name(name)) or name.endswith(PACKED)


def _logs_below(folder: Path, depth: int) -> Iterator[tuple[Path, str]]:
    try:
        if segments_in(folder):
            yield folder, "log"
            return
        if (folder / LOG_OF_INCIDENT).is_file():
            yield folder, "incident"
            return
        entries = sorted(os.scandir(folder), key=lambda one: one.name)
    except (OSError, LogError):
        return
    for entry in entries:
        path = Path(entry.path)
        if entry.is_dir(follow_symlinks=False) and depth < _DEPTH_MAX:
            yield from _logs_below(path, depth + 1)
        elif entry.is_file() and path.name.endswith(PACKED):
            yield path, "packed"


def _served_log(path: Path, kind: str, folder: Path) -> ServedLog:
    name = str(path.relative_to(folder)) if path != folder else path.resolve().name
    files = list(path.iterdir()) if path.is_dir() else [path]
    changed_ns = max(one.stat().st_mtime_ns for one in files)
    return ServedLog(name, path, kind, changed_ns, version_of(path))


@lru_cache(_LOGS_MAX)
def content_of(one: ServedLog) -> LogContent:
    """The content of a log. That of an archive is unpacked, but no recording is imported."""
    try:
        if one.kind == "log":
            return _content(one.path)
        archive = packed_at(one.path) or one.path
        if archive.stat().st_size > _UNPACKED_MAX:
            return LogContent(one.kind, unknown="large: see its report")
        with TemporaryDirectory(prefix="refold-list-") as scratch:
            log = unpack_log(archive, Path(scratch))
            if log is None:
                return LogContent(one.kind, unknown="not imported: see its report")
            return structs.replace(_content(log), kind=one.kind)
    except (LogError, ReplayError, OSError):
        return LogContent(one.kind, unknown="cannot be read")


def _content(log: Path) -> LogContent:
    with LogReader.open(log) as reader:
        first = next(iter(reader.events()), None)
        kind = "daemon's log" if reader.header.kind == "recorded" else "imported log"
        if reader.header.kind == "recorded" and reader.closing is None:
            kind = "daemon's log, not closed"
        if first is None:
            return LogContent(kind, unknown="no events")
        return LogContent(
            kind, iso_time(first.wall_ns), reader.last_seq - reader.header.first_seq + 1
        )
