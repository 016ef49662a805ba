"""Cuts an imported log to an incident, as `refold import --from --to` would have made it.

The cut log begins with the state of ZooKeeper after the removed records. It begins at an election
if there is one, because the fold of a session begins with its election.
"""

import shutil
from pathlib import Path
from typing import Final

from msgspec import structs

from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.records import EventRecord
from replay.errors import ReplayError
from replay.logs.other_core import header_of_rewritten_log
from replay.shadow_folds import ShadowObserver, shadow_folds
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import DecisionObserved, ImportedEvent, ImportEnded
from replay.stock_clusters.imported_log.reading import ImportedLog, open_imported
from replay.stock_clusters.imported_log.state_events import apply, restored_events
from replay.stock_clusters.imports.records import Records, new_log
from replay.stock_clusters.imports.terms import Terms

_NS_PER_MS: Final = 1_000_000
_ELECTION: Final = "election"


def cut_imported(reader: LogReader, target: Path, first: int, last: int) -> tuple[int, int, int]:
    """Write the records up to `last` to the new log `target`.

    The log is cut at the last election up to record `first` after which there is no new divergence.
    Return the first and the last record, and the number of records of the new log. Raises
    ReplayError, LogError.
    """
    before = divergences(reader, 0)
    last = _with_classification(reader, last)
    for begin in _beginnings(open_imported(reader), first):
        count = _write(open_imported(reader), target, begin, last)
        with LogReader.open(target) as made:
            if divergences(made, count) <= before:
                return begin, last, count
        shutil.rmtree(target)
    raise ReplayError(
        f"{reader.path} cannot be cut at record {last}: the decisions would change; end it later"
    )


def _with_classification(reader: LogReader, last: int) -> int:
    """The record `last`, or the next one if it classifies the transaction of record `last`."""
    following = EventFilter(first_seq=last + 1, last_seq=last + 1)
    return last + any(one.cause == last for one in reader.events(following))


def _beginnings(log: ImportedLog, first: int) -> list[int]:
    """The elections up to record `first`, the last one first, then the log's first record. Without
    an election, record `first` is used, because no fold runs before the first election."""
    elections = [
        record.cause
        for record, event in log.events()
        if isinstance(event, DecisionObserved) and event.what == _ELECTION and not event.error
        if record.cause is not None and record.cause <= first
    ]
    begins = elections[::-1] or [_transaction_of(log, first)]
    return [*begins, log.first_seq]


def _transaction_of(log: ImportedLog, seq: int) -> int:
    """The transaction that a record classifies; the record itself if it classifies none."""
    for record in log.reader.events(EventFilter(first_seq=seq, last_seq=seq)):
        return max(log.first_seq, record.cause or seq)
    return seq


def divergences(reader: LogReader, last: int) -> set[tuple[int, str, tuple[str, ...]]]:
    """The decisions in which the fold and the log do not agree.

    If the log was cut at record `last` (0: not cut), decisions that it ends too early for are left
    out.
    """
    found = [
        one for each in shadow_folds(reader, ShadowObserver) for one in each.agreement.judgements
    ]
    return {
        (one.zxid, one.verdict, one.paths)
        for one in found
        if one.verdict != "agreed" and not (one.verdict == "extra" and last and one.seq >= last)
    }


def _write(log: ImportedLog, target: Path, begin: int, last: int) -> int:
    cutting = _Cutting(log)
    with new_log(target, header_of_rewritten_log(log.reader.header)) as records:
        for record, event in log.events():
            if record.seq < begin:
                cutting.skip(event)
            elif record.seq <= last and not isinstance(event, ImportEnded):
                cutting.keep(records, record, event)
        cutting.end(records)
    return records.count


class _Cutting:
    """Writes the kept records with new numbers."""

    def __init__(self, log: ImportedLog) -> None:
        self._log = log
        self._numbers: dict[int, int] = {}

    def skip(self, event: ImportedEvent) -> None:
        """Apply an event from before the cut to the state that the cut log begins with."""
        apply(self._log.state, event)

    def keep(self, records: Records, record: EventRecord, event: ImportedEvent) -> None:
        """Write a record. Before the first record, write the state."""
        if not self._numbers:
            self._begin(records, record)
        cause = None if record.cause is None else self._numbers[record.cause]
        self._numbers[record.seq] = _add(records, record, event, cause)

    def _begin(self, records: Records, record: EventRecord) -> None:
        state = self._log.state
        term = Terms(self._log.begun.chroot, state.tree).current
        before = record._replace(term=term.epoch if term else 0, channel="import")
        begun = structs.replace(self._log.begun, zxid=state.zxid)
        for event in (begun, *restored_events(state)):
            _add(records, before, event)

    def end(self, records: Records) -> None:
        """Write the last record of the whole log, if its import was complete."""
        last = self._log.reader.last_seq
        for record in self._log.reader.events(EventFilter(first_seq=last)):
            ended = event_of(record)
            if isinstance(ended, ImportEnded):
                # The transactions after the cut are missing.
                _add(records, record, structs.replace(ended, known_ms=0))


def _add(
    records: Records, record: EventRecord, event: ImportedEvent, cause: int | None = None
) -> int:
    return records.add(event, record.wall_ns // _NS_PER_MS, record.term, record.channel, cause)
