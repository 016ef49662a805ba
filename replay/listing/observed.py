"""The events and decisions of an imported log."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from controller.core import znodes
from eventstore.filters import EventFilter
from eventstore.records import EventRecord
from replay.description.choices import Chosen, chosen
from replay.description.imported_events import imported_event_in_words, transaction_in_words
from replay.listing.values import Decision, ListedEvent
from replay.progress import Progress
from replay.shadow_folds import Noted, ShadowObserver, shadow_folds
from replay.stock_clusters.agreement.decisions.judgements import Judgement
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import Observed, RequestInferred, WorldEvent
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
    record: EventRecord, event: WorldEvent, chroot: str, subjects: tuple[str, ...]
) -> ListedEvent:
    broker = getattr(event, "broker", -1)
    if broker >= 0:
        subjects = (*subjects, f"broker {broker}")
    return ListedEvent(
        record.seq,
        iso_time(record.wall_ns),
        record.term,
        record.kind,
        record.channel,
        record.cause,
        imported_event_in_words(event, chroot),
        subjects,
    )


def decisions(log: ImportedLog, first: int, last: int, progress: Progress) -> Iterator[Decision]:
    """The decisions of a stock controller in a range, each with the rule by which a shadow fold
    decides the same. Raises ReplayError, LogError."""
    derivation = _Derivation(log, progress)
    before: tuple[EventRecord, Transaction] | None = None
    for record in log.reader.events(EventFilter(first_seq=first, last_seq=last + 1)):
        event = event_of(record)
        if isinstance(event, Transaction) and record.seq <= last:
            before = (record, event)
        elif isinstance(event, Observed) and before is not None:
            yield derivation.decision(*before, event, log.begun.chroot)
            before = None


_ELECTION: Final = "election"
_JUDGED: Final = ("agreed", "differs", "missing")


class _Derivation:
    """The verdict on each decision, and the matching write of the shadow fold."""

    def __init__(self, log: ImportedLog, progress: Progress) -> None:
        self._judged: dict[int, tuple[Judgement, dict[str, list[Noted]]]] = {}
        for found in shadow_folds(log.reader, ShadowObserver, progress=progress):
            for trace, observer in found.sessions:
                writes = _by_path(observer.noted)
                for one in trace.judgements:
                    if one.verdict in _JUDGED:
                        self._judged[one.seq] = (one, writes)

    def decision(
        self, record: EventRecord, transaction: Transaction, observed: Observed, chroot: str
    ) -> Decision:
        """One decision of the log."""
        found = self._judged.get(record.seq)
        paths = paths_of_transaction(transaction, chroot)
        if observed.what == _ELECTION and not paths:
            # Refused at its first write, so the transaction has no paths.
            paths = [znodes.CONTROLLER]
        write = _write_of(found[1], paths, record.seq) if found else None
        subjects = subjects_of_transaction(transaction, chroot)
        return Decision(
            record.seq,
            iso_time(record.wall_ns),
            observed.epoch,
            observed.broker,
            observed.what,
            "",
            transaction_in_words(transaction, chroot),
            write.issued.reason.rule if write else "",
            _choices(write, subjects) if write else [],
            subjects,
            found[0].verdict if found else "",
        )


def _choices(write: Noted, subjects: tuple[str, ...]) -> list[Chosen]:
    """The choices of a write for the partitions that the transaction is about."""
    choices = (chosen(one) for one in write.issued.reason.choices)
    return [one for one in choices if one.partition in subjects]


def _by_path(noted: list[Noted]) -> dict[str, list[Noted]]:
    """The writes of a fold, by path."""
    found: dict[str, list[Noted]] = defaultdict(list)
    for one in noted:
        if hasattr(one.issued.command, "operations"):
            for path in paths_of_command(one.issued.command):
                found[path].append(one)
    return found


def _write_of(writes: dict[str, list[Noted]], paths: list[str], seq: int) -> Noted | None:
    """The last write of the fold to a znode that a transaction writes."""
    for path in reversed(paths):
        for one in reversed(writes.get(path, ())):
            if one.seq <= seq:
                return one
    return None
