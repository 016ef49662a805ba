"""AlterPartition and reassignment requests, read from the log or inferred from writes."""

import json
from typing import Any

import pytest

from controller.core.api_requests.alter_partition import ProposedState
from controller.core.api_requests.reassignments import ReassignmentTarget
from replay.stock_clusters.zookeeper_log.transactions import SetData
from tests.replay.stock_clusters.imports.cluster import (
    REASSIGN,
    STATE,
    Cluster,
    T,
    kind,
    led,
    requested,
    served,
    started,
    state,
    topic,
)

SHRUNK = SetData(STATE, state(1, 0, 1, 2), 1)
"""The write that the leader of t-0 requests if a follower is not in sync."""

TOPIC_ID = "pPIRp0EbRlmoyqCvGidCAQ"


def alter_partition(isr: list[int], partition_epoch: int = 0, **topic: str) -> dict[str, Any]:
    partition = {
        "partitionIndex": 0,
        "leaderEpoch": 0,
        "newIsrWithEpochs": [{"brokerId": one, "brokerEpoch": -1} for one in isr],
        "leaderRecoveryState": 0,
        "partitionEpoch": partition_epoch,
    }
    return {
        "brokerId": 1,
        "topics": [{**(topic or {"topicId": TOPIC_ID}), "partitions": [partition]}],
    }


def reassignment(replicas: list[int] | None) -> dict[str, Any]:
    return {"topics": [{"name": "t", "partitions": [{"partitionIndex": 0, "replicas": replicas}]}]}


def reassigned() -> Cluster:
    """A cluster in which t-0 is being reassigned from 1, 2, 3 to 4, 1."""
    cluster = led()
    cluster.guarded(1, SetData(T, topic([4, 1, 2, 3], [4], [2, 3]), 2))
    return cluster


def test_isr_change_in_the_same_leader_epoch_was_requested() -> None:
    assert requested(led().guarded(1, SHRUNK)) == [ProposedState("t", 0, 0, (1, 2), 0, 0)]


@pytest.mark.parametrize(
    "data",
    [
        state(1, 1, 1, 2),
        state(2, 0, 1, 2),
        state(1, 0, 1, 2, 3),
        b"not json",
    ],
    ids=["leader epoch", "leader", "the same ISR", "unreadable"],
)
def test_state_write_that_no_request_causes_is_a_decision(data: bytes) -> None:
    assert kind(led().guarded(1, SetData(STATE, data, 1))) == "partition_state"


def test_recovery_of_a_leader_was_requested() -> None:
    cluster = led()
    recovering = json.loads(state(1, 1, 1)) | {"leader_recovery_state": 1}
    cluster.guarded(1, SetData(STATE, json.dumps(recovering).encode(), 1))
    assert requested(cluster.guarded(1, SetData(STATE, state(1, 1, 1), 2)))


@pytest.mark.parametrize(
    "names", [{"topicId": TOPIC_ID}, {"topicName": "t"}], ids=["by id", "by name"]
)
def test_request_in_the_log_makes_the_write_a_decision(names: dict[str, str]) -> None:
    logged = served(10, "ALTER_PARTITION", alter_partition([1, 2], **names))
    assert kind(led(1, logged).guarded(1, SHRUNK, time_ms=20)) == "partition_state"


@pytest.mark.parametrize(
    "logged",
    [
        served(10, "ALTER_PARTITION", alter_partition([1, 3])),
        served(10, "ALTER_PARTITION", alter_partition([1, 2], partition_epoch=7)),
        served(10, "ALTER_PARTITION", alter_partition([1, 2], topicName="u")),
        served(10, "ALTER_PARTITION", alter_partition([1, 2]), broker=2),
        served(10, "ALTER_PARTITION", {"other": "fields"}),
    ],
    ids=["another ISR", "another epoch", "another topic", "another broker", "unreadable"],
)
def test_request_that_differs_does_not_make_the_write_a_decision(logged: Any) -> None:
    assert requested(led(1, logged).guarded(1, SHRUNK, time_ms=20))


def test_log_that_continues_has_every_request() -> None:
    """A write without a request is then a decision, so that a wrong write is noticed."""
    logged = [served(time_ms, "LEADER_AND_ISR", {}) for time_ms in (1_000, 3_000)]
    assert kind(led(1, *logged).guarded(1, SHRUNK, time_ms=1_000)) == "partition_state"
    # The controller may still process the request: it is logged at its end.
    assert requested(led(1, *logged).guarded(1, SHRUNK, time_ms=1_001))
    # The log may have begun after the request.
    assert requested(led(1, *logged).guarded(1, SHRUNK, time_ms=999))


def test_log_of_a_process_that_ended_may_lack_the_last_request() -> None:
    before, after = (served(time_ms, "LEADER_AND_ISR", {}) for time_ms in (10, 3_000))
    logged = (before, started(25), after)
    assert requested(led(1, *logged).guarded(1, SHRUNK, time_ms=20))


@pytest.mark.parametrize(
    ("data", "target"),
    [
        (topic([4, 1, 2, 3], [4], [2, 3]), (4, 1)),
        (topic([1, 2, 3, 4], [4]), (1, 2, 3, 4)),
        (topic([1, 2, 3], (), [3]), (1, 2)),
        (topic([3, 2, 1]), (3, 2, 1)),
    ],
    ids=["other replicas", "more", "fewer", "another order"],
)
def test_beginning_of_a_reassignment_was_requested(data: bytes, target: tuple[int, ...]) -> None:
    found = led().guarded(1, SetData(T, data, 2))
    assert requested(found) == [ReassignmentTarget("t", 0, target)]


def test_end_of_a_reassignment_is_a_decision() -> None:
    assert kind(reassigned().guarded(1, SetData(T, topic([4, 1]), 3))) == "assignment"


def test_cancellation_of_a_reassignment_was_requested() -> None:
    found = reassigned().guarded(1, SetData(T, topic([1, 2, 3]), 3))
    assert requested(found) == [ReassignmentTarget("t", 0, None)]


def test_replacement_of_a_reassignment_was_requested() -> None:
    found = reassigned().guarded(1, SetData(T, topic([5, 1, 2, 3], [5], [1, 2, 3]), 3))
    assert requested(found) == [ReassignmentTarget("t", 0, (5,))]


def test_reassignment_requested_by_the_znode_is_a_decision() -> None:
    for replicas, is_decision in (([4, 1], True), ([4, 1, 4], True), ([1, 4], False)):
        cluster = led()
        plan = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": replicas}]}
        cluster.put(REASSIGN, json.dumps(plan).encode())
        found = cluster.guarded(1, SetData(T, topic([4, 1, 2, 3], [4], [2, 3]), 2))
        assert (kind(found) == "assignment") == is_decision, replicas


def test_added_topic_id_is_not_a_reassignment() -> None:
    cluster = led()
    cluster.does(0, SetData(T, topic([1, 2, 3]).replace(b"0", b"1"), 2))
    assert kind(cluster.guarded(1, SetData(T, topic([1, 2, 3]), 3))) == "assignment"


@pytest.mark.parametrize(
    ("time_ms", "is_decision"), [(20_200, True), (4_000, False), (40_000, False)]
)
def test_reassignment_in_the_log_makes_the_write_a_decision(
    time_ms: int, is_decision: bool
) -> None:
    logged = served(20_100, "ALTER_PARTITION_REASSIGNMENTS", reassignment([4, 1]), took_ms=200)
    cluster = led(1, started(10_000), logged)
    found = cluster.guarded(1, SetData(T, topic([4, 1, 2, 3], [4], [2, 3]), 2), time_ms=time_ms)
    assert (kind(found) == "assignment") == is_decision
