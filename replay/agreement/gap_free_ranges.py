"""The ranges of an imported log that can be judged: those without missing transactions.

Where many transactions are missing, it is unknown what the controller read. A range ends there. The
next one begins where a snapshot makes the whole state known again, if there is one.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import structs

from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import (
    ImportedEvent,
    ImportResumed,
    TransactionsMissing,
)
from replay.stock_clusters.imported_log.reading import ImportedLog, open_imported
from replay.stock_clusters.imported_log.state_events import apply
from replay.stock_clusters.zookeeper_log.merging import Gap

_KINDS: Final = ("transactions_missing", "world_resumed", "import_ended")
NumberedEvent = tuple[int, ImportedEvent]


def gap_free_ranges(reader: LogReader) -> Iterator[ImportedLog]:
    """The ranges, each as if it were a log with its own first state; read each range only once.

    Raises ReplayError, LogError.
    """
    begun = open_imported(reader)
    for number, (first, last) in enumerate(bounds_of(begun.first_seq, gap_events(reader))):
        # Reading changes the state in place, so each range needs its own.
        yield _range(open_imported(reader) if number else begun, first, last)


def gap_events(reader: LogReader) -> list[NumberedEvent]:
    """The records about missing transactions, about known states after them, and about the end of
    the import."""
    return [(one.seq, event_of(one)) for one in reader.events(EventFilter(kinds=_KINDS))]


def bounds_of(begin: int, events: Sequence[NumberedEvent]) -> list[tuple[int, int | None]]:
    """The first and the last record of each range; the last one is None at the log's end.

    `begin` is the record after the restored state.
    """
    first: int | None = begin
    bounds: list[tuple[int, int | None]] = []
    resumes = any(isinstance(event, ImportResumed) for _, event in events)
    for seq, event in events:
        if isinstance(event, ImportResumed):
            first = first or seq + 1
        elif isinstance(event, TransactionsMissing) and first and _ends_range(event):
            # Without a later snapshot, a gap right at the beginning is like an old snapshot.
            if seq == begin and not resumes:
                continue
            if seq > first:
                bounds.append((first, seq - 1))
            first = None
    return [*bounds, (first, None)] if first else bounds


def _ends_range(event: TransactionsMissing) -> bool:
    return Gap(event.after, event.before).is_wide


def _range(log: ImportedLog, first: int, last: int | None) -> ImportedLog:
    before = structs.replace(log, last_seq=first - 1)
    for _, event in before.events():
        apply(log.state, event)
    return structs.replace(log, first_seq=first, last_seq=last)
