"""An imported log as part of the source of another import.

Its transactions are a transaction log, and the states that it knows, at its beginning and after
missing transactions, are snapshots. So a later import can continue it, or fill its gaps, after the
files that it was imported from are gone.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.errors import ReplayError
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import (
    ControllerLogged,
    ImportResumed,
    LoggedEvent,
    RequestServed,
    StateChangeLogged,
)
from replay.stock_clusters.imported_log.reading import open_imported
from replay.stock_clusters.imported_log.state_events import STATE_KINDS, apply
from replay.stock_clusters.zookeeper_log.damage import FileDamage
from replay.stock_clusters.zookeeper_log.data_folder import DataFolder, SourceFile
from replay.stock_clusters.zookeeper_log.log_file import TransactionReader
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.transactions import Transaction

_NS: Final = 1_000_000
_LINES: Final = ("controller_logged", "state_change_logged", "request_served")


class StoredFile(SourceFile, frozen=True):
    """The transactions of an imported log in the folder `path`, or the state before event `seq`."""

    seq: int = 0

    @contextmanager
    def transactions(self, on_bytes: Callable[[int], None]) -> Iterator[TransactionReader]:
        """Open the transactions. Raises LogError."""
        with LogReader.open(self.path) as reader:
            yield _StoredTransactions(reader)

    def state(self) -> ZooKeeperState:
        """The state, which is exact. Raises ReplayError, LogError."""
        with LogReader.open(self.path) as reader:
            imported = open_imported(reader)
            wanted = EventFilter(
                first_seq=imported.first_seq, last_seq=self.seq - 1, kinds=STATE_KINDS
            )
            for record in reader.events(wanted):
                apply(imported.state, event_of(record))
        imported.state.zxid = imported.state.exact_from = self.zxid
        return imported.state


class StoredSource:
    """The contribution of an imported log to another import. `first_zxid` and `last_zxid` are those
    of its transactions; it has at least one.
    """

    def __init__(self, log: Path, name: str, *, is_replaced: bool = False) -> None:
        """`name` is the folder of its files in reports. `is_replaced`: other files are right where
        they have the same transactions. Raises ReplayError, LogError."""
        self._log = log
        self.name = name
        self.first_zxid = self.last_zxid = 0
        with LogReader.open(log) as reader:
            imported = open_imported(reader)
            snapshots = [self._file(imported.begun.zxid, "first-state", imported.first_seq)]
            wanted = EventFilter(
                first_seq=imported.first_seq, kinds=("transaction", "world_resumed")
            )
            for record in reader.events(wanted):
                event = event_of(record)
                if isinstance(event, Transaction):
                    self.first_zxid = self.first_zxid or event.zxid
                    self.last_zxid = event.zxid
                elif isinstance(event, ImportResumed):
                    # The state includes all transactions before this event.
                    zxid = max(event.zxid, self.last_zxid)
                    snapshots.append(self._file(zxid, f"state-{zxid:x}", record.seq))
        if not self.last_zxid:
            raise ReplayError(f"{log} contains no transaction")
        transactions = self._file(self.first_zxid, "transactions", 0, is_replaced=is_replaced)
        self.data = DataFolder(name, (transactions,), tuple(snapshots))

    def _file(self, zxid: int, name: str, seq: int, *, is_replaced: bool = False) -> StoredFile:
        return StoredFile(zxid, f"{self.name}/{name}", self._log, 0, is_replaced, seq)

    def lines(self, kinds: Sequence[str] | None = None) -> Iterator[LoggedEvent]:
        """The lines of brokers' logs in the log, or those of logs of some kinds."""
        with LogReader.open(self._log) as reader:
            for record in reader.events(EventFilter(kinds=_LINES)):
                if kinds is None or record.channel.rpartition(" ")[2] in kinds:
                    event = event_of(record)
                    assert isinstance(event, ControllerLogged | StateChangeLogged | RequestServed)
                    yield LoggedEvent(record.wall_ns // _NS, record.channel, event)


class _StoredTransactions:
    """Reads the transactions of a log; their offsets are the numbers of their records."""

    def __init__(self, reader: LogReader) -> None:
        self.offset = 0
        self.zxid: int | None = None
        self.damage: FileDamage | None = None
        self.is_cut = False
        self._reader = reader

    def __iter__(self) -> Iterator[Transaction]:
        for record in self._reader.events(EventFilter(kinds=("transaction",))):
            event = event_of(record)
            assert isinstance(event, Transaction)
            self.offset, self.zxid = record.seq, event.zxid
            yield event
