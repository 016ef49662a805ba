"""The position of the debugger in a log: steps, searches, breakpoints, a filter, causes and
effects."""

from collections.abc import Iterable
from enum import Enum
from itertools import islice
from typing import Final, NamedTuple

from msgspec import Struct

from eventstore.errors import LogCorrupt
from replay.cluster_view.views import ClusterView
from replay.debug.conditions import (
    ABOUT,
    DECISION,
    EVENT,
    FAILOVER,
    PROCEDURE,
    EventCondition,
)
from replay.debug.event_view import EventView
from replay.debug.seekable_log import SeekableLog
from replay.errors import ReplayError
from replay.progress import Progress, unreported

EFFECTS_WITHIN: Final = 2_000
"""At most this many following events are searched for effects."""


class Unit(Enum):
    """The kinds of places in a log that a step can move to."""

    EVENT = "event"
    DECISION = "decision"
    PROCEDURE = "procedure"
    FAILOVER = "failover"


_CONDITIONS: Final = {
    Unit.EVENT: EVENT,
    Unit.DECISION: DECISION,
    Unit.PROCEDURE: PROCEDURE,
    Unit.FAILOVER: FAILOVER,
}


class BreakpointHit(Struct, frozen=True):
    """An event, and the breakpoint of which it meets the condition."""

    seq: int
    condition: EventCondition


class EventsAround(NamedTuple):
    """The events around the cursor. `damage`: why later ones cannot be read; empty if they can."""

    events: list[EventView]
    damage: str = ""


class Cursor:
    """A position in a log: an event, and the state after it."""

    def __init__(self, log: SeekableLog, seq: int | None = None) -> None:
        """Begin at an event; None: the first one. Raises ReplayError if there is no such event."""
        self._log = log
        self.seq = log.first_seq
        self.breakpoints: list[EventCondition] = []
        self.filter: str = ""
        """A topic, a partition or "broker 3": steps by event and decision skip others."""
        if seq is not None:
            self.go(seq)

    @property
    def first_seq(self) -> int:
        """The first event."""
        return self._log.first_seq

    @property
    def last_seq(self) -> int:
        """The last event."""
        return self._log.last_seq

    # Positions

    def go(self, seq: int) -> None:
        """Move to an event. Raises ReplayError if there is none with this number."""
        if not self.first_seq <= seq <= self.last_seq:
            raise ReplayError(
                f"there is no event {seq}: the log has events {self.first_seq} to {self.last_seq}"
            )
        self.seq = seq

    def step(self, unit: Unit, *, is_forward: bool = True, progress: Progress = unreported) -> bool:
        """Move to the next or previous event, decision, procedure or failover. False: there is
        none, and the cursor stays. Raises ReplayError, LogError."""
        condition = _CONDITIONS[unit]
        if self.filter and unit is Unit.EVENT:
            condition = EventCondition(ABOUT, self.filter)
        elif self.filter and unit is Unit.DECISION:
            condition = EventCondition(DECISION.what, self.filter)
        return self.search(condition, is_forward=is_forward, progress=progress)

    def search(
        self, condition: EventCondition, *, is_forward: bool = True, progress: Progress = unreported
    ) -> bool:
        """Move to the next or previous event that meets a condition. False: none does."""
        found = self._find(condition, is_forward, progress)
        if found is not None:
            self.seq = found
        return found is not None

    def run(
        self, *, is_forward: bool = True, progress: Progress = unreported
    ) -> BreakpointHit | None:
        """Move to the next or previous breakpoint. None: there is none. Raises ReplayError if no
        breakpoint is set."""
        if not self.breakpoints:
            raise ReplayError("no breakpoint is set: press b to set one")
        hits = [
            BreakpointHit(seq, one)
            for one in self.breakpoints
            if (seq := self._find(one, is_forward, progress)) is not None
        ]
        if not hits:
            return None
        nearest = min if is_forward else max
        stop = nearest(hits, key=lambda one: one.seq)
        self.seq = stop.seq
        return stop

    def _find(self, condition: EventCondition, is_forward: bool, progress: Progress) -> int | None:
        if is_forward:
            if condition == EVENT:
                return self.seq + 1 if self.seq < self.last_seq else None
            return self._log.find_after(self.seq, condition, progress)
        if condition == EVENT:
            return self.seq - 1 if self.seq > self.first_seq else None
        return self._log.find_before(self.seq, condition, progress)

    # What is at the position

    @property
    def event(self) -> EventView:
        """The event at the cursor."""
        return next(self._log.events(self.seq, self.seq))

    def clusters(self) -> tuple[ClusterView, ClusterView]:
        """The state before and after the event at the cursor."""
        return self._log.clusters(self.seq)

    def events_around(self, before: int, after: int) -> EventsAround:
        """The event at the cursor, with at most `before` events before it and `after` events after
        it, which pass the filter. Raises LogCorrupt if the event at the cursor or an earlier one is
        damaged."""
        if self.filter:
            events = [*self._filtered_before(before), self.event]
            following = self._filtered_after(after)
        else:
            first = max(self.first_seq, self.seq - before)
            events = [*self._log.events(first, self.seq)]
            following = self._log.events(self.seq + 1, min(self.last_seq, self.seq + after))
        try:
            for one in following:
                events.append(one)
        except LogCorrupt as error:
            return EventsAround(events, str(error))
        return EventsAround(events)

    def _filtered_before(self, count: int) -> list[EventView]:
        """The nearest earlier events that pass the filter, in order."""
        condition = EventCondition(ABOUT, self.filter)
        found: list[EventView] = []
        end = self.seq - 1
        earliest = max(self.first_seq, self.seq - _FILTERED_WITHIN)
        while len(found) < count and end >= earliest:
            page = self._log.events(max(earliest, end - _PAGE + 1), end)
            found = [*filter(condition.holds, page), *found]
            end -= _PAGE
        return found[-count:]

    def _filtered_after(self, count: int) -> Iterable[EventView]:
        """The nearest later events that pass the filter, in order."""
        condition = EventCondition(ABOUT, self.filter)
        last = min(self.last_seq, self.seq + _FILTERED_WITHIN)
        following = self._log.events(self.seq + 1, last)
        return islice(filter(condition.holds, following), count)

    # Causes and effects

    def causes(self) -> list[EventView]:
        """The earlier events that caused the one at the cursor, the nearest first."""
        return [
            found
            for seq in self.event.causes
            if seq >= self.first_seq
            for found in self._log.events(seq, seq)
        ]

    def effects(self) -> list[EventView]:
        """The events that the one at the cursor caused, among the EFFECTS_WITHIN next ones."""
        end = min(self.last_seq, self.seq + EFFECTS_WITHIN)
        following = self._log.events(self.seq + 1, end)
        return [one for one in following if self.seq in one.causes]


_PAGE: Final = 400
_FILTERED_WITHIN: Final = 20_000
"""How far from the cursor the filtered list of events reaches."""
