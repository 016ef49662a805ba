"""The file of an index: SQLite, next to the segments. It is a cache, and may be deleted.

A file is used only for the log and the code that it was made of: `stamp_of` names both.
"""

import os
import sqlite3
import zlib
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, get_args

import msgspec
from msgspec import Struct

from controller.core.canonical import (
    decode_command,
    decode_reason,
    encode_command,
    encode_reason,
)
from controller.core.commands import CommandId, Issued
from controller.fingerprint import core_fingerprint
from eventstore import folders
from eventstore.errors import LogCorrupt, from_os, from_sqlite
from eventstore.reader import LogReader
from replay.index.every_fact import WITH_PARTITIONS, MovesRange, Place, PlacedFact
from replay.index.postings import DECISION, Pages, numbers_of
from replay.listing.imported import DerivedDecision
from replay.logs.caches import stamp_of
from replay.names import BROKER
from replay.why.facts import AnyFact
from replay.why.znode_history import ControllerFromLogs

FORMAT: Final = 7
_SUFFIX: Final = ".index"
_FACTS_IN_CHUNK: Final = 128
_FACTS_HELD_MAX: Final = 200_000
_TABLES: Final = """
create table about (body blob);
create table postings (key text, page integer, numbers blob, primary key (key, page));
create table commands (cause integer, ordinal integer, term integer, body blob, reason blob,
    primary key (cause, ordinal));
create table topic_names (id text, seq integer, name text, primary key (id, seq));
create table names (name text primary key);
create table facts (topic text, number integer, page integer, body blob,
    primary key (topic, number, page));
create table decisions (seq integer primary key, body blob);
create table begun (seq integer primary key, procedures blob);
create table stock_controllers (seq integer primary key, body blob);
create table moves (topic text, number integer, first integer, last integer,
    primary key (topic, number, first));
"""


class RoleLost(Struct, frozen=True):
    """From event `seq` on, the daemon has lost the role; `last_active` is the last event after
    which it had the role. `until` is the event at which it has the role again, 0 for none."""

    seq: int
    last_active: int
    until: int = 0


class About(Struct, frozen=True):
    """What an index knows of the whole log. `is_open`: it was not closed. `differs_at` and
    `unrecorded` are those of replay.why.recorded.Limits after the last event. `explained_from` is
    the first record of an imported log at which a decision could be derived; 0: at none."""

    stamp: str
    last_seq: int
    is_open: bool = False
    differs_at: int = 0
    unrecorded: CommandId | None = None
    lost: list[RoleLost] = []
    explained_from: int = 0

    def role_lost(self, seq: int) -> RoleLost | None:
        """The loss of the role that lasts at an event; None if the daemon has the role, or never
        had it."""
        return next((one for one in self.lost if one.seq <= seq and not 0 < one.until <= seq), None)


def index_path(folder: Path) -> Path:
    """The file of the index of a log."""
    return folder / f"{core_fingerprint()}{_SUFFIX}"


# Writing ----------------------------------------------------------------------------------------


class IndexWriter:
    """Writes an index. Nothing is kept unless the block of `writing` ends."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._pages = 0
        self._facts: defaultdict[Place, list[tuple[int, int, int, bytes]]] = defaultdict(list)
        self._order = 0
        connection.executescript(_TABLES)
        connection.execute("begin")

    def add_pages(self, pages: Pages) -> None:
        """Numbers of events for postings."""
        self._pages += 1
        rows = ((key, self._pages, body) for key, body in pages.items())
        self._connection.executemany("insert into postings values (?, ?, ?)", rows)

    def add_names(self, names: Iterable[str]) -> None:
        """Subjects of events."""
        rows = ((one,) for one in names)
        self._connection.executemany("insert or ignore into names values (?)", rows)

    def add_facts(self, facts: Iterable[PlacedFact]) -> None:
        """The facts of an event."""
        for places, fact in facts:
            self._order += 1
            row = (self._order, fact.seq, _NUMBER_OF[type(fact)], _encode(fact))
            for place in places:
                held = self._facts[place]
                held.append(row)
                if len(held) >= _FACTS_IN_CHUNK:
                    self._flush_facts(place)
        if len(self._facts) > _FACTS_HELD_MAX:
            for place in list(self._facts):
                self._flush_facts(place)

    def add_command(self, issued: Issued) -> None:
        """A command that the log does not have as it was derived."""
        body = zlib.compress(encode_command(issued.command), 1)
        row = (*issued.id, issued.term, body, encode_reason(issued.reason))
        self._connection.execute("insert into commands values (?, ?, ?, ?, ?)", row)

    def add_topic_name(self, id: str, seq: int, name: str) -> None:
        """From event `seq` on, a topic's id means this name."""
        row = (id, seq, name)
        self._connection.execute("insert or replace into topic_names values (?, ?, ?)", row)

    def add_decision(self, one: DerivedDecision) -> None:
        """A decision of an imported log."""
        self._insert("decisions", one.listed.seq, one)

    def add_begun(self, seq: int, procedures: Mapping[str, tuple[int, ...]]) -> None:
        """Procedures that begin at a record of an imported log, each with the earlier records that
        caused it."""
        self._insert("begun", seq, procedures)

    def add_stock_controller(self, seq: int, controller: ControllerFromLogs) -> None:
        """What the brokers' logs show of the controller of an imported log after a record."""
        self._insert("stock_controllers", seq, controller)

    def _insert(self, table: str, seq: int, value: object) -> None:
        body = zlib.compress(_encode(value), 1)
        self._connection.execute(f"insert into {table} values (?, ?)", (seq, body))

    def finish(self, about: About, moves: Iterable[MovesRange] = ()) -> None:
        """Write the facts and moves that are not written yet, and what is known about the whole
        log."""
        for place in list(self._facts):
            self._flush_facts(place)
        execute = self._connection.executemany
        rows = ((*one.place, one.first, one.last) for one in moves)
        execute("insert into moves values (?, ?, ?, ?)", rows)
        execute("insert into about values (?)", [(msgspec.json.encode(about),)])
        self._connection.execute("commit")

    def _flush_facts(self, place: Place) -> None:
        rows = self._facts.pop(place)
        body = zlib.compress(msgspec.msgpack.encode(rows), 1)
        self._connection.execute(
            "insert into facts values (?, ?, ?, ?)", (*place, rows[0][0], body)
        )


@contextmanager
def writing(folder: Path, mode: int) -> Iterator[IndexWriter]:
    """Write the index of a log with these permissions. It replaces another one when the block ends.
    Raises LogError."""
    target = index_path(folder)
    partial = target.with_name(f".{target.name}.{os.getpid()}{folders.PARTIAL_SUFFIX}")
    try:
        descriptor = os.open(partial, os.O_CREAT | os.O_TRUNC | os.O_RDWR, mode)
        os.close(descriptor)
        partial.chmod(mode)
        with closing(sqlite3.connect(partial, isolation_level=None)) as connection:
            # Losing an index costs only time.
            connection.execute("pragma synchronous = off")
            connection.execute("pragma journal_mode = off")
            yield IndexWriter(connection)
        partial.replace(target)
    except sqlite3.Error as error:
        raise from_sqlite(error, partial) from error
    except OSError as error:
        raise from_os(error, partial) from error
    finally:
        partial.unlink(missing_ok=True)


# Reading ----------------------------------------------------------------------------------------


class _StoredFact(NamedTuple):
    order: int
    seq: int
    number: int
    body: bytes


class EventIndex:
    """An index that was made of the log and the code that use it."""

    def __init__(self, path: Path, connection: sqlite3.Connection, about: About) -> None:
        self._path = path
        self._connection = connection
        self.about = about

    @classmethod
    def open_for(cls, reader: LogReader) -> Self | None:
        """The index of a log; None if there is none that can be used."""
        path = index_path(reader.path)
        if not reader.path.is_dir() or not path.exists():
            return None
        source = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
        with ExitStack() as opened:
            try:
                # As with segments, another thread may read it than has opened it.
                connection = sqlite3.connect(source, uri=True, check_same_thread=False)
                opened.callback(connection.close)
                [(body,)] = connection.execute("select body from about").fetchall()
                about = msgspec.json.decode(body, type=About)
            except (sqlite3.Error, ValueError, msgspec.DecodeError):
                return None
            if about.stamp != stamp_of(reader, FORMAT):
                return None
            opened.pop_all()
            return cls(path, connection, about)

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def numbers(self, key: str) -> "array[int]":
        """The events of a posting, and perhaps others, in no order."""
        pages = self._query("select numbers from postings where key = ?", key)
        try:
            return numbers_of(body for (body,) in pages)
        except zlib.error as error:
            raise self._corrupt_index_error(error) from error

    def keys(self, prefix: str) -> list[str]:
        """The keys of postings that begin with a text."""
        sql = "select distinct key from postings where key >= ? and key < ?"
        found = self._query(sql, prefix, f"{prefix[:-1]}{chr(ord(prefix[-1]) + 1)}")
        return [key for (key,) in found]

    def keys_with(self, prefix: str, text: str) -> list[str]:
        """The keys whose rest contains a text, in any case."""
        text = text.lower()
        return [one for one in self.keys(prefix) if text in one.removeprefix(prefix).lower()]

    def commands(self, causes: Sequence[int]) -> list[Issued]:
        """The commands of these events that the log does not have as they were derived."""
        numbers = ", ".join(map(str, causes))
        rows = self._query(f"select * from commands where cause in ({numbers})")
        return [
            Issued(
                CommandId(cause, ordinal),
                term,
                decode_command(self._decompressed(body)),
                decode_reason(reason),
            )
            for cause, ordinal, term, body, reason in rows
        ]

    def decisions(self, numbers: Sequence[int]) -> list[DerivedDecision]:
        """The decisions of an imported log at these records, in order."""
        names = ", ".join(map(str, numbers))
        rows = self._query(f"select body from decisions where seq in ({names}) order by seq")
        return [_decisions_decoder.decode(self._decompressed(body)) for (body,) in rows]

    def decision(self, seq: int) -> DerivedDecision | None:
        """The decision of a record of an imported log, if it is one."""
        return next(iter(self.decisions([seq])), None)

    def begun(self, seq: int) -> Mapping[str, tuple[int, ...]]:
        """The procedures that begin at a record of an imported log, each with the earlier records
        that caused it."""
        rows = self._query("select procedures from begun where seq = ?", seq)
        found = (_begun_decoder.decode(self._decompressed(body)) for (body,) in rows)
        return next(found, {})

    def stock_controller_before(self, seq: int) -> tuple[int, ControllerFromLogs] | None:
        """The stored view of the controller of an imported log before a record: the last record
        that it includes, and the controller. None: nothing is stored."""
        sql = "select seq, body from stock_controllers where seq < ? order by seq desc limit 1"
        rows = self._query(sql, seq)
        found = ((seq, _controller_decoder.decode(self._decompressed(body))) for seq, body in rows)
        return next(found, None)

    def topic_name(self, id: str, seq: int) -> str:
        """The name that a topic's id had at an event; the id if it was unknown."""
        sql = "select name from topic_names where id = ? and seq <= ? order by seq desc limit 1"
        return next((name for (name,) in self._query(sql, id, seq)), id)

    def names(self) -> set[str]:
        """The subjects of all events, as SubjectsOfRecords returns them, and the brokers of
        decisions."""
        brokers = self.keys(f"{DECISION}{BROKER}")
        in_events = {name for (name,) in self._query("select name from names")}
        return in_events | {one.removeprefix(DECISION) for one in brokers}

    def moves(self, places: Iterable[Place], last_seq: int) -> list[MovesRange]:
        """The ranges of moves in these places that begin up to an event, in order."""
        sql = "select first, last from moves where topic = ? and number = ? and first <= ?"
        return sorted(
            (
                MovesRange(place, first, last or self.about.last_seq)
                for place in places
                for first, last in self._query(sql, *place, last_seq)
            ),
            key=attrgetter("first"),
        )

    def facts(self, places: Iterable[Place], last_seq: int) -> Iterator[AnyFact]:
        """The facts in these places up to an event, in order."""
        last = 0
        for one in sorted(chain.from_iterable(map(self._facts_in, places)), key=_ORDER):
            if one.order != last and one.seq <= last_seq:
                yield _decoder(one.number).decode(one.body)
            last = one.order

    def _facts_in(self, place: Place) -> Iterator[_StoredFact]:
        topic, number = place
        if number == WITH_PARTITIONS:
            rows = self._query("select body from facts where topic = ?", topic)
        else:
            sql = "select body from facts where topic = ? and number = ?"
            rows = self._query(sql, topic, number)
        chunks = (_rows_decoder.decode(self._decompressed(body)) for (body,) in rows)
        return chain.from_iterable(chunks)

    def _query(self, sql: str, *values: str | int) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.ProgrammingError:
            raise  # The caller is wrong, not the file.
        except sqlite3.Error as error:
            raise self._corrupt_index_error(error) from error

    def _decompressed(self, body: bytes) -> bytes:
        try:
            return zlib.decompress(body)
        except zlib.error as error:
            raise self._corrupt_index_error(error) from error

    def _corrupt_index_error(self, error: Exception) -> LogCorrupt:
        return LogCorrupt(self._path, f"{error}: delete it; it can be made again")


def has_index(reader: LogReader) -> bool:
    """Whether a log has an index that can be used. Then its files were checked when the index was
    made: their sizes and times are the same since."""
    index = EventIndex.open_for(reader)
    if index is None:
        return False
    index.close()
    return True


_ORDER: Final = attrgetter("order")
_KINDS: Final = get_args(AnyFact)
_NUMBER_OF: Final = {kind: number for number, kind in enumerate(_KINDS)}
_encode: Final = msgspec.msgpack.Encoder().encode
_rows_decoder: Final = msgspec.msgpack.Decoder(list[_StoredFact])
_decisions_decoder: Final = msgspec.msgpack.Decoder(DerivedDecision)
_begun_decoder: Final = msgspec.msgpack.Decoder(dict[str, tuple[int, ...]])
_controller_decoder: Final = msgspec.msgpack.Decoder(ControllerFromLogs)


@cache
def _decoder(number: int) -> msgspec.msgpack.Decoder[AnyFact]:
    """Made when it is needed: all of them take longer than the start of a command."""
    return msgspec.msgpack.Decoder(_KINDS[number])
