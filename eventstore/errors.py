"""What can go wrong with a log. Each error names the file, the record if there is one, and says
what to do; none is raised for a bug of the caller."""

import errno
import sqlite3
from pathlib import Path

PUT_A_COPY = "put a sound copy of the file in its place"
"""What to do about a damaged file."""


class LogError(Exception):
    """Base of all errors of the event store."""

    def __init__(self, file: Path | str, text: str, record: str | None = None) -> None:
        self.file = file
        self.record = record
        self.text = text
        place = f"{file}, {record}" if record else f"{file}"
        super().__init__(f"{place}: {text}")


class LogNotFound(LogError):
    """There is no such file or folder."""


class NotALog(LogError):
    """It is there, but it is not a log of refold."""


class LogExists(LogError):
    """A new log was to be made where one is already."""


class LogLocked(LogError):
    """Somebody else writes it."""


class LogReadOnly(LogError):
    """It cannot be written: permissions or a read-only file system."""


class LogFull(LogError):
    """The disk, the quota or the file's size limit is exhausted. All that was stored stays."""


class LogFailed(LogError):
    """The operating system reports an I/O error."""


class LogCorrupt(LogError):
    """A record was changed, moved, removed or doubled, or the file is damaged."""


class LogTooNew(LogError):
    """Made by a newer refold than this one."""


class MirrorFailed(LogError):
    """The mirror's topic cannot be read or written. It is `file` here."""


class MirrorFenced(MirrorFailed):
    """Somebody else publishes the same log now."""


FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""Told where a file is written, never where one is read."""
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


def from_os(error: OSError, file: Path | str) -> LogError:
    """The member of the family for an operating system error at `file`."""
    if error.errno in FULL:
        return LogFull(file, "no space left: free some, or set a retention limit")
    if error.errno in _READ_ONLY:
        return LogReadOnly(file, f"not allowed ({error.strerror}): check owner, mode and mount")
    if error.errno == errno.ENOENT:
        return LogNotFound(file, "no such file or folder")
    if error.errno == errno.ENOTDIR:
        among = next((one for one in Path(file).parents if one.is_file()), "a part of the path")
        return LogFailed(file, f"{among} is a file: name a folder")
    return LogFailed(file, f"{error.strerror or error}: check the path and the disk")


def from_sqlite(
    error: sqlite3.Error | UnicodeDecodeError, file: Path | str, record: str | None = None
) -> LogError:
    """The member of the family for an error that SQLite reports at `file`. In a damaged file even
    its messages may not be UTF-8."""
    match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return LogFull(file, "the disk is full: free space, or set a retention limit", record)
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return LogLocked(file, "another process holds it: end that process first", record)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return LogReadOnly(file, f"cannot be written ({error}): check owner and mount", record)
        case sqlite3.SQLITE_NOTADB:
            return NotALog(file, "is not a SQLite file", record)
        case sqlite3.SQLITE_CANTOPEN:
            return LogFailed(file, "cannot be opened: check that it is there and readable", record)
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_ERROR:
            # The statements are fixed: where one does not fit, the tables are damaged.
            return LogCorrupt(file, f"the file is damaged ({error}): {PUT_A_COPY}", record)
        case sqlite3.SQLITE_CONSTRAINT:
            return LogFailed(file, f"a record of that number is stored already ({error})", record)
        case _:
            return LogFailed(file, f"{error}: check the disk and the file size limit", record)
