"""The queue of state changes: Q-01 to Q-06, also while a broker is bounced."""

import pytest

from controller.core.error_codes import NONE, NOT_LEADER_OR_FOLLOWER
from controller.core.operations import Create, CreateSequential, SetData
from controller.core.values import ANY_VERSION
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.commands import DeleteLog, OpenLog
from controller.kafka_0_8.znodes import StateChange
from replay.world.inputs import CreateTopic
from replay.world.kafka_0_8.cluster import Cluster08
from replay.world.kafka_0_8.networked.cluster import NetworkedCluster
from replay.world.scheduler import SECOND
from tests.controller.kafka_0_8.clusters import (
    T,
    cluster,
    error_of,
    issued,
    notices,
    partition,
    replicated,
)
from tests.replay.explore.kafka_0_8.small import small


def enqueue(found: Cluster08, broker: int, content: bytes) -> None:
    """Any client puts a request into a queue."""
    found.write(CreateSequential(znodes.request_prefix(broker), content))
    found.run(300)


def close(topic: str, number: int) -> bytes:
    """A close request."""
    return znodes.write_state_change(StateChange("close-replica", topic, number))


def test_new_topic_is_started_through_the_queue() -> None:
    found = cluster(1, 2)
    found.start(1, 2)
    found.create_topic("t", {0: (1, 2)})
    found.run(1500)
    assert found.data("/brokers/topics/t/0/ISR") == "1,2;1"
    assert found.children("/brokers/state/1") == found.children("/brokers/state/2") == []


def test_every_request_is_noticed_with_watches_that_fire_once() -> None:
    """ZooKeeper before 3.6 has no other watches."""
    creations = [CreateTopic(5_000 + 1_000 * one, f"u{one}", ((1,),)) for one in range(3)]
    found = NetworkedCluster(small((1,), brokers=1, acks=(), zookeeper="3.5"), creations)
    while found.scheduler.now_us < 9 * SECOND:
        assert found.step()
    for one in range(3):
        assert found.zookeeper.state.find(f"/brokers/topics/u{one}/0/leader") is not None


def test_new_leader_sends_start_replica_to_registered_replicas_only() -> None:
    found = cluster(1, 2, 3, 4)
    found.create_topic("t", {0: (1, 2, 3, 4)})
    found.start(1, 2, 3, 4)
    found.stop(2)
    found.run(2000)
    since = len(issued(found, 1, "L-04"))
    found.end_session(1)
    found.run(2000)
    assert found.data("/brokers/topics/t/0/leader") == "1;2"
    sent = [
        one
        for command in issued(found, 1, "L-04")[since:]
        for one in getattr(command, "operations", ())
    ]
    start = znodes.write_state_change(StateChange("start-replica", "t", 0))
    assert sent == [CreateSequential(znodes.request_prefix(one), start) for one in (3, 4)]


def test_request_to_close_an_assigned_replica_is_ignored() -> None:
    found = replicated()
    found.produce(1, T, ["a"], -1, wait_ms=1000)
    enqueue(found, 2, close("t", 0))
    assert found.brokers[2].logs[T] == ["a"]
    assert notices(found, 2, "close_ignored")
    assert found.children("/brokers/state/2") == []


def test_request_to_start_a_replica_that_is_not_assigned_is_ignored() -> None:
    found = replicated()
    found.create_topic("u", {0: (1,)})
    start = znodes.write_state_change(StateChange("start-replica", "u", 0))
    enqueue(found, 2, start)
    assert ("u", 0) not in found.brokers[2].fold.broker.partitions
    assert notices(found, 2, "not_assigned")


def test_deleted_topic_is_removed_from_every_broker() -> None:
    found = replicated()
    found.produce(1, T, ["a"], -1, wait_ms=1000)
    found.delete_topic("t")
    found.run(2000)
    assert found.children("/brokers/topics") == []
    assert [T in found.brokers[one].logs for one in (1, 2, 3)] == [False] * 3
    assert [found.brokers[one].fold.broker.partitions for one in (1, 2, 3)] == [{}] * 3


def test_topic_created_again_does_not_get_the_records_of_its_predecessor() -> None:
    found = replicated()
    found.produce(1, T, ["old"], -1, wait_ms=1000)
    found.stop(3)
    found.run(1000)
    found.delete_topic("t")
    found.run(1000)
    found.create_topic("t", {0: (3, 1, 2)})
    found.run(100)
    found.start(3)
    found.run(4000)
    assert found.brokers[3].logs[T] == []
    assert partition(found, 3).local.leo == 0


def test_requests_are_carried_out_in_order() -> None:
    """While broker 2 is down, topic t is deleted, created, deleted and created; then v and u are
    created."""
    found = replicated()
    found.stop(2)
    for _ in range(2):
        found.run(1000)
        found.delete_topic("t")
        found.run(1000)
        found.create_topic("t", {0: (1, 2)})
    for topic in ("v", "u"):
        found.create_topic(topic, {0: (2,)})
    assert len(found.children("/brokers/state/2")) == 6
    found.start(2)
    found.run(3000)
    assert found.data("/brokers/topics/t/0/ISR").startswith("1,2;")
    assert found.children("/brokers/state/2") == []
    first, second = [one for one in notices(found, 2, "close_ignored")]
    assert first.subject == second.subject == "/brokers/topics/t/0/replicas"
    assert not [one for one in issued(found, 2) if isinstance(one, DeleteLog)]
    opened = [one.topic for one in issued(found, 2) if isinstance(one, OpenLog)]
    assert opened == ["t", "v", "u"]


@pytest.mark.parametrize(
    "content",
    [b"", b"garbage", b"\xff\xfe", b"[]", b'{"request":"stop","topic":"t","partition":0}'],
)
def test_unreadable_request_is_reported_and_deleted(content: bytes) -> None:
    found = replicated()
    enqueue(found, 2, content)
    (notice,) = notices(found, 2, "unreadable_request")
    assert notice.subject.startswith("/brokers/state/2/request-")
    assert "cannot be read as a state change request" in notice.text
    assert found.children("/brokers/state/2") == []
    assert partition(found, 2).leader == 1


def test_child_of_the_queue_that_is_no_request_is_left_alone() -> None:
    found = replicated()
    found.write(Create("/brokers/state/2/note"))
    found.run(300)
    assert found.children("/brokers/state/2") == ["note"]


@pytest.mark.parametrize("content", [b"", b"1,b", b"1,1", b"-1", b"1 ,2", b"\xff"])
def test_unreadable_replicas_harm_no_other_partition(content: bytes) -> None:
    found = cluster(1, 2)
    found.create_topic("t", {0: (1, 2)})
    found.create_topic("u", {0: (1, 2)})
    found.write(SetData("/brokers/topics/t/0/replicas", content, ANY_VERSION))
    found.start(1, 2)
    found.run(2000)
    assert "/brokers/topics/t/0/replicas" in notices(found, 1, "unreadable_znode")[0].text
    assert found.data("/brokers/topics/u/0/leader") == "1;1"
    assert found.data("/brokers/ids/1") == "host1:9092"


@pytest.mark.parametrize("is_registered", [False, True])
def test_unknown_broker_in_the_replicas_harms_no_other_replica(is_registered: bool) -> None:
    found = replicated()
    if is_registered:
        found.write(Create("/brokers/ids/9", b"host9:9092"))
    found.write(SetData("/brokers/topics/t/0/replicas", b"1,2,3,9", ANY_VERSION))
    found.end_session(1)
    found.run(3000)
    leader = int(found.data("/brokers/topics/t/0/leader")[0])
    (notice,) = notices(found, leader, "unknown_broker")
    assert notice.subject == "/brokers/state/9"
    assert "add-brokers" in notice.text
    assert found.data("/brokers/topics/t/0/ISR") == f"1,2,3;{found.data('/brokers/epoch')}"


@pytest.mark.parametrize("content", [b"", b"1", b"one;two", b"1;2;3", b"\xff"])
def test_unreadable_leader_is_reported_and_not_followed(content: bytes) -> None:
    found = replicated()
    found.stop(1)
    found.write(Create("/brokers/topics/t/0/leader", content))
    found.run(2000)
    assert "/brokers/topics/t/0/leader" in notices(found, 2, "unreadable_znode")[0].text
    assert not partition(found, 2).is_leader


def test_partition_that_is_not_a_number_is_reported() -> None:
    found = cluster(1)
    found.create_topic("t", {0: (1,)})
    found.write(Create("/brokers/topics/t/first"))
    found.start(1)
    assert "/brokers/topics/t/first" in notices(found, 1, "unreadable_znode")[0].text
    assert found.data("/brokers/topics/t/0/leader") == "1;1"


def test_unreadable_address_of_a_leader_is_reported_and_read_again() -> None:
    found = replicated()
    found.stop(2)
    found.write(SetData("/brokers/ids/1", b"nowhere", ANY_VERSION))
    found.start(2)
    found.run(500)
    assert "/brokers/ids/1" in notices(found, 2, "unreadable_znode")[0].text
    found.write(SetData("/brokers/ids/1", b"host1:9092", ANY_VERSION))
    found.run(500)
    assert partition(found, 2).address == "host1:9092"


def test_earlier_request_to_close_does_not_delete_the_log_of_a_topic_created_again() -> None:
    """Broker 2 is down while topic u is created, deleted and created again: it starts the replica
    by the first request already, and finds that to close it afterwards."""
    found = replicated()
    found.stop(2)
    found.run(500)
    found.create_topic("u", {0: (2, 1)})
    found.run(100)
    found.delete_topic("u")
    found.run(100)
    found.create_topic("u", {0: (2, 1)})
    found.start(2)
    u = ("u", 0)
    request = 0
    while not request:
        found.run(1)
        leader = found.brokers[2].fold.broker.partitions.get(u)
        if leader is not None and leader.is_leader:
            request = found.produce(2, u, ["a"], -1)
    found.run(3000)
    assert error_of(found, request) == NONE
    assert found.brokers[2].logs[u] == ["a"]


def test_replica_of_a_deleted_partition_does_not_lead_the_partition_created_again() -> None:
    found = replicated()
    found.produce(1, T, ["old"], -1, wait_ms=1000)
    with_queue = [znodes.state_path(one) for one in (1, 2, 3)]
    found.delete_topic("t")
    found.create_topic("t", {0: (1, 2, 3)})
    found.run(3000)
    assert [found.brokers[one].logs[T] for one in (1, 2, 3)] == [[], [], []]
    assert partition(found, 1).is_leader
    assert [found.children(one) for one in with_queue] == [[], [], []]


def test_deletion_rejects_the_requests_that_wait_in_the_commit_queue() -> None:
    found = replicated()
    found.cut = {(1, 2): None}
    request = found.produce(1, T, ["a"], -1, wait_ms=50)
    found.delete_topic("t")
    found.run(500)
    assert error_of(found, request) == NOT_LEADER_OR_FOLLOWER
    assert notices(found, 1, "stepped_down")


def test_leader_that_closes_its_replica_rejects_waiting_requests() -> None:
    """The request is carried out before the deletion of the leader znode is noticed."""
    found = replicated()
    found.cut = {(1, 2): None}
    request = found.produce(1, T, ["a"], -1, wait_ms=50)
    found.write(SetData("/brokers/topics/t/0/replicas", b"2,3", ANY_VERSION))
    enqueue(found, 1, close("t", 0))
    assert error_of(found, request) == NOT_LEADER_OR_FOLLOWER
    assert "the replica is closed" in notices(found, 1, "stepped_down")[0].text


@pytest.mark.parametrize("acks", [1, -1])
def test_producer_gets_a_response_if_the_replica_is_closed_during_the_append(acks: int) -> None:
    """One request is sent every millisecond while the topic is deleted."""
    for offset in (37, 38, 39):
        found = replicated()
        found.create_topic("x", {one: (1,) for one in range(10)})
        found.run(offset)
        found.delete_topic("t")
        requests = []
        for _ in range(200):
            requests.append(found.produce(1, T, ["a"], acks))
            found.run(1)
        found.run(5000)
        answered = [error_of(found, one) for one in requests]
        assert None not in answered
        assert NOT_LEADER_OR_FOLLOWER in answered
