"""The logs in a folder and the folders below it, for `refold serve`."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from eventstore.errors import LogError
from eventstore.folders import is_segment, segments_in
from eventstore.reader import LogReader
from replay.errors import ReplayError
from replay.logs.packed import LOG_OF_INCIDENT, PACKED
from replay.times import iso_time

_LOGS_MAX: Final = 1000
_DEPTH_MAX: Final = 5


class Incident(Struct, frozen=True):
    """A log below the folder. `name` is its path there. `begin` and `events` are unknown ("" and 0)
    if the log is packed or cannot be read; `version` changes when the log grows."""

    name: str
    path: Path
    kind: str
    changed_ns: int
    version: str
    begin: str = ""
    events: int = 0


def incidents_in(folder: Path) -> list[Incident]:
    """The logs of daemons, imported and packed logs, and incidents; the newest first. Raises
    ReplayError."""
    if not folder.is_dir():
        raise ReplayError(f"{folder} is not a folder: give the folder that has the logs")
    found = []
    for path, kind in _logs_below(folder, 0):
        try:
            found.append(_incident(path, kind, folder))
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
    """Not the index and the lock, which change when a log is read."""
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


def _incident(path: Path, kind: str, folder: Path) -> Incident:
    name = str(path.relative_to(folder)) if path != folder else path.resolve().name
    files = list(path.iterdir()) if path.is_dir() else [path]
    changed_ns = max(one.stat().st_mtime_ns for one in files)
    one = Incident(name, path, kind, changed_ns, version_of(path))
    if kind != "log":
        return one
    try:
        with LogReader.open(path) as reader:
            first = next(iter(reader.events()), None)
            begin = iso_time(first.wall_ns) if first is not None else ""
            events = reader.last_seq - reader.header.first_seq + 1
            kind = "daemon's log" if reader.header.kind == "recorded" else "imported log"
            if reader.header.kind == "recorded" and reader.closing is None:
                kind = "daemon's log, not closed"
    except LogError:
        return one
    return Incident(name, path, kind, changed_ns, one.version, begin, events)
