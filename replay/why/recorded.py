"""The history of a subject from logs of refold's daemon, which are folded again."""

from collections.abc import Callable, Iterator, Sequence
from heapq import merge
from typing import NamedTuple

from msgspec import Struct

from controller.core.canonical import cause_of
from controller.core.commands import CommandId, Issued
from controller.core.events import Recorded
from controller.core.fold import Fold
from controller.core.snapshot import take_snapshot
from eventstore import folders
from eventstore.filters import EventFilter
from eventstore.records import CommandRecord, EventRecord, Header
from replay.cluster_view.views import ClusterView
from replay.cluster_view.waiting import with_times
from replay.errors import ReplayError
from replay.logs.decode import decode_recorded, time_of
from replay.logs.open_log import RecordedLog
from replay.logs.other_core import is_of_this_core, recorded_by
from replay.logs.recorded_fold import fold_at_start
from replay.logs.stored_commands import note_of
from replay.logs.unrecorded import UnrecordedCommands
from replay.progress import Progress
from replay.times import iso_time
from replay.why.event_reference import NumberInLog
from replay.why.facts import AnyFact, CommandsUnrecorded, LogEnded
from replay.why.history import FactHistory
from replay.why.noted_facts import KnownZnodes
from replay.why.recorded_observer import RecordedFactObserver
from replay.why.subject import Subject


class LogPart(NamedTuple):
    """A log up to event `seq`. `name` is "" if it is the only log."""

    log: RecordedLog
    seq: int
    name: str = ""


def history_of(parts: Sequence[LogPart], subject: Subject, progress: Progress) -> FactHistory:
    """Fold the logs, event by event in the order of their times. Raises ReplayError, LogError."""
    facts: list[AnyFact] = []
    known = KnownZnodes({}, {})
    runs = [RecordedRun(part, subject, facts, known) for part in parts]
    count = sum(one.count for one in runs)
    current = runs[-1]
    for order, taken in enumerate(merge(*(one.records() for one in runs), key=_wall_ns), 1):
        run = taken.run
        run.apply(taken, order)
        if run.observer.controller.is_active:
            current = run
        progress("folding", order, count)
    notes = [note for one in runs for note in one.notes(is_current=one is current)]
    daemon = current.observer.controller.configuration.broker_id
    is_at_end = current.is_at_end
    return FactHistory(
        subject,
        current.cluster(),
        facts,
        notes,
        daemon=daemon,
        is_at_end=is_at_end,
        has_later_events=not is_at_end,
    )


class NextEvent(NamedTuple):
    """The next event of a run, with its stored commands."""

    run: "RecordedRun"
    record: EventRecord
    stored: list[CommandRecord]


class RederivedEvent(NamedTuple):
    """An event and the commands that this core derives for it. `inexact` are those that the log
    does not have exactly so."""

    event: Recorded
    issued: list[Issued]
    inexact: list[Issued]


def _wall_ns(taken: NextEvent) -> int:
    return taken.record.wall_ns


class Limits(Struct, frozen=True):
    """The limits of an answer from one log. `lost_at` is the event at which the daemon last lost
    the role, `unrecorded` the first command that an open log does not have; 0 and None if there is
    none. `differs_at`: see `StoredCommandsCheck`."""

    header: Header
    differs_at: int = 0
    is_cut_off: bool = False
    unrecorded: CommandId | None = None
    lost_at: int = 0

    def of_core(self, *, is_current: bool) -> list[str]:
        """A note if another core recorded the log, or the log was changed."""
        if self.differs_at:
            return [
                "The answer is based on the decisions of this core:"
                f" {note_of(self.header, self.differs_at, 'LOG')}."
            ]
        if is_current and not is_of_this_core(self.header):
            return [
                f"Recorded by {recorded_by(self.header)}; this core decides the same up to here."
            ]
        return []

    def of_end(self) -> list[str]:
        """Notes about what the end of the log does not show."""
        notes = []
        if self.is_cut_off:
            notes.append(
                "The log was not closed: its daemon was killed, or this copy was made before the "
                "daemon ended."
            )
        if self.unrecorded is not None:
            notes.append(
                f"The log has no stored commands from event {self.unrecorded.cause} on: it is not "
                "known whether the daemon carried out what it decided there."
            )
        if self.lost_at:
            notes.append(
                f"The daemon lost the role at event {self.lost_at}: the answer is based "
                "on what it knew then."
            )
        return notes


NewObserver = Callable[[Fold, Subject, Header], RecordedFactObserver]


class RecordedRun:
    """One log while it is folded. All runs add to the same facts and share what they know of
    ZooKeeper."""

    def __init__(
        self,
        part: LogPart,
        subject: Subject,
        facts: list[AnyFact],
        known: KnownZnodes,
        observer: NewObserver = RecordedFactObserver,
    ) -> None:
        self._log, self._last, self._name = part
        header = self._log.reader.header
        self.count = self._last - header.first_seq + 1
        self._fold = fold_at_start(self._log.reader)
        self.observer = observer(self._fold, subject, header)
        self.observer.facts, self.observer.known = facts, known
        self._check = self._log.commands.begin()
        self._seq = self._wall_ns = 0
        self._order = 0
        self._unusable = ""
        self._is_written = folders.is_being_written(self._log.reader.path)
        self._is_open = self._log.reader.closing is None and not self._is_written
        self._unrecorded = UnrecordedCommands()
        self.observer.number_of = self._number

    def _number(self, seq: int) -> int:
        return NumberInLog(self._order, seq, self._name) if self._name else seq

    def records(self) -> Iterator[NextEvent]:
        """The events up to the one in question."""
        for record, stored in self._log.reader.records(EventFilter(last_seq=self._last)):
            yield NextEvent(self, record, stored)

    def apply(self, taken: NextEvent, order: int) -> RederivedEvent | None:
        """Fold the next event. If that fails, raises ReplayError if this is the only log; returns
        None if it is not."""
        if self._unusable:
            return None
        record = taken.record
        self._order = order
        try:
            event = decode_recorded(record)
            derived = self.observer.fold_event(event)
        except ReplayError as error:
            if not self._name:
                raise
            self._unusable = f"{error}; this event and later ones are left out."
            return None
        inexact = self._check.compare(event, derived, taken.stored)
        self._seq, self._wall_ns = record.seq, record.wall_ns
        if self._is_open:
            self._unrecorded.release(cause_of(event.event) or 0)
            ordinals = {one.ordinal for one in taken.stored}
            for one in derived:
                self._unrecorded.add(record.kind, one, is_stored=one.id.ordinal in ordinals)
            if record.seq == self._last:
                self._note_unrecorded()
        if record.seq == self._last and self._is_cut_off() and self.observer.controller.is_active:
            self.observer.add(LogEnded, because=None)
        return RederivedEvent(event, derived, inexact)

    def _note_unrecorded(self) -> None:
        """Add a fact if the log has no stored commands from an event on."""
        later = next(self._log.reader.commands(self._last + 1), None)
        if later is not None:
            self._unrecorded.release(later.cause)
        first = self._unrecorded.first
        if first is not None:
            self.observer.add(
                CommandsUnrecorded, since=first.cause, ordinal=first.ordinal, because=None
            )

    def _is_cut_off(self) -> bool:
        """Whether the log ends without a closing record, and the question is about its end."""
        return self._is_open and self.is_at_end

    @property
    def is_at_end(self) -> bool:
        """Whether the question is about the end of a log that no daemon writes any more."""
        return not self._is_written and self._last == self._log.reader.last_seq

    def cluster(self) -> ClusterView:
        """The cluster after the last event."""
        time = iso_time(self._wall_ns) if self._seq else ""
        found = self.observer.cluster(self._number(self._seq), time)
        return with_times(found, lambda seq: time_of(self._log.reader, seq))

    def snapshot(self) -> bytes | None:
        """The whole fold, or None while a procedure runs."""
        return take_snapshot(self._fold) if self._fold.is_idle else None

    @property
    def limits(self) -> Limits:
        """The limits of the answer after the last event."""
        return Limits(
            self._log.reader.header,
            self._check.differs_at,
            self._is_cut_off(),
            self._unrecorded.first,
            self.observer.lost_at,
        )

    def notes(self, *, is_current: bool) -> list[str]:
        """The limits of the answer; for a log other than the current one, only the limits that make
        the answer doubtful.
        """
        limits = self.limits
        notes = [self._unusable] if self._unusable else []
        notes += limits.of_core(is_current=is_current) + (limits.of_end() if is_current else [])
        return [f"{self._name}: {one}" for one in notes] if self._name else notes
