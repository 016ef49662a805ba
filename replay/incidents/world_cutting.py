"""A shorter log of a stock cluster's incident: what `refold import --from --to` would have made.

The state that it begins with is the world after all that is left out. The fold beside a controller
begins with its election: so does the shorter log, wherever there is one.
"""

import shutil
from pathlib import Path
from typing import Final

from msgspec import structs

from controller.fingerprint import code_version, core_fingerprint
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from eventstore.records import EventRecord
from replay.errors import ReplayError
from replay.shadow_folds import ShadowObserver, shadow_folds
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import ImportEnded, Observed, WorldEvent
from replay.stock_clusters.imported_log.reading import ImportedLog, open_world
from replay.stock_clusters.imported_log.restored import apply, restored_events
from replay.stock_clusters.imports.records import Records, new_log
from replay.stock_clusters.imports.terms import Terms

_NS: Final = 1_000_000
_ELECTION: Final = "election"


def cut_world(reader: LogReader, target: Path, first: int, last: int) -> tuple[int, int, int]:
    """Write the records up to `last` to the new log `target`, from the last election up to record
    `first` on from which nothing diverges that did not before. Gives the first and the last of
    them, and how many records the new log has. Raises ReplayError, LogError."""
    before = divergences(reader, 0)
    last = _with_what_it_is(reader, last)
    for begin in _beginnings(open_world(reader), first):
        count = _write(open_world(reader), target, begin, last)
        with LogReader.open(target) as made:
            if divergences(made, count) <= before:
                return begin, last, count
        shutil.rmtree(target)
    raise ReplayError(
        f"what is left of {reader.path} up to record {last} would not be decided on as it was: "
        "end it later"
    )


def _with_what_it_is(reader: LogReader, last: int) -> int:
    """What a transaction is found to be stands right behind it."""
    behind = EventFilter(first_seq=last + 1, last_seq=last + 1)
    return last + any(one.cause == last for one in reader.events(behind))


def _beginnings(world: ImportedLog, first: int) -> list[int]:
    """The elections up to record `first`, the last one in front; then the log's beginning. Before
    the first election nothing is decided beside the log: any record will do."""
    elections = [
        record.cause
        for record, event in world.events()
        if isinstance(event, Observed) and event.what == _ELECTION and not event.error
        if record.cause is not None and record.cause <= first
    ]
    begins = elections[::-1] or [_whole(world, first)]
    return [*begins, world.first_seq]


def _whole(world: ImportedLog, first: int) -> int:
    """The transaction that a record says what it is of; the record itself for another one."""
    for record in world.reader.events(EventFilter(first_seq=first, last_seq=first)):
        return max(world.first_seq, record.cause or first)
    return first


def divergences(reader: LogReader, last: int) -> set[tuple[int, str, tuple[str, ...]]]:
    """Where the fold and the log do not agree; of a log up to record `last`, if one is given, what
    the log ended too early for is left out."""
    found = [
        one for each in shadow_folds(reader, ShadowObserver) for one in each.agreement.judgements
    ]
    return {
        (one.zxid, one.verdict, one.paths)
        for one in found
        if one.verdict != "agreed" and not (one.verdict == "extra" and last and one.seq >= last)
    }


def _write(world: ImportedLog, target: Path, begin: int, last: int) -> int:
    header = structs.replace(
        world.reader.header,
        predecessor=None,
        core_fingerprint=core_fingerprint(),
        code_version=code_version(),
    )
    cutting = _Cutting(world)
    with new_log(target, header) as records:
        for record, event in world.events():
            if record.seq < begin:
                cutting.pass_over(event)
            elif record.seq <= last and not isinstance(event, ImportEnded):
                cutting.keep(records, record, event)
        cutting.end(records)
    return records.count


class _Cutting:
    """Follows the world; writes what is kept of its records under their new numbers."""

    def __init__(self, world: ImportedLog) -> None:
        self._world = world
        self._numbers: dict[int, int] = {}

    def pass_over(self, event: WorldEvent) -> None:
        """What is before the beginning is in the state that the log begins with."""
        apply(self._world.state, event)

    def keep(self, records: Records, record: EventRecord, event: WorldEvent) -> None:
        """Write a record; the first one with the state before it."""
        if not self._numbers:
            self._begin(records, record)
        cause = None if record.cause is None else self._numbers[record.cause]
        self._numbers[record.seq] = _add(records, record, event, cause)

    def _begin(self, records: Records, record: EventRecord) -> None:
        state = self._world.state
        term = Terms(self._world.begun.chroot, state.tree).current
        before = record._replace(term=term.epoch if term else 0, channel="import")
        begun = structs.replace(self._world.begun, zxid=state.zxid)
        for event in (begun, *restored_events(state)):
            _add(records, before, event)

    def end(self, records: Records) -> None:
        """Write the last record, which is the whole log's, if it had come to its end."""
        last = self._world.reader.last_seq
        for record in self._world.reader.events(EventFilter(first_seq=last)):
            ended = event_of(record)
            if isinstance(ended, ImportEnded):
                _add(records, record, ended)


def _add(records: Records, record: EventRecord, event: WorldEvent, cause: int | None = None) -> int:
    return records.add(event, record.wall_ns // _NS, record.term, record.channel, cause)
