"""The facts about a partition with reassignments: an observer of the partition folds the events at
which it could note one (replay/index/every_fact.py), each time from the last snapshot before them.
The index has the facts of the events in between.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from eventstore.filters import EventFilter
from replay.index.every_fact import belongs, places_of, places_of_moves
from replay.index.store import EventIndex
from replay.inspect.at import projection_at, snapshot_before
from replay.inspect.projections import RecordedProjection
from replay.logs.decode import decode_recorded
from replay.logs.open_log import RecordedLog
from replay.names import partition_named
from replay.progress import Progress
from replay.why.facts import (
    AnyFact,
    AssignmentWritten,
    CommandsUnrecorded,
    LogEnded,
    RoleChanged,
    StateWritten,
)
from replay.why.recorded_observer import RecordedFactObserver
from replay.why.subject import Subject

_OF_WHOLE_LOG: Final = (CommandsUnrecorded, LogEnded)
"""Facts about the end of a log, which an observer does not note. Those about the role depend on all
events before, so they are the index's as well."""


class _Part(NamedTuple):
    """Events that are folded, from a snapshot after event `snapshot` on."""

    snapshot: int
    last: int


def facts_with_moves(
    log: RecordedLog, index: EventIndex, subject: Subject, seq: int, progress: Progress
) -> list[AnyFact]:
    """The facts about a subject up to event `seq`. Raises ReplayError, LogError."""
    found = (one for one in index.facts(places_of(subject), seq) if belongs(one, subject))
    parts = _parts(log, index, subject, seq)
    if not parts:
        return list(found)
    return _Folding(log, subject, found, progress).facts(parts, seq)


def _parts(log: RecordedLog, index: EventIndex, subject: Subject, seq: int) -> list[_Part]:
    """The ranges of the log that have to be folded for the moves of a subject. Two ranges are one
    part if no snapshot is between them."""
    parts: list[_Part] = []
    for one in index.moves(places_of_moves(subject), seq):
        last = min(one.last, seq)
        if parts and last <= parts[-1].last:
            continue
        before = snapshot_before(log.reader, _begin(index, one.first))
        snapshot = before.seq if before is not None else log.reader.header.first_seq - 1
        if parts and snapshot <= parts[-1].last:
            parts[-1] = _Part(parts[-1].snapshot, last)
        else:
            parts.append(_Part(snapshot, last))
    return parts


def _begin(index: EventIndex, first: int) -> int:
    """The event before which a fold has to begin: while the daemon has not the role, an observer
    knows the names of topics from before."""
    lost = index.about.role_lost(first)
    return (lost.last_active if lost is not None else first) - 1


class _Folding:
    """One observer, which continues in each part with what it knew at the end of the last one."""

    def __init__(
        self, log: RecordedLog, subject: Subject, of_index: Iterable[AnyFact], progress: Progress
    ) -> None:
        self._log = log
        self._subject = subject
        self._of_index = deque(of_index)
        self._progress = progress
        self._facts: list[AnyFact] = []
        self._observer: RecordedFactObserver | None = None

    def facts(self, parts: list[_Part], seq: int) -> list[AnyFact]:
        """The facts up to event `seq`."""
        count, done = sum(last - snapshot for snapshot, last in parts), 0
        for snapshot, last in parts:
            self._facts += self._facts_until(snapshot)
            observer = self._observer_after(snapshot)
            begin = len(self._facts)
            wanted = EventFilter(first_seq=snapshot + 1, last_seq=last)
            for record in self._log.reader.events(wanted):
                observer.fold_event(decode_recorded(record))
                done += 1
                self._progress("folding", done, count)
            self._facts[begin:] = _with_facts_of_index(self._facts[begin:], self._facts_until(last))
        self._facts += self._facts_until(seq)
        return self._facts

    def _facts_until(self, seq: int) -> list[AnyFact]:
        """The next facts of the index, up to an event."""
        found = []
        while self._of_index and self._of_index[0].seq <= seq:
            found.append(self._of_index.popleft())
        return found

    def _observer_after(self, snapshot: int) -> RecordedFactObserver:
        """The observer, before it observes the first event after a snapshot."""
        projection = projection_at(self._log, snapshot)
        assert isinstance(projection, RecordedProjection), "the log is a recorded one"
        fold = projection.folded
        if self._observer is None:
            self._observer = RecordedFactObserver(fold, self._subject, self._log.reader.header)
            self._observer.facts = self._facts
        self._observer.switch_to(fold)
        known = self._observer.known
        for one in self._facts:
            if isinstance(one, StateWritten):
                known.states[partition_named(one.partition)] = one.after
            elif isinstance(one, AssignmentWritten):
                known.assignments[partition_named(one.partition)] = one.after
        return self._observer


def _with_facts_of_index(folded: list[AnyFact], of_index: list[AnyFact]) -> list[AnyFact]:
    """The facts of one part: the folded ones, and those that only the index has."""
    roles = (one for one in of_index if isinstance(one, RoleChanged))
    facts = [next(roles) if isinstance(one, RoleChanged) else one for one in folded]
    return facts + [one for one in of_index if isinstance(one, _OF_WHOLE_LOG)]
