"""From when to when brokers' request logs tell of all that was asked.

A request is logged when it is done, by the broker that served it. One that a broker did not finish
before its process ended is in no log.
"""

import re
from bisect import bisect_left
from typing import Final

from replay.stock_clusters.imported_log.events import (
    STARTED,
    ControllerLogged,
    RequestServed,
    WorldEvent,
)

_DONE_MS: Final = 2_000
"""How long after it writes for a request a controller may be at it."""
_OF_CONTROLLERS: Final = frozenset(("LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA"))
_BROKER_EPOCH: Final = re.compile(rb'"brokerEpoch": ?(-?\d+)')
"""In the JSON of their requests, since Kafka 2.2 (KIP-380): the broker's registration."""


class Coverage:
    """By broker, when it served requests and when its process started."""

    def __init__(self) -> None:
        self._served_ms: dict[int, list[int]] = {}
        self._started_ms: dict[int, list[int]] = {}
        self._registered_ms: dict[int, list[int]] = {}
        """About when it registered anew: the last thing that it was told before, and the first one
        behind that."""
        self._told: dict[int, tuple[int, bytes]] = {}
        """When a broker was told something last, and by which registration."""

    def take(self, time_ms: int, event: WorldEvent) -> None:
        """A line of a log, in the order of time."""
        if isinstance(event, RequestServed):
            self._served_ms.setdefault(event.broker, []).append(time_ms)
            if event.api in _OF_CONTROLLERS:
                self._take_registration(time_ms, event)
        elif isinstance(event, ControllerLogged) and event.event == STARTED:
            self._started_ms.setdefault(event.broker, []).append(time_ms)

    def knows(self, broker: int) -> bool:
        """Whether there is a request log of a broker."""
        return broker in self._served_ms

    def covers(self, broker: int, time_ms: int) -> bool:
        """Whether a request that the broker was at then must be in its log: that had begun, and has
        one that was done well behind it, before the process was started anew. Where no line tells
        when that was, a broker that registers anew may have been."""
        times_ms = self._served_ms.get(broker, [])
        if times_ms and times_ms[0] > time_ms:
            return False
        served = _next(times_ms, time_ms + _DONE_MS)
        starts_ms = self._started_ms.get(broker) or self._registered_ms.get(broker, [])
        started = _next(starts_ms, time_ms)
        return served is not None and (started is None or served < started)

    def _take_registration(self, time_ms: int, event: RequestServed) -> None:
        found = _BROKER_EPOCH.search(event.request)
        if found is None:
            return
        before_ms, epoch = self._told.get(event.broker, (time_ms, found[1]))
        if epoch != found[1]:
            self._registered_ms.setdefault(event.broker, []).extend((before_ms + 1, time_ms))
        self._told[event.broker] = time_ms, found[1]


def _next(times: list[int], time_ms: int) -> int | None:
    """The first time that is not before."""
    place = bisect_left(times, time_ms)
    return times[place] if place < len(times) else None
