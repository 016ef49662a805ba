"""Virtual time: actions that are due at a time, run in the order of their times.

Actions that are due at the same time run in the order in which they were scheduled. Nothing else
orders them, so the same calls give the same run.
"""

import heapq
from typing import Final, Protocol

from controller.timers import Action

MS: Final = 1_000
"""Microseconds of one millisecond. All times of the simulation are whole microseconds."""
SECOND: Final = 1_000_000

WALL_START_MS: Final = 1_700_000_000_000
"""The wall clock at the start of a simulation, in milliseconds."""


class ScheduledAction:
    """An action that is due at a time, until it is cancelled."""

    __slots__ = ("action", "at_us", "clock")

    def __init__(self, at_us: int, action: Action, clock: "ProcessClock | None" = None) -> None:
        self.at_us = at_us
        self.action: Action | None = action
        self.clock = clock

    def cancel(self) -> None:
        """Do not run the action. Does nothing if it has run."""
        self.action = None


class Clock(Protocol):
    """The interface of the clock for a process."""

    @property
    def now_us(self) -> int:
        """The time, in microseconds."""

    def call_at(self, at_us: int, action: Action) -> ScheduledAction:
        """Schedule an action at a time."""

    def after(self, delay_us: int, action: Action) -> ScheduledAction:
        """Schedule an action after a delay."""


class Scheduler:
    """The clock of one world, which begins at 0, and what is due."""

    def __init__(self) -> None:
        self.now_us = 0
        self._order = 0
        self._due: list[tuple[int, int, ScheduledAction]] = []

    def call_at(self, at_us: int, action: Action) -> ScheduledAction:
        """Schedule an action; a time that is over means now, after all that is due now."""
        return self.add(at_us, ScheduledAction(at_us, action))

    def add(self, at_us: int, scheduled: ScheduledAction) -> ScheduledAction:
        """Schedule an action that exists already."""
        if at_us < self.now_us:
            at_us = scheduled.at_us = self.now_us
        self._order += 1
        heapq.heappush(self._due, (at_us, self._order, scheduled))
        return scheduled

    def after(self, delay_us: int, action: Action) -> ScheduledAction:
        """Schedule an action `delay_us` from now."""
        return self.call_at(self.now_us + delay_us, action)

    def step(self, until_us: int) -> bool:
        """Run the next action that is due up to `until_us`. False: there is none, and the clock is
        at `until_us`."""
        due = self._due
        while due and due[0][0] <= until_us:
            at_us, _, scheduled = heapq.heappop(due)
            action = scheduled.action
            if action is None:
                continue
            self.now_us = at_us
            if scheduled.clock is None:
                scheduled.action = None
                action()
            else:
                scheduled.clock.run(scheduled)
            return True
        self.now_us = max(self.now_us, until_us)
        return False

    def run_until(self, until_us: int) -> None:
        """Run everything that is due up to `until_us`."""
        while self.step(until_us):
            pass


class ProcessClock:
    """The clock of one run of a process, which can be paused and ended.

    While the process is paused, actions that are due wait. They run when it continues, in the order
    in which they were due. After the end nothing runs.
    """

    __slots__ = ("_is_ended", "_is_paused", "_scheduler", "_waiting")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._is_paused = self._is_ended = False
        self._waiting: list[ScheduledAction] = []

    @property
    def now_us(self) -> int:
        """The time of the simulation."""
        return self._scheduler.now_us

    def call_at(self, at_us: int, action: Action) -> ScheduledAction:
        """Schedule an action; a time that is over means now. The action is lost if the process ends
        before."""
        return self._scheduler.add(at_us, ScheduledAction(at_us, action, self))

    def after(self, delay_us: int, action: Action) -> ScheduledAction:
        """Schedule an action after a delay. It is lost if the process ends before."""
        return self.call_at(self._scheduler.now_us + delay_us, action)

    def after_ms(self, delay_ms: int, action: Action) -> ScheduledAction:
        """Schedule an action after a delay in milliseconds, for `controller.timers`."""
        return self.after(delay_ms * MS, action)

    def pause(self) -> None:
        """Run nothing until `resume`."""
        self._is_paused = True

    def resume(self) -> None:
        """Run what was due meanwhile, and everything later."""
        self._is_paused = False
        waiting, self._waiting = self._waiting, []
        for scheduled in waiting:
            self.run(scheduled)

    def end(self) -> None:
        """Run nothing any more."""
        self._is_ended = True
        self._waiting.clear()

    def run(self, scheduled: ScheduledAction) -> None:
        """Run an action of this process that is due, now or when the process runs again."""
        if self._is_ended or scheduled.action is None:
            return
        if self._is_paused:
            self._waiting.append(scheduled)
            return
        action, scheduled.action = scheduled.action, None
        action()
