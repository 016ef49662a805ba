"""Behind missing transactions: the snapshot from which ZooKeeper's state is known again.

    resuming = Resuming(source, logs)
    for transaction in logs:
        for met in resuming.before(transaction): ...

The newest snapshot within a gap is taken, which may leave the last few transactions of it out, or
the next one behind; a damaged one is passed over, which the source's notes tell. As a snapshot is
fuzzy, all is known only from the transaction on that it holds nothing of.
"""

from collections.abc import Iterator

from msgspec import Struct

from replay.stock_clusters.zookeeper_log.data_folder import SourceFile
from replay.stock_clusters.zookeeper_log.merging import Gap, MergedLogs, follows
from replay.stock_clusters.zookeeper_log.restoring import State
from replay.stock_clusters.zookeeper_log.source import Source
from replay.stock_clusters.zookeeper_log.transactions import Transaction


class Resumption(Struct, frozen=True):
    """What ZooKeeper held before a transaction, by a snapshot and the transactions behind it."""

    snapshot: SourceFile
    state: State


class Resuming:
    """Goes along with the transactions of `logs`, from its first one on.

    `gap` is the last one from which no snapshot has told yet what came of it, None if there is
    none.
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
        """The file that the last transaction is of."""
        return self._logs.file

    def before(self, transaction: Transaction) -> Iterator[Gap | Resumption]:
        """What is met before a transaction, in order: gaps, and where one is made up for. To be
        asked once for each transaction."""
        for gap in self._logs.gaps[self._gaps_met :]:
            # The logs may have been read further than to this transaction.
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
        yield from self._resumed(self._found, self.gap)

    def _newest_before(self, zxid: int, gap: Gap) -> Resumption | None:
        """From the newest usable snapshot that tells something of the gap."""
        there = 0
        while there < len(self._snapshots) and self._snapshots[there].zxid < zxid:
            there += 1
        behind_gap = [one for one in self._snapshots[:there] if one.zxid > gap.after]
        del self._snapshots[:there]
        usable = self._source.usable(reversed(behind_gap))
        return next((Resumption(snapshot, state) for state, snapshot in usable), None)

    def _resumed(self, found: Resumption, gap: Gap) -> Iterator[Gap | Resumption]:
        self.gap = self._found = None
        self._source.notes.append(f"behind zxid {gap.after:#x} goes on from {found.snapshot.name}")
        yield found
        last = found.snapshot.zxid
        if last < gap.before and not follows(gap.before, last):
            self.gap = Gap(last, gap.before)
            yield self.gap
