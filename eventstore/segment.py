"""Reads one segment of a log that is being written or not, also on read-only media.

Reads are short, one page of rows per query, so that a slow reader never prevents a checkpoint of
the daemon's write-ahead log. Reading a range of events, or commands, checks their part of the
checksum chain; reading events by other criteria does not. `verify` checks the whole log.
"""

import shutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from itertools import chain as chain_iterables
from operator import itemgetter
from pathlib import Path
from sys import getsizeof
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeVar

import msgspec
from sqlite_utils import Database

from eventstore import chain, folders, schema
from eventstore.chain import Row
from eventstore.errors import (
    PUT_A_COPY,
    LogCorrupt,
    LogNotFound,
    LogTooNew,
    NotALog,
    from_os,
    from_sqlite,
)
from eventstore.filters import EventFilter
from eventstore.records import FORMAT, Closing, CommandRecord, EventRecord, Header
from eventstore.write_ahead import check_write_ahead

PAGE_ROWS = 1000
PAGE_BYTES = 4 << 20
"""A page ends soon after it reaches either limit."""

_FETCHED_ROWS = 50

_BUSY_S = 5.0
_TEXTS_REMEMBERED = 4096
_CANNOT_OPEN = {sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY}


class _Table(NamedTuple):
    """A query whose first column numbers the rows, and the index of its only large column."""

    select: str
    large: int


_EVENTS = _Table("select * from events", 9)
_COMMANDS = _Table("select rowid, * from commands", 8)

_EVENT_TYPES = {
    (int, int, int, int, str, int, str, str, cause, bytes, bytes) for cause in (int, type(None))
}
"""The types of the columns of an event. A changed record may have others."""

NO_PARAMETERS: Mapping[str, Any] = MappingProxyType({})

SQLITE_ERRORS = (sqlite3.Error, UnicodeDecodeError)
"""The exceptions that sqlite3 raises for a damaged file."""

_Document = TypeVar("_Document", Header, Closing)


class Segment:
    """One segment, open for reading. A context manager."""

    def __init__(self, path: Path, living: bool) -> None:
        """Open a segment. `living`: a daemon may be appending to it.

        Raises LogNotFound, NotALog, LogTooNew, LogCorrupt.
        """
        self.path = path
        self.uri = ""
        self._resources = ExitStack()
        try:
            self._database = self._connect(living)
            self._check_format()
            self.header, self.header_body = self._header()
        except BaseException:
            self._resources.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def closing(self) -> Closing | None:
        """The closing record, if there is one. Raises LogCorrupt if it was changed."""
        found = self._document("closing", Closing)
        return found[0] if found else None

    def events(self, wanted: EventFilter) -> Iterator[EventRecord]:
        """The events that pass a filter, except for its subject. Raises LogCorrupt for a changed
        record, and in a range also for a missing one."""
        return chain_iterables.from_iterable(self.event_pages(wanted))

    def event_pages(self, wanted: EventFilter) -> Iterator[list[EventRecord]]:
        """The events that `events` returns, page by page."""
        if wanted.is_range:
            return self._chained_events(wanted)
        return self._unchained_events(*wanted.where(), max(0, (wanted.first_seq or 0) - 1))

    def events_numbered(self, numbers: list[int], wanted: EventFilter) -> Iterator[EventRecord]:
        """The events with these numbers that pass a filter, except for its subject."""
        conditions, parameters = wanted.where()
        conditions.append(f"seq in ({', '.join(map(str, numbers))})")
        return chain_iterables.from_iterable(self._unchained_events(conditions, parameters))

    def command_pages(self, first_cause: int, last_cause: int) -> Iterator[list[CommandRecord]]:
        """Pages of the commands caused by a range of events, in stored order, which is that of
        their causes. Raises LogCorrupt if one was changed or is missing between two others."""
        before = self._command_before(first_cause)
        previous = self._command_chain_before(before + 1)
        for page in self._pages(_COMMANDS, [], {}, before):
            rows = _without_rowids(page)
            following: int | None = None
            if _cause_of(rows[-1]) > last_cause:
                following = next(at for at, row in enumerate(rows) if _cause_of(row) > last_cause)
                # Its chain shows whether it was changed, and is not the following one.
                rows = rows[: following + 1]
            commands = chain.sound_commands(previous, rows)
            if len(commands) < len(rows):
                yield commands
                row = rows[len(commands)]
                previous = chain.value_of(rows[len(commands) - 1]) if commands else previous
                fault = chain.command_fault(previous, row) or ""
                raise self._corruption_error(fault, f"command {row[0]}.{row[1]}")
            yield commands[:following]
            if following is not None:
                return
            previous = chain.value_of(rows[-1])

    def _command_before(self, first_cause: int) -> int:
        """The number of the last command before those of a range; 0: there is none."""
        if first_cause <= 0:
            return 0
        sql = "select rowid from commands where cause >= {:d} order by cause, ordinal limit 1"
        first = self.query(sql.format(first_cause))
        return first[0][0] - 1 if first else self.command_count()

    def commands_of_kind(
        self, kind: str, first_cause: int, last_cause: int
    ) -> Iterator[CommandRecord]:
        """The commands of one kind that a range of events caused, without a check of the chain."""
        conditions = ["cause between :first and :last", "kind = :kind"]
        parameters = {"first": first_cause, "last": last_cause, "kind": kind}
        for page in self.command_rows(conditions, parameters):
            for row in page:
                yield CommandRecord._make(row[:-1])

    def commands_caused_by(self, causes: Sequence[int]) -> list[CommandRecord]:
        """The commands that these events caused, in order, without a check of the chain."""
        numbers = ", ".join(map(str, causes))
        rows = self.query(f"select * from commands where cause in ({numbers})")
        return sorted(CommandRecord._make(row[:-1]) for row in rows)

    def event_rows(
        self, conditions: Sequence[str] = (), parameters: Mapping[str, Any] = NO_PARAMETERS
    ) -> Iterator[list[Row]]:
        """Pages of events as stored, with their chain values: all, or those that meet SQL
        conditions on the columns."""
        return self._pages(_EVENTS, list(conditions), dict(parameters))

    def command_rows(
        self, conditions: Sequence[str] = (), parameters: Mapping[str, Any] = NO_PARAMETERS
    ) -> Iterator[list[Row]]:
        """Pages of commands, like `event_rows`."""
        for page in self._pages(_COMMANDS, list(conditions), dict(parameters)):
            yield _without_rowids(page)

    def command_count(self) -> int:
        """The number of commands. They are numbered from 1 in stored order, by `rowid`."""
        (last,) = self.query("select max(rowid) from commands")[0]
        return last or 0

    def event_page(self, after: int) -> list[Row]:
        """The page of `event_rows` that follows event number `after`."""
        return next(self._pages(_EVENTS, [], {}, after), [])

    def command_page(self, after: int) -> list[Row]:
        """The page of `command_rows` that follows the first `after` commands."""
        return _without_rowids(next(self._pages(_COMMANDS, [], {}, after), []))

    def last_seq(self) -> int:
        """The number of the last event; one before the first event if there is none."""
        (last,) = self.query("select max(seq) from events")[0]
        return self.header.first_seq - 1 if last is None else last

    def last_seq_at(self, wall_ns: int) -> int | None:
        """The number of the last event at or before a wall clock time; None if there is none."""
        # Most calls ask for the end of the log, where a backward search soon finds a row.
        sql = f"select seq from events where wall_ns <= {wall_ns:d} order by seq desc limit 1"
        return next((seq for (seq,) in self.query(sql)), None)

    def query(self, sql: str) -> list[Any]:
        """All rows of a query with few rows. Raises LogCorrupt and other LogErrors."""
        try:
            return self._database.execute(sql).fetchall()
        except SQLITE_ERRORS as error:
            raise from_sqlite(error, self.path) from error

    def copy_to(self, target: Path) -> None:
        """Copy the current state of the segment to a new file, even while it grows."""
        try:
            folders.make_private_file(target)
            copy = sqlite3.connect(target)
            try:
                self._database.conn.backup(copy)
            finally:
                copy.close()
        except SQLITE_ERRORS as error:
            raise from_sqlite(error, target) from error
        except OSError as error:
            raise from_os(error, target) from error

    def _chained_events(self, wanted: EventFilter) -> Iterator[list[EventRecord]]:
        expected = max(wanted.first_seq or 0, self.header.first_seq)
        previous = self._event_chain_before(expected)
        for page in self._pages(_EVENTS, *wanted.where(), expected - 1):
            events = chain.sound_events(previous, expected, page)
            yield events
            if events:
                previous, expected = chain.value_of(page[len(events) - 1]), events[-1].seq + 1
            if len(events) < len(page):
                row = page[len(events)]
                fault = chain.event_fault(previous, expected, row) or ""
                raise self._corruption_error(fault, f"event {row[0]}")

    def _event_chain_before(self, seq: int) -> bytes:
        """The chain value that event `seq` follows."""
        if seq == self.header.first_seq:
            return chain.start(self.header, self.header_body).event_chain
        return self._chain_value(f"select chain from events where seq = {seq - 1:d}")

    def _command_chain_before(self, number: object) -> bytes:
        """The chain value that command `number`, counted from 1 in stored order, follows."""
        assert isinstance(number, int), "a rowid"
        if number == 1:
            return chain.start(self.header, self.header_body).command_chain
        return self._chain_value(f"select chain from commands where rowid = {number - 1}")

    def _chain_value(self, sql: str) -> bytes:
        value = next((one for (one,) in self.query(sql)), None)
        return value if isinstance(value, bytes) else b""

    def _corruption_error(self, fault: str, record: str) -> LogCorrupt:
        return LogCorrupt(self.path, f"{fault}: {PUT_A_COPY}", record)

    def _unchained_events(
        self, conditions: list[str], parameters: dict[str, Any], after: int = 0
    ) -> Iterator[list[EventRecord]]:
        for page in self._pages(_EVENTS, conditions, parameters, after):
            events: list[EventRecord] = []
            for row in page:
                if tuple(map(type, row)) not in _EVENT_TYPES:
                    yield events
                    raise self._corruption_error("it was changed", f"event {row[0]}")
                events.append(EventRecord._make(row[:-1]))
            yield events

    def _pages(
        self, table: _Table, conditions: list[str], parameters: dict[str, Any], after: int = 0
    ) -> Iterator[list[Row]]:
        # `after` rather than a condition on the number: of two bounds, SQLite searches only one.
        where = " and ".join(["rowid > :after", *conditions])
        sql = f"{table.select} where {where} order by rowid"
        while page := self._page(sql, {**parameters, "after": after}, table.large):
            last = page[-1][0]
            if last <= after:
                # In a damaged file the numbers may decrease, and the same page would follow again.
                raise self._corruption_error("its number is not above those before", f"row {last}")
            after = last
            yield page

    def _page(self, sql: str, parameters: dict[str, Any], large: int) -> list[Any]:
        rows: list[Any] = []
        size = 0
        try:
            cursor = self._database.execute(sql, parameters)
            while len(rows) < PAGE_ROWS and size < PAGE_BYTES:
                some = cursor.fetchmany(_FETCHED_ROWS)
                if not some:
                    break
                rows += some
                size += sum(map(getsizeof, map(itemgetter(large), some)))
            cursor.close()
        except SQLITE_ERRORS as error:
            record = f"row {parameters['after'] + 1} or a later one"
            raise from_sqlite(error, self.path, record) from error
        return rows

    def _connect(self, living: bool) -> Database:
        if not self.path.exists():
            raise LogNotFound(self.path, "no such file")
        if not self.path.stat().st_size:
            raise NotALog(self.path, f"is an empty file: {PUT_A_COPY}")
        wal = folders.write_ahead_log(self.path)
        if not living and not (wal.exists() and wal.stat().st_size):
            return self._open(self.path, "mode=ro&immutable=1")
        if not living:
            check_write_ahead(wal)
        try:
            return self._open(self.path, "mode=ro")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF not in _CANNOT_OPEN:
                raise from_sqlite(error, self.path) from error
        # On read-only media a copy is needed to read the transactions that are still in the -wal
        # file.
        return self._open(self._writable_copy(wal), "mode=rw")

    def _open(self, path: Path, options: str) -> Database:
        self.uri = f"{path.absolute().as_uri()}?{options}"
        connection = sqlite3.connect(
            self.uri, uri=True, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
        )
        self._resources.callback(connection.close)
        # Bytes that were changed to text are detected by their type, whatever they contain.
        text = partial(str, encoding="utf-8", errors="replace")
        # Kinds, channels and targets repeat in many rows.
        connection.text_factory = lru_cache(_TEXTS_REMEMBERED)(text)
        database = Database(connection, execute_plugins=False)
        try:
            database.execute("select count(*) from sqlite_schema").fetchone()
        except sqlite3.OperationalError:
            raise
        except SQLITE_ERRORS as error:
            raise from_sqlite(error, self.path) from error
        return database

    def _writable_copy(self, wal: Path) -> Path:
        try:
            folder = Path(self._resources.enter_context(TemporaryDirectory(prefix="refold-")))
            for file in (self.path, wal):
                if file.exists():
                    shutil.copy(file, folder)
        except OSError as error:
            raise from_os(error, self.path) from error
        copy = folder / self.path.name
        copy.chmod(0o600)
        return copy

    def _check_format(self) -> None:
        [(application_id,)] = self.query("pragma application_id")
        if application_id != schema.APPLICATION_ID:
            raise NotALog(self.path, "is an SQLite file, but not a refold log")
        [(version,)] = self.query("pragma user_version")
        if version > FORMAT:
            text = f"made by a newer refold (format {version}, this one reads {FORMAT}): upgrade"
            raise LogTooNew(self.path, text)

    def _header(self) -> tuple[Header, bytes]:
        found = self._document("header", Header)
        if found is None:
            raise LogCorrupt(self.path, f"is missing: {PUT_A_COPY}", "header")
        header, body = found
        named = folders.is_segment(self.path)
        if named and header.first_seq != folders.first_seq_of(self.path):
            text = f"begins with event {header.first_seq}: restore the file's original name"
            raise LogCorrupt(self.path, text, "header")
        return header, body

    def _document(self, table: str, model: type[_Document]) -> tuple[_Document, bytes] | None:
        rows = self.query(f"select body, checksum from {table}")
        if not rows:
            return None
        record = "header" if table == "header" else "closing record"
        if len(rows) > 1:
            raise LogCorrupt(self.path, f"occurs more than once: {PUT_A_COPY}", record)
        [(text, checksum)] = rows
        body = text.encode() if isinstance(text, str) else b""
        if chain.checksum(body) != checksum:
            raise LogCorrupt(self.path, f"it was changed: {PUT_A_COPY}", record)
        try:
            return msgspec.json.decode(body, type=model), body
        except msgspec.DecodeError as error:
            raise LogCorrupt(self.path, f"cannot be read: {error}", record) from error


def _cause_of(row: Row) -> int:
    """The number of the event that caused a stored command; 0 for a damaged one."""
    cause = row[0]
    return cause if isinstance(cause, int) else 0


def _without_rowids(page: list[Row]) -> list[Row]:
    return [row[1:] for row in page]


def open_segment(path: Path) -> Segment:
    """Open a segment after checking whether its log is being written.

    Raises LogNotFound, NotALog, LogTooNew, LogCorrupt, LogFailed.
    """
    try:
        return Segment(path, living=folders.is_being_written(path.parent))
    except SQLITE_ERRORS as error:
        raise from_sqlite(error, path) from error
