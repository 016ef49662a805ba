"""Reads an imported log.

with LogReader.open(path, UPCASTERS) as reader:
    imported = open_imported(reader)
    for record, event in imported.events(): ...
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from controller.kafka_0_8.configuration import KAFKA_0_8
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.records import EventRecord
from replay.errors import ReplayError
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import (
    ImportBegun,
    ImportedEvent,
    ImportEnded,
    SessionsRestored,
    ZnodesRestored,
)
from replay.stock_clusters.imported_log.state_events import restore
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState

ImportedRecord = tuple[EventRecord, ImportedEvent]


class ImportedLog(Struct, frozen=True):
    """An imported log: its first event, the state before its first transaction, and the numbers of
    its first and last record (None: to the end of the log). Each call of `events` reads the log
    again, unless `decoded` has its records."""

    begun: ImportBegun
    state: ZooKeeperState
    first_seq: int
    reader: LogReader
    last_seq: int | None = None
    decoded: Sequence[ImportedRecord] | None = None

    def events(self) -> Iterator[ImportedRecord]:
        """The records after the restored state, in order. Raises ReplayError."""
        if self.decoded is not None:
            yield from self.decoded
            return
        wanted = EventFilter(first_seq=self.first_seq, last_seq=self.last_seq)
        for record in self.reader.events(wanted):
            yield record, event_of(record)


def open_imported(reader: LogReader) -> ImportedLog:
    """Read the beginning of a log. Raises ReplayError if it is not an imported one."""
    if reader.header.kind != "world-backed":
        settings = reader.header.configuration
        if settings.get("design") == KAFKA_0_8:
            raise ReplayError(
                f"this is a log of broker {settings.get('broker_id')} of the 0.8 design, not an "
                "imported one: use `refold replay`"
            )
        raise ReplayError(
            "this is a recorded log of refold's controller, not an imported one: "
            "use `refold replay`"
        )
    records = reader.events()
    first = next(records, None)
    begun = event_of(first) if first else None
    if first is None or not isinstance(begun, ImportBegun):
        raise ReplayError(
            f"{reader.path} has no first ZooKeeper state: if `refold run --mode shadow` has begun"
            " it just now, try again; otherwise import it again"
        )
    state, last = ZooKeeperState(), first.seq
    for record in records:
        event = event_of(record)
        if not isinstance(event, (SessionsRestored, ZnodesRestored)):
            break
        restore(state, event)
        last = record.seq
    state.zxid = state.exact_from = begun.zxid
    return ImportedLog(begun, state, last + 1, reader)


def unfinished_notes(imported: ImportedLog) -> list[str]:
    """A note if the log lacks the last record of an import or a shadow. Raises ReplayError,
    LogError."""
    reader = imported.reader
    last = reader.events(EventFilter(first_seq=reader.last_seq))
    if any(isinstance(event_of(record), ImportEnded) for record in last):
        return []
    return [
        "this log has no end: `refold run --mode shadow` still writes it or was killed, or the"
        f" import of {imported.begun.source} was interrupted and must be repeated"
    ]
