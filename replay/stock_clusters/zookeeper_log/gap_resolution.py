"""Finds the snapshot that makes ZooKeeper's state known again after missing transactions.

    resuming = GapResolver(source, logs)
    for transaction in logs:
        for met in resuming.before(transaction): ...

The newest snapshot within a gap is used, even if the last few transactions of the gap come after
it; otherwise the next one after the gap. A damaged snapshot is skipped and noted. As a snapshot is
fuzzy, the state is exact only from the first transaction on that the snapshot has no part of.
"""

from collections.abc import Iterator

from msgspec import Struct

from replay.stock_clusters.zookeeper_log.data_folder import SourceFile
from replay.stock_clusters.zookeeper_log.merging import Gap, MergedLogs, follows
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.source import Source
from replay.stock_clusters.zookeeper_log.transactions import Transaction


class Resumption(Struct, frozen=True):
    """ZooKeeper's state before a transaction, by a snapshot and the transactions after it."""

    snapshot: SourceFile
    state: ZooKeeperState


class GapResolver:
    """Follows the transactions of `logs` from the first one on.

    `gap` is the last gap whose result no snapshot has shown yet, None if there is none.
    """

    def __init__(self, source: Source, logs: MergedLogs) -> None:
        self.gap: Gap | None = None
        self._source = source
        self._logs = logs
        self._gaps_met = 0
        self._snapshots = list(source.server.snapshots)
        self._found: Resumption | None = None

    @property
    def file(self) -> str:
        """The file of the last transaction."""
        return self._logs.file

    def before(self, transaction: Transaction) -> Iterator[Gap | Resumption]:
        """The gaps before a transaction, and the states that resolve them, in order. Call this once
        for each transaction."""
        for gap in self._logs.gaps[self._gaps_met :]:
            # The logs may have been read beyond this transaction.
            if gap.before <= transaction.zxid:
                self._gaps_met += 1
                self.gap, self._found = gap, None
                yield gap
        if self.gap is None:
            return
        if self._found is None:
            self._found = self._newest_before(transaction.zxid, self.gap)
        if self._found is None:
            return
        if self._found.state.exact_from >= transaction.zxid:
            self._found.state.apply(transaction)
            return
        yield from self._resume_from(self._found, self.gap)

    def _newest_before(self, zxid: int, gap: Gap) -> Resumption | None:
        """The state from the newest usable snapshot after the beginning of the gap."""
        there = 0
        while there < len(self._snapshots) and self._snapshots[there].zxid < zxid:
            there += 1
        behind_gap = [one for one in self._snapshots[:there] if one.zxid > gap.after]
        del self._snapshots[:there]
        usable = self._source.usable(reversed(behind_gap))
        return next((Resumption(snapshot, state) for state, snapshot in usable), None)

    def _resume_from(self, found: Resumption, gap: Gap) -> Iterator[Gap | Resumption]:
        self.gap = self._found = None
        self._source.notes.append(
            f"after zxid {gap.after:#x} the import continues from {found.snapshot.name}"
        )
        yield found
        last = found.snapshot.zxid
        if last < gap.before and not follows(gap.before, last):
            self.gap = Gap(last, gap.before)
            yield self.gap
