"""Decodes requests of brokers to the controller to events, and encodes the responses."""

import sys
from datetime import timedelta
from struct import Struct
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AlterPartitionResponse,
    ProposedState,
)
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.api_requests.producer_ids import (
    AllocateProducerIdsReceived,
    AllocateProducerIdsResponse,
)
from controller.core.values import UNKNOWN_BROKER_EPOCH
from controller.wire.alter_partition import read_topics, write_topics
from controller.wire.apis import Api
from controller.wire.client_requests import (
    HEAD_BYTES,
    MalformedRequest,
    RequestHead,
    encode_response,
    read_header,
    response_schema,
)
from controller.wire.primitives import FLEXIBLE
from controller.wire.reading import UNREADABLE, after_tags

CONTROLLED_SHUTDOWN: Final = Api(7, "ControlledShutdown", first=0, last=3, first_flexible=3)
ALTER_PARTITION: Final = Api(56, "AlterPartition", first=0, last=3, first_flexible=0)
ALLOCATE_PRODUCER_IDS: Final = Api(67, "AllocateProducerIds", first=0, last=0, first_flexible=0)

BROKER_APIS: Final = {
    api.key: api for api in (CONTROLLED_SHUTDOWN, ALTER_PARTITION, ALLOCATE_PRODUCER_IDS)
}
"""The APIs that brokers call at the controller, by API key. The front routes and advertises them by
this table."""

_WITHOUT_CLIENT_ID: Final = (CONTROLLED_SHUTDOWN.key, 0)
_FIRST_SHUTDOWN_WITH_EPOCH: Final = 2
_int32 = Struct(">i").unpack_from
_int32_int64 = Struct(">iq").unpack_from
_BEFORE_TOPICS: Final = Struct(">iBih")
"""Fields of an AlterPartition response before its topics: correlation id, no tagged fields,
throttle time, error."""
_UNTHROTTLED_MS: Final = 0


class Sender(NamedTuple):
    """The broker that a request names as its sender. `broker_epoch` is -1 if the version has
    none."""

    broker: int
    broker_epoch: int


def read_sender(head: RequestHead, beginning: bytes) -> tuple[Sender, int]:
    """The sender of a request to the controller, and the position after it: each of these requests
    begins with its sender. Raises `MalformedRequest`.

    An unsupported version is malformed, too.
    """
    if head.version not in BROKER_APIS[head.api_key].versions:
        raise MalformedRequest(f"{head.description} is not supported")
    at = HEAD_BYTES
    if (head.api_key, head.version) != _WITHOUT_CLIENT_ID:
        _, at = read_header(beginning, flexible=_is_flexible(head))
    try:
        if head.api_key == CONTROLLED_SHUTDOWN.key and head.version < _FIRST_SHUTDOWN_WITH_EPOCH:
            return Sender(_int32(beginning, at)[0], UNKNOWN_BROKER_EPOCH), at + 4
        return Sender(*_int32_int64(beginning, at)), at + 12
    except UNREADABLE as fault:
        raise MalformedRequest(f"{head.description} ends before its sender") from fault


def decode_controller_request(head: RequestHead, frame: bytes, request: int) -> ApiRequest:
    """Decode a whole request to an event with the number `request`. Raises `MalformedRequest`.

    Hand-coded for speed, and because kio cannot skip tagged fields of later versions. Bytes after
    the body are ignored, as in Kafka.
    """
    sender, at = read_sender(head, frame)
    states: list[ProposedState] = []
    try:
        if head.api_key == ALTER_PARTITION.key:
            states, at = read_topics(head.version, frame, at)
        if _is_flexible(head):
            at = after_tags(frame, at)
    except UNREADABLE as fault:
        raise MalformedRequest(f"{head.description} cannot be read: {fault!r}") from fault
    if at > len(frame):
        raise MalformedRequest(f"{head.description} ends early")
    if head.api_key == CONTROLLED_SHUTDOWN.key:
        return ControlledShutdownReceived(request, head.version, *sender)
    if head.api_key == ALLOCATE_PRODUCER_IDS.key:
        return AllocateProducerIdsReceived(request, head.version, *sender)
    return AlterPartitionReceived(request, head.version, *sender, states)


def encode_controller_response(head: RequestHead, response: ApiResponse) -> bytes:
    """Encode the response to a request."""
    if isinstance(response, AlterPartitionResponse):
        return _alter_partition(head, response)
    return encode_response(head, _response(response_schema(head), response))


def _is_flexible(head: RequestHead) -> bool:
    return BROKER_APIS[head.api_key].is_flexible(head.version)


def _alter_partition(head: RequestHead, response: AlterPartitionResponse) -> bytes:
    topics = write_topics(head.version, response.partitions)
    size = _BEFORE_TOPICS.size + len(topics) + len(FLEXIBLE.tags)
    before = _BEFORE_TOPICS.pack(head.correlation_id, 0, _UNTHROTTLED_MS, response.error)
    return size.to_bytes(4, "big") + before + topics + FLEXIBLE.tags


def _response(entity: Any, response: ApiResponse) -> Any:
    match response:
        case ControlledShutdownResponse():
            remaining = sys.modules[entity.__module__].RemainingPartition
            return entity(
                error_code=ErrorCode(response.error),
                remaining_partitions=tuple(
                    remaining(topic_name=topic, partition_index=partition)
                    for topic, partition in response.remaining
                ),
            )
        case AllocateProducerIdsResponse():
            return entity(
                throttle_time=timedelta(milliseconds=_UNTHROTTLED_MS),
                error_code=ErrorCode(response.error),
                producer_id_start=response.start,
                producer_id_len=response.length,
            )
