"""What brokers ask of the controller as events, and its answers as frames, through kio."""

import sys
from collections.abc import Callable, Iterable
from datetime import timedelta
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from controller.core.commands import (
    AlteredPartition,
    AnswerAllocateProducerIds,
    AnswerAlterPartition,
    AnswerControlledShutdown,
    ApiAnswer,
)
from controller.core.events import (
    AllocateProducerIdsReceived,
    AlterPartitionReceived,
    ApiRequest,
    ControlledShutdownReceived,
    ProposedState,
)
from controller.wire.client_requests import (
    MalformedRequest,
    RequestHead,
    decode_request,
    encode_response,
    response_schema,
)
from controller.wire.primitives import NO_TOPIC_ID

CONTROLLED_SHUTDOWN: Final = 7
ALTER_PARTITION: Final = 56
ALLOCATE_PRODUCER_IDS: Final = 67

SPOKEN: Final = {
    CONTROLLED_SHUTDOWN: (0, 3),
    ALTER_PARTITION: (0, 3),
    ALLOCATE_PRODUCER_IDS: (0, 0),
}
"""The first and the last version of each of the controller's own requests."""

_FIRST_BY_TOPIC_ID: Final = 2
_FIRST_WITH_RECOVERY_STATE: Final = 1
_FIRST_WITH_ISR_EPOCHS: Final = 3
_UNTHROTTLED: Final = timedelta(0)


def decode_controller_request(head: RequestHead, frame: bytes, request: int) -> ApiRequest:
    """The event that a whole request is, with `request` as its number. Raises `MalformedRequest`.

    A request of a version that is not in `SPOKEN` is malformed, too.
    """
    first, last = SPOKEN[head.api_key]
    if not first <= head.version <= last:
        raise MalformedRequest(f"api key {head.api_key}: version {head.version} is not offered")
    body = decode_request(head, frame)
    broker, broker_epoch = body.broker_id, getattr(body, "broker_epoch", -1)
    if head.api_key == CONTROLLED_SHUTDOWN:
        return ControlledShutdownReceived(request, head.version, broker, broker_epoch)
    if head.api_key == ALLOCATE_PRODUCER_IDS:
        return AllocateProducerIdsReceived(request, head.version, broker, broker_epoch)
    states = [
        _proposed(head.version, topic, one)
        for topic in _not_null(body.topics)
        for one in _not_null(topic.partitions)
    ]
    return AlterPartitionReceived(request, head.version, broker, broker_epoch, states)


def encode_answer(head: RequestHead, answer: ApiAnswer) -> bytes:
    """The frame that answers the request of that head."""
    return encode_response(head, _response(head.version, response_schema(head), answer))


def _proposed(version: int, topic: Any, one: Any) -> ProposedState:
    if version >= _FIRST_WITH_ISR_EPOCHS:
        isr = tuple(member.broker_id for member in _not_null(one.new_isr_with_epochs))
    else:
        isr = _not_null(one.new_isr)
    if version >= _FIRST_BY_TOPIC_ID:
        named = (topic.topic_id.bytes if topic.topic_id else NO_TOPIC_ID).hex()
    else:
        named = topic.topic_name
    recovery = one.leader_recovery_state if version >= _FIRST_WITH_RECOVERY_STATE else 0
    return ProposedState(
        named, one.partition_index, one.leader_epoch, isr, recovery, one.partition_epoch
    )


def _not_null(array: tuple[Any, ...] | None) -> tuple[Any, ...]:
    if array is None:
        raise MalformedRequest("an array is null")
    return array


def _response(version: int, response: Any, answer: ApiAnswer) -> Any:
    match answer:
        case AnswerAlterPartition():
            return _alter_partition(version, response, answer)
        case AnswerControlledShutdown():
            remaining = sys.modules[response.__module__].RemainingPartition
            return response(
                error_code=ErrorCode(answer.error),
                remaining_partitions=tuple(
                    remaining(topic_name=topic, partition_index=partition)
                    for topic, partition in answer.remaining
                ),
            )
        case AnswerAllocateProducerIds():
            return response(
                throttle_time=_UNTHROTTLED,
                error_code=ErrorCode(answer.error),
                producer_id_start=answer.start,
                producer_id_len=answer.length,
            )


def _alter_partition(version: int, response: Any, answer: AnswerAlterPartition) -> Any:
    schema = sys.modules[response.__module__]
    by_topic: Iterable[tuple[tuple[str, bytes | None], Iterable[AlteredPartition]]]
    by_topic = groupby(answer.partitions, key=lambda one: (one.topic, one.topic_id))
    return response(
        throttle_time=_UNTHROTTLED,
        error_code=ErrorCode(answer.error),
        topics=tuple(
            schema.TopicData(
                partitions=tuple(_altered(version, schema.PartitionData, one) for one in group),
                **_topic_name(version, topic, topic_id),
            )
            for (topic, topic_id), group in by_topic
        ),
    )


def _topic_name(version: int, topic: str, topic_id: bytes | None) -> dict[str, Any]:
    if version < _FIRST_BY_TOPIC_ID:
        return {"topic_name": topic}
    known = topic_id is not None and topic_id != NO_TOPIC_ID
    return {"topic_id": UUID(bytes=topic_id) if known else None}


def _altered(version: int, partition: Callable[..., Any], one: AlteredPartition) -> Any:
    has_recovery = version >= _FIRST_WITH_RECOVERY_STATE
    return partition(
        partition_index=one.partition,
        error_code=ErrorCode(one.error),
        leader_id=one.leader,
        leader_epoch=one.leader_epoch,
        isr=one.isr,
        partition_epoch=one.partition_epoch,
        **({"leader_recovery_state": one.recovery_state} if has_recovery else {}),
    )
