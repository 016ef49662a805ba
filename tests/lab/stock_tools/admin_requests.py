"""Requests of admin tools to the controller, as kio's classes."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from tests.controller.api.client import METADATA, request_schema

CREATE_TOPICS, CREATE_TOPICS_VERSION = 19, 5
DELETE_TOPICS, DELETE_TOPICS_VERSION = 20, 5
CREATE_PARTITIONS, CREATE_PARTITIONS_VERSION = 37, 3
ALTER_REASSIGNMENTS, ALTER_REASSIGNMENTS_VERSION = 45, 0
METADATA_VERSION = 9
TIMEOUT = timedelta(seconds=30)

Assignment = Mapping[int, Sequence[int]]


def create_topics(
    topics: Mapping[str, Assignment | int], *, partitions: int = 1, timeout: timedelta = TIMEOUT
) -> Any:
    """Topics with an assignment, or with a number of replicas that the controller places."""
    schema = request_schema(CREATE_TOPICS, CREATE_TOPICS_VERSION)
    requested = []
    for name, replicas in topics.items():
        given = {} if isinstance(replicas, int) else replicas
        assignments = tuple(
            schema.CreatableReplicaAssignment(partition_index=number, broker_ids=tuple(brokers))
            for number, brokers in given.items()
        )
        requested.append(
            schema.CreatableTopic(
                name=name,
                num_partitions=-1 if given else partitions,
                replication_factor=replicas if isinstance(replicas, int) else -1,
                assignments=assignments,
                configs=(),
            )
        )
    return schema.CreateTopicsRequest(topics=tuple(requested), timeout=timeout, validate_only=False)


def delete_topics(names: Sequence[str]) -> Any:
    """A deletion of topics by their names."""
    schema = request_schema(DELETE_TOPICS, DELETE_TOPICS_VERSION)
    return schema.DeleteTopicsRequest(topic_names=tuple(names), timeout=TIMEOUT)


def create_partitions(topic: str, count: int, added: Sequence[Sequence[int]] | None = None) -> Any:
    """A number of partitions, with the replicas of the added ones, or chosen by the controller."""
    schema = request_schema(CREATE_PARTITIONS, CREATE_PARTITIONS_VERSION)
    assignments = added and tuple(
        schema.CreatePartitionsAssignment(broker_ids=tuple(one)) for one in added
    )
    requested = schema.CreatePartitionsTopic(name=topic, count=count, assignments=assignments)
    return schema.CreatePartitionsRequest(topics=(requested,), timeout=TIMEOUT, validate_only=False)


def alter_reassignments(targets: Mapping[tuple[str, int], Sequence[int]]) -> Any:
    """Reassignments by topic and partition number."""
    schema = request_schema(ALTER_REASSIGNMENTS, ALTER_REASSIGNMENTS_VERSION)
    topics: dict[str, list[Any]] = {}
    for (topic, number), replicas in targets.items():
        partition = schema.ReassignablePartition(partition_index=number, replicas=tuple(replicas))
        topics.setdefault(topic, []).append(partition)
    requested = tuple(
        schema.ReassignableTopic(name=topic, partitions=tuple(partitions))
        for topic, partitions in topics.items()
    )
    return schema.AlterPartitionReassignmentsRequest(topics=requested, timeout=TIMEOUT)


def metadata(created: Sequence[str] | None = None) -> Any:
    """All nodes and topics; or these topics, which are created if they do not exist."""
    schema = request_schema(METADATA, METADATA_VERSION)
    topics = (
        None if created is None else tuple(schema.MetadataRequestTopic(name=one) for one in created)
    )
    return schema.MetadataRequest(
        topics=topics,
        allow_auto_topic_creation=created is not None,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
