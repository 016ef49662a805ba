"""Replays a log from any event on, and goes back: it keeps checkpoints, and folds forward from the
nearest one. Searches backwards take the interval between two checkpoints at a time."""

from bisect import bisect_right, insort
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Any, Final

from replay.cluster_view.views import ClusterView
from replay.cluster_view.waiting import with_times
from replay.debug.candidates import CandidateEvents, EventRange
from replay.debug.conditions import EventCondition
from replay.debug.event_view import EventView
from replay.debug.log_replay import LogReplay, ReplayCheckpoint, derived_by_record, replay_from
from replay.errors import ReplayError
from replay.index.store import EventIndex
from replay.inspect.at import FOLDED_AT_ONCE_MAX, projection_at
from replay.logs.decode import time_of
from replay.logs.open_log import OpenedLog
from replay.progress import Progress, unreported

_APART: Final = 200
"""Events between two checkpoints at first; the distance doubles when they take too much memory."""
_BYTES_MAX: Final = 64 << 20
_COUNT_MAX: Final = 2_000
_SEQ: Final = attrgetter("seq")


class SeekableLog:
    """A log that can be replayed from any event. All numbers of events are those of the log."""

    def __init__(
        self, log: OpenedLog, progress: Progress = unreported, index: EventIndex | None = None
    ) -> None:
        """For a long log, snapshots are made first, as for `refold inspect`; the decisions of an
        imported log are derived. `index`: that of the log, for searches. Raises ReplayError,
        LogError."""
        self.log = log
        self._candidates = CandidateEvents(index) if index is not None else None
        self._derived = derived_by_record(log, index, progress)
        self._checkpoints: list[ReplayCheckpoint] = []
        """In the order of the log."""
        self._apart = _APART
        if self.last_seq - log.reader.header.first_seq >= FOLDED_AT_ONCE_MAX:
            projection_at(log, self.last_seq, progress)
        with replay_from(self.log, None, 1, self._derived) as replay:
            self.first_seq = replay.state.seq + 1
        if self.last_seq < self.first_seq:
            raise ReplayError("the log has no events")

    @property
    def last_seq(self) -> int:
        """The last event; later ones appear if a daemon writes the log."""
        return self.log.reader.last_seq

    def events(self, first: int, last: int) -> Iterator[EventView]:
        """The events of a range. Raises ReplayError, LogError."""
        with self._replay_after(first - 1) as replay:
            while replay.state.seq < last and (event := replay.take()) is not None:
                yield event

    def clusters(self, seq: int) -> tuple[ClusterView, ClusterView]:
        """The state before and after an event. Raises ReplayError, LogError."""
        with self._replay_after(seq - 1) as replay:
            before = self._cluster(replay)
            replay.skip()
            return before, self._cluster(replay)

    def find_after(
        self, seq: int, condition: EventCondition, progress: Progress = unreported
    ) -> int | None:
        """The first event after `seq` that meets a condition; None if none does."""
        everything = EventRange(seq, self.last_seq)
        for part in self._parts(condition, everything, is_forward=True):
            found = next(self._matches(condition, *part, progress), None)
            if found is not None:
                return found
        return None

    def find_before(
        self, seq: int, condition: EventCondition, progress: Progress = unreported
    ) -> int | None:
        """The last event before `seq` that meets a condition; None if none does."""
        everything = EventRange(self.first_seq - 1, seq - 1)
        for after, end in self._parts(condition, everything, is_forward=False):
            while end > after:
                begin = max(after, self._checkpoint_seq(end))
                found = list(self._matches(condition, begin, end, progress))
                if found:
                    return found[-1]
                end = begin
        return None

    def _parts(
        self, condition: EventCondition, everything: EventRange, *, is_forward: bool
    ) -> Iterator[EventRange]:
        """The ranges to search, in the order of the search: by the index, if it knows any."""
        ranges = None
        if self._candidates is not None:
            ranges = self._candidates.ranges(condition, *everything)
        if ranges is None:
            yield everything
            return
        edge = everything.after if is_forward else everything.last
        for one in ranges if is_forward else reversed(ranges):
            between = EventRange(edge, one.after) if is_forward else EventRange(one.last, edge)
            if self._has_changed(condition, between):
                yield between
            yield one
            edge = one.last if is_forward else one.after
        rest = (
            EventRange(edge, everything.last) if is_forward else EventRange(everything.after, edge)
        )
        if self._has_changed(condition, rest):
            yield rest

    def _has_changed(self, condition: EventCondition, between: EventRange) -> bool:
        """Whether the state has changed between listed events; conditions that are not of the state
        are met at listed ones only."""
        if not condition.is_of_state or between.after >= between.last:
            return False
        before, now = (self._value(condition, seq) for seq in between)
        return condition.is_change(before, now)

    def _value(self, condition: EventCondition, seq: int) -> Any:
        with self._replay_after(seq) as replay:
            return condition.value(replay.state)

    def _matches(
        self, condition: EventCondition, after: int, last: int, progress: Progress
    ) -> Iterator[int]:
        """The events after `after` up to `last` that meet a condition, in order."""
        if after >= last:
            return
        with self._replay_after(after) as replay:
            before = condition.value(replay.state)
            while replay.state.seq < last:
                if condition.is_of_state:
                    if not replay.skip():
                        return
                    now = condition.value(replay.state)
                    is_found, before = condition.is_change(before, now), now
                else:
                    event = replay.take()
                    if event is None:
                        return
                    is_found = condition.holds(event)
                self._keep(replay)
                progress("searching", replay.state.seq, None)
                if is_found:
                    yield replay.state.seq

    def _cluster(self, replay: LogReplay) -> ClusterView:
        reader = self.log.reader
        found = replay.state.cluster(time_of(reader, replay.state.seq))
        return with_times(found, lambda seq: time_of(reader, seq))

    @contextmanager
    def _replay_after(self, seq: int) -> Iterator[LogReplay]:
        """The log from the event after `seq` on."""
        with replay_from(self.log, self._checkpoint_before(seq), seq + 1, self._derived) as replay:
            while replay.state.seq < seq and replay.skip():
                self._keep(replay)
            yield replay

    def _checkpoint_before(self, seq: int) -> ReplayCheckpoint | None:
        """The last checkpoint at or before an event; None: there is none."""
        place = bisect_right(self._checkpoints, seq, key=_SEQ)
        return self._checkpoints[place - 1] if place else None

    def _checkpoint_seq(self, end: int) -> int:
        """Where to begin in order to search backwards from event `end`."""
        with replay_from(self.log, self._checkpoint_before(end - 1), end, self._derived) as replay:
            return replay.state.seq

    def _keep(self, replay: LogReplay) -> None:
        """Keep a checkpoint if the last one is far enough away."""
        nearest = self._checkpoint_before(replay.state.seq)
        if replay.state.seq - (nearest.seq if nearest is not None else 0) < self._apart:
            return
        checkpoint = replay.checkpoint()
        if checkpoint is None:
            return
        insort(self._checkpoints, checkpoint, key=_SEQ)
        size = sum(len(one.body) for one in self._checkpoints)
        if size > _BYTES_MAX or len(self._checkpoints) > _COUNT_MAX:
            self._apart *= 2
            self._checkpoints = self._checkpoints[1::2]
