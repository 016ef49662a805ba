"""Writes an imported log: the first state, transactions with their classification, and lines."""

from collections.abc import Iterator
from heapq import merge
from operator import attrgetter

from replay.stock_clusters.imported_log.events import (
    DecisionObserved,
    ImportBegun,
    ImportEnded,
    ImportResumed,
    LoggedEvent,
    TransactionsMissing,
)
from replay.stock_clusters.imported_log.state_events import apply, changed_events, restored_events
from replay.stock_clusters.imports.decisions import DecisionClassifier
from replay.stock_clusters.imports.digests import Digests
from replay.stock_clusters.imports.kafka_root import KafkaRoot, check_only
from replay.stock_clusters.imports.logged_requests import LoggedRequests
from replay.stock_clusters.imports.records import Records
from replay.stock_clusters.imports.report import ImportCounts
from replay.stock_clusters.imports.terms import Terms
from replay.stock_clusters.imports.versions import Versions
from replay.stock_clusters.zookeeper_log.gap_resolution import GapResolver, Resumption
from replay.stock_clusters.zookeeper_log.merging import Gap
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.transactions import Create, Transaction

_OWN_CHANNEL = "import"


class LogBuilder:
    """Writes one log. Transactions are given in the order of zxids, and applied to `state`."""

    def __init__(
        self,
        state: ZooKeeperState,
        root: KafkaRoot,
        requests: LoggedRequests,
        counts: ImportCounts,
        records: Records,
    ) -> None:
        self._state = state
        self._root = root
        self._terms = Terms(root.chroot, state.tree)
        self._decisions = DecisionClassifier(root.chroot, state.tree, self._terms, requests)
        self._counts = counts
        self._records = records
        self.versions = Versions(state.tree)
        self.digests = Digests(state.tree)
        self.elected_ms: dict[int, int] = {}
        self._last_ms = counts.from_ms or 0
        self._channels: dict[int, str] = {}

    def begin(self, begun: ImportBegun, time_ms: int | None = None) -> None:
        """Write the first state, at a wall clock if `ImportCounts` did not have it before."""
        self._last_ms = self._last_ms if time_ms is None else time_ms
        for event in (begun, *restored_events(self._state)):
            self._records.add(event, self._last_ms, self._term(), _OWN_CHANNEL)
        self._counts.restored_sessions = len(self._state.sessions)

    def follow(
        self,
        transactions: Iterator[Transaction],
        resuming: GapResolver,
        logged: Iterator[LoggedEvent],
    ) -> None:
        """Write transactions and lines of brokers' logs, in the order of time."""
        if resuming.gap is not None:
            self.add_gap(resuming.gap, self._last_ms)
        merged: Iterator[Transaction | LoggedEvent] = merge(
            transactions, logged, key=attrgetter("time_ms")
        )
        for one in merged:
            if isinstance(one, Transaction):
                for met in resuming.before(one):
                    if isinstance(met, Gap):
                        self.add_gap(met, one.time_ms)
                    else:
                        self._resume(met, one.time_ms)
                self.transaction(one, resuming.file)
            else:
                self.line(one)

    def end(self, ended: ImportEnded) -> None:
        """Write the last record."""
        self._counts.terms = self._terms.seen
        self._records.add(ended, self._last_ms, self._term(), _OWN_CHANNEL)
        self._counts.events = self._records.count

    def line(self, one: LoggedEvent) -> None:
        """Write a line of a broker's log."""
        self._counts.broker_event(one.event)
        self._records.add(one.event, one.time_ms, self._term(), one.channel)

    def transaction(self, transaction: Transaction, file: str) -> None:
        """Write a transaction of a file, with its classification."""
        self.versions.check(transaction, file)
        if self._root.is_only and isinstance(transaction.content, Create):
            check_only(self._root, transaction.content.path)
        found = self._decisions.classify(transaction)
        # A controller's resignation still belongs to its term.
        before = self._term()
        self._terms.follow(transaction)
        term = self._term() or before
        channel = self._channel(transaction.session)
        time_ms = self._last_ms = transaction.time_ms
        seq = self._records.add(transaction, time_ms, term, channel)
        if isinstance(found, DecisionObserved) and found.what == "election" and not found.error:
            self.elected_ms[found.epoch] = time_ms
        if found is not None:
            self._records.add(found, time_ms, term, channel, seq)
        self._counts.transaction(transaction, found)
        self.digests.before()
        self._state.apply(transaction)
        self.digests.after(transaction, file)

    def add_gap(self, gap: Gap, time_ms: int) -> None:
        """Write that transactions are missing."""
        missing = TransactionsMissing(gap.after, gap.before)
        self.versions.is_known = self.digests.is_known = False
        self._records.add(missing, time_ms, self._term(), _OWN_CHANNEL)

    def _resume(self, found: Resumption, time_ms: int) -> None:
        """The whole state is known again: write what has changed."""
        for event in changed_events(self._state, found.state):
            apply(self._state, event)
            self._records.add(event, time_ms, self._term(), _OWN_CHANNEL)
        self._terms.resume(self._state.tree)
        self.versions.is_known = self.digests.is_known = True
        resumed = ImportResumed(found.snapshot.name, found.snapshot.zxid)
        self._records.add(resumed, time_ms, self._term(), _OWN_CHANNEL)

    def _term(self) -> int:
        current = self._terms.current
        return 0 if current is None else current.epoch

    def _channel(self, session: int) -> str:
        channel = self._channels.get(session)
        if channel is None:
            channel = self._channels[session] = f"session {session & 0xFFFFFFFFFFFFFFFF:#x}"
        return channel
