"""Request headers: what Kafka accepts is decoded as by Kafka, other headers are malformed."""

from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.api_requests.reassignments import ListPartitionReassignmentsReceived
from controller.wire.admin.apis import decode_admin_request
from controller.wire.api_versions import API_VERSIONS, read_api_versions
from controller.wire.client_requests import (
    HEAD_BYTES,
    MalformedRequest,
    RequestHead,
    decode_request,
    read_header,
)
from controller.wire.controller_requests import decode_controller_request
from controller.wire.primitives import unsigned_varint
from tests.controller.api_keys import ALTER_PARTITION, LIST_PARTITION_REASSIGNMENTS
from tests.controller.wire.kio_entities import NO_TAGS, tagged_fields

FLEXIBLE = pytest.mark.parametrize("flexible", [False, True], ids=["plain", "flexible"])
NEGATIVE = st.integers(-(2**15), -1)
DESCRIBE_CONFIGS = 32

BODY = b"body"


def header(flexible: bool, length: int, client_id: bytes, tags: bytes = NO_TAGS) -> bytes:
    """A header with this client id and this length field."""
    return bytes(HEAD_BYTES) + pack(">h", length) + client_id + (tags if flexible else b"")


@FLEXIBLE
@given(
    client_id=st.text(max_size=200).map(lambda one: one.encode(errors="replace")), data=st.data()
)
def test_client_id_is_read_and_tagged_fields_are_skipped(
    flexible: bool, client_id: bytes, data: st.DataObject
) -> None:
    found = header(flexible, len(client_id), client_id, data.draw(tagged_fields()))
    assert read_header(found + BODY, flexible=flexible) == (client_id.decode(), len(found))


@FLEXIBLE
@given(length=NEGATIVE)
def test_negative_length_means_no_client_id(flexible: bool, length: int) -> None:
    found = header(flexible, length, b"")
    assert read_header(found + BODY, flexible=flexible) == ("", len(found))


@FLEXIBLE
@given(client_id=st.binary(max_size=20), data=st.data())
def test_header_that_ends_early_is_malformed(
    flexible: bool, client_id: bytes, data: st.DataObject
) -> None:
    found = header(flexible, len(client_id), client_id, data.draw(tagged_fields()))
    cut = data.draw(st.integers(0, len(found) - 1))
    with pytest.raises(MalformedRequest):
        read_header(found[:cut], flexible=flexible)


def test_tagged_field_that_is_longer_than_the_request_is_malformed() -> None:
    tags = unsigned_varint(1) + unsigned_varint(0) + unsigned_varint(100)
    with pytest.raises(MalformedRequest, match="ends within its header"):
        read_header(header(True, 0, b"", tags) + BODY, flexible=True)


@FLEXIBLE
@given(garbage=st.binary(max_size=60))
def test_damaged_header_is_malformed_or_ends_within_the_request(
    flexible: bool, garbage: bytes
) -> None:
    try:
        _, at = read_header(garbage, flexible=flexible)
    except MalformedRequest:
        return
    assert HEAD_BYTES + 2 <= at <= len(garbage)


@given(length=NEGATIVE)
def test_requests_whose_client_id_has_a_negative_length_are_served(length: int) -> None:
    def frame(head: RequestHead, body: bytes) -> bytes:
        return pack(">hhih", *head, length) + NO_TAGS + body

    head = RequestHead(ALTER_PARTITION, 3, 5)
    body = pack(">iq", 7, 99) + b"\1" + NO_TAGS
    event = decode_controller_request(head, frame(head, body), 12)
    assert event == AlterPartitionReceived(12, 3, 7, 99, [])

    head = RequestHead(LIST_PARTITION_REASSIGNMENTS, 0, 5)
    listing = decode_admin_request(head, frame(head, pack(">i", 1000) + b"\0" + NO_TAGS), 12)
    assert isinstance(listing, ListPartitionReassignmentsReceived)

    head = RequestHead(API_VERSIONS, 3, 5)
    assert read_api_versions(head, frame(head, b"\2a\0021" + NO_TAGS)).is_valid

    head = RequestHead(DESCRIBE_CONFIGS, 4, 5)
    assert decode_request(head, frame(head, b"\1\0\0" + NO_TAGS)).resources == ()
