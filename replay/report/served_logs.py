"""The logs in a folder and the folders below it, for `refold serve`."""

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from msgspec import Struct, structs

from controller.core.values import counted
from eventstore.errors import LogError
from eventstore.folders import is_segment, segments_in
from eventstore.reader import LogReader
from replay.errors import ReplayError
from replay.logs.packed import LOG_OF_INCIDENT, PACKED, packed_at, unpack_log
from replay.logs.saved_runs import logs_of_run
from replay.times import iso_time

_RUN: Final = "run"
_LOGS_MAX: Final = 1000
_DEPTH_MAX: Final = 5
_UNPACKED_MAX: Final = 4 << 20
"""The list does not unpack archives with more bytes."""


class ServedLog(Struct, frozen=True):
    """A log below the folder, or a saved run with its `logs`. `name` is its path there; `version`
    changes when a log grows."""

    name: str
    path: Path
    kind: str
    changed_ns: int
    version: str
    logs: tuple["ServedLog", ...] = ()

    @property
    def parts(self) -> tuple["ServedLog", ...]:
        """The logs of a run, or the log itself."""
        return self.logs or (self,)


class LogContent(Struct, frozen=True):
    """The columns of the list about the events of a log: the time of the first one, and how many
    there are. `unknown` is why neither is known; "" if they are."""

    kind: str
    begin: str = ""
    events: int = 0
    unknown: str = ""


def logs_in(folder: Path) -> list[ServedLog]:
    """The saved runs, the other logs of daemons, imported and packed logs, and incidents; the
    newest first. Raises ReplayError."""
    if not folder.is_dir():
        raise ReplayError(f"{folder} is not a folder: give the folder that has the logs")
    found = []
    for path, kind in _logs_below(folder, 0):
        try:
            found.append(_served_log(path, kind, folder))
        except FileNotFoundError:
            continue  # It was deleted, as retention does.
        if len(found) == _LOGS_MAX:
            break
    return sorted(found, key=lambda one: (-one.changed_ns, one.name))


def _version_of(path: Path) -> str:
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
    of_run = _logs_of_run(folder)
    if of_run:
        yield folder, _RUN
    for entry in entries:
        path = Path(entry.path)
        if path in of_run:
            continue
        if entry.is_dir(follow_symlinks=False) and depth < _DEPTH_MAX:
            yield from _logs_below(path, depth + 1)
        elif entry.is_file() and path.name.endswith(PACKED):
            yield path, "packed"


def _logs_of_run(folder: Path) -> list[Path]:
    try:
        return logs_of_run(folder)
    except (OSError, LogError):
        return []  # Each of its logs is listed, with the one that cannot be read.


def _served_log(path: Path, kind: str, folder: Path) -> ServedLog:
    name = str(path.relative_to(folder)) if path != folder else path.resolve().name
    if kind == _RUN:
        logs = tuple(_served_log(one, "log", folder) for one in logs_of_run(path))
        changed_ns = max(one.changed_ns for one in logs)
        return ServedLog(name, path, kind, changed_ns, ",".join(one.version for one in logs), logs)
    files = list(path.iterdir()) if path.is_dir() else [path]
    changed_ns = max(one.stat().st_mtime_ns for one in files)
    return ServedLog(name, path, kind, changed_ns, _version_of(path))


def counted_logs(listed: Sequence[ServedLog]) -> str:
    """How many logs and saved runs a list has."""
    runs = sum(bool(one.logs) for one in listed)
    counts = ((len(listed) - runs, "log"), (runs, "saved run"))
    return ", ".join(counted(count, noun) for count, noun in counts if count) or "0 logs"


@lru_cache(_LOGS_MAX)
def content_of(one: ServedLog) -> LogContent:
    """The content of a log. That of an archive is unpacked, but no recording is imported."""
    try:
        if one.logs:
            return _content_of_run([content_of(log) for log in one.logs])
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


def _content_of_run(logs: Sequence[LogContent]) -> LogContent:
    kind = "saved run" if len(logs) == 1 else f"saved run with {len(logs)} logs"
    unknown = next((one.unknown for one in logs if one.unknown), "")
    if unknown:
        return LogContent(kind, unknown=unknown)
    return LogContent(kind, logs[0].begin, sum(one.events for one in logs))


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
