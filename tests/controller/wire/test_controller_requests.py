"""Requests of brokers to the controller, in every version, encoded by kio."""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.index import load_payload_module
from kio.static.constants import EntityType

from controller.core.api_requests.alter_partition import (
    AlteredPartition,
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
from controller.wire.client_requests import (
    MalformedRequest,
    RequestHead,
    decode_response,
    encode_request,
    read_head,
)
from controller.wire.controller_requests import (
    BROKER_APIS,
    decode_controller_request,
    encode_controller_response,
)
from tests.controller.api_keys import ALLOCATE_PRODUCER_IDS, ALTER_PARTITION, CONTROLLED_SHUTDOWN

TOPIC_ID = bytes(range(16))
NO_TOPIC_ID = bytes(16)
STALE_BROKER_EPOCH = 77
INVALID_UPDATE_VERSION = 95
EVERY_VERSION = [(key, version) for key, api in BROKER_APIS.items() for version in api.versions]


def head_of(api_key: int, version: int) -> RequestHead:
    return RequestHead(api_key, version, 5)


def frame_of(head: RequestHead, request: Any) -> bytes:
    """A request as the decoder receives it, without its size."""
    if head == (CONTROLLED_SHUTDOWN, 0, 5):
        return b"\0\x07\0\0\0\0\0\x05" + request.broker_id.to_bytes(4, "big")
    return encode_request(head, "client", request)[4:]


def schema_of(head: RequestHead) -> Any:
    return load_payload_module(head.api_key, head.version, EntityType.request)


def alter_partition(version: int, topic_id: bytes = TOPIC_ID) -> Any:
    schema = schema_of(head_of(ALTER_PARTITION, version))
    if version >= 3:
        members = tuple(schema.BrokerState(broker_id=one, broker_epoch=9) for one in (3, 1))
        isr: dict[str, Any] = {"new_isr_with_epochs": members}
    else:
        isr = {"new_isr": (3, 1)}
    if version >= 1:
        isr["leader_recovery_state"] = 1
    name: dict[str, Any] = {"topic_name": "tópic"}
    if version >= 2:
        name = {"topic_id": UUID(bytes=topic_id) if topic_id != NO_TOPIC_ID else None}
    states = tuple(
        schema.PartitionData(partition_index=number, leader_epoch=7, partition_epoch=8, **isr)
        for number in (0, 4)
    )
    topics = (schema.TopicData(partitions=states, **name),)
    return schema.AlterPartitionRequest(broker_id=3, broker_epoch=99, topics=topics)


@pytest.mark.parametrize("version", range(4))
def test_alter_partition_becomes_an_event(version: int) -> None:
    head = head_of(ALTER_PARTITION, version)
    event = decode_controller_request(head, frame_of(head, alter_partition(version)), 12)
    topic = TOPIC_ID.hex() if version >= 2 else "tópic"
    recovery = 1 if version >= 1 else 0
    states = [ProposedState(topic, number, 7, (3, 1), recovery, 8) for number in (0, 4)]
    assert event == AlterPartitionReceived(12, version, 3, 99, states)


def test_topic_id_of_zeros_is_a_topic_id() -> None:
    head = head_of(ALTER_PARTITION, 2)
    frame = frame_of(head, alter_partition(2, NO_TOPIC_ID))
    event = decode_controller_request(head, frame, 1)
    assert isinstance(event, AlterPartitionReceived)
    assert {one.topic for one in event.partitions} == {NO_TOPIC_ID.hex()}


@pytest.mark.parametrize("version", range(4))
def test_controlled_shutdown_becomes_an_event(version: int) -> None:
    head = head_of(CONTROLLED_SHUTDOWN, version)
    epoch = {"broker_epoch": 99} if version >= 2 else {}
    request = schema_of(head).ControlledShutdownRequest(broker_id=3, **epoch)
    event = decode_controller_request(head, frame_of(head, request), 12)
    assert event == ControlledShutdownReceived(12, version, 3, 99 if version >= 2 else -1)


def test_allocate_producer_ids_becomes_an_event() -> None:
    head = head_of(ALLOCATE_PRODUCER_IDS, 0)
    request = schema_of(head).AllocateProducerIdsRequest(broker_id=3, broker_epoch=99)
    event = decode_controller_request(head, frame_of(head, request), 12)
    assert event == AllocateProducerIdsReceived(12, 0, 3, 99)


@pytest.mark.parametrize("version", range(4))
def test_alter_partition_is_answered_in_every_version(version: int) -> None:
    by_id = version >= 2
    name, topic_id = ("", TOPIC_ID) if by_id else ("t", None)
    other, other_id = ("", NO_TOPIC_ID) if by_id else ("u", None)
    answer = AlterPartitionResponse(
        12,
        0,
        (
            AlteredPartition(name, topic_id, 0, 0, 3, 7, (3, 1), 1, 9),
            AlteredPartition(name, topic_id, 4, INVALID_UPDATE_VERSION),
            AlteredPartition(other, other_id, 1, INVALID_UPDATE_VERSION),
        ),
    )
    head = head_of(ALTER_PARTITION, version)
    response = decode_response(head, encode_controller_response(head, answer)[4:])
    first, second = response.topics
    if by_id:
        assert (first.topic_id, second.topic_id) == (UUID(bytes=TOPIC_ID), None)
    else:
        assert (first.topic_name, second.topic_name) == ("t", "u")
    good, bad = first.partitions
    assert (good.partition_index, good.error_code, good.leader_id) == (0, 0, 3)
    assert (good.leader_epoch, good.isr, good.partition_epoch) == (7, (3, 1), 9)
    assert getattr(good, "leader_recovery_state", 1) == 1
    assert (bad.partition_index, bad.error_code) == (4, INVALID_UPDATE_VERSION)


@pytest.mark.parametrize(("api_key", "version"), EVERY_VERSION)
def test_error_of_the_whole_request_is_answered(api_key: int, version: int) -> None:
    head = head_of(api_key, version)
    answers = {
        ALTER_PARTITION: AlterPartitionResponse(12, STALE_BROKER_EPOCH),
        CONTROLLED_SHUTDOWN: ControlledShutdownResponse(12, STALE_BROKER_EPOCH),
        ALLOCATE_PRODUCER_IDS: AllocateProducerIdsResponse(12, STALE_BROKER_EPOCH),
    }
    response = decode_response(head, encode_controller_response(head, answers[api_key])[4:])
    assert response.error_code == STALE_BROKER_EPOCH


@pytest.mark.parametrize("version", range(4))
def test_controlled_shutdown_is_answered_with_the_remaining_partitions(version: int) -> None:
    head = head_of(CONTROLLED_SHUTDOWN, version)
    frame = encode_controller_response(
        head, ControlledShutdownResponse(12, 0, (("t", 1), ("u", 2)))
    )
    remaining = decode_response(head, frame[4:]).remaining_partitions
    assert [(one.topic_name, one.partition_index) for one in remaining] == [("t", 1), ("u", 2)]


def test_block_of_producer_ids_is_answered() -> None:
    head = head_of(ALLOCATE_PRODUCER_IDS, 0)
    response = decode_response(
        head, encode_controller_response(head, AllocateProducerIdsResponse(12, 0, 5000, 1000))[4:]
    )
    assert (response.producer_id_start, response.producer_id_len) == (5000, 1000)


def test_unsupported_version_is_malformed() -> None:
    with pytest.raises(MalformedRequest, match="version 4 is not supported"):
        decode_controller_request(head_of(ALTER_PARTITION, 4), bytes(50), 1)


@pytest.mark.parametrize("version", range(4))
@given(data=st.data())
def test_any_bytes_are_an_event_or_malformed(version: int, data: st.DataObject) -> None:
    head = head_of(ALTER_PARTITION, version)
    good = frame_of(head, alter_partition(version))
    at = data.draw(st.integers(8, len(good)))
    end = data.draw(st.integers(at, len(good)))
    frame = good[:at] + data.draw(st.binary(max_size=40)) + good[end:]
    try:
        event = decode_controller_request(read_head(frame), frame, 1)
    except MalformedRequest:
        return
    assert isinstance(event, AlterPartitionReceived)
