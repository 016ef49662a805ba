"""From when to when brokers' request logs tell of all that was asked.

A request is logged when it is done, by the broker that served it. One that a broker did not finish
before its process ended is in no log.
"""

from bisect import bisect_left
from typing import Final

from replay.world_log.events import STARTED, ControllerLogged, RequestServed, WorldEvent

_DONE_MS: Final = 2_000
"""How long after it writes for a request a controller may be at it."""


class Coverage:
    """By broker, when it served requests and when its process started."""

    def __init__(self) -> None:
        self._served_ms: dict[int, list[int]] = {}
        self._started_ms: dict[int, list[int]] = {}

    def take(self, time_ms: int, event: WorldEvent) -> None:
        """A line of a log, in the order of time."""
        if isinstance(event, RequestServed):
            self._served_ms.setdefault(event.broker, []).append(time_ms)
        elif isinstance(event, ControllerLogged) and event.event == STARTED:
            self._started_ms.setdefault(event.broker, []).append(time_ms)

    def knows(self, broker: int) -> bool:
        """Whether there is a request log of a broker."""
        return broker in self._served_ms

    def covers(self, broker: int, time_ms: int) -> bool:
        """Whether a request that the broker was at then must be in its log: that had begun, and has
        one that was done well behind it, before the process was started anew."""
        times_ms = self._served_ms.get(broker, [])
        if times_ms and times_ms[0] > time_ms:
            return False
        served = _next(times_ms, time_ms + _DONE_MS)
        started = _next(self._started_ms.get(broker, []), time_ms)
        return served is not None and (started is None or served < started)


def _next(times: list[int], time_ms: int) -> int | None:
    """The first time that is not before."""
    place = bisect_left(times, time_ms)
    return times[place] if place < len(times) else None
