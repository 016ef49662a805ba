"""Plays a log from any event on, and goes back: it keeps checkpoints, and folds forward from the
nearest one. Searches backwards take the interval between two checkpoints at a time."""

from bisect import bisect_right, insort
from collections.abc import Iterator
from contextlib import contextmanager
from operator import attrgetter
from typing import Final

from replay.cluster_view.views import Cluster
from replay.cluster_view.waiting import with_times
from replay.debug.conditions import Condition
from replay.debug.moments import Moment
from replay.debug.tape import Checkpoint, Recording, Tape
from replay.errors import ReplayError
from replay.inspect.at import FOLDED_AT_ONCE_MAX, projection_at
from replay.logs.decode import time_of
from replay.logs.open_log import OpenedLog
from replay.progress import Progress, unreported

_APART: Final = 200
"""Events between two checkpoints at first; the distance doubles when they take too much memory."""
_BYTES_MAX: Final = 64 << 20
_COUNT_MAX: Final = 2_000
_SEQ: Final = attrgetter("seq")


class Playback:
    """A log that can be played from any event. All numbers of events are those of the log."""

    def __init__(self, log: OpenedLog, progress: Progress = unreported) -> None:
        """For a long log, snapshots are made first, as for `refold inspect`; the decisions of an
        imported log are derived. Raises ReplayError, LogError."""
        self.log = log
        self._recording = Recording(log, progress)
        self._checkpoints: list[Checkpoint] = []
        """In the order of the log."""
        self._apart = _APART
        if self.last_seq - log.reader.header.first_seq >= FOLDED_AT_ONCE_MAX:
            projection_at(log, self.last_seq, progress)
        with self._recording.tape(None, 1) as tape:
            self.first_seq = tape.state.seq + 1
        if self.last_seq < self.first_seq:
            raise ReplayError("the log has no events")

    @property
    def last_seq(self) -> int:
        """The last event; later ones appear if a daemon writes the log."""
        return self.log.reader.last_seq

    def moments(self, first: int, last: int) -> Iterator[Moment]:
        """The events of a range. Raises ReplayError, LogError."""
        with self._tape_after(first - 1) as tape:
            while tape.state.seq < last and (moment := tape.take()) is not None:
                yield moment

    def clusters(self, seq: int) -> tuple[Cluster, Cluster]:
        """The state before and after an event. Raises ReplayError, LogError."""
        with self._tape_after(seq - 1) as tape:
            before = self._cluster(tape)
            tape.skip()
            return before, self._cluster(tape)

    def find_after(
        self, seq: int, condition: Condition, progress: Progress = unreported
    ) -> int | None:
        """The first event after `seq` that meets a condition; None if none does."""
        return next(self._matches(condition, seq, self.last_seq, progress), None)

    def find_before(
        self, seq: int, condition: Condition, progress: Progress = unreported
    ) -> int | None:
        """The last event before `seq` that meets a condition; None if none does."""
        end = seq - 1
        while end >= self.first_seq:
            begin = self._checkpoint_seq(end)
            found = list(self._matches(condition, begin, end, progress))
            if found:
                return found[-1]
            end = begin
        return None

    def _matches(
        self, condition: Condition, after: int, last: int, progress: Progress
    ) -> Iterator[int]:
        """The events after `after` up to `last` that meet a condition, in order."""
        if after >= last:
            return
        with self._tape_after(after) as tape:
            before = condition.value(tape.state)
            while tape.state.seq < last:
                if condition.is_of_state:
                    if not tape.skip():
                        return
                    now = condition.value(tape.state)
                    is_found, before = condition.is_change(before, now), now
                else:
                    moment = tape.take()
                    if moment is None:
                        return
                    is_found = condition.holds(moment)
                self._keep(tape)
                progress("searching", tape.state.seq, None)
                if is_found:
                    yield tape.state.seq

    def _cluster(self, tape: Tape) -> Cluster:
        reader = self.log.reader
        found = tape.state.cluster(time_of(reader, tape.state.seq))
        return with_times(found, lambda seq: time_of(reader, seq))

    @contextmanager
    def _tape_after(self, seq: int) -> Iterator[Tape]:
        """The log from the event after `seq` on."""
        with self._recording.tape(self._nearest(seq), seq + 1) as tape:
            while tape.state.seq < seq and tape.skip():
                self._keep(tape)
            yield tape

    def _nearest(self, seq: int) -> Checkpoint | None:
        """The last checkpoint at or before an event; None: there is none."""
        place = bisect_right(self._checkpoints, seq, key=_SEQ)
        return self._checkpoints[place - 1] if place else None

    def _checkpoint_seq(self, end: int) -> int:
        """Where to begin in order to search backwards from event `end`."""
        with self._recording.tape(self._nearest(end - 1), end) as tape:
            return tape.state.seq

    def _keep(self, tape: Tape) -> None:
        """Keep a checkpoint if the last one is far enough away."""
        nearest = self._nearest(tape.state.seq)
        if tape.state.seq - (nearest.seq if nearest is not None else 0) < self._apart:
            return
        checkpoint = tape.checkpoint()
        if checkpoint is None:
            return
        insort(self._checkpoints, checkpoint, key=_SEQ)
        size = sum(len(one.body) for one in self._checkpoints)
        if size > _BYTES_MAX or len(self._checkpoints) > _COUNT_MAX:
            self._apart *= 2
            self._checkpoints = self._checkpoints[1::2]
