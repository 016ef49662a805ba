"""The hand-written codec of AlterPartition compared with kio."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, repeat
from struct import pack
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType
from msgspec.structs import replace

from controller.core.api_requests.alter_partition import (
    AlteredPartition,
    AlterPartitionReceived,
    AlterPartitionResponse,
    ProposedState,
)
from controller.wire.client_requests import (
    HEAD_BYTES,
    MalformedRequest,
    RequestHead,
    UnknownTaggedField,
    decode_request,
    encode_request,
    encode_response,
)
from controller.wire.controller_requests import (
    Sender,
    decode_controller_request,
    encode_controller_response,
    read_sender,
)
from controller.wire.primitives import unsigned_varint
from tests.controller.api_keys import ALTER_PARTITION

FEWER = settings(max_examples=40)
VERSIONS = pytest.mark.parametrize("version", range(4))
CLIENT_ID = "client"
NO_TAGS = b"\0"
BODY_AT = HEAD_BYTES + 2 + len(CLIENT_ID) + len(NO_TAGS)
NO_TIME = timedelta(0)

INT8 = st.integers(-(2**7), 2**7 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)


def head_of(version: int) -> RequestHead:
    return RequestHead(ALTER_PARTITION, version, 5)


@dataclass(frozen=True)
class Topic:
    """A topic of a request. Its partitions are (index, leader epoch, ISR, recovery, epoch)."""

    name: str
    id: bytes
    partitions: list[tuple[int, int, list[int], int, int]]


@dataclass(frozen=True)
class Request:
    broker: int
    epoch: int
    topics: list[Topic]


# Also more members than one byte of a length can express.
ISRS = st.lists(INT32, max_size=3) | st.sampled_from([16, 126, 127, 128]).map(
    lambda count: list(range(count))
)
PARTITIONS = st.tuples(INT32, INT32, ISRS, INT8, INT32)
TOPICS = st.builds(
    Topic,
    st.text(st.characters(exclude_categories=["Cs"]), max_size=130),
    st.binary(min_size=16, max_size=16),
    st.lists(PARTITIONS, max_size=3),
)
REQUESTS = st.builds(Request, INT32, INT64, st.lists(TOPICS, max_size=2))


def by_kio(version: int, request: Request) -> bytes:
    """The request as kio encodes it."""
    schema = load_payload_module(ALTER_PARTITION, version, EntityType.request)

    def partition(one: tuple[int, int, list[int], int, int]) -> Any:
        index, leader_epoch, isr, recovery, epoch = one
        fields: dict[str, Any] = {"new_isr": tuple(isr)}
        if version >= 3:
            members = (schema.BrokerState(broker_id=member, broker_epoch=-1) for member in isr)
            fields = {"new_isr_with_epochs": tuple(members)}
        if version >= 1:
            fields["leader_recovery_state"] = recovery
        return schema.PartitionData(
            partition_index=index, leader_epoch=leader_epoch, partition_epoch=epoch, **fields
        )

    def topic(one: Topic) -> Any:
        named: dict[str, Any] = {"topic_name": one.name}
        if version >= 2:
            named = {"topic_id": UUID(bytes=one.id) if any(one.id) else None}
        return schema.TopicData(partitions=tuple(map(partition, one.partitions)), **named)

    body = schema.AlterPartitionRequest(
        broker_id=request.broker,
        broker_epoch=request.epoch,
        topics=tuple(map(topic, request.topics)),
    )
    return encode_request(head_of(version), CLIENT_ID, body)[4:]


def with_tags(version: int, request: Request, tags: Iterator[bytes]) -> bytes:
    """The request with these sections of tagged fields, one after each structure."""

    def array(elements: list[bytes]) -> bytes:
        return unsigned_varint(len(elements) + 1) + b"".join(elements)

    def member(one: int) -> bytes:
        return pack(">iq", one, -1) + next(tags) if version >= 3 else pack(">i", one)

    def partition(one: tuple[int, int, list[int], int, int]) -> bytes:
        index, leader_epoch, isr, recovery, epoch = one
        members = array([member(each) for each in isr])
        state = pack(">b", recovery) if version >= 1 else b""
        return pack(">ii", index, leader_epoch) + members + state + pack(">i", epoch) + next(tags)

    def topic(one: Topic) -> bytes:
        name = one.name.encode()
        named = one.id if version >= 2 else unsigned_varint(len(name) + 1) + name
        return named + array([partition(each) for each in one.partitions]) + next(tags)

    header = pack(">hhih", *head_of(version), len(CLIENT_ID)) + CLIENT_ID.encode() + next(tags)
    sender = pack(">iq", request.broker, request.epoch)
    return header + sender + array([topic(one) for one in request.topics]) + next(tags)


def states_of(version: int, request: Request) -> list[ProposedState]:
    """The requested states."""
    return [
        ProposedState(
            topic.id.hex() if version >= 2 else topic.name,
            index,
            leader_epoch,
            tuple(isr),
            recovery if version >= 1 else 0,
            epoch,
        )
        for topic in request.topics
        for index, leader_epoch, isr, recovery, epoch in topic.partitions
    ]


def decoded(version: int, frame: bytes) -> AlterPartitionReceived:
    event = decode_controller_request(head_of(version), frame, 12)
    assert isinstance(event, AlterPartitionReceived)
    return event


@VERSIONS
@FEWER
@given(request=REQUESTS)
def test_requests_encoded_by_kio_are_decoded(version: int, request: Request) -> None:
    frame = by_kio(version, request)
    assert frame == with_tags(version, request, iter(lambda: NO_TAGS, None)), "the test's client id"
    expected = AlterPartitionReceived(
        12, version, request.broker, request.epoch, states_of(version, request)
    )
    assert decoded(version, frame) == expected
    sender, _ = read_sender(head_of(version), frame[:40])
    assert sender == Sender(request.broker, request.epoch)


@st.composite
def tagged_fields(draw: st.DrawFn) -> bytes:
    """A section of tagged fields. Many are empty."""
    field = st.tuples(st.integers(0, 2**32 - 1), st.binary(max_size=200))
    fields = draw(st.lists(field, max_size=3))
    written = (unsigned_varint(tag) + unsigned_varint(len(one)) + one for tag, one in fields)
    return unsigned_varint(len(fields)) + b"".join(written)


@VERSIONS
@FEWER
@given(request=REQUESTS, data=st.data())
def test_tagged_fields_of_later_versions_are_skipped(
    version: int, request: Request, data: st.DataObject
) -> None:
    tags = iter(lambda: data.draw(st.just(NO_TAGS) | tagged_fields()), None)
    assert decoded(version, with_tags(version, request, tags)).partitions == (
        states_of(version, request)
    )


@VERSIONS
def test_tagged_field_of_any_structure_is_skipped(version: int) -> None:
    partitions = [(number, 3, [1, 2], 0, 4) for number in range(2)]
    request = Request(1, 10, [Topic("t", bytes(15) + b"\1", partitions)])
    field = unsigned_varint(1) + unsigned_varint(7) + unsigned_varint(3) + b"abc"
    structures = 5 + (4 if version >= 3 else 0)
    for place in range(structures):
        tags = chain([NO_TAGS] * place, [field], repeat(NO_TAGS))
        found = decoded(version, with_tags(version, request, tags)).partitions
        assert found == states_of(version, request), place


@VERSIONS
@FEWER
@given(request=REQUESTS, more=st.binary(max_size=20))
def test_bytes_after_the_body_are_ignored(version: int, request: Request, more: bytes) -> None:
    assert decoded(version, by_kio(version, request) + more) == (
        decoded(version, by_kio(version, request))
    )


@VERSIONS
@FEWER
@given(request=REQUESTS, data=st.data())
def test_truncated_request_is_malformed(
    version: int, request: Request, data: st.DataObject
) -> None:
    frame = by_kio(version, request)
    with pytest.raises(MalformedRequest):
        decoded(version, frame[: data.draw(st.integers(0, len(frame) - 1))])


@VERSIONS
def test_request_truncated_in_its_last_tagged_field_is_malformed(version: int) -> None:
    frame = by_kio(version, Request(3, 99, []))[:-1] + b"\1\xc8\1\5ab"
    with pytest.raises(MalformedRequest, match="ends early"):
        decoded(version, frame)


@VERSIONS
@FEWER
@given(request=REQUESTS, data=st.data())
def test_damaged_bodies_are_malformed_or_read_as_kio_reads_them(
    version: int, request: Request, data: st.DataObject
) -> None:
    """Some bytes of the body are replaced. Damaged headers are in test_request_header.py."""
    good = by_kio(version, request)
    at = data.draw(st.integers(BODY_AT, len(good)))
    end = data.draw(st.integers(at, len(good)))
    frame = good[:at] + data.draw(st.binary(max_size=8)) + good[end:]
    try:
        body = decode_request(head_of(version), frame)
        states = states_of_kio(version, body)
    except UnknownTaggedField:
        return
    except MalformedRequest:
        with pytest.raises(MalformedRequest):
            decoded(version, frame)
        return
    expected = AlterPartitionReceived(12, version, body.broker_id, body.broker_epoch, states)
    assert decoded(version, frame) == expected


def states_of_kio(version: int, body: Any) -> list[ProposedState]:
    """The states in a request that kio has decoded. Raises MalformedRequest for a null that kio
    accepts and Kafka does not."""

    def not_null(array: tuple[Any, ...] | None) -> tuple[Any, ...]:
        if array is None:
            raise MalformedRequest("an array is null")
        return array

    topics = [
        Topic(
            getattr(topic, "topic_name", ""),
            topic.topic_id.bytes if version >= 2 and topic.topic_id else bytes(16),
            [
                (
                    one.partition_index,
                    one.leader_epoch,
                    [member.broker_id for member in not_null(one.new_isr_with_epochs)]
                    if version >= 3
                    else list(not_null(one.new_isr)),
                    getattr(one, "leader_recovery_state", 0),
                    one.partition_epoch,
                )
                for one in not_null(topic.partitions)
            ],
        )
        for topic in not_null(body.topics)
    ]
    return states_of(version, Request(0, 0, topics))


@VERSIONS
@pytest.mark.parametrize("at", ["topics", "partitions", "isr", "name"])
def test_null_in_a_required_field_is_malformed(version: int, at: str) -> None:
    topic = Topic("t", bytes(range(16)), [(0, 7, [1, 2], 0, 8)])
    frame = by_kio(version, Request(3, 99, [topic]))
    body = len(by_kio(version, Request(3, 99, []))) - 2
    name = body + 1 + (16 if version >= 2 else 2)
    position = {"topics": body, "name": body + 1, "partitions": name, "isr": name + 9}[at]
    broken = frame[:position] + b"\0" + frame[position + 1 :]
    if at == "name" and version >= 2:
        return  # The bytes at this position are a topic id, not a string.
    with pytest.raises(MalformedRequest):
        decoded(version, broken)


def test_length_of_more_than_five_bytes_is_malformed() -> None:
    frame = by_kio(3, Request(3, 99, []))[:-2] + b"\xff" * 9 + b"\1"
    with pytest.raises(MalformedRequest, match="more than 5 bytes"):
        decoded(3, frame)


ALTERED = st.builds(
    AlteredPartition,
    topic=st.text(st.characters(exclude_categories=["Cs"]), max_size=3),
    topic_id=st.just(bytes(16)) | st.binary(min_size=16, max_size=16),
    partition=INT32,
    error=st.sampled_from([0, 3, 41, 74, 95]),
    leader=INT32,
    leader_epoch=INT32,
    isr=st.lists(INT32, max_size=3).map(tuple) | st.just(tuple(range(130))),
    recovery_state=INT8,
    partition_epoch=INT32,
)


@VERSIONS
@FEWER
@given(
    error=st.sampled_from([0, 41, 77]),
    groups=st.lists(st.lists(ALTERED, min_size=1, max_size=3), max_size=3),
)
def test_answers_are_encoded_as_by_kio(
    version: int, error: int, groups: list[list[AlteredPartition]]
) -> None:
    schema = load_payload_module(ALTER_PARTITION, version, EntityType.response)
    # Each group is a separate topic, with another name and another id than its neighbours.
    named = [(f"{number}-{group[0].topic}", group) for number, group in enumerate(groups)]

    def partition(one: AlteredPartition) -> Any:
        recovery = {"leader_recovery_state": one.recovery_state} if version >= 1 else {}
        return schema.PartitionData(
            partition_index=one.partition,
            error_code=ErrorCode(one.error),
            leader_id=one.leader,
            leader_epoch=one.leader_epoch,
            isr=one.isr,
            partition_epoch=one.partition_epoch,
            **recovery,
        )

    def topic(name: str, group: list[AlteredPartition]) -> Any:
        topic_id = group[0].topic_id or bytes(16)
        ids = {"topic_id": UUID(bytes=topic_id) if any(topic_id) else None}
        return schema.TopicData(
            partitions=tuple(map(partition, group)),
            **(ids if version >= 2 else {"topic_name": name}),
        )

    by_kio = schema.AlterPartitionResponse(
        throttle_time=NO_TIME,
        error_code=ErrorCode(error),
        topics=tuple(topic(name, group) for name, group in named),
    )
    answered = tuple(
        replace(one, topic=name, topic_id=group[0].topic_id)
        for name, group in named
        for one in group
    )
    answer = AlterPartitionResponse(12, error, answered)
    assert encode_controller_response(head_of(version), answer) == encode_response(
        head_of(version), by_kio
    )
