"""The events and decisions of an imported log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from controller.core import znodes
from controller.core.commands import Issued, WriteAtomically, WriteZnodes
from eventstore.filters import EventFilter
from eventstore.records import EventRecord
from replay.agreement.trace.controller_trace import ControllerTrace
from replay.description.choices import chosen
from replay.description.imported_events import imported_event_in_words, transaction_in_words
from replay.listing.values import ListedDecision, ListedEvent, listed_event
from replay.progress import Progress
from replay.shadow_folds import DerivedWrites, ShadowCommand, ShadowObserver, shadow_folds
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import ImportedEvent, Observed, RequestInferred
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from replay.subjects import paths_of_command, paths_of_transaction, subjects_of_transaction
from replay.times import iso_time


def events(log: ImportedLog, first: int, last: int, progress: Progress) -> Iterator[ListedEvent]:
    """Each record of a range. Raises ReplayError, LogError."""
    subjects: tuple[str, ...] = ()
    for record in log.reader.events(EventFilter(first_seq=first, last_seq=last)):
        progress("reading", record.seq, last)
        event = event_of(record)
        if isinstance(event, Transaction):
            subjects = subjects_of_transaction(event, log.begun.chroot)
        # A record that classifies a transaction directly follows the transaction.
        of_transaction = isinstance(event, (Transaction, Observed, RequestInferred))
        yield _listed(record, event, log.begun.chroot, subjects if of_transaction else ())


def _listed(
    record: EventRecord, event: ImportedEvent, chroot: str, subjects: tuple[str, ...]
) -> ListedEvent:
    broker = getattr(event, "broker", -1)
    if broker >= 0:
        subjects = (*subjects, f"broker {broker}")
    return listed_event(record, imported_event_in_words(event, chroot), subjects)


def decisions(
    log: ImportedLog,
    first: int,
    last: int,
    progress: Progress,
    derived: DerivedWrites[Issued] | None = None,
) -> Iterator[ListedDecision]:
    """The decisions of a stock controller in a range, each with the rule by which a shadow fold
    decides the same. `derived` are the writes of shadow folds that were run before. Raises
    ReplayError, LogError."""
    if derived is None:
        derived = _derived_writes(log, progress)
    before: tuple[EventRecord, Transaction] | None = None
    for record in log.reader.events(EventFilter(first_seq=first, last_seq=last + 1)):
        event = event_of(record)
        if isinstance(event, Transaction) and record.seq <= last:
            before = (record, event)
        elif isinstance(event, Observed) and before is not None:
            yield _decision(*before, event, log.begun.chroot, derived)
            before = None


_ELECTION: Final = "election"


def _derived_writes(log: ImportedLog, progress: Progress) -> DerivedWrites[Issued]:
    found = shadow_folds(log.reader, ShadowObserver, progress=progress)
    return derived_writes(
        (trace, observer.commands) for one in found for trace, observer in one.sessions
    )


def derived_writes(
    sessions: Iterable[tuple[ControllerTrace, list[ShadowCommand]]],
) -> DerivedWrites[Issued]:
    """The writes among the commands of shadow folds."""
    derived: DerivedWrites[Issued] = DerivedWrites()
    for trace, commands in sessions:
        derived.add(trace, _writes(commands))
    return derived


def _writes(commands: list[ShadowCommand]) -> Iterator[tuple[int, str, Issued]]:
    for one in commands:
        if isinstance(one.issued.command, WriteZnodes | WriteAtomically):
            for path in paths_of_command(one.issued.command):
                yield one.seq, path, one.issued


def _decision(
    record: EventRecord,
    transaction: Transaction,
    observed: Observed,
    chroot: str,
    derived: DerivedWrites[Issued],
) -> ListedDecision:
    paths = paths_of_transaction(transaction, chroot)
    if observed.what == _ELECTION and not paths:
        # Refused at its first write, so the transaction has no paths.
        paths = [znodes.CONTROLLER]
    verdict, write = derived.match(record.seq, paths)
    subjects = subjects_of_transaction(transaction, chroot)
    choices = [chosen(one) for one in write.reason.choices] if write else []
    return ListedDecision(
        record.seq,
        iso_time(record.wall_ns),
        observed.epoch,
        observed.broker,
        observed.what,
        "",
        transaction_in_words(transaction, chroot),
        write.reason.rule if write else "",
        # A write of many partitions has choices that the transaction is not about.
        [one for one in choices if one.partition in subjects],
        subjects,
        verdict,
    )
