"""Prepared requests are the same bytes as others: on the wire and in the log."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.canonical import encode_command
from controller.core.commands import LeaderAndIsrRequest, UpdateMetadataRequest
from controller.core.prepared_topics import JoinedEntries, TopicEntries, join
from controller.wire.apis import LEADER_AND_ISR, UPDATE_METADATA
from controller.wire.encoding import BatchEncoder
from tests.controller.wire.commands import leader_and_isr_requests, update_metadata_requests

Request = LeaderAndIsrRequest | UpdateMetadataRequest


def joined(request: Any, prepared: set[str]) -> Any:
    """The same request, of which these topics are prepared."""
    entries = sorted(request.partitions, key=lambda one: (one.topic, one.partition))
    parts = {
        name: TopicEntries(one for one in entries if one.topic == name)
        for name in {one.topic for one in entries} & prepared
    }
    rest = [one for one in entries if one.topic not in prepared]
    plain = msgspec.structs.replace(request, partitions=tuple(entries))
    return plain, msgspec.structs.replace(request, partitions=join(rest, parts))


def choice(request: Any, data: st.DataObject) -> set[str]:
    names = sorted({one.topic for one in request.partitions})
    return {name for name in names if data.draw(st.booleans())}


@given(request=st.one_of(leader_and_isr_requests, update_metadata_requests), data=st.data())
def test_prepared_request_has_the_canonical_body_of_a_plain_one(
    request: Request, data: st.DataObject
) -> None:
    plain, prepared = joined(request, choice(request, data))
    assert encode_command(prepared) == encode_command(plain)
    assert encode_command(prepared) == encode_command(plain), "with the cached forms"


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_array_of_any_length_has_the_header_of_msgpack(count: int) -> None:
    request = UpdateMetadataRequest(1, 2, 8, 1000, 3, (), ())
    entries: Any = TopicEntries([0] * count)  # type: ignore[list-item]
    made = msgspec.structs.replace(request, partitions=JoinedEntries([entries]))
    plain = msgspec.structs.replace(request, partitions=(0,) * count)
    assert encode_command(made) == msgspec.msgpack.encode(plain)


@given(request=leader_and_isr_requests, data=st.data(), version=st.sampled_from(range(8)))
def test_prepared_leader_and_isr_is_encoded_as_a_plain_one(
    request: LeaderAndIsrRequest, data: st.DataObject, version: int
) -> None:
    version = max(version, LEADER_AND_ISR.first)
    plain, prepared = joined(request, choice(request, data))
    for _ in range(2):
        assert BatchEncoder().encode(prepared, version) == BatchEncoder().encode(plain, version)


@given(request=update_metadata_requests, data=st.data(), version=st.sampled_from(range(9)))
def test_prepared_update_metadata_is_encoded_as_a_plain_one(
    request: UpdateMetadataRequest, data: st.DataObject, version: int
) -> None:
    version = max(version, UPDATE_METADATA.first)
    plain, prepared = joined(request, choice(request, data))
    for _ in range(2):
        assert BatchEncoder().encode(prepared, version) == BatchEncoder().encode(plain, version)


@given(request=leader_and_isr_requests, data=st.data())
def test_prepared_request_that_is_too_long_is_split(
    request: LeaderAndIsrRequest, data: st.DataObject
) -> None:
    plain, prepared = joined(request, choice(request, data))
    assert BatchEncoder(200).encode(prepared, 7) == BatchEncoder(200).encode(plain, 7)
