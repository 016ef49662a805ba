"""Events and decisions of an imported log."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from msgspec import Struct

from controller.core import znodes
from controller.core.commands import Issued
from controller.core.fold_observer import FoldObserver
from eventstore.filters import EventFilter
from eventstore.records import EventRecord
from replay.inspect.at import Advance
from replay.listing.subjects import paths_of_command, paths_of_transaction, subjects_of_path
from replay.listing.values import Chosen, Decision, ListedEvent, chosen
from replay.stock_clusters.agreement.comparison import agreeing_on, lost_replies, told
from replay.stock_clusters.agreement.decisions.judgements import Judgement
from replay.stock_clusters.agreement.gap_free_ranges import gap_free_ranges
from replay.stock_clusters.agreement.trace.checkpoint import Checkpointed
from replay.stock_clusters.agreement.trace.controller_trace import ControllerTrace
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import Observed, RequestInferred, WorldEvent
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from replay.times import iso_time
from replay.wording.world_in_words import in_words, transaction_in_words
from replay.world.paths import below


def events(log: ImportedLog, first: int, last: int, advance: Advance) -> Iterator[ListedEvent]:
    """Each record of a range. Raises ReplayError, LogError."""
    subjects: tuple[str, ...] = ()
    for record in log.reader.events(EventFilter(first_seq=first, last_seq=last)):
        advance("reading", record.seq, last)
        event = event_of(record)
        if isinstance(event, Transaction):
            subjects = _subjects(event, log.begun.chroot)
        # What a transaction is found to be stands right behind it.
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
        in_words(event, chroot),
        subjects,
    )


def _subjects(transaction: Transaction, chroot: str) -> tuple[str, ...]:
    paths = _paths(transaction, chroot)
    return tuple(dict.fromkeys(chain.from_iterable(map(subjects_of_path, paths))))


def _paths(transaction: Transaction, chroot: str) -> list[str]:
    """What it is about, as Kafka knows it."""
    known = (below(path, chroot) for path in paths_of_transaction(transaction))
    return [path for path in known if path is not None]


def decisions(log: ImportedLog, first: int, last: int, advance: Advance) -> Iterator[Decision]:
    """What a stock controller decided in a range, each with the rule by which the fold beside it
    decides the same. Raises ReplayError, LogError."""
    explained = _Explained(log, advance)
    before: tuple[EventRecord, Transaction] | None = None
    for record in log.reader.events(EventFilter(first_seq=first, last_seq=last + 1)):
        event = event_of(record)
        if isinstance(event, Transaction) and record.seq <= last:
            before = (record, event)
        elif isinstance(event, Observed) and before is not None:
            yield explained.decision(*before, event, log.begun.chroot)
            before = None


_ELECTION: Final = "election"


class _Wrote(Struct, frozen=True):
    """A write of the fold, when the log was at record `seq`."""

    seq: int
    issued: Issued


class _Following(FoldObserver, Checkpointed):
    """Notes by path what the fold of a session writes."""

    STATE = ("wrote",)

    def __init__(self, stock: ControllerTrace) -> None:
        self._beside = stock.fold
        self.wrote: dict[str, tuple[_Wrote, ...]] = {}
        stock.fold.controller.observer = self

    def issues(self, issued: Issued) -> None:
        if hasattr(issued.command, "operations"):
            for path in paths_of_command(issued.command):
                wrote = _Wrote(self._beside.seq, issued)
                self.wrote[path] = (*self.wrote.get(path, ()), wrote)


class _Explained:
    """The verdict on each decision, and the write of the fold that goes with it."""

    def __init__(self, log: ImportedLog, advance: Advance) -> None:
        last = log.reader.last_seq
        stocks: list[ControllerTrace] = []

        def follow(stock: ControllerTrace) -> None:
            _Following(stock)
            stocks.append(stock)

        replies = lost_replies(log.reader, advance=advance)
        for world in gap_free_ranges(log.reader):
            agreeing = agreeing_on(world, last, "kafka", None, advance, follow, replies=replies)
            agreeing.run(told(world, "deriving decisions", last, advance))
        self._judged: dict[int, tuple[Judgement, ControllerTrace]] = {
            one.seq: (one, stock)
            for stock in stocks
            for one in stock.judgements
            if one.verdict in ("agreed", "differs", "missing")
        }

    def decision(
        self, record: EventRecord, transaction: Transaction, observed: Observed, chroot: str
    ) -> Decision:
        """One decision of the log."""
        found = self._judged.get(record.seq)
        paths = _paths(transaction, chroot)
        if observed.what == _ELECTION and not paths:
            # Refused at its first write: the transaction names none.
            paths = [znodes.CONTROLLER]
        wrote = _write_of(found[1], paths, record.seq) if found else None
        subjects = _subjects(transaction, chroot)
        return Decision(
            record.seq,
            iso_time(record.wall_ns),
            observed.epoch,
            observed.broker,
            observed.what,
            "",
            transaction_in_words(transaction, chroot),
            wrote.issued.reason.rule if wrote else "",
            _choices(wrote, subjects) if wrote else [],
            subjects,
            found[0].verdict if found else "",
        )


def _choices(wrote: _Wrote, subjects: tuple[str, ...]) -> list[Chosen]:
    """Of a write of many partitions those that the transaction is about."""
    told = (chosen(one) for one in wrote.issued.reason.choices)
    return [one for one in told if one.partition in subjects]


def _write_of(stock: ControllerTrace, paths: list[str], seq: int) -> _Wrote | None:
    """The last write of the fold of what a transaction writes."""
    follower = stock.fold.controller.observer
    assert isinstance(follower, _Following), "it was put there"
    for path in reversed(paths):
        for one in reversed(follower.wrote.get(path, ())):
            if one.seq <= seq:
                return one
    return None
