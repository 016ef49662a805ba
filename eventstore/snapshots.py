"""Snapshots: the state after an event as opaque bytes, made by a helper process. They are a
cache. Losing one costs time, and keeps retention from removing the segments before it."""

import re
from pathlib import Path
from typing import NamedTuple

from eventstore.chain import CHAIN_BYTES, checksum
from eventstore.errors import LogCorrupt, from_os
from eventstore.folders import replacing

_NAME = re.compile(r"(\d{20})\.([0-9A-Za-z_-]+)\.snapshot")
_MAGIC = b"refold snapshot 1\n"


class SnapshotName(NamedTuple):
    """The state in a snapshot: after event `seq`, folded by the core with `fingerprint`."""

    seq: int
    fingerprint: str
    path: Path


def put_snapshot(folder: Path, fingerprint: str, seq: int, body: bytes) -> Path:
    """Store a snapshot atomically. The fingerprint consists of letters, digits, - and _.

    Raises LogFull, LogReadOnly, LogFailed.
    """
    path = folder / f"{seq:020d}.{fingerprint}.snapshot"
    if not _NAME.fullmatch(path.name):
        raise ValueError(f"not a valid file name: {path.name}")
    try:
        with replacing(path, is_private=True) as file:
            file.write(_MAGIC + checksum(body) + body)
    except OSError as error:
        raise from_os(error, path) from error
    return path


def names_in(folder: Path) -> list[SnapshotName]:
    """The snapshots of a log, oldest first."""
    found = []
    for path in folder.iterdir():
        if match := _NAME.fullmatch(path.name):
            found.append(SnapshotName(int(match[1]), match[2], path))
    return sorted(found)


def read_snapshot(name: SnapshotName) -> bytes:
    """Read the state. Raises LogCorrupt, LogNotFound, LogFailed."""
    try:
        content = name.path.read_bytes()
    except OSError as error:
        raise from_os(error, name.path) from error
    start = len(_MAGIC) + CHAIN_BYTES
    body = content[start:]
    if content[:start] != _MAGIC + checksum(body):
        raise LogCorrupt(name.path, "was changed or truncated: delete it; it can be made again")
    return body


def latest_snapshot(folder: Path, fingerprint: str, seq: int) -> SnapshotName | None:
    """The last snapshot of a core at or before event `seq`."""
    fitting = [
        name for name in names_in(folder) if name.fingerprint == fingerprint and name.seq <= seq
    ]
    return fitting[-1] if fitting else None
