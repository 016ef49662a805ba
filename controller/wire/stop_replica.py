"""Encodes StopReplica requests, with kio: they are never sent in bulk (KB 12.3.3)."""

from io import BytesIO
from itertools import groupby
from operator import attrgetter
from typing import Any

from kio.schema.stop_replica import v1, v2, v3, v4
from kio.serial import entity_writer

from controller.core.commands import StopReplicaPartition, StopReplicaRequest
from controller.wire.apis import STOP_REPLICA
from controller.wire.framing import EncodedRequest

_SCHEMAS: dict[int, Any] = {1: v1.request, 2: v2.request, 3: v3.request, 4: v4.request}
_FIRST_WITH_LEADER_EPOCH = 3


def encode_stop_replica(request: StopReplicaRequest, version: int) -> EncodedRequest:
    """Encode a whole request. Raises `UnsupportedVersion`."""
    STOP_REPLICA.layout(version)
    schema = _SCHEMAS[version]
    topics = [
        (name, list(partitions))
        for name, partitions in groupby(request.partitions, attrgetter("topic"))
    ]
    if version >= _FIRST_WITH_LEADER_EPOCH:
        content: dict[str, Any] = {
            "topic_states": tuple(_state(schema, *topic) for topic in topics)
        }
    else:
        content = {
            "delete_partitions": any(one.delete for one in request.partitions),
            "topics": tuple(_topic(schema, *topic) for topic in topics),
        }
    entity = schema.StopReplicaRequest(
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=request.broker_epoch,
        **content,
    )
    body = BytesIO()
    entity_writer(schema.StopReplicaRequest)(body, entity)
    return EncodedRequest(STOP_REPLICA, version, b"", body.getvalue())


def _topic(schema: Any, name: str, partitions: list[StopReplicaPartition]) -> Any:
    indexes = tuple(one.partition for one in partitions)
    return schema.StopReplicaTopicV1(name=name, partition_indexes=indexes)


def _state(schema: Any, name: str, partitions: list[StopReplicaPartition]) -> Any:
    states = tuple(
        schema.StopReplicaPartitionState(
            partition_index=one.partition,
            leader_epoch=one.leader_epoch,
            delete_partition=one.delete,
        )
        for one in partitions
    )
    return schema.StopReplicaTopicState(topic_name=name, partition_states=states)
