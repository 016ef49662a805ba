"""Appending to a log: the hot path of the daemon. Plain synchronous calls, for a thread of its own.

One writer, one transaction a call, on disk when the call returns (synchronous=FULL).
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
"""The size at which a segment is followed by the next one."""

BUSY_MS = 1000
"""How long an append waits for a foreign process that has the file locked."""


class LogWriter:
    """The one writer of a log. Used as a context manager it closes the log at the end, and leaves
    it without a closing record when an exception comes through."""

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
        """Make a new log in `folder`, which is made if it is not there.

        Raises LogExists (one log is one run of the daemon), LogLocked, LogReadOnly, LogFull.
        """
        is_new = not folder.exists()
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise from_os(error, folder) from None
        if folders.segments_in(folder):
            raise LogExists(folder, "holds a log already: give each run a folder of its own")
        try:
            return cls(folder, header, segment_bytes, busy_ms)
        except BaseException:
            if is_new:
                shutil.rmtree(folder, ignore_errors=True)
            raise

    @property
    def tip(self) -> Tip:
        """How far the log has come."""
        return self._tip

    @property
    def segment(self) -> Path:
        """The segment that is being written."""
        return self._segment

    def append(self, events: Sequence[EventRecord], commands: Sequence[CommandRecord] = ()) -> None:
        """Store records, all or none; they are on disk when this returns.

        The events carry the numbers that follow `tip.last_seq`; commands come in the order of
        their causes. Raises a LogError when they cannot
        be stored; from then on every call raises it again, at once, so that no gap can arise.
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
        """Start the next segment if this one has reached its size; returns the new one's path.

        To be called when the fold is idle and the commands of all events are appended: the new
        segment's snapshot is the state after `tip.last_seq`. Raises as `append` does.
        """
        if self._failure:
            raise self._failure
        if self._tip.last_seq < self._header.first_seq or self._size() < self.segment_bytes:
            return None
        following = structs.replace(
            self._header,
            created_ns=time.time_ns(),
            first_seq=self._tip.last_seq + 1,
            predecessor=self._tip,
        )
        before = self._database
        try:
            self._start_segment(following)
        except LogError as error:
            self._failure = error
            raise
        before.close()
        return self._segment

    def close(self) -> None:
        """Write the closing record and let go of the log. After a failure there is none: a log
        that refused records has not ended cleanly."""
        try:
            if self._failure is None:
                closing = Closing(closed_ns=time.time_ns(), tip=self._tip)
                schema.store_closing(self._database, schema.document(closing))
        except sqlite3.Error as error:
            raise from_sqlite(error, self._segment, "closing record") from error
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Let go of the log without a closing record. What was appended stays.

        While an append hangs in another thread the files stay open until the process ends: SQLite
        would wait for that append.
        """
        if self._let_go:
            return
        self._let_go = True
        self._failure = LogError(self.folder, "this writer has let go of the log")
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
        """SQLite goes on in a file that was moved or removed: nobody would find its records."""
        try:
            stands = _identity(self._segment) == self._opened
        except OSError:
            stands = False
        if not stands:
            text = "it was moved, removed or replaced while it was written: put it back"
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
        """Make a segment under a name that no reader takes for one, then give it its own."""
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

    def _size(self) -> int:
        (pages,) = self._database.execute("pragma page_count").fetchone()
        (page_bytes,) = self._database.execute("pragma page_size").fetchone()
        return int(pages) * int(page_bytes)


def _identity(file: Path) -> tuple[int, int]:
    found = file.stat()
    return found.st_dev, found.st_ino
