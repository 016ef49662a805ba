"""Plays a log event by event: the state after each event, and what the event did."""

from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, TypeVar

from controller.core.commands import Command, CommandId
from eventstore.filters import EventFilter
from replay.debug.moments import Begun, Moment
from replay.inspect.at import projection_from_snapshot, snapshot_before
from replay.inspect.projections import (
    ImportedProjection,
    Projection,
    RecordedProjection,
    projection_of,
)
from replay.listing.observed import DerivedDecision, DerivedDecisions, RecordDescriber
from replay.listing.recorded import Listing
from replay.logs.open_log import OpenedLog, RecordedLog
from replay.progress import Progress
from replay.stock_clusters.imported_log.encoding import event_of
from replay.stock_clusters.imported_log.events import ImportedEvent
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.stock_clusters.zookeeper_log.transactions import Multi, Transaction
from replay.subjects import paths_of_transaction

Record = TypeVar("Record")
_CLASSIFIED: Final = 2
"""At most so many records after a transaction classify it."""
NO_PENDING: Mapping[CommandId, Command] = MappingProxyType({})


class Checkpoint(NamedTuple):
    """The state after event `seq`, and the commands that have no outcome then."""

    seq: int
    body: bytes
    pending: Mapping[CommandId, Command] = NO_PENDING


class Tape(Protocol):
    """A position in a log that moves forward. `state` is the state there."""

    @property
    def state(self) -> Projection:
        """The state after event `seq`. It changes with each call of `skip` and `take`."""

    def skip(self) -> bool:
        """Move to the next event. False at the end of the log. Raises ReplayError, LogError."""

    def take(self) -> Moment | None:
        """Move to the next event and describe it. None at the end. Raises ReplayError, LogError."""

    def checkpoint(self) -> Checkpoint | None:
        """The position to begin at later; None in the middle of a procedure."""

    def close(self) -> None:
        """Close the log."""


class RecordedTape:
    """Folds a log of the daemon."""

    def __init__(self, log: RecordedLog, begin: Checkpoint | None, before: int) -> None:
        """Begin at a checkpoint, else at the last stored snapshot before event `before`."""
        if begin is None:
            state = projection_from_snapshot(log, before - 1)
            pending = NO_PENDING
        else:
            state, pending = projection_of(log, begin.body, begin.seq), begin.pending
        assert isinstance(state, RecordedProjection), "the log is a recorded one"
        self.state: RecordedProjection = state
        self._listing = Listing(log, state, pending)
        wanted = EventFilter(first_seq=state.seq + 1)
        self._records = _closable(log.reader.records(wanted))

    def skip(self) -> bool:
        """Fold the next event."""
        following = next(self._records, None)
        if following is None:
            return False
        self._listing.skip(*following)
        return True

    def take(self) -> Moment | None:
        """Fold and describe the next event."""
        following = next(self._records, None)
        if following is None:
            return None
        running = self.state.running_since
        event, decisions, written, *_ = self._listing.take(*following)
        begun = tuple(Begun(one.procedure, one.seq) for one in self.state.begun)
        return Moment(event, tuple(decisions), begun, tuple(written), running)

    def checkpoint(self) -> Checkpoint | None:
        """The whole fold."""
        body = self.state.snapshot()
        if body is None:
            return None
        return Checkpoint(self.state.seq, body, dict(self._listing.pending))

    def close(self) -> None:
        """Close the log."""
        self._records.close()


class ImportedTape:
    """Applies the transactions of an imported log."""

    def __init__(
        self, log: ImportedLog, begin: Checkpoint | None, before: int, derived: "Derived"
    ) -> None:
        """As RecordedTape. `derived` are the decisions of its controllers."""
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
        self._records = _closable(
            log.reader.events(EventFilter(first_seq=max(1, state.seq - _CLASSIFIED)))
        )
        for record in self._records:
            self._describe(record, event_of(record))
            if record.seq >= state.seq:
                break

    def skip(self) -> bool:
        """Apply the next record."""
        record = next(self._records, None)
        if record is None:
            return False
        self.state.apply(record)
        self._describe(record, event_of(record))
        return True

    def take(self) -> Moment | None:
        """Apply and describe the next record."""
        record = next(self._records, None)
        if record is None:
            return None
        self.state.apply(record)
        event = event_of(record)
        listed = self._describe(record, event)
        derived = self._derived.decisions.get(record.seq)
        begun = tuple(
            Begun(one, record.seq) for one in self._derived.procedures.get(record.seq, ())
        )
        return Moment(
            listed,
            (derived.listed,) if derived is not None else (),
            begun,
            tuple(_written(event, self._chroot)),
            (derived.since or 0) if derived is not None else 0,
        )

    def checkpoint(self) -> Checkpoint | None:
        """All znodes and sessions."""
        body = self.state.snapshot()
        return Checkpoint(self.state.seq, body) if body is not None else None

    def close(self) -> None:
        """Close the log."""
        self._records.close()


def _written(event: ImportedEvent, chroot: str) -> list[str]:
    """The znodes that a transaction has written."""
    if not isinstance(event, Transaction):
        return []
    if isinstance(event.content, Multi) and event.content.error:
        return []
    return paths_of_transaction(event, chroot)


def _closable(records: Iterator[Record]) -> Generator[Record, None, None]:
    yield from records


class Derived(NamedTuple):
    """The decisions of an imported log by record, and the procedures that begin at a record."""

    decisions: Mapping[int, DerivedDecision]
    procedures: Mapping[int, Mapping[str, None]]


class Recording:
    """A log of either kind, which is played from any event."""

    def __init__(self, log: OpenedLog, progress: Progress) -> None:
        """The decisions of an imported log are derived first. Raises ReplayError, LogError."""
        self.log = log
        self._derived = Derived({}, {})
        if isinstance(log, ImportedLog):
            found = DerivedDecisions.of(log, progress)
            decisions = found.between(log.reader.header.first_seq, log.reader.last_seq)
            by_seq = {one.listed.seq: one for one in decisions}
            self._derived = Derived(by_seq, found.procedures)

    def tape(self, begin: Checkpoint | None, before: int) -> "closing[Tape]":
        """The log from a checkpoint or from the last snapshot before event `before`: from the later
        one."""
        stored = snapshot_before(self.log.reader, before - 1)
        if begin is not None and stored is not None and stored.seq > begin.seq:
            begin = None
        if isinstance(self.log, RecordedLog):
            return closing(RecordedTape(self.log, begin, before))
        return closing(ImportedTape(self.log, begin, before, self._derived))
