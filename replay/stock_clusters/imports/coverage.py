"""The times for which brokers' request logs contain all requests.

A broker logs a request when it has served it. If its process ends before, the request is in no log.
"""

import re
from bisect import bisect_left
from typing import Final

from replay.stock_clusters.imported_log.events import (
    STARTED,
    ControllerLogged,
    ImportedEvent,
    RequestServed,
)

_DONE_MS: Final = 2_000
"""A controller may still process a request this long after a write for it."""
_OF_CONTROLLERS: Final = frozenset(("LEADER_AND_ISR", "STOP_REPLICA", "UPDATE_METADATA"))
_BROKER_EPOCH: Final = re.compile(rb'"brokerEpoch": ?(-?\d+)')
"""The broker's registration in the JSON of a controller's request, since Kafka 2.2 (KIP-380)."""


class RequestLogCoverage:
    """When each broker served requests, and when its process started."""

    def __init__(self) -> None:
        self._served_ms: dict[int, list[int]] = {}
        self._started_ms: dict[int, list[int]] = {}
        self._registered_ms: dict[int, list[int]] = {}
        """About when a broker registered again: the last controller's request before, and the first
        one after it."""
        self._last_request: dict[int, tuple[int, bytes]] = {}
        """The time and the registration in a controller's last request to a broker."""

    def note(self, time_ms: int, event: ImportedEvent) -> None:
        """Add a line of a log, in the order of time."""
        if isinstance(event, RequestServed):
            self._served_ms.setdefault(event.broker, []).append(time_ms)
            if event.api in _OF_CONTROLLERS:
                self._note_registration(time_ms, event)
        elif isinstance(event, ControllerLogged) and event.event == STARTED:
            self._started_ms.setdefault(event.broker, []).append(time_ms)

    def knows(self, broker: int) -> bool:
        """Whether a broker has a request log."""
        return broker in self._served_ms

    def covers(self, broker: int, time_ms: int) -> bool:
        """Whether a request that the broker processed at this time must be in its log.

        The log must have begun before, and must have a request that was served well after it,
        before the process was restarted. If no line shows a restart, a new registration counts as
        one.
        """
        times_ms = self._served_ms.get(broker, [])
        if times_ms and times_ms[0] > time_ms:
            return False
        served = _next(times_ms, time_ms + _DONE_MS)
        starts_ms = self._started_ms.get(broker) or self._registered_ms.get(broker, [])
        started = _next(starts_ms, time_ms)
        return served is not None and (started is None or served < started)

    def _note_registration(self, time_ms: int, event: RequestServed) -> None:
        found = _BROKER_EPOCH.search(event.request)
        if found is None:
            return
        before_ms, epoch = self._last_request.get(event.broker, (time_ms, found[1]))
        if epoch != found[1]:
            self._registered_ms.setdefault(event.broker, []).extend((before_ms + 1, time_ms))
        self._last_request[event.broker] = time_ms, found[1]


def _next(times: list[int], time_ms: int) -> int | None:
    """The first time that is not before `time_ms`."""
    place = bisect_left(times, time_ms)
    return times[place] if place < len(times) else None
