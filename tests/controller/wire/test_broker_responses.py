"""Answers of brokers, decoded by hand-written code and by kio."""

from contextlib import suppress
from importlib import import_module
from io import BytesIO
from struct import pack
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_writer

from controller.wire.apis import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, Api
from controller.wire.broker_responses import decode_broker_response
from controller.wire.errors import MalformedResponse
from controller.wire.framing import EncodedRequest, read_response_header
from tests.controller.wire.commands import int32, names

PACKAGES = {LEADER_AND_ISR: "leader_and_isr", STOP_REPLICA: "stop_replica"}
BY_NAME = [(LEADER_AND_ISR, version) for version in (3, 4)]
BY_NAME += [(STOP_REPLICA, version) for version in (1, 2, 3, 4)]
BY_TOPIC_ID = [5, 6, 7]
ALL = [*BY_NAME, *((LEADER_AND_ISR, version) for version in BY_TOPIC_ID)]
ALL += [(UPDATE_METADATA, version) for version in (5, 6, 7, 8)]

codes = st.just(0) | st.sampled_from([-1, 3, 11, 56, 77])
flat_errors = st.lists(st.tuples(names, int32, codes), max_size=5)
topic_ids = st.binary(min_size=16, max_size=16).filter(any)
grouped_errors = st.lists(
    st.tuples(topic_ids, st.lists(st.tuples(int32, codes), max_size=5)), max_size=4
)


@pytest.mark.parametrize(("api", "version"), BY_NAME)
@given(code=codes, errors=flat_errors)
def test_only_codes_that_are_not_zero_are_kept(
    api: Api, version: int, code: int, errors: list[tuple[str, int, int]]
) -> None:
    body = by_name(api, version, code, errors)
    assert decode_broker_response(api, version, body) == (code, [one for one in errors if one[2]])


@pytest.mark.parametrize("version", BY_TOPIC_ID)
@given(code=codes, topics=grouped_errors)
def test_topics_named_by_id_are_decoded_as_hex(
    version: int, code: int, topics: list[tuple[bytes, list[tuple[int, int]]]]
) -> None:
    body = by_topic_id(version, code, topics)
    expected = [
        (topic.hex(), partition, error)
        for topic, errors in topics
        for partition, error in errors
        if error
    ]
    assert decode_broker_response(LEADER_AND_ISR, version, body) == (code, expected)


@pytest.mark.parametrize(("version", "tags"), [(5, b""), (6, b"\0"), (7, b"\0"), (8, b"\0")])
def test_update_metadata_has_a_top_level_code_only(version: int, tags: bytes) -> None:
    assert decode_broker_response(UPDATE_METADATA, version, pack(">h", 77) + tags) == (77, [])


def test_tagged_fields_of_a_later_broker_are_skipped() -> None:
    tagged = b"\x01\x05\x02ab"
    partition = pack(">ih", 4, 11) + tagged
    topic = bytes(range(16)) + b"\x02" + partition + tagged
    body = pack(">h", 0) + b"\x02" + topic + tagged
    expected = (0, [(bytes(range(16)).hex(), 4, 11)])
    assert decode_broker_response(LEADER_AND_ISR, 7, body) == expected
    flat = pack(">h", 0) + b"\x02\x02t" + partition + tagged
    assert decode_broker_response(STOP_REPLICA, 4, flat) == (0, [("t", 4, 11)])


@pytest.mark.parametrize(("api", "version"), ALL)
@given(garbage=st.binary(max_size=80))
def test_garbage_is_an_answer_or_malformed(api: Api, version: int, garbage: bytes) -> None:
    with suppress(MalformedResponse):
        decode_broker_response(api, version, garbage)


@given(topics=grouped_errors, data=st.data())
def test_truncated_response_is_malformed(
    topics: list[tuple[bytes, list[tuple[int, int]]]], data: st.DataObject
) -> None:
    body = by_topic_id(7, 0, topics)
    cut = body[: data.draw(st.integers(0, len(body) - 1))]
    with pytest.raises(MalformedResponse):
        decode_broker_response(LEADER_AND_ISR, 7, cut)
    with pytest.raises(MalformedResponse):
        decode_broker_response(LEADER_AND_ISR, 7, body + b"\0")


@pytest.mark.parametrize(("version", "tags"), [(3, b""), (7, b"\0")])
def test_request_headers_name_api_version_correlation_and_client(version: int, tags: bytes) -> None:
    encoded = EncodedRequest(LEADER_AND_ISR, version, b"", b"")
    expected = pack(">hhih", 4, version, 9, 4) + b"1000" + tags
    assert encoded.header(9, "1000") == expected


def test_response_header_ends_where_the_body_begins() -> None:
    assert read_response_header(pack(">i", 9) + b"body", flexible=False) == (9, 4)
    assert read_response_header(pack(">i", 9) + b"\0body", flexible=True) == (9, 5)
    for short in (b"", b"\0\0\0", b"\0\0\0\0"):
        with pytest.raises(MalformedResponse):
            read_response_header(short, flexible=True)


def by_name(api: Api, version: int, code: int, errors: list[tuple[str, int, int]]) -> bytes:
    schema = import_module(f"kio.schema.{PACKAGES[api]}.v{version}.response")
    one = getattr(schema, f"{api.name}PartitionError")
    entity = getattr(schema, f"{api.name}Response")(
        error_code=ErrorCode(code),
        partition_errors=tuple(
            one(topic_name=topic, partition_index=partition, error_code=ErrorCode(error))
            for topic, partition, error in errors
        ),
    )
    return encoded(entity)


def by_topic_id(
    version: int, code: int, topics: list[tuple[bytes, list[tuple[int, int]]]]
) -> bytes:
    schema = import_module(f"kio.schema.leader_and_isr.v{version}.response")
    entity = schema.LeaderAndIsrResponse(
        error_code=ErrorCode(code),
        topics=tuple(
            schema.LeaderAndIsrTopicError(
                topic_id=UUID(bytes=topic),
                partition_errors=tuple(
                    schema.LeaderAndIsrPartitionError(
                        partition_index=partition, error_code=ErrorCode(error)
                    )
                    for partition, error in errors
                ),
            )
            for topic, errors in topics
        ),
    )
    return encoded(entity)


def encoded(entity: Any) -> bytes:
    body = BytesIO()
    entity_writer(type(entity))(body, entity)
    return body.getvalue()
