"""Virtual time: actions that are due at a time, run in the order of their times.

Actions that are due at the same time run in the order in which they were scheduled. Nothing else
orders them, so the same calls give the same run.
"""

import heapq
from collections.abc import Callable
from typing import Final

Action = Callable[[], None]

MS: Final = 1_000
"""Microseconds of one millisecond. All times of the world are whole microseconds."""
SECOND: Final = 1_000_000


class Scheduled:
    """An action that is due at a time, until it is cancelled."""

    __slots__ = ("action", "at_us")

    def __init__(self, at_us: int, action: Action) -> None:
        self.at_us = at_us
        self.action: Action | None = action

    def cancel(self) -> None:
        """Do not run the action. Does nothing if it has run."""
        self.action = None


class Scheduler:
    """The clock of one world, which begins at 0, and what is due."""

    def __init__(self) -> None:
        self.now_us = 0
        self._order = 0
        self._due: list[tuple[int, int, Scheduled]] = []

    def at(self, at_us: int, action: Action) -> Scheduled:
        """Schedule an action; a time that is over means now, after all that is due now."""
        scheduled = Scheduled(max(at_us, self.now_us), action)
        self._order += 1
        heapq.heappush(self._due, (scheduled.at_us, self._order, scheduled))
        return scheduled

    def after(self, delay_us: int, action: Action) -> Scheduled:
        """Schedule an action `delay_us` from now."""
        return self.at(self.now_us + delay_us, action)

    def step(self, until_us: int) -> bool:
        """Run the next action that is due up to `until_us`. False: there is none, and the clock is
        at `until_us`."""
        while self._due and self._due[0][0] <= until_us:
            at_us, _, scheduled = heapq.heappop(self._due)
            action, scheduled.action = scheduled.action, None
            if action is not None:
                self.now_us = at_us
                action()
                return True
        self.now_us = max(self.now_us, until_us)
        return False

    def run_until(self, until_us: int) -> None:
        """Run everything that is due up to `until_us`."""
        while self.step(until_us):
            pass
