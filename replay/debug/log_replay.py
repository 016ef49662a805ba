"""Replays a log event by event: the state after each event, and what the event did."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from types import MappingProxyType
from typing import NamedTuple, Protocol, TypeVar

from controller.core.commands import Command, CommandId
from eventstore.filters import EventFilter
from replay.debug.event_view import BegunProcedure, EventView
from replay.index.store import EventIndex
from replay.inspect.at import projection_from_snapshot, snapshot_before
from replay.inspect.projections import (
    ImportedProjection,
    Projection,
    RecordedProjection,
    projection_of,
)
from replay.listing.imported import (
    DerivedDecision,
    DerivedDecisions,
    RecordDescriber,
    from_transaction,
)
from replay.listing.recorded import EventDescriber
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.progress import Progress
from replay.stock_clusters.imported_log.events import ImportedEvent
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.stock_clusters.zookeeper_log.transactions import Multi, Transaction
from replay.subjects import paths_of_transaction

Record = TypeVar("Record")
NO_PENDING: Mapping[CommandId, Command] = MappingProxyType({})


class ReplayCheckpoint(NamedTuple):
    """The state after event `seq`, and the commands that have no outcome then."""

    seq: int
    body: bytes
    pending: Mapping[CommandId, Command] = NO_PENDING


class LogReplay(Protocol):
    """A position in a log that moves forward. `state` is the state there."""

    @property
    def state(self) -> Projection:
        """The state after event `seq`. It changes with each call of `skip` and `take`."""

    def skip(self) -> bool:
        """Move to the next event. False at the end of the log. Raises ReplayError, LogError."""

    def take(self) -> EventView | None:
        """Move to the next event and describe it. None at the end. Raises ReplayError, LogError."""

    def checkpoint(self) -> ReplayCheckpoint | None:
        """The position to begin at later; None in the middle of a procedure."""

    def close(self) -> None:
        """Close the log."""


class RecordedReplay:
    """Folds a log of the daemon."""

    def __init__(self, log: RecordedLog, begin: ReplayCheckpoint | None, before: int) -> None:
        """Begin at a checkpoint, else at the last stored snapshot before event `before`."""
        if begin is None:
            state = projection_from_snapshot(log, before - 1)
            pending = NO_PENDING
        else:
            state, pending = projection_of(log, begin.body, begin.seq), begin.pending
        assert isinstance(state, RecordedProjection), "the log is a recorded one"
        self.state: RecordedProjection = state
        self._describer = EventDescriber(log, state, pending)
        wanted = EventFilter(first_seq=state.seq + 1)
        self._records = _closable(log.reader.records(wanted))

    def skip(self) -> bool:
        """Fold the next event."""
        following = next(self._records, None)
        if following is None:
            return False
        self._describer.skip(*following)
        return True

    def take(self) -> EventView | None:
        """Fold and describe the next event."""
        following = next(self._records, None)
        if following is None:
            return None
        running = self.state.running_since
        event, decisions, written, *_ = self._describer.apply(*following)
        begun = tuple(
            BegunProcedure(one.procedure, (one.seq,) if one.seq < event.seq else ())
            for one in self.state.begun
        )
        return EventView(event, tuple(decisions), begun, tuple(written), running)

    def checkpoint(self) -> ReplayCheckpoint | None:
        """The whole fold."""
        body = self.state.snapshot()
        if body is None:
            return None
        return ReplayCheckpoint(self.state.seq, body, dict(self._describer.pending))

    def close(self) -> None:
        """Close the log."""
        self._records.close()


class DerivedByRecord(Protocol):
    """The derived decisions and procedures of an imported log, by record: `EventIndex`, or
    `DerivedAtOnce`."""

    def decision(self, seq: int) -> DerivedDecision | None:
        """The decision of a record, if it is one."""

    def begun(self, seq: int) -> Mapping[str, tuple[int, ...]]:
        """The procedures that begin at a record, each with the earlier records that caused it."""


class DerivedAtOnce(NamedTuple):
    """The decisions of an imported log by record, and the procedures that begin at a record."""

    decisions: Mapping[int, DerivedDecision]
    procedures: Mapping[int, Mapping[str, tuple[int, ...]]]

    def decision(self, seq: int) -> DerivedDecision | None:
        """The decision of a record, if it is one."""
        return self.decisions.get(seq)

    def begun(self, seq: int) -> Mapping[str, tuple[int, ...]]:
        """The procedures that begin at a record, each with the earlier records that caused it."""
        return self.procedures.get(seq, {})


class ImportedReplay:
    """Applies the transactions of an imported log."""

    def __init__(
        self,
        log: ImportedLog,
        begin: ReplayCheckpoint | None,
        before: int,
        derived: DerivedByRecord,
    ) -> None:
        """Begin at a checkpoint, else at the last stored snapshot before event `before`. `derived`
        are the decisions of its controllers."""
        if begin is None:
            state = projection_from_snapshot(log, before - 1)
        else:
            state = projection_of(log, begin.body, begin.seq)
        assert isinstance(state, ImportedProjection), "the log is an imported one"
        self.state: ImportedProjection = state
        self._chroot = log.begun.chroot
        self._derived = derived
        self._describe = RecordDescriber(self._chroot)
        # The next record may classify a transaction before the position.
        self._records = _closable(from_transaction(log.reader, state.seq + 1))
        for record, event in self._records:
            self._describe.skip(event)
            if record.seq >= state.seq:
                break

    def skip(self) -> bool:
        """Apply the next record."""
        following = next(self._records, None)
        if following is None:
            return False
        record, event = following
        self.state.apply(record)
        self._describe.skip(event)
        return True

    def take(self) -> EventView | None:
        """Apply and describe the next record."""
        following = next(self._records, None)
        if following is None:
            return None
        record, event = following
        self.state.apply(record)
        listed = self._describe(record, event)
        derived = self._derived.decision(record.seq)
        begun = tuple(BegunProcedure(*one) for one in self._derived.begun(record.seq).items())
        return EventView(
            listed,
            (derived.listed,) if derived is not None else (),
            begun,
            tuple(_written_paths(event, self._chroot)),
            (derived.since or 0) if derived is not None else 0,
        )

    def checkpoint(self) -> ReplayCheckpoint | None:
        """All znodes and sessions."""
        body = self.state.snapshot()
        return ReplayCheckpoint(self.state.seq, body) if body is not None else None

    def close(self) -> None:
        """Close the log."""
        self._records.close()


def _written_paths(event: ImportedEvent, chroot: str) -> list[str]:
    """The znodes that a transaction has written."""
    if not isinstance(event, Transaction):
        return []
    if isinstance(event.content, Multi) and event.content.error:
        return []
    return paths_of_transaction(event, chroot)


def _closable(records: Iterator[Record]) -> Generator[Record, None, None]:
    yield from records


def derived_by_record(
    log: OpenedLog, index: EventIndex | None, progress: Progress
) -> DerivedByRecord:
    """Derive the decisions of an imported log, unless it has an index; none of a daemon's log,
    which has them. Raises ReplayError, LogError."""
    if isinstance(log, RecordedLog):
        return DerivedAtOnce({}, {})
    if index is not None:
        return index
    found = DerivedDecisions.derive(log, progress)
    decisions = found.between(log.reader.header.first_seq, log.reader.last_seq)
    return DerivedAtOnce({one.listed.seq: one for one in decisions}, found.procedures)


def replay_from(
    log: OpenedLog, begin: ReplayCheckpoint | None, before: int, derived: DerivedByRecord
) -> "closing[LogReplay]":
    """The log from a checkpoint or from the last snapshot before event `before`: from the later
    one."""
    stored = snapshot_before(log.reader, before - 1)
    if begin is not None and stored is not None and stored.seq > begin.seq:
        begin = None
    if isinstance(log, RecordedLog):
        return closing(RecordedReplay(log, begin, before))
    return closing(ImportedReplay(log, begin, before, derived))
