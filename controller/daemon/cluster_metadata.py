"""Answers Metadata and DescribeCluster from the controller's state, as a broker answers its own
clients (KafkaApis.handleTopicMetadataRequest, handleDescribeCluster; ZkMetadataCache).

Reading decides nothing, so the event log has no record of it: clients ask every few minutes. The
event loop is shared with the fold; so a response is made in slices, one response at a time.
"""

import asyncio
import time
from collections.abc import Iterator
from typing import Final

from controller.api.cluster_metadata import (
    AnnouncedPartition,
    ClusterMetadata,
    MetadataQuery,
    RequestedTopic,
    TopicMetadata,
)
from controller.core.api_requests.received_request import ClientIdentity
from controller.core.authorization import DESCRIBE, THE_CLUSTER, Resource, refusal, topic_resource
from controller.core.error_codes import (
    INVALID_TOPIC_EXCEPTION,
    LEADER_NOT_AVAILABLE,
    LISTENER_NOT_FOUND,
    NONE,
    TOPIC_AUTHORIZATION_FAILED,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from controller.core.fold import Fold
from controller.core.state import Partition, Topic
from controller.core.topic_names import INTERNAL_TOPICS, problem_of
from controller.core.values import NO_LEADER

SLICE_SECONDS: Final = 0.005
"""A slice is followed by a pause of the same duration."""

_CLUSTER_ACTION: Final = "ClusterAction"
TOPIC_OPERATIONS: Final = {
    "Read": 3,
    "Write": 4,
    "Create": 5,
    "Delete": 6,
    "Alter": 7,
    DESCRIBE: 8,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
}
CLUSTER_OPERATIONS: Final = {
    "Create": 5,
    "Alter": 7,
    DESCRIBE: 8,
    _CLUSTER_ACTION: 9,
    "DescribeConfigs": 10,
    "AlterConfigs": 11,
    "IdempotentWrite": 12,
}
"""The operations of a resource type, with their codes (AclEntry.supportedOperations)."""


class MetadataReader:
    """Reads the state of the fold."""

    def __init__(self, fold: Fold, cluster_id: str) -> None:
        self._fold = fold
        self._cluster_id = cluster_id
        self._turn = asyncio.Lock()

    async def read(self, query: MetadataQuery) -> ClusterMetadata | None:
        """The response; None while the daemon is not controller, or fails over."""
        async with self._turn:
            term = self._term()
            answer = _Response(self._fold, query)
            topics = await _in_slices(answer.topics()) if term else []
            # What was read in another term may be of two controllers.
            if not term or term != self._term():
                return None
        brokers = self._fold.controller.context.brokers.values()
        return ClusterMetadata(
            self._cluster_id,
            tuple([one for one in brokers if one.endpoint(query.listener)]),
            tuple(topics),
            answer.cluster_operations(),
        )

    def may_act_as_broker(self, client: ClientIdentity) -> bool:
        """Whether a client may send requests of brokers, by the ACLs that are known now."""
        controller = self._fold.controller
        rules, acls = controller.configuration.authorization, controller.context.acls
        return rules is None or refusal(acls, rules, client, _CLUSTER_ACTION, THE_CLUSTER) is None

    def _term(self) -> int:
        """The term, 0 while the state is not complete."""
        controller = self._fold.controller
        is_complete = controller.context.is_loaded and not self._fold.is_failing_over
        return controller.term if is_complete and not controller.is_stopping else 0


class _Response:
    """The parts of one response."""

    def __init__(self, fold: Fold, query: MetadataQuery) -> None:
        controller = fold.controller
        self._context = controller.context
        self._rules = controller.configuration.authorization
        self._query = query

    def topics(self) -> Iterator[TopicMetadata]:
        """The topics of the query; of all topics those that the client may describe."""
        context = self._context
        if self._query.topics is None:
            for name in context.known_topics():
                if context.is_in_metadata(name) and self._is_allowed(
                    DESCRIBE, topic_resource(name)
                ):
                    yield self._of_topic(context.topics[name])
            return
        for asked in self._query.topics:
            yield self._of_id(asked.id) if asked.name is None else self._of_name(asked)

    def cluster_operations(self) -> int | None:
        """The operations that the client may carry out on the cluster. They are withheld from a
        client that may not describe it."""
        if not self._query.with_cluster_operations:
            return None
        if not self._is_allowed(DESCRIBE, THE_CLUSTER):
            return 0
        return self._operations(THE_CLUSTER, CLUSTER_OPERATIONS)

    def _of_id(self, topic_id: bytes | None) -> TopicMetadata:
        topic = self._context.topics_by_id.get(topic_id or b"")
        if topic is None or not self._context.is_in_metadata(topic.name):
            return TopicMetadata(UNKNOWN_TOPIC_ID, None, topic_id)
        if not self._is_allowed(DESCRIBE, topic_resource(topic.name)):
            return TopicMetadata(TOPIC_AUTHORIZATION_FAILED, None, topic_id)
        return self._of_topic(topic)

    def _of_name(self, asked: RequestedTopic) -> TopicMetadata:
        name = asked.name or ""
        is_internal = name in INTERNAL_TOPICS
        if not self._is_allowed(DESCRIBE, topic_resource(name)):
            return TopicMetadata(TOPIC_AUTHORIZATION_FAILED, name, None, is_internal)
        if self._context.is_in_metadata(name):
            return self._of_topic(self._context.topics[name])
        is_valid = problem_of(name) is None
        error = UNKNOWN_TOPIC_OR_PARTITION if is_valid else INVALID_TOPIC_EXCEPTION
        operations = self._topic_operations(name)
        return TopicMetadata(error, name, None, is_internal, operations=operations)

    def _topic_operations(self, name: str) -> int | None:
        if not self._query.with_topic_operations:
            return None
        return self._operations(topic_resource(name), TOPIC_OPERATIONS)

    def _of_topic(self, topic: Topic) -> TopicMetadata:
        return TopicMetadata(
            NONE,
            topic.name,
            topic.id,
            topic.name in INTERNAL_TOPICS,
            tuple([self._of_partition(one) for one in topic.assigned() if one.leadership]),
            self._topic_operations(topic.name),
        )

    def _of_partition(self, partition: Partition) -> AnnouncedPartition:
        state = partition.leadership
        assert state is not None, "such partitions are left out"
        error, leader = NONE, state.leader
        if not self._is_reachable(leader):
            is_alive = leader in self._context.brokers
            error = LISTENER_NOT_FOUND if is_alive else LEADER_NOT_AVAILABLE
            leader = NO_LEADER
        offline = [one for one in partition.replicas if not self._is_online(one, partition)]
        return AnnouncedPartition(
            error,
            partition.number,
            leader,
            state.leader_epoch,
            partition.replicas,
            state.isr,
            tuple(offline),
        )

    def _is_online(self, broker: int, partition: Partition) -> bool:
        return self._is_reachable(broker) and self._context.is_online_or_shutting_down(
            broker, partition
        )

    def _is_reachable(self, broker: int) -> bool:
        found = self._context.brokers.get(broker)
        return found is not None and found.endpoint(self._query.listener) is not None

    def _operations(self, resource: Resource, codes: dict[str, int]) -> int:
        return sum(1 << code for name, code in codes.items() if self._is_allowed(name, resource))

    def _is_allowed(self, operation: str, resource: Resource) -> bool:
        if self._rules is None:
            return True
        acls, client = self._context.acls, self._query.client
        return refusal(acls, self._rules, client, operation, resource) is None


async def _in_slices(parts: Iterator[TopicMetadata]) -> list[TopicMetadata]:
    found: list[TopicMetadata] = []
    began = time.monotonic()
    for one in parts:
        found.append(one)
        took = time.monotonic() - began
        if took > SLICE_SECONDS:
            await asyncio.sleep(took)
            began = time.monotonic()
    return found
