"""The requests to controllers in brokers' request logs, to be looked up by content.

A request that a broker did not finish before its process ended is in no log. `coverage` says when
that is possible.
"""

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from msgspec import structs

from controller.core.api_requests.alter_partition import AlterPartitionReceived, ProposedState
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from replay.stock_clusters.imported_log.api_requests import UnreadableRequestError, api_request_of
from replay.stock_clusters.imported_log.events import ControllerLogged, LoggedEvent, RequestServed
from replay.stock_clusters.imports.coverage import RequestLogCoverage

_ELECTED: Final = re.compile(r"elected as the controller\. Epoch incremented to (\d+)")

SLACK_MS: Final = 5_000
"""The clocks of ZooKeeper and a broker may differ this much where requests are found by time."""

LOGS: Final = ("control-requests.log", "kafka-request.log", "controller.log")
"""The kinds of brokers' logs that contain requests and the starts of brokers."""

_IsrKey = tuple[int, ProposedState]
"""The receiving broker, and a state whose topic is a name, or an id in hex."""
_TargetKey = tuple[int, ReassignmentTarget]


class LoggedRequests:
    """All requests, by the receiving broker."""

    def __init__(self, logged: Iterable[LoggedEvent] = ()) -> None:
        """`logged` are the events of request logs and controller.logs, in the order of time."""
        self.allocates_producer_ids = False
        """Whether a controller received AllocateProducerIds; older brokers take blocks
        themselves."""
        self.elected_ms: dict[int, int] = {}
        """When controllers logged their elections, by epoch."""
        self.unreadable: Counter[int] = Counter()
        """The number of requests with unknown fields, by broker."""
        self._isrs: set[_IsrKey] = set()
        self._targets: dict[_TargetKey, list[tuple[int, int]]] = {}
        self.coverage = RequestLogCoverage()
        for time_ms, _, event in logged:
            self.coverage.note(time_ms, event)
            if isinstance(event, RequestServed):
                self._add(time_ms, event)
            elif isinstance(event, ControllerLogged) and (found := _ELECTED.search(event.text)):
                self.elected_ms[int(found[1])] = time_ms

    @property
    def notes(self) -> list[str]:
        """A note about requests that cannot be read."""
        if not self.unreadable:
            return []
        count = self.unreadable.total()
        return [f"{count} requests in the request logs have unknown fields and are left out"]

    def has_isr(self, broker: int, topic_id: str, state: ProposedState) -> bool:
        """Whether a leader requested this state, with the topic's name or id."""
        by_id = structs.replace(state, topic=topic_id)
        return (broker, state) in self._isrs or (broker, by_id) in self._isrs

    def has_target(self, broker: int, target: ReassignmentTarget, time_ms: int) -> bool:
        """Whether a client requested these replicas, and the broker was processing that then."""
        return any(
            received - SLACK_MS <= time_ms <= done + SLACK_MS
            for received, done in self._targets.get((broker, target), ())
        )

    def _add(self, time_ms: int, served: RequestServed) -> None:
        try:
            request = api_request_of(served, 0)
        except UnreadableRequestError:
            self.unreadable[served.broker] += 1
            return
        match request:
            case AlterPartitionReceived(partitions=states):
                self._isrs.update((served.broker, one) for one in states)
            case AllocateProducerIdsReceived():
                self.allocates_producer_ids = True
            case AlterPartitionReassignmentsReceived(partitions=targets):
                when = (served.received_ms, time_ms)
                for one in targets:
                    self._targets.setdefault((served.broker, one), []).append(when)
            case _:
                pass
