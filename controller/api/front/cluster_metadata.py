"""Metadata and DescribeCluster where requests are not forwarded: the daemon answers them."""

import asyncio
import sys
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from controller.api.cluster_metadata import (
    AnnouncedPartition,
    ClusterMetadata,
    MetadataQuery,
    RequestedTopic,
    TopicMetadata,
)
from controller.api.front.daemon_queries import DaemonQueries
from controller.api.messages import ReadMetadata
from controller.core.api_requests.received_request import ClientIdentity
from controller.core.error_codes import (
    LEADER_NOT_AVAILABLE,
    LISTENER_NOT_FOUND,
    REPLICA_NOT_AVAILABLE,
)
from controller.core.values import Broker, Endpoint
from controller.wire.client_requests import (
    RequestHead,
    encode_response,
    make_entity,
    response_schema,
)

METADATA: Final = 3
DESCRIBE_CLUSTER: Final = 60
METADATA_KEYS: Final = frozenset({METADATA, DESCRIBE_CLUSTER})

_AT_ONCE_MAX: Final = 16
"""A response about very many partitions is large, and slow clients hold theirs for a while."""
_NOT_ASKED: Final = -(2**31)
_NO_ID: Final = bytes(16)
_OF_BROKERS: Final = 1
_OF_CONTROLLERS: Final = 2
_FIRST_NULLABLE: Final = 1
_FIRST_LISTENER_ERROR: Final = 6


class MetadataQueries(DaemonQueries[ReadMetadata, ClusterMetadata | None]):
    """Asks the daemon; it is asked `_AT_ONCE_MAX` times at once."""

    def __init__(self, send: Callable[[ReadMetadata], None]) -> None:
        super().__init__(send)
        self.slots = asyncio.Semaphore(_AT_ONCE_MAX)

    async def read(self, query: MetadataQuery) -> ClusterMetadata | None:
        """The response; None while the daemon is not controller."""
        return await self.ask(lambda number: ReadMetadata(number, query))


def query_of(
    head: RequestHead, request: Any, client: ClientIdentity, listener: str
) -> MetadataQuery:
    """The parts of a request (kio's entity) that the daemon needs for its response."""
    with_cluster = bool(getattr(request, "include_cluster_authorized_operations", False))
    if head.api_key == DESCRIBE_CLUSTER:
        return MetadataQuery(client, listener, (), with_cluster_operations=with_cluster)
    asked = request.topics
    if asked is None or (head.version < _FIRST_NULLABLE and not asked):
        topics = None
    else:
        topics = tuple([_requested_topic(one) for one in asked])
    with_topics = bool(getattr(request, "include_topic_authorized_operations", False))
    return MetadataQuery(client, listener, topics, with_topics, with_cluster)


def _requested_topic(topic: Any) -> RequestedTopic:
    if topic.name is not None:
        return RequestedTopic(topic.name)
    topic_id: UUID | None = getattr(topic, "topic_id", None)
    return RequestedTopic(None, topic_id.bytes if topic_id is not None else _NO_ID)


def metadata_response(
    head: RequestHead, request: Any, answer: ClusterMetadata, own_id: int, own: Endpoint
) -> bytes:
    """The response to a request. `own_id` and `own`: the daemon's broker id and the listener of
    the client. As brokers do, it names the daemon as a broker and as the controller."""
    schema = response_schema(head)
    module = sys.modules[schema.__module__]
    is_metadata = head.api_key == METADATA
    entity = module.MetadataResponseBroker if is_metadata else module.DescribeClusterBroker
    of_others = [one for one in answer.brokers if one.id != own_id]
    nodes = [_node(entity, is_metadata, one, one.endpoint(own.listener)) for one in of_others]
    nodes.append(_node(entity, is_metadata, Broker(own_id, 0, (own,)), own))
    fields: dict[str, Any] = {
        "throttle_time": timedelta(0),
        "brokers": tuple(nodes),
        "cluster_id": answer.cluster_id,
        "controller_id": own_id,
        "cluster_authorized_operations": _bits(answer.operations),
    }
    if is_metadata:
        fields["topics"] = tuple([_topic(module, head.version, one) for one in answer.topics])
    else:
        fields |= {"error_code": ErrorCode.none, "error_message": None, "endpoint_type": 1}
        if getattr(request, "endpoint_type", _OF_BROKERS) != _OF_BROKERS:
            fields |= _of_controllers(request.endpoint_type)
    return encode_response(head, make_entity(schema, fields))


def _of_controllers(endpoint_type: int) -> dict[str, Any]:
    """The error of a broker that is asked for KRaft's controllers (AuthHelper)."""
    if endpoint_type == _OF_CONTROLLERS:
        error = ErrorCode.mismatched_endpoint_type
        text = (
            "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type "
            "CONTROLLER"
        )
    else:
        error = ErrorCode.unsupported_endpoint_type
        text = f"Unsupported endpoint type {endpoint_type}"
    return {
        "error_code": error,
        "error_message": text,
        "cluster_id": "",
        "controller_id": -1,
        "brokers": (),
        "cluster_authorized_operations": _NOT_ASKED,
    }


def _node(entity: Any, is_metadata: bool, broker: Broker, at: Endpoint | None) -> Any:
    assert at is not None, "brokers without the listener are left out"
    key = "node_id" if is_metadata else "broker_id"
    return make_entity(
        entity, {key: broker.id, "host": at.host, "port": at.port, "rack": broker.rack}
    )


def _topic(module: Any, version: int, topic: TopicMetadata) -> Any:
    fields = {
        "error_code": ErrorCode(topic.error),
        "name": topic.name,
        "topic_id": UUID(bytes=topic.id) if topic.id else None,
        "is_internal": topic.is_internal,
        "partitions": tuple([_partition(module, version, one) for one in topic.partitions]),
        "topic_authorized_operations": _bits(topic.operations),
    }
    return make_entity(module.MetadataResponseTopic, fields)


def _partition(module: Any, version: int, partition: AnnouncedPartition) -> Any:
    error, replicas, isr = partition.error, partition.replicas, partition.isr
    if error == LISTENER_NOT_FOUND and version < _FIRST_LISTENER_ERROR:
        error = LEADER_NOT_AVAILABLE
    if version < _FIRST_NULLABLE and partition.offline:
        # Version 0 has brokers only that the client can reach (ZkMetadataCache).
        error = error or REPLICA_NOT_AVAILABLE
        replicas = tuple([one for one in replicas if one not in partition.offline])
        isr = tuple([one for one in isr if one not in partition.offline])
    fields = {
        "error_code": ErrorCode(error),
        "partition_index": partition.number,
        "leader_id": partition.leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": replicas,
        "isr_nodes": isr,
        "offline_replicas": partition.offline,
    }
    return make_entity(module.MetadataResponsePartition, fields)


def _bits(operations: int | None) -> int:
    return _NOT_ASKED if operations is None else operations
