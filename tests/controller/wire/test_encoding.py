"""The hand-written encoders compared with kio, and the splitting of long requests."""

from importlib import import_module
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial import entity_reader

from controller.core.commands import (
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controller.core.values import Assignment, Broker, Endpoint, LeaderAndIsr
from controller.wire.apis import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from controller.wire.encoding import BatchEncoder
from controller.wire.errors import UnencodableValue, UnsupportedVersion
from controller.wire.framing import EncodedRequest
from tests.controller.wire.commands import (
    leader_and_isr_requests,
    stop_replica_requests,
    update_metadata_requests,
)
from tools.bench import kio_requests


def body(encoded: EncodedRequest) -> bytes:
    return encoded.head + encoded.rest


@pytest.mark.sampled
@pytest.mark.parametrize("version", range(LEADER_AND_ISR.first, LEADER_AND_ISR.last + 1))
@given(request=leader_and_isr_requests)
def test_leader_and_isr_is_encoded_as_by_kio(version: int, request: LeaderAndIsrRequest) -> None:
    (encoded,) = BatchEncoder().encode(request, version)
    expected = kio_requests.encode(kio_requests.leader_and_isr(request, version))
    assert body(encoded) == expected


@pytest.mark.sampled
@pytest.mark.parametrize("version", range(UPDATE_METADATA.first, UPDATE_METADATA.last + 1))
@given(request=update_metadata_requests)
def test_update_metadata_is_encoded_as_by_kio(version: int, request: UpdateMetadataRequest) -> None:
    (encoded,) = BatchEncoder().encode(request, version)
    expected = kio_requests.encode(kio_requests.update_metadata(request, version))
    assert body(encoded) == expected


@given(request=leader_and_isr_requests, data=st.data())
def test_batch_encodes_each_request_as_if_it_were_alone(
    request: LeaderAndIsrRequest, data: st.DataObject
) -> None:
    """Encoded partitions are shared between brokers and between versions."""
    some = tuple(one for one in request.partitions if data.draw(st.booleans()))
    other = msgspec.structs.replace(request, broker=7, broker_epoch=8, partitions=some)
    batch = BatchEncoder()
    for version in (7, 4, 3):
        for each in (request, other):
            assert batch.encode(each, version) == BatchEncoder().encode(each, version)


@given(request=update_metadata_requests)
def test_brokers_share_one_body_of_update_metadata(request: UpdateMetadataRequest) -> None:
    batch = BatchEncoder()
    other = msgspec.structs.replace(request, broker=7, broker_epoch=8)
    (first,), (second,) = batch.encode(request, 8), batch.encode(other, 8)
    assert first.rest is second.rest
    assert body(second) == body(BatchEncoder().encode(other, 8)[0])


@settings(max_examples=40)
@given(request=leader_and_isr_requests, bytes_max=st.integers(100, 3000))
def test_long_leader_and_isr_is_split_in_order(
    request: LeaderAndIsrRequest, bytes_max: int
) -> None:
    whole = kio_requests.leader_and_isr(request, 7)
    parts = BatchEncoder(bytes_max).encode(request, 7)
    read = [read_request("leader_and_isr", "LeaderAndIsrRequest", part) for part in parts]
    assert partitions_of(read) == partitions_of([whole])
    assert {part.live_leaders for part in read} == {whole.live_leaders}
    for part, entity in zip(parts, read, strict=True):
        assert len(body(part)) <= bytes_max or len(partitions_of([entity])) <= 1


@settings(max_examples=40)
@given(request=update_metadata_requests, bytes_max=st.integers(100, 3000))
def test_long_update_metadata_is_split_and_each_part_names_all_brokers(
    request: UpdateMetadataRequest, bytes_max: int
) -> None:
    whole = kio_requests.update_metadata(request, 8)
    parts = BatchEncoder(bytes_max).encode(request, 8)
    read = [read_request("update_metadata", "UpdateMetadataRequest", part) for part in parts]
    assert partitions_of(read) == partitions_of([whole])
    assert {part.live_brokers for part in read} == {whole.live_brokers}
    for part, entity in zip(parts, read, strict=True):
        assert len(body(part)) <= bytes_max or len(partitions_of([entity])) <= 1


@pytest.mark.parametrize("version", range(STOP_REPLICA.first, STOP_REPLICA.last + 1))
@given(request=stop_replica_requests)
def test_stop_replica_names_every_partition(version: int, request: StopReplicaRequest) -> None:
    (encoded,) = BatchEncoder().encode(request, version)
    entity = read_request("stop_replica", "StopReplicaRequest", encoded)
    assert entity.broker_epoch == request.broker_epoch
    assert stopped(entity, version) == [
        (one.topic, one.partition, one.leader_epoch if version >= 3 else None)
        for one in request.partitions
    ]


@pytest.mark.parametrize("delete", [True, False])
def test_stop_replica_names_the_partitions_to_delete(delete: bool) -> None:
    request = StopReplicaRequest(1, 2, -1, 3, 4, (StopReplicaPartition("t", 0, 5, delete),))
    for version in (1, 2):
        (encoded,) = BatchEncoder().encode(request, version)
        entity = read_request("stop_replica", "StopReplicaRequest", encoded)
        assert entity.delete_partitions is delete
    for version in (3, 4):
        (encoded,) = BatchEncoder().encode(request, version)
        entity = read_request("stop_replica", "StopReplicaRequest", encoded)
        assert entity.topic_states[0].partition_states[0].delete_partition is delete


def test_long_requests_are_encoded_in_steps() -> None:
    """The event loop does other work in between."""
    state, assignment = LeaderAndIsr(1, 0, (1,), 0, 1), Assignment((1,))
    numbers = range(20_000)
    entries = tuple(LeaderAndIsrPartition("t", None, n, state, assignment, False) for n in numbers)
    metadata = tuple(UpdateMetadataPartition("t", None, n, state, (1,), ()) for n in numbers)
    for request, version in (
        (LeaderAndIsrRequest(1, 2, 7, 3, 4, entries, ()), 7),
        (UpdateMetadataRequest(1, 2, 8, 3, 4, metadata, ()), 8),
    ):
        steps = BatchEncoder().encode_in_steps(request, version)
        assert sum(1 for _ in steps) == 4


def test_versions_without_an_encoder_are_rejected_by_name() -> None:
    request = LeaderAndIsrRequest(1, 2, -1, 3, 4, (), ())
    for version in (2, 8):
        with pytest.raises(UnsupportedVersion, match=f"LeaderAndIsr version {version}"):
            BatchEncoder().encode(request, version)


def test_error_of_an_unknown_security_protocol_names_the_broker() -> None:
    broker = Broker(5, 1, (Endpoint("A", "CARRIER_PIGEON", "h", 1),))
    request = UpdateMetadataRequest(1, 2, -1, 3, 4, (), (broker,))
    with pytest.raises(UnencodableValue, match=r"broker 5.*CARRIER_PIGEON"):
        BatchEncoder().encode(request, 8)


def read_request(package: str, name: str, encoded: EncodedRequest) -> Any:
    """The request as kio decodes it, without trailing bytes."""
    schema = import_module(f"kio.schema.{package}.v{encoded.version}.request")
    entity, size = entity_reader(getattr(schema, name))(body(encoded), 0)
    assert size == len(body(encoded))
    return entity


def partitions_of(entities: list[Any]) -> list[tuple[str, Any]]:
    return [
        (topic.topic_name, state)
        for entity in entities
        for topic in entity.topic_states
        for state in topic.partition_states
    ]


def stopped(entity: Any, version: int) -> list[tuple[str, int, int | None]]:
    if version < 3:
        return [
            (topic.name, one, None) for topic in entity.topics for one in topic.partition_indexes
        ]
    return [
        (topic.topic_name, state.partition_index, state.leader_epoch)
        for topic in entity.topic_states
        for state in topic.partition_states
    ]
