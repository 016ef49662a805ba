"""Errors of logs. Each names the file and the record, if there is one, and says what to do. None
indicates a bug of the caller."""

import errno
import sqlite3
from pathlib import Path
from typing import Self

PUT_A_COPY = "replace the file with an intact copy"
"""The advice about a damaged file."""


class LogError(Exception):
    """Base of all errors of the event store."""

    def __init__(self, file: Path | str, text: str, record: str | None = None) -> None:
        self.file = file
        self.record = record
        self.text = text
        place = f"{file}, {record}" if record else f"{file}"
        super().__init__(f"{place}: {text}")

    def __reduce__(self) -> tuple[type[Self], tuple[Path | str, str, str | None]]:
        """For errors of other processes."""
        return type(self), (self.file, self.text, self.record)


class LogNotFound(LogError):
    """There is no such file or folder."""


class NotALog(LogError):
    """The path exists, but is not a refold log."""


class LogExists(LogError):
    """A new log was to be created where one exists."""


class LogLocked(LogError):
    """Another process writes the log."""


class LogExposed(LogError):
    """Other users may change the folder of a log."""


class LogReadOnly(LogError):
    """Permissions or a read-only file system do not allow writing."""


class LogFull(LogError):
    """The disk, the quota or the file's size limit is exhausted. Everything stored so far is
    intact."""


class LogFailed(LogError):
    """The operating system reported an I/O error."""


class LogCorrupt(LogError):
    """A record was changed, moved, removed or duplicated, or the file is damaged."""


class LogTooNew(LogError):
    """A newer refold has written it."""


class MirrorFailed(LogError):
    """The mirror's topic cannot be read or written. `file` is the topic."""


class MirrorFenced(MirrorFailed):
    """Another process publishes the same log."""


FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""Errors of writing only."""
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}


def from_os(error: OSError, file: Path | str) -> LogError:
    """The LogError for an operating system error at `file`."""
    if error.errno in FULL:
        return LogFull(
            file, "no space left: free some space; logs of a daemon can have a retention limit"
        )
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
    """The LogError for an SQLite error at `file`. The message from a damaged file may not even
    be UTF-8."""
    match getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return LogFull(
                file,
                "the disk is full: free space; logs of a daemon can have a retention limit",
                record,
            )
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return LogLocked(file, "another process has locked it: end that process first", record)
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM:
            return LogReadOnly(file, f"cannot be written ({error}): check owner and mount", record)
        case sqlite3.SQLITE_NOTADB:
            return NotALog(file, "is not an SQLite file", record)
        case sqlite3.SQLITE_CANTOPEN:
            return LogFailed(file, "cannot be opened: check that it exists and is readable", record)
        case sqlite3.SQLITE_CORRUPT | sqlite3.SQLITE_ERROR:
            # The statements are fixed: if one fails, the tables are damaged.
            return LogCorrupt(file, f"the file is damaged ({error}): {PUT_A_COPY}", record)
        case sqlite3.SQLITE_CONSTRAINT:
            return LogFailed(file, f"a record with that number is already stored ({error})", record)
        case _:
            return LogFailed(file, f"{error}: check the disk and the file size limit", record)
