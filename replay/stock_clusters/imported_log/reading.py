"""Reading a world-backed log.

with LogReader.open(path, UPCASTERS) as reader:
    world = open_world(reader)
    for record, event in world.events(): ...
"""

from collections.abc import Iterator

from msgspec import Struct

from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.records import EventRecord
from replay.errors import ReplayError
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import (
    ImportEnded,
    SessionsRestored,
    WorldBegun,
    WorldEvent,
    ZnodesRestored,
)
from replay.stock_clusters.imported_log.restored import restore
from replay.stock_clusters.zookeeper_log.restoring import State


class ImportedLog(Struct, frozen=True):
    """A world-backed log: how it began, the state that its transactions go on from, and the
    number of the first record after that; the last one is that of the log, if it is not told. Each
    call of `events` reads the log anew."""

    begun: WorldBegun
    state: State
    first_seq: int
    reader: LogReader
    last_seq: int | None = None

    def events(self) -> Iterator[tuple[EventRecord, WorldEvent]]:
        """What comes after the restored state, in order. Raises ReplayError."""
        wanted = EventFilter(first_seq=self.first_seq, last_seq=self.last_seq)
        for record in self.reader.events(wanted):
            yield record, event_of(record)


def open_world(reader: LogReader) -> ImportedLog:
    """Read the start of a log. Raises ReplayError if it is no world-backed one."""
    if reader.header.kind != "world-backed":
        raise ReplayError(f"{reader.path} is a recorded log, of refold's own controller")
    records = reader.events()
    first = next(records, None)
    begun = event_of(first) if first else None
    if first is None or not isinstance(begun, WorldBegun):
        raise ReplayError(f"{reader.path} does not say how its world began: import it again")
    state, last = State(), first.seq
    for record in records:
        event = event_of(record)
        if not isinstance(event, (SessionsRestored, ZnodesRestored)):
            break
        restore(state, event)
        last = record.seq
    state.zxid = state.exact_from = begun.zxid
    return ImportedLog(begun, state, last + 1, reader)


def unfinished_notes(world: ImportedLog) -> list[str]:
    """What to tell of a log that does not come to the end of its import: of any other, nothing.

    Raises ReplayError, LogError.
    """
    reader = world.reader
    last = reader.events(EventFilter(first_seq=reader.last_seq))
    if any(isinstance(event_of(record), ImportEnded) for record in last):
        return []
    return [
        "the import of this log was ended before its end, so the log lacks what comes later: import"
        f" {world.begun.source} again"
    ]
