"""The fold's requests to brokers that are not answered yet. Each broker answers in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

from controller.core.commands import (
    BrokerRequest,
    CommandId,
    LeaderAndIsrRequest,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from controller.core.error_codes import NONE
from controller.core.events import BrokerResponded
from controller.core.values import UNKNOWN_BROKER_EPOCH
from replay.checkpoint import Checkpointed, State

APIS: Final = {
    LeaderAndIsrRequest: "LEADER_AND_ISR",
    UpdateMetadataRequest: "UPDATE_METADATA",
    StopReplicaRequest: "STOP_REPLICA",
}
"""The names of the requests in brokers' logs."""

Failed = Sequence[tuple[str, int, int]]
"""Partitions with an error: topic, partition, code."""


class BrokerQueues(Checkpointed):
    """The queues of all brokers."""

    def __init__(self) -> None:
        self._queues: dict[int, deque[_Unanswered]] = {}
        self._answered_early: list[tuple[int, str]] = []

    def save(self) -> State:
        """A copy of all queues."""
        queues = {broker: deque(queue) for broker, queue in self._queues.items()}
        return {"_queues": queues, "_answered_early": list(self._answered_early)}

    def add(self, id: CommandId, request: BrokerRequest, sent_ms: int) -> None:
        """Add a request that was sent."""
        self._queues.setdefault(request.broker, deque()).append(_Unanswered(id, request, sent_ms))

    def close(self, broker: int) -> None:
        """Drop a broker's queue: its requests are not answered any more."""
        self._queues.pop(broker, None)

    def has(self, broker: int, api: str) -> bool:
        """Whether a request of this kind is not answered."""
        return any(APIS[type(one.request)] == api for one in self._queues.get(broker, ()))

    def is_for_other_run(self, broker: int, broker_epoch: int) -> bool:
        """Whether a response with this broker epoch belongs to another run of the broker.

        A broker that was paused answers earlier requests after it has registered again.
        """
        queue = self._queues.get(broker)
        if not queue or broker_epoch == UNKNOWN_BROKER_EPOCH:
            return False
        return queue[0].request.broker_epoch != broker_epoch

    def take_known(self, broker: int, api: str) -> bool:
        """Whether another log has already reported this response; True only once."""
        if (broker, api) not in self._answered_early:
            return False
        self._answered_early.remove((broker, api))
        return True

    def answer(self, broker: int, api: str, error: int, failed: Failed) -> BrokerResponded | None:
        """The response to the first request of this kind. The requests before it count as
        answered."""
        queue = self._queues.get(broker)
        while queue and self.has(broker, api):
            one = queue.popleft()
            if APIS[type(one.request)] == api:
                return _response_to(one, error, failed)
        return None

    def answer_deletion(
        self, broker: int, topics: set[str], error: int = NONE, failed: Failed = ()
    ) -> BrokerResponded | None:
        """The response to a request that deletes replicas of these topics.

        controller.log reports it before other logs do. It does not report deletions of replicas by
        a reassignment.
        """
        queue = self._queues.get(broker, deque())
        for place, one in enumerate(queue):
            if not topics.isdisjoint(_deleted_topics(one.request)):
                del queue[place]
                self._answered_early.append((broker, APIS[StopReplicaRequest]))
                return _response_to(one, error, failed)
        return None

    def answer_sent_by(
        self, is_long_ago: Callable[[int, int], bool], brokers: set[int]
    ) -> BrokerResponded | None:
        """Success of the first request to a broker without logs that was sent long enough ago.

        `brokers` have logs. `is_long_ago` gets the broker and the time of sending, in ms.
        """
        for broker, queue in self._queues.items():
            if queue and broker not in brokers and is_long_ago(broker, queue[0].sent_ms):
                return _response_to(queue.popleft(), NONE, [])
        return None

    def answer_deletion_of(self, topic: str, brokers: set[int]) -> BrokerResponded | None:
        """Success of the first request to a broker without logs whose queue deletes this topic's
        replicas. `brokers` have logs."""
        for broker, queue in self._queues.items():
            if broker not in brokers and any(
                topic in _deleted_topics(one.request) for one in queue
            ):
                return _response_to(queue.popleft(), NONE, [])
        return None


class _Unanswered(NamedTuple):
    id: CommandId
    request: BrokerRequest
    sent_ms: int


def _deleted_topics(request: BrokerRequest) -> Iterator[str]:
    """The topics of the replicas that a request deletes."""
    if isinstance(request, StopReplicaRequest):
        yield from (one.topic for one in request.partitions if one.delete)


def _response_to(one: _Unanswered, error: int, failed: Failed) -> BrokerResponded:
    to = one.request
    return BrokerResponded(one.id, to.broker, to.broker_epoch, error, list(failed))
