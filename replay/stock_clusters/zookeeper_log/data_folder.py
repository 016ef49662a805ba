"""Finds servers' data by the names and folders of files.

A server keeps `log.ZXID` and `snapshot.ZXID` (zxids in hex) in a folder `version-2`, or in two such
folders if it has a dataLogDir.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath, PurePosixPath
from typing import Final

from msgspec import Struct

from replay.stock_clusters.zookeeper_log.log_file import TransactionLogReader, TransactionReader
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState

VERSIONED: Final = "version-2"
BROKER_LOGS: Final = (
    "controller.log",
    "state-change.log",
    "control-requests.log",
    "kafka-request.log",
)

_LOG: Final = re.compile(r"log\.([0-9a-f]{1,16})")
_SNAPSHOT: Final = re.compile(r"snapshot\.([0-9a-f]{1,16})(?:\.gz|\.snappy)?")


class SourceFile(Struct, frozen=True):
    """A file of a source: the zxid in its name, its name in the source, and its path on this disk.

    A log begins at its zxid; a snapshot includes all transactions up to it. `is_replaced`: where
    another file has the same transactions, the other file is right.
    """

    zxid: int
    name: str
    path: Path
    size: int
    is_replaced: bool = False

    @contextmanager
    def transactions(self, on_bytes: Callable[[int], None]) -> Iterator[TransactionReader]:
        """Open a transaction log. Raises OSError."""
        with self.path.open("rb") as stream:
            yield TransactionLogReader(stream, self.name, on_bytes)

    def state(self) -> ZooKeeperState:
        """Load a snapshot. Raises DamagedSnapshotError, OSError."""
        with self.path.open("rb") as stream:
            return ZooKeeperState.load(stream, self.name, self.zxid)


def by_zxid(files: Iterable[SourceFile]) -> tuple[SourceFile, ...]:
    """Files in the order of their zxids."""
    return tuple(sorted(files, key=lambda one: (one.zxid, one.name)))


class BrokerLogFile(Struct, frozen=True):
    """A log of a broker. `kind` is one of BROKER_LOGS; names of rotated files have a suffix."""

    kind: str
    name: str
    path: Path


class DataFolder(Struct, frozen=True):
    """The data of one server, sorted by zxid. `name` is the folder of its logs in the source."""

    name: str
    logs: tuple[SourceFile, ...]
    snapshots: tuple[SourceFile, ...]


def merge_folders(folders: Sequence[DataFolder]) -> DataFolder:
    """The files of several copies or servers of one ZooKeeper as one folder."""
    return DataFolder(
        ", ".join(one.name for one in folders),
        by_zxid(log for one in folders for log in one.logs),
        by_zxid(snapshot for one in folders for snapshot in one.snapshots),
    )


def log_zxid(name: str) -> int | None:
    """The zxid in the name of a transaction log, None for other files."""
    return _zxid(_LOG, name)


def snapshot_zxid(name: str) -> int | None:
    """The zxid in the name of a snapshot, None for other files."""
    return _zxid(_SNAPSHOT, name)


def _zxid(pattern: re.Pattern[str], name: str) -> int | None:
    match = pattern.fullmatch(name)
    return None if match is None else int(match[1], 16)


def broker_log_kind(name: str) -> str | None:
    """The kind of a broker's log with this file name, None for other files."""
    return next((one for one in BROKER_LOGS if name == one or name.startswith(f"{one}.")), None)


def is_wanted(name: str) -> bool:
    """Whether a file with this name can be used."""
    return (
        log_zxid(name) is not None
        or snapshot_zxid(name) is not None
        or broker_log_kind(name) is not None
    )


def is_misnamed(path: PurePath) -> bool:
    """Whether a file in a server's data folder has a similar name, but not one that servers use.

    An operator may have compressed or copied it.
    """
    is_alike = path.name.startswith(("log.", "snapshot."))
    return is_alike and path.parent.name == VERSIONED and not is_wanted(path.name)


def data_folders(files: Iterable[tuple[str, Path, int]]) -> list[DataFolder]:
    """The servers whose logs are among the files, each given as name, path and size.

    Snapshots in a separate folder belong to the nearest logs.
    """
    logs: dict[PurePosixPath, list[SourceFile]] = {}
    snapshots: dict[PurePosixPath, list[SourceFile]] = {}
    for name, path, size in files:
        where = PurePosixPath(name)
        if (zxid := log_zxid(where.name)) is not None:
            logs.setdefault(where.parent, []).append(SourceFile(zxid, name, path, size))
        elif (zxid := snapshot_zxid(where.name)) is not None:
            snapshots.setdefault(where.parent, []).append(SourceFile(zxid, name, path, size))
    apart = [folder for folder in sorted(snapshots) if folder not in logs]
    return [
        DataFolder(
            str(folder),
            by_zxid(logs[folder]),
            by_zxid(snapshots.get(folder) or _nearest_snapshots(folder, apart, snapshots)),
        )
        for folder in sorted(logs)
    ]


def _nearest_snapshots(
    folder: PurePosixPath,
    others: Sequence[PurePosixPath],
    snapshots: dict[PurePosixPath, list[SourceFile]],
) -> list[SourceFile]:
    """The snapshots of the folder that shares most of its path with this one."""
    nearest = max(others, key=lambda other: _shared_depth(folder, other), default=None)
    return [] if nearest is None else snapshots[nearest]


def _shared_depth(one: PurePosixPath, other: PurePosixPath) -> int:
    """How many folders two paths have in common from the start."""
    pairs = enumerate(zip(one.parts, other.parts, strict=False))
    shortest = min(len(one.parts), len(other.parts))
    return next((place for place, (a, b) in pairs if a != b), shortest)
