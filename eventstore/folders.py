"""The files of a log on disk: their names, how they are replaced, and the lock of the daemon that
writes the log."""

import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path
from typing import BinaryIO

from eventstore.errors import LogExposed, LogLocked, NotALog, from_os

SEGMENT_SUFFIX = ".refold"
PARTIAL_SUFFIX = ".partial"
"""The suffix of a file that is being created. A leftover one was never used."""

_SEGMENT = re.compile(r"\d{20}\.refold")
LOCK_NAME = "lock"
MIRRORED_NAME = "mirrored.json"
"""Records how far a log is published (eventstore.mirror)."""

_PRIVATE_FOLDER = 0o700
_PRIVATE_FILE = 0o600
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def run_folder(parent: Path, wall_ns: int) -> Path:
    """The folder for the log of a daemon that starts now. Names sort by time."""
    seconds, fraction_ns = divmod(wall_ns, 1_000_000_000)
    moment = datetime.fromtimestamp(seconds, UTC).strftime("%Y%m%dT%H%M%S")
    return parent / f"run-{moment}.{fraction_ns:09d}Z"


def segment_path(folder: Path, first_seq: int) -> Path:
    """The file of the segment that begins with event `first_seq`."""
    return folder / f"{first_seq:020d}{SEGMENT_SUFFIX}"


def first_seq_of(segment: Path) -> int:
    """The number of a segment's first event, from its name."""
    return int(segment.name.removesuffix(SEGMENT_SUFFIX))


def is_segment(path: Path) -> bool:
    """Whether a file has the name of a segment."""
    return _SEGMENT.fullmatch(path.name) is not None


def segments_in(folder: Path) -> list[Path]:
    """The segments of a log in order; empty if there are none."""
    try:
        return sorted(path for path in folder.iterdir() if is_segment(path))
    except OSError as error:
        raise from_os(error, folder) from None


def logs_in(parent: Path) -> list[Path]:
    """The logs in a parent folder, sorted by name."""
    return sorted(path for path in parent.iterdir() if path.is_dir() and segments_in(path))


def only_log_in(parent: Path) -> Path | None:
    """The only log in a folder that is not a log itself; None if there are several, or none."""
    if not parent.is_dir() or segments_in(parent):
        return None
    logs = logs_in(parent)
    return logs[0] if len(logs) == 1 else None


def segments_of(path: Path) -> list[Path]:
    """The segments at a path, which is a log's folder or one segment. Never empty.

    Raises LogNotFound, NotALog, LogFailed.
    """
    try:
        if path.is_file():
            return [path]
        path.stat()
    except OSError as error:
        raise from_os(error, path) from None
    found = segments_in(path)
    if not found:
        raise _no_segments(path)
    return found


def _no_segments(path: Path) -> NotALog:
    logs = logs_in(path) if path.is_dir() else []
    if len(logs) == 1:
        return NotALog(path, f"contains a log, use its path: {logs[0]}")
    if logs:
        return NotALog(
            path, f"contains {len(logs)} logs, use the path of one of them; the last is {logs[-1]}"
        )
    return NotALog(path, "contains no segment (a file such as 00000000000000000001.refold)")


def write_ahead_log(segment: Path) -> Path:
    """SQLite's write-ahead log of a segment."""
    return segment.with_name(segment.name + "-wal")


def size_of(segment: Path) -> int:
    """The bytes of a segment on the disk, with SQLite's write-ahead log, which may go meanwhile."""
    size = 0
    for file in (segment, write_ahead_log(segment)):
        with suppress(FileNotFoundError):
            size += file.stat().st_size
    return size


def discard(segment: Path) -> None:
    """Delete an unfinished segment and SQLite's files of it."""
    for suffix in ("", "-wal", "-shm", "-journal"):
        segment.with_name(segment.name + suffix).unlink(missing_ok=True)


def make_private(folder: Path) -> None:
    """Create a folder, and the missing folders above it, for this user only.

    Raises LogExposed if others may write the folder or replace it, LogReadOnly, LogFailed.
    """
    try:
        for one in reversed(_missing_folders(folder)):
            one.mkdir(_PRIVATE_FOLDER, exist_ok=True)
        require_private(folder)
    except OSError as error:
        raise from_os(error, folder) from None


def _missing_folders(folder: Path) -> list[Path]:
    """The folders that must be created for this one, the lowest first."""
    return list(takewhile(lambda one: not one.exists(), (folder, *folder.parents)))


@contextmanager
def private_folder(folder: Path) -> Iterator[None]:
    """`make_private`, but the folders that this creates and that are empty at the end are
    deleted. Raises as `make_private`."""
    made = _missing_folders(folder)
    try:
        make_private(folder)
        yield
    finally:
        with suppress(OSError):
            for one in made:
                one.rmdir()


def require_private(folder: Path) -> None:
    """Check that other users may not write a folder: they could replace what is in it. The same
    holds for the folders above it, in which they could replace the folder. Raises LogExposed,
    OSError."""
    found = folder.stat()
    if found.st_uid not in (0, os.geteuid()):
        text = f"belongs to user {found.st_uid}, who could replace its files: use another folder"
        raise LogExposed(folder, text)
    if found.st_mode & _OTHERS_WRITE:
        mode = stat.S_IMODE(found.st_mode)
        text = f"other users may write it (mode {mode:04o}): run chmod go-w, or use another folder"
        raise LogExposed(folder, text)
    require_not_replaceable(folder)


def require_not_replaceable(folder: Path) -> None:
    """Check that other users may not replace a folder, which may be missing, in one of the folders
    above it. Raises LogExposed, OSError."""
    for parent in folder.resolve().parents:
        found = parent.stat() if parent.exists() else None
        if found is not None and _may_be_replaced_below(found):
            mode = stat.S_IMODE(found.st_mode)
            text = (
                f"other users may replace it, because they may write {parent} (mode {mode:04o}): "
                f"run chmod go-w or chmod +t on {parent}, or use another folder"
            )
            raise LogExposed(folder, text)


def _may_be_replaced_below(parent: os.stat_result) -> bool:
    """Whether other users may rename what is in a folder. With the sticky bit they may not. The
    group of this process often has no other members, and then its folders are not exposed."""
    if parent.st_mode & stat.S_ISVTX:
        return False
    is_groups = parent.st_mode & stat.S_IWGRP and parent.st_gid != os.getegid()
    return bool(is_groups or parent.st_mode & stat.S_IWOTH)


def make_private_file(path: Path) -> None:
    """Create an empty file that only this user may read and write. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, _PRIVATE_FILE)
    try:
        os.fchmod(descriptor, _PRIVATE_FILE)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make new and renamed files in a folder survive a power failure."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def replacing(
    path: Path, *, is_durable: bool = True, is_private: bool = False
) -> Iterator[BinaryIO]:
    """A file that replaces the one at `path` when the block ends, and is deleted if it fails.

    With `is_durable` the new file survives a power failure. With `is_private` only this user may
    read and write it. Raises OSError.
    """
    partial = path.with_name(f".{path.name}{PARTIAL_SUFFIX}")
    try:
        if is_private:
            make_private_file(partial)
        with partial.open("wb") as file:
            yield file
            if is_durable:
                file.flush()
                os.fsync(file.fileno())
        partial.replace(path)
        if is_durable:
            sync_folder(path.parent)
    finally:
        partial.unlink(missing_ok=True)


class FolderLock:
    """The exclusive right to write a log. It ends with its process in any case.

    It uses flock instead of lockf, whose locks are lost when the process closes any other
    descriptor of the file.
    """

    def __init__(self, folder: Path) -> None:
        """Acquire the lock. Raises LogLocked, which names the process that holds it."""
        path = folder / LOCK_NAME
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, _PRIVATE_FILE)
        except OSError as error:
            raise from_os(error, path) from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())
        except BlockingIOError:
            self.release()
            text = f"process {path.read_text().strip()} writes this log: end it first"
            raise LogLocked(folder, text) from None
        except OSError as error:
            self.release()
            raise from_os(error, path) from None

    def release(self) -> None:
        """Release the lock; the file remains."""
        os.close(self._descriptor)


def is_being_written(folder: Path) -> bool:
    """Whether a daemon (or this process) writes the log now."""
    try:
        descriptor = os.open(folder / LOCK_NAME, os.O_RDONLY)
    except OSError:
        return False
    try:
        # An empty file means that a process is acquiring the lock; trying it would interfere.
        if os.fstat(descriptor).st_size == 0:
            return True
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
