"""Appends to a log. This is the daemon's hot path: plain synchronous calls for a separate thread.

There is one writer and one transaction per call, which is on disk when the call returns
(synchronous=FULL).
"""

import shutil
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from msgspec import structs
from sqlite_utils import Database

from eventstore import chain, folders, schema
from eventstore.errors import LogError, LogExists, LogFailed, from_os, from_sqlite
from eventstore.records import Closing, CommandRecord, EventRecord, Header, Tip

SEGMENT_BYTES = 1 << 30
"""The size at which the next segment is started."""

BUSY_MS = 1000
"""How long an append waits for another process that has locked the file."""


class LogWriter:
    """The only writer of a log. As a context manager it closes the log at the end, without a
    closing record after an exception."""

    _database: Database
    _segment: Path
    _header: Header
    _tip: Tip
    _opened: tuple[int, int]

    def __init__(self, folder: Path, header: Header, segment_bytes: int, busy_ms: int) -> None:
        """Not for callers: use `create`."""
        self.folder = folder
        self.segment_bytes = segment_bytes
        self._busy_ms = busy_ms
        self._failure: LogError | None = None
        self._let_go = False
        self._appending = False
        self._last_cause = 0
        self._bytes = self._bytes_before = 0
        self._lock = folders.FolderLock(folder)
        try:
            self._start_segment(header)
        except BaseException:
            self._lock.release()
            raise

    @classmethod
    def create(
        cls,
        folder: Path,
        header: Header,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        busy_ms: int = BUSY_MS,
    ) -> Self:
        """Create a log in `folder`, which is created if necessary.

        Raises LogExists (one log is one run of the daemon), LogExposed, LogLocked, LogReadOnly,
        LogFull.
        """
        is_new = not folder.exists()
        folders.make_private(folder)
        if folders.segments_in(folder):
            raise LogExists(folder, "already contains a log: use a separate folder for each run")
        try:
            return cls(folder, header, segment_bytes, busy_ms)
        except BaseException:
            if is_new:
                shutil.rmtree(folder, ignore_errors=True)
            raise

    @property
    def tip(self) -> Tip:
        """The end of the log."""
        return self._tip

    @property
    def segment(self) -> Path:
        """The current segment."""
        return self._segment

    @property
    def size_bytes(self) -> int:
        """The size of all segments of this run on the disk, with SQLite's write-ahead log; those
        included that retention has removed."""
        return self._bytes_before + folders.size_of(self._segment)

    def append(self, events: Sequence[EventRecord], commands: Sequence[CommandRecord] = ()) -> None:
        """Store records atomically; they are on disk when this returns.

        Events are numbered from `tip.last_seq` + 1; commands are in the order of their causes.
        Raises a LogError if they cannot be stored. From then on every call raises the same error at
        once, so that no gap can arise.
        """
        if self._failure:
            raise self._failure
        tip = self._tip
        self._check_order(events, commands)
        event_rows, event_chain = chain.chained(tip.event_chain, events)
        command_rows, command_chain = chain.chained(tip.command_chain, commands)
        self._appending = True
        try:
            with self._database.atomic():
                self._database.conn.executemany(schema.INSERT_EVENT, event_rows)
                if command_rows:
                    self._database.conn.executemany(schema.INSERT_COMMAND, command_rows)
            self._bytes = self._size()
        except sqlite3.Error as error:
            record = f"event {tip.last_seq + 1}"
            self._failure = from_sqlite(error, self._segment, record)
            raise self._failure from error
        finally:
            self._appending = False
        self._check_in_place()
        if commands:
            self._last_cause = commands[-1].cause
        self._tip = Tip(
            last_seq=tip.last_seq + len(event_rows),
            commands=tip.commands + len(command_rows),
            event_chain=event_chain,
            command_chain=command_chain,
        )

    def roll_if_due(self) -> Path | None:
        """Start the next segment if this one has reached its size limit; return its path.

        Call this when the fold is idle and the commands of all events are appended: the new
        segment's snapshot is the state after `tip.last_seq`. Raises as `append`.
        """
        if self._failure:
            raise self._failure
        if self._tip.last_seq < self._header.first_seq or self._bytes < self.segment_bytes:
            return None
        following = structs.replace(
            self._header,
            created_ns=time.time_ns(),
            first_seq=self._tip.last_seq + 1,
            predecessor=self._tip,
        )
        before, full_bytes = self._database, self._bytes
        try:
            self._start_segment(following)
        except LogError as error:
            self._failure = error
            raise
        self._bytes_before += full_bytes
        before.close()
        return self._segment

    def close(self, closed_ns: int | None = None) -> None:
        """Write the closing record and close the log. After a failure there is no closing
        record, since the log did not end cleanly. `closed_ns`: when it ended; by default now."""
        try:
            if self._failure is None:
                at_ns = time.time_ns() if closed_ns is None else closed_ns
                closing = Closing(closed_ns=at_ns, tip=self._tip)
                schema.store_closing(self._database, schema.document(closing))
        except sqlite3.Error as error:
            raise from_sqlite(error, self._segment, "closing record") from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Close the log without a closing record. Appended records remain.

        While an append hangs in another thread, the files stay open until the process exits,
        because SQLite would wait for that append.
        """
        if self._let_go:
            return
        self._let_go = True
        self._failure = LogError(self.folder, "this writer has closed the log")
        if self._appending:
            return
        try:
            self._database.close()
        finally:
            self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            self.close()
        else:
            self.abandon()

    def _check_in_place(self) -> None:
        """SQLite continues in a file that was moved or deleted, where its records would be lost."""
        try:
            stands = _identity(self._segment) == self._opened
        except OSError:
            stands = False
        if not stands:
            text = "was moved, deleted or replaced while it was being written: restore it"
            self._failure = LogFailed(self._segment, text)
            raise self._failure

    def _check_order(
        self, events: Sequence[EventRecord], commands: Sequence[CommandRecord]
    ) -> None:
        for expected, event in enumerate(events, self._tip.last_seq + 1):
            if event.seq != expected:
                raise ValueError(f"event {event.seq} follows event {expected - 1}")
        before = self._last_cause
        for command in commands:
            if command.cause < before:
                raise ValueError(f"a command of event {command.cause} follows one of {before}")
            before = command.cause

    def _start_segment(self, header: Header) -> None:
        """Create a segment under a temporary name, then rename it."""
        path = folders.segment_path(self.folder, header.first_seq)
        partial = path.with_suffix(folders.PARTIAL_SUFFIX)
        body = schema.document(header)
        try:
            schema.create(partial, body)
            partial.rename(path)
            folders.sync_folder(self.folder)
            database = schema.connect(path, self._busy_ms)
            self._opened = _identity(path)
        except sqlite3.Error as error:
            raise from_sqlite(error, path, "header") from error
        except OSError as error:
            raise from_os(error, path) from error
        finally:
            folders.discard(partial)
        self._database, self._segment, self._header = database, path, header
        self._tip = chain.start(header, body)
        self._bytes = 0

    def _size(self) -> int:
        (pages,) = self._database.execute("pragma page_count").fetchone()
        (page_bytes,) = self._database.execute("pragma page_size").fetchone()
        return int(pages) * int(page_bytes)


def _identity(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_dev, found.st_ino
