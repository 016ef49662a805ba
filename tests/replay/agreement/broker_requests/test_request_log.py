"""The JSON of the request log, in each version that Kafka writes."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.agreement.broker_requests.request_log import (
    UnreadableError,
    request_in_log,
)
from replay.agreement.broker_requests.sent_request import (
    SentPartition,
    SentRequest,
    agrees,
    sent_request_of,
)
from replay.stock_clusters.imported_log.events import RequestServed
from tests.replay.agreement.broker_requests.samples import (
    LEADER_AND_ISR,
    STOP,
    UPDATE,
)

STATE = {"controllerEpoch": 3, "leader": 1, "leaderEpoch": 4, "isr": [1, 2], "replicas": [1, 2, 3]}
NAMED = {"topicName": "t-x", "partitionIndex": 0}
HEADER = {"controllerId": 9, "controllerEpoch": 3}


def served(api: str, version: int, request: Any) -> RequestServed:
    body = json.dumps(request).encode()
    return RequestServed(1, api, version, "9", 5, "a-b", 0, body, b"{}")


def parsed(api: str, version: int, **request: Any) -> SentRequest:
    result = request_in_log(served(api, version, {**HEADER, **request}), 17)
    assert result is not None
    assert (result.seq, result.version, result.broker, result.connection) == (17, version, 1, "a-b")
    assert (result.controller, result.controller_epoch) == (9, 3)
    return result


def by_topic(**state: Any) -> dict[str, Any]:
    partition = {"partitionIndex": 0, **state}
    return {"topicStates": [{"topicName": "t-x", "partitionStates": [partition]}]}


def only(one: SentRequest) -> SentPartition:
    assert one.partitions is not None
    assert one.size == 1
    return one.partitions[0]


def test_leader_and_isr_7_equals_the_folds_request() -> None:
    state = {**STATE, "partitionEpoch": 7, "addingReplicas": [3], "removingReplicas": []}
    request = by_topic(**state, isNew=False, leaderRecoveryState=0)
    request["topicStates"][0]["topicId"] = "C15KhtCNTB2GeX5pqyIMeQ"
    leaders = [{"brokerId": 1, "hostName": "h", "port": 9092}]
    one = parsed("LEADER_AND_ISR", 7, **request, brokerEpoch=50, type=0, liveLeaders=leaders)
    assert agrees(sent_request_of(LEADER_AND_ISR, 1), one)
    assert None not in (one.partitions, one.leading, one.live_brokers, one.broker_epoch)
    missing = {"offline_replicas", "delete"}
    partition = only(one)
    assert {
        name for name in partition.__struct_fields__ if getattr(partition, name) is None
    } == missing


def test_update_metadata_8_equals_the_folds_request() -> None:
    live = [{"id": 1, "endpoints": [{"port": 9092, "host": "h"}], "rack": None}]
    request = by_topic(**STATE, zkVersion=7, offlineReplicas=[3])
    one = parsed("UPDATE_METADATA", 8, **request, brokerEpoch=50, liveBrokers=live)
    assert agrees(sent_request_of(UPDATE, 1), one)
    assert (one.live_brokers, only(one).partition_epoch) == ((1,), 7)
    assert only(one).offline_replicas == (3,)


def test_stop_replica_4_equals_the_folds_request() -> None:
    request = by_topic(leaderEpoch=4, deletePartition=True)
    one = parsed("STOP_REPLICA", 4, **request, brokerEpoch=50)
    assert agrees(sent_request_of(STOP, 1), one)
    assert (only(one).leader_epoch, only(one).delete) == (4, True)


@pytest.mark.parametrize(
    ("version", "request_"),
    [
        (0, {"ungroupedPartitionStates": [{**NAMED, **STATE, "zkVersion": 7}]}),
        (1, {"ungroupedPartitionStates": [{**NAMED, **STATE, "zkVersion": 7, "isNew": True}]}),
        (2, {**by_topic(**STATE, zkVersion=7, isNew=True), "brokerEpoch": 50}),
        (5, {**by_topic(**STATE, partitionEpoch=7, addingReplicas=[3]), "brokerEpoch": 50}),
    ],
)
def test_older_leader_and_isr_is_parsed(version: int, request_: dict[str, Any]) -> None:
    one = parsed("LEADER_AND_ISR", version, **request_, liveLeaders=[])
    assert only(one) == SentPartition(
        "t-x",
        0,
        leader=1,
        leader_epoch=4,
        isr=(1, 2),
        partition_epoch=7,
        controller_epoch=3,
        replicas=(1, 2, 3),
        adding_replicas=(3,) if version == 5 else None,
        is_new=True if version in (1, 2) else None,
    )
    assert one.broker_epoch == (50 if version >= 2 else None)
    assert one.leading == 1


def test_older_update_metadata_is_parsed() -> None:
    live = [{"id": 2, "v0Host": "h", "v0Port": 9092}, {"id": 1, "v0Host": "h", "v0Port": 9093}]
    states = [{**NAMED, **STATE, "zkVersion": 7}]
    one = parsed("UPDATE_METADATA", 0, ungroupedPartitionStates=states, liveBrokers=live)
    assert (one.live_brokers, only(one).leader, only(one).offline_replicas) == ((1, 2), 1, None)


@pytest.mark.parametrize(
    ("version", "request_"),
    [
        (0, {"ungroupedPartitions": [NAMED]}),
        (2, {"topics": [{"name": "t-x", "partitionIndexes": [0]}], "brokerEpoch": 50}),
    ],
)
def test_older_stop_replica_is_parsed(version: int, request_: dict[str, Any]) -> None:
    one = parsed("STOP_REPLICA", version, **request_, deletePartitions=True)
    assert only(one) == SentPartition("t-x", 0, delete=True)


def test_partitions_are_sorted_and_may_be_absent() -> None:
    states = [{"partitionIndex": number, "leaderEpoch": 1} for number in (10, 2)]
    topics = [{"topicName": name, "partitionStates": states} for name in ("u", "t")]
    one = parsed("STOP_REPLICA", 3, topicStates=topics)
    assert one.partitions is not None
    assert [each.name for each in one.partitions] == ["t-2", "t-10", "u-2", "u-10"]
    assert parsed("UPDATE_METADATA", 6, topicStates=[], liveBrokers=[]).partitions == ()


def test_request_of_another_api_is_not_a_controllers() -> None:
    assert request_in_log(served("ALTER_PARTITION", 3, {}), 1) is None


@pytest.mark.parametrize(
    "request_",
    [{}, HEADER, {**HEADER, "topicStates": [{}]}, {**HEADER, "topicStates": 1}, [], None],
)
def test_unreadable_request_is_rejected(request_: Any) -> None:
    with pytest.raises(UnreadableError):
        request_in_log(served("LEADER_AND_ISR", 7, request_), 1)


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_rejected_without_a_traceback(body: bytes) -> None:
    with pytest.raises(UnreadableError):
        request_in_log(RequestServed(1, "STOP_REPLICA", 3, "9", 5, "", 0, body, b"{}"), 1)
