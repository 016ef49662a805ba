"""What the fold has sent to brokers and has no answer to: each broker answers in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from controller.core.commands import (
    BrokerRequest,
    CommandId,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.core.error_codes import NONE
from controller.core.events import BrokerAnswered
from controller.core.values import UNKNOWN_BROKER_EPOCH

APIS = {
    LeaderAndIsrRequest: "LEADER_AND_ISR",
    UpdateMetadataRequest: "UPDATE_METADATA",
    StopReplicaRequest: "STOP_REPLICA",
}
"""The names of the requests in brokers' logs."""

Failed = Sequence[tuple[str, int, int]]
"""Partitions with an error: topic, partition, code."""


class BrokerQueues:
    """The queues of all brokers."""

    def __init__(self) -> None:
        self._queues: dict[int, deque[_Waiting]] = {}
        self._told_before: list[tuple[int, str]] = []

    def add(self, id: CommandId, request: BrokerRequest, sent_ms: int) -> None:
        """A request was sent."""
        self._queues.setdefault(request.broker, deque()).append(_Waiting(id, request, sent_ms))

    def close(self, broker: int) -> None:
        """What was queued is dropped, what was sent is not answered any more."""
        self._queues.pop(broker, None)

    def has(self, broker: int, api: str) -> bool:
        """Whether a request of this kind waits."""
        return any(APIS[type(one.request)] == api for one in self._queues.get(broker, ()))

    def is_for_other_run(self, broker: int, broker_epoch: int) -> bool:
        """Whether requests with this epoch of a broker are for another run of it than those that
        wait: one that was paused serves what came before, and has registered anew meanwhile."""
        queue = self._queues.get(broker)
        if not queue or broker_epoch == UNKNOWN_BROKER_EPOCH:
            return False
        return queue[0].request.broker_epoch != broker_epoch

    def is_known(self, broker: int, api: str) -> bool:
        """Whether this answer was told of before, by another log; it is not told a second time."""
        if (broker, api) not in self._told_before:
            return False
        self._told_before.remove((broker, api))
        return True

    def answer(self, broker: int, api: str, error: int, failed: Failed) -> BrokerAnswered | None:
        """The answer to the first request of this kind; what came before it has been answered."""
        queue = self._queues.get(broker)
        while queue and self.has(broker, api):
            one = queue.popleft()
            if APIS[type(one.request)] == api:
                return _answered(one, error, failed)
        return None

    def answer_deletion(
        self, broker: int, topics: set[str], error: int = NONE, failed: Failed = ()
    ) -> BrokerAnswered | None:
        """A broker was to delete replicas of these topics and has answered, as the controller's own
        log tells before any other; of a reassigned partition's replicas that tells nothing."""
        queue = self._queues.get(broker, deque())
        for place, one in enumerate(queue):
            if not topics.isdisjoint(_deleted(one.request)):
                del queue[place]
                self._told_before.append((broker, APIS[StopReplicaRequest]))
                return _answered(one, error, failed)
        return None

    def answer_sent_by(
        self, is_long_ago: Callable[[int, int], bool], brokers: set[int]
    ) -> BrokerAnswered | None:
        """Success, of the next request to a broker that is not among these, if that, by the broker
        and when it was sent, is long enough ago."""
        for broker, queue in self._queues.items():
            if queue and broker not in brokers and is_long_ago(broker, queue[0].sent_ms):
                return _answered(queue.popleft(), 0, [])
        return None

    def answer_deletion_of(self, topic: str, brokers: set[int]) -> BrokerAnswered | None:
        """Success, of the next request to a broker that is not among these, and that waits with a
        deletion of this topic's replicas."""
        for broker, queue in self._queues.items():
            if broker not in brokers and any(topic in _deleted(one.request) for one in queue):
                return _answered(queue.popleft(), 0, [])
        return None


class _Waiting(NamedTuple):
    id: CommandId
    request: BrokerRequest
    sent_ms: int


def _deleted(request: BrokerRequest) -> Iterator[str]:
    """The topics of the replicas that a request deletes."""
    if isinstance(request, StopReplicaRequest):
        yield from (one.topic for one in request.partitions if one.delete)


def _answered(one: _Waiting, error: int, failed: Failed) -> BrokerAnswered:
    to = one.request
    return BrokerAnswered(one.id, to.broker, to.broker_epoch, error, list(failed))
