"""Transactions of an imported log together with their classification."""

from collections.abc import Iterable, Iterator

from eventstore.records import EventRecord
from replay.stock_clusters.imported_log.events import (
    DecisionObserved,
    ImportedEvent,
    RequestInferred,
)
from replay.stock_clusters.imported_log.reading import ImportedRecord

DecisionEvent = DecisionObserved | RequestInferred


def pair_decisions(
    events: Iterable[ImportedRecord],
) -> Iterator[tuple[EventRecord, ImportedEvent, DecisionEvent | None]]:
    """Each event with its record; a transaction together with its classification."""
    waiting: ImportedRecord | None = None
    for record, event in events:
        if isinstance(event, DecisionEvent):
            if waiting is not None:
                yield *waiting, event
                waiting = None
            continue
        if waiting is not None:
            yield *waiting, None
        waiting = (record, event)
    if waiting is not None:
        yield *waiting, None
