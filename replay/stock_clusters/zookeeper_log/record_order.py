"""Finds records of a transaction log that are out of order.

A server writes each record with a higher zxid than the one before. Other records are damaged or
were inserted.
"""

from collections.abc import Iterator
from typing import NamedTuple

from replay.stock_clusters.zookeeper_log.damage import FileDamage
from replay.stock_clusters.zookeeper_log.data_folder import SourceFile
from replay.stock_clusters.zookeeper_log.log_file import TransactionReader
from replay.stock_clusters.zookeeper_log.transactions import Transaction


class MisplacedRecord(NamedTuple):
    """A record that is out of order: its zxid, and its offset in bytes."""

    zxid: int
    offset: int


class RecordOrder:
    """Iterates over the transactions of one file, without those that jump `ahead`.

    A record jumps ahead if the next records continue from the one before it. `behind` has records
    that are repeated or come after a later one; the iteration includes them. `begin` is the zxid of
    the first record if the file's name has a later one and the second record follows the first.
    """

    def __init__(self, reader: TransactionReader, log: SourceFile) -> None:
        self.ahead: list[MisplacedRecord] = []
        self.behind: list[MisplacedRecord] = []
        self.begin: int | None = None
        self.log = log
        self._reader = reader
        self._highest = log.zxid - 1
        self._zxid_before: int | None = None
        self._zxid: int | None = None
        self._offset = 0

    def __iter__(self) -> Iterator[Transaction]:
        held: tuple[Transaction, int] | None = None
        early: tuple[Transaction, int] | None = None
        for transaction in self._reader:
            zxid, offset = transaction.zxid, self._reader.offset
            if early is None and self._zxid is None and zxid < self.log.zxid:
                early = transaction, offset
                continue
            if early is not None and self._zxid is None:
                yield self._give_early(*early, zxid)
            if held is not None and zxid > self._highest:
                jumped, jumped_offset = held
                held = None
                if zxid < jumped.zxid:
                    self.ahead.append(MisplacedRecord(jumped.zxid, jumped_offset))
                else:
                    yield self._give(jumped, jumped_offset)
            if zxid > self._highest + 1:
                held = transaction, offset
                continue
            if zxid <= self._highest:
                self.behind.append(MisplacedRecord(zxid, offset))
            yield self._give(transaction, offset)
        if early is not None and self._zxid is None:
            yield self._give_early(*early, None)
        if held is not None:
            yield self._give(*held)

    def refused(self, reason: str) -> FileDamage:
        """The damage of a file that cannot be used from the last transaction on, by other files."""
        return FileDamage(self.log.name, self._offset, self._zxid_before, reason)

    def _give_early(self, first: Transaction, offset: int, second: int | None) -> Transaction:
        """Return the first transaction, whose zxid is lower than the one in the file's name."""
        if second == first.zxid + 1:
            self.begin, self._highest = first.zxid, first.zxid - 1
        else:
            self.behind.append(MisplacedRecord(first.zxid, offset))
        return self._give(first, offset)

    def _give(self, transaction: Transaction, offset: int) -> Transaction:
        self._zxid_before, self._zxid, self._offset = self._zxid, transaction.zxid, offset
        self._highest = max(self._highest, transaction.zxid)
        return transaction
