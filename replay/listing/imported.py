"""The events and decisions of an imported log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.commands import WriteAtomically, WriteZnodes
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.records import EventRecord
from replay.agreement.trace.controller_trace import ControllerTrace
from replay.description.choices import leader_choice
from replay.description.imported_events import imported_event_in_words, transaction_in_words
from replay.listing.begun_procedures import WatchedChanges
from replay.listing.values import ListedDecision, ListedEvent, listed_event
from replay.logs.subject_index import RecordSubjects
from replay.progress import Progress
from replay.shadow_folds import DerivedWrites, ShadowCommand, ShadowObserver, shadow_folds
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import (
    DecisionObserved,
    ImportedEvent,
)
from replay.stock_clusters.imported_log.reading import ImportedLog, ImportedRecord
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from replay.subjects import paths_of_command, paths_of_transaction, subjects_of_transaction
from replay.times import iso_time

CLASSIFIED_WITHIN: Final = 2
"""At most this many records after a transaction classify it."""


def events(log: ImportedLog, first: int, last: int, progress: Progress) -> Iterator[ListedEvent]:
    """Each record of a range. Raises ReplayError, LogError."""
    describe = RecordDescriber(log.begun.chroot)
    for record, event in from_transaction(log.reader, first, last):
        progress("reading", record.seq, last)
        if record.seq < first:
            describe.skip(event)
        else:
            yield describe(record, event)


def from_transaction(
    reader: LogReader, first: int, last: int | None = None
) -> Iterator[ImportedRecord]:
    """The records of a range, after those before it that contain the transaction that the first
    one can classify. Raises ReplayError, LogError."""
    wanted = EventFilter(first_seq=max(1, first - CLASSIFIED_WITHIN), last_seq=last)
    return ((record, event_of(record)) for record in reader.events(wanted))


class RecordDescriber:
    """Describes the records of an imported log, in order."""

    def __init__(self, chroot: str) -> None:
        self._chroot = chroot
        self._subjects = RecordSubjects(chroot)

    def skip(self, event: ImportedEvent) -> None:
        """The next record is not described."""
        self._subjects(event)

    def __call__(self, record: EventRecord, event: ImportedEvent) -> ListedEvent:
        """The item for the next record."""
        subjects = self._subjects(event)
        return listed_event(record, imported_event_in_words(event, self._chroot), subjects)


def decisions(
    log: ImportedLog, first: int, last: int, progress: Progress
) -> Iterator[ListedDecision]:
    """The decisions of a stock controller in a range, each with the rule by which a shadow fold
    decides the same. Raises ReplayError, LogError."""
    return (one.listed for one in DerivedDecisions.derive(log, progress).between(first, last))


class DerivedDecision(NamedTuple):
    """A decision, and the record since which the controller processed its controller event; None
    if no shadow fold decides the same."""

    listed: ListedDecision
    since: int | None


class DerivedDecisions:
    """The decisions of an imported log, with the reasons of the shadow folds that decide the same.
    `sessions` has the commands of these folds."""

    def __init__(
        self, log: ImportedLog, sessions: Iterable[tuple[ControllerTrace, list[ShadowCommand]]]
    ) -> None:
        self._log = log
        self._before: tuple[EventRecord, Transaction] | None = None
        """The last transaction, if no record has classified it as a decision."""
        self._derived: DerivedWrites[ShadowCommand] = DerivedWrites()
        self.procedures: dict[int, dict[str, tuple[int, ...]]] = {}
        """The procedures of the shadow folds, by the record at which each began, each with the
        earlier records that caused it. These are known once `take` has reached the record."""
        self._queued: dict[tuple[int, str], int] = {}
        self._changes = WatchedChanges(log.begun.chroot)
        for trace, commands in sessions:
            self._derived.add(trace, _writes(commands))
            for one in commands:
                self.procedures.setdefault(one.since, {})[one.cause] = ()
                self._queued[one.since, one.cause] = one.queued

    @classmethod
    def derive(cls, log: ImportedLog, progress: Progress) -> DerivedDecisions:
        """Runs the shadow folds. Raises ReplayError, LogError."""
        found = shadow_folds(log.reader, ShadowObserver, progress=progress)
        return cls(
            log, ((trace, observer.commands) for one in found for trace, observer in one.sessions)
        )

    def between(self, first: int, last: int) -> Iterator[DerivedDecision]:
        """The decisions of a range. Raises ReplayError, LogError."""
        self._before = None
        self._changes = WatchedChanges(self._log.begun.chroot)
        wanted = EventFilter(first_seq=first, last_seq=last + 1)
        for record in self._log.reader.events(wanted):
            found = self.apply(record, event_of(record))
            if found is not None and found.listed.seq <= last:
                yield found

    def apply(self, record: EventRecord, event: ImportedEvent) -> DerivedDecision | None:
        """The decision that a record completes. Called with the records in order."""
        before = self._before
        begun = self.procedures.get(record.seq, {})
        for name in begun:
            begun[name] = self._changes.causes(name, self._queued[record.seq, name])
        if isinstance(event, Transaction):
            self._before = (record, event)
            self._changes.note(record.seq, event)
        elif isinstance(event, DecisionObserved) and before is not None:
            self._before = None
            return _decision(*before, event, self._log.begun.chroot, self._derived)
        return None


_ELECTION: Final = "election"


def _writes(commands: list[ShadowCommand]) -> Iterator[tuple[int, str, ShadowCommand]]:
    for one in commands:
        if isinstance(one.issued.command, WriteZnodes | WriteAtomically):
            for path in paths_of_command(one.issued.command):
                yield one.seq, path, one


def _decision(
    record: EventRecord,
    transaction: Transaction,
    observed: DecisionObserved,
    chroot: str,
    derived: DerivedWrites[ShadowCommand],
) -> DerivedDecision:
    paths = paths_of_transaction(transaction, chroot)
    if observed.what == _ELECTION and not paths:
        # Refused at its first write, so the transaction has no paths.
        paths = [znodes.CONTROLLER]
    verdict, write = derived.match(record.seq, paths)
    subjects = subjects_of_transaction(transaction, chroot)
    reason = write.issued.reason if write else None
    choices = [leader_choice(one) for one in reason.choices] if reason else []
    listed = ListedDecision(
        record.seq,
        iso_time(record.wall_ns),
        observed.epoch,
        observed.broker,
        observed.what,
        "",
        transaction_in_words(transaction, chroot),
        reason.rule if reason else "",
        # A write of many partitions has choices that the transaction is not about.
        [one for one in choices if one.partition in subjects],
        subjects,
        verdict,
        observed.is_kraft,
    )
    return DerivedDecision(listed, write.since if write else None)
