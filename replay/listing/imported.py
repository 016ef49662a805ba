"""The events and decisions of an imported log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.commands import WriteAtomically, WriteZnodes
from eventstore.filters import EventFilter
from eventstore.records import EventRecord
from replay.agreement.trace.controller_trace import ControllerTrace
from replay.description.choices import leader_choice
from replay.description.imported_events import imported_event_in_words, transaction_in_words
from replay.listing.values import ListedDecision, ListedEvent, listed_event
from replay.progress import Progress
from replay.shadow_folds import DerivedWrites, ShadowCommand, ShadowObserver, shadow_folds
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import (
    DecisionObserved,
    ImportedEvent,
    RequestInferred,
)
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from replay.subjects import paths_of_command, paths_of_transaction, subjects_of_transaction
from replay.times import iso_time


def events(log: ImportedLog, first: int, last: int, progress: Progress) -> Iterator[ListedEvent]:
    """Each record of a range. Raises ReplayError, LogError."""
    describe = RecordDescriber(log.begun.chroot)
    for record in log.reader.events(EventFilter(first_seq=first, last_seq=last)):
        progress("reading", record.seq, last)
        yield describe(record, event_of(record))


class RecordDescriber:
    """Describes the records of an imported log, in order."""

    def __init__(self, chroot: str) -> None:
        self._chroot = chroot
        self._subjects: tuple[str, ...] = ()

    def __call__(self, record: EventRecord, event: ImportedEvent) -> ListedEvent:
        """The item for the next record."""
        if isinstance(event, Transaction):
            self._subjects = subjects_of_transaction(event, self._chroot)
        # A record that classifies a transaction directly follows the transaction.
        of_transaction = isinstance(event, (Transaction, DecisionObserved, RequestInferred))
        subjects = self._subjects if of_transaction else ()
        broker = getattr(event, "broker", -1)
        if broker >= 0:
            subjects = (*subjects, f"broker {broker}")
        return listed_event(record, imported_event_in_words(event, self._chroot), subjects)


def decisions(
    log: ImportedLog, first: int, last: int, progress: Progress
) -> Iterator[ListedDecision]:
    """The decisions of a stock controller in a range, each with the rule by which a shadow fold
    decides the same. Raises ReplayError, LogError."""
    return (one.listed for one in DerivedDecisions.of(log, progress).between(first, last))


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
        self._derived: DerivedWrites[ShadowCommand] = DerivedWrites()
        self.procedures: dict[int, dict[str, None]] = {}
        """The procedures of the shadow folds, by the record at which each began."""
        for trace, commands in sessions:
            self._derived.add(trace, _writes(commands))
            for one in commands:
                self.procedures.setdefault(one.since, {})[one.cause] = None

    @classmethod
    def of(cls, log: ImportedLog, progress: Progress) -> DerivedDecisions:
        """Runs the shadow folds. Raises ReplayError, LogError."""
        found = shadow_folds(log.reader, ShadowObserver, progress=progress)
        return cls(
            log, ((trace, observer.commands) for one in found for trace, observer in one.sessions)
        )

    def between(self, first: int, last: int) -> Iterator[DerivedDecision]:
        """The decisions of a range. Raises ReplayError, LogError."""
        chroot = self._log.begun.chroot
        before: tuple[EventRecord, Transaction] | None = None
        for record in self._log.reader.events(EventFilter(first_seq=first, last_seq=last + 1)):
            event = event_of(record)
            if isinstance(event, Transaction) and record.seq <= last:
                before = (record, event)
            elif isinstance(event, DecisionObserved) and before is not None:
                yield _decision(*before, event, chroot, self._derived)
                before = None


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
    )
    return DerivedDecision(listed, write.since if write else None)
