"""Which events have a subject, kind, rule or term, and which cause a decision that has one.

Most of this is in the log, so that processes find it for several ranges of events at once, without
a fold. Only a fold knows the names of topics that an event names by ids, and the commands that the
log does not have as they were derived. A posting may contain more events than those that match.
"""

import re
import zlib
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.canonical import decode_command, decode_reason, kind_of
from controller.core.commands import Command, CommandId, Issued
from controller.core.events import BrokerResponded, Event, WatchFired, ZnodesWritten
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.records import CommandRecord
from replay.garbage_collection import rare_garbage_collection
from replay.listing.imported import from_transaction
from replay.listing.recorded import WRITES
from replay.logs.decode import UPCASTERS, decode_recorded
from replay.logs.subject_index import RecordSubjects
from replay.stock_clusters.imported_log.reading import open_imported
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from replay.subjects import (
    paths_of_command,
    paths_of_transaction,
    subject_of,
    subjects_of_command,
    subjects_of_event,
)

_COMMANDS_REMEMBERED: Final = 100_000
_REASONS_REMEMBERED: Final = 4096
RULE: Final = "rule "
PROCEDURE: Final = "procedure "
DECISION: Final = "decision "
"""The keys of postings begin with these."""
_ID: Final = re.compile("[0-9a-f]{32}")

Pages = Mapping[str, bytes]
"""Numbers of events by the key of their posting, compressed."""


class Postings:
    """Collects the postings of consecutive events."""

    def __init__(self) -> None:
        self.count = 0
        self._numbers: defaultdict[str, array[int]] = defaultdict(lambda: array("q"))
        self._known: dict[tuple[str, tuple[object, ...]], list[array[int]]] = {}

    def add(self, prefix: str, names: tuple[object, ...], seq: int) -> None:
        """An event belongs to the postings of these names; `prefix` says what the names are."""
        known = self._known.get((prefix, names))
        if known is None:
            known = [self._numbers[f"{prefix}{one}"] for one in dict.fromkeys(names)]
            self._known[prefix, names] = known
        for numbers in known:
            if not numbers or numbers[-1] != seq:
                numbers.append(seq)
                self.count += 1

    def take(self) -> Pages:
        """Remove and return what was collected."""
        found = {key: zlib.compress(one.tobytes(), 1) for key, one in self._numbers.items()}
        self._numbers.clear()
        self._known.clear()
        self.count = 0
        return found


class RangePostings(Struct, frozen=True):
    """The postings that the log has for a range of events, and the subjects of these events as
    SubjectsOfRecords returns them."""

    pages: Pages
    names: list[str]


def postings_of_range(path: Path, first: int, last: int) -> RangePostings:
    """Read a range of events and their commands. Raises LogError, ReplayError."""
    postings, names, seen = Postings(), dict[str, None](), set[tuple[str, ...]]()
    with LogReader(path, UPCASTERS) as reader, rare_garbage_collection():
        stored = _StoredCommands(reader, postings)
        for record, commands in reader.records(EventFilter(first_seq=first, last_seq=last)):
            seq = record.seq
            event = decode_recorded(record).event
            found = tuple(subjects_of_event(event, str))
            command: CommandId | None = getattr(event, "command", None)
            if command is not None:
                found += stored.named(command).subjects
            if found not in seen:
                seen.add(found)
                names |= dict.fromkeys(found)
            if isinstance(event, WatchFired):
                found += znode_names([event.path])
            elif isinstance(event, ZnodesWritten):
                found += stored.named(event.command).znodes
            postings.add("event ", (f"kind {record.kind}", f"term {record.term}", *found), seq)
            for one in commands:
                stored.add(one)
    return RangePostings(postings.take(), list(names))


def postings_of_imported_range(path: Path, first: int, last: int) -> RangePostings:
    """The postings of a range of records of an imported log. Raises LogError, ReplayError."""
    postings, names = Postings(), dict[str, None]()
    with LogReader(path, UPCASTERS) as reader, rare_garbage_collection():
        chroot = open_imported(reader).begun.chroot
        subjects_of = RecordSubjects(chroot)
        for record, event in from_transaction(reader, first, last):
            found = subjects_of(event)
            if record.seq < first:
                continue
            names |= dict.fromkeys(found)
            if isinstance(event, Transaction):
                found += znode_names(paths_of_transaction(event, chroot))
            kind, term = f"kind {record.kind}", f"term {record.term}"
            postings.add("event ", (kind, term, *found), record.seq)
    return RangePostings(postings.take(), list(names))


class _StoredCommands:
    """The subjects of commands whose bodies the log has."""

    def __init__(self, reader: LogReader, postings: Postings) -> None:
        self._reader = reader
        self._postings = postings
        self._named: dict[CommandId, _Named] = {}

    def add(self, record: CommandRecord) -> None:
        """The next command."""
        postings, seq = self._postings, record.cause
        found = _named_by_record(record)
        self._named[CommandId(seq, record.ordinal)] = found
        postings.add(RULE, (_rule(record.reason),), seq)
        of_kind = (f"kind {record.kind}", f"term {record.term}")
        postings.add(DECISION, (*of_kind, *found.subjects), seq)
        if len(self._named) > _COMMANDS_REMEMBERED:
            del self._named[next(iter(self._named))]

    def named(self, command: CommandId) -> "_Named":
        """The names in an earlier command; empty if the log does not have its body."""
        found = self._named.get(command)
        if found is None:
            records = self._reader.commands_caused_by([command.cause])
            of_id = (one for one in records if one.ordinal == command.ordinal)
            found = next(map(_named_by_record, of_id), _NOTHING)
        return found


class _Named(NamedTuple):
    """The subjects of a command, and the znodes that belong to none and that it writes."""

    subjects: tuple[str, ...] = ()
    znodes: tuple[str, ...] = ()


_NOTHING: Final = _Named()


def _named_by(command: Command) -> _Named:
    subjects = tuple(dict.fromkeys(subjects_of_command(command)))
    written = paths_of_command(command) if isinstance(command, WRITES) else ()
    return _Named(subjects, znode_names(written))


def _named_by_record(record: CommandRecord) -> _Named:
    if record.body is not None:
        with suppress(msgspec.DecodeError):
            return _named_by(decode_command(record.body))
    return _NOTHING


def znode_names(paths: Iterable[str]) -> tuple[str, ...]:
    """The postings of events for written znodes of no topic, partition or broker."""
    return tuple(f"znode {one}" for one in paths if not subject_of(one).names)


@lru_cache(_REASONS_REMEMBERED)
def _rule(reason: bytes) -> str:
    with suppress(msgspec.DecodeError):
        return decode_reason(reason).rule
    return ""


class FoldPostings:
    """The postings that only a fold knows. Called with the events in order."""

    def __init__(
        self, topic_name: Callable[[str], str], add_topic_name: Callable[[str, int, str], None]
    ) -> None:
        """`topic_name` returns the name of a topic by its id. `add_topic_name` is called with an
        id, the event from which on the id has this name, and the name."""
        self.postings = Postings()
        self._topic_name = topic_name
        self._add_topic_name = add_topic_name
        self._known_ids: dict[str, str] = {}
        self._inexact: dict[CommandId, _Named] = {}
        """The names in derived commands that the log does not have in this form."""

    def add(
        self, seq: int, event: Event, inexact: Sequence[Issued], begun: Iterable[str] = ()
    ) -> None:
        """The next event, those of its commands that are inexact, and the procedures that begin."""
        self.postings.add(PROCEDURE, tuple(begun), seq)
        kind = type(event)
        if kind is AlterPartitionReceived or kind is BrokerResponded:
            self._add_ids(seq, event)
        for one in inexact:
            self._add_command(seq, one)
        if self._inexact:
            command: CommandId | None = getattr(event, "command", None)
            if command is not None and (found := self._inexact.get(command)):
                self.postings.add("event ", found.subjects, seq)
                if isinstance(event, ZnodesWritten):
                    self.postings.add("event ", found.znodes, seq)

    def _add_ids(self, seq: int, event: Event) -> None:
        ids: dict[str, str] = {}

        def name_of(id: str) -> str:
            name = ids[id] = self._topic_name(id)
            if self._known_ids.get(id) != name:
                self._known_ids[id] = name
                self._add_topic_name(id, seq, name)
            return name

        if isinstance(event, BrokerResponded):
            for topic, _, _ in event.partition_errors:
                if _ID.fullmatch(topic):
                    name_of(topic)
        elif isinstance(event, AlterPartitionReceived) and event.version > 1:
            self.postings.add("event ", tuple(subjects_of_event(event, name_of)), seq)

    def _add_command(self, seq: int, issued: Issued) -> None:
        postings = self.postings
        found = self._inexact[issued.id] = _named_by(issued.command)
        of_kind = (f"kind {kind_of(issued.command)}", f"term {issued.term}")
        postings.add(RULE, (issued.reason.rule,), seq)
        postings.add(DECISION, (*of_kind, *found.subjects), seq)
        if len(self._inexact) > _COMMANDS_REMEMBERED:
            del self._inexact[next(iter(self._inexact))]


def ranges(first: int, last: int, parts: int, events_max: int) -> Iterator[tuple[int, int]]:
    """Ranges of about equal size, of at most `events_max` events."""
    count = last - first + 1
    if count <= 0:
        return
    size = min(events_max, -(-count // parts))
    for begin in range(first, last + 1, size):
        yield begin, min(begin + size - 1, last)


def numbers_of(pages: Iterable[bytes]) -> "array[int]":
    """The numbers in the pages of a posting. Raises zlib.error."""
    found = array("q")
    for body in pages:
        found.frombytes(zlib.decompress(body))
    return found
