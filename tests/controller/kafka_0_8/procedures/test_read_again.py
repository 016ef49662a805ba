"""Later reads of unreadable znodes, and requests that could not be deleted: S-12, Q-07."""

import pytest

from controller.core.commands import StartTimer
from controller.core.error_codes import NONE
from controller.core.operations import CreateSequential, SetData
from controller.core.values import ANY_VERSION
from controller.kafka_0_8 import znodes
from controller.kafka_0_8.commands import DeleteLog
from controller.kafka_0_8.configuration import SECOND_RULES
from controller.kafka_0_8.znodes import StateChange
from replay.world.kafka_0_8.cluster import Cluster08
from tests.controller.kafka_0_8.clusters import (
    T,
    cluster,
    error_of,
    issued,
    leader_of,
    notices,
    partition,
    replicated,
)

QUEUE = "/brokers/state/1"
REPLICAS = "/brokers/topics/t/0/replicas"
U = ("u", 0)


def running(*brokers: int, **settings: int) -> Cluster08:
    """Brokers without partitions."""
    found = cluster(*brokers, **settings)
    found.start(*brokers)
    return found


def test_queue_that_can_be_read_again_is_drained_and_watched(denied: list[str]) -> None:
    found = running(1)
    denied.append(QUEUE)
    found.create_topic("t", {0: (1,)})
    found.run(3000)
    assert (leader_of(found), len(found.children(QUEUE))) == (None, 1)
    assert len(notices(found, 1, "unreadable_znode")) == 1
    denied.clear()
    found.run(200)
    assert (leader_of(found), found.children(QUEUE)) == ("1;1", [])
    found.create_topic("u", {0: (1,)})
    found.run(50)
    assert leader_of(found, U) == "1;2"
    timers = [one for one in issued(found, 1, "S-12") if isinstance(one, StartTimer)]
    found.run(3000)
    assert [one for one in issued(found, 1, "S-12") if isinstance(one, StartTimer)] == timers
    denied.append(QUEUE)
    found.create_topic("v", {0: (1,)})
    found.run(1000)
    assert len(notices(found, 1, "unreadable_znode")) == 2


def test_request_that_can_be_read_again_is_carried_out(denied: list[str]) -> None:
    found = running(1)
    denied.append(f"{QUEUE}/request-0000000000")
    found.create_topic("t", {0: (1,)})
    found.create_topic("u", {0: (1,)})
    found.run(1000)
    assert (leader_of(found), leader_of(found, U)) == (None, "1;1")
    denied.clear()
    found.run(200)
    assert (leader_of(found), found.children(QUEUE)) == ("1;2", [])


@pytest.mark.parametrize("is_denied", [True, False])
def test_request_to_start_waits_until_the_replicas_can_be_read(
    is_denied: bool, denied: list[str]
) -> None:
    found = running(1)
    found.create_topic("t", {0: (1,)})
    if is_denied:
        denied.append(REPLICAS)
    else:
        found.write(SetData(REPLICAS, b"garbage", ANY_VERSION))
    found.run(3000)
    assert (leader_of(found), len(found.children(QUEUE))) == (None, 1)
    assert [one.subject for one in notices(found, 1, "unreadable_znode")] == [REPLICAS]
    denied.clear()
    found.write(SetData(REPLICAS, b"1", ANY_VERSION))
    found.run(200)
    assert (leader_of(found), found.children(QUEUE)) == ("1;1", [])


@pytest.mark.parametrize("is_denied", [True, False])
def test_request_to_close_waits_until_the_replicas_can_be_read(
    is_denied: bool, denied: list[str]
) -> None:
    found = replicated()
    found.produce(1, T, ["a"], -1, wait_ms=1000)
    content = b"1,3" if is_denied else b"garbage"
    if is_denied:
        denied.append(REPLICAS)
    found.write(
        SetData(REPLICAS, content, ANY_VERSION),
        CreateSequential(znodes.request_prefix(2), close("t")),
    )
    found.run(1000)
    assert found.brokers[2].logs[T] == ["a"]
    assert len(found.children("/brokers/state/2")) == 1
    denied.clear()
    found.write(SetData(REPLICAS, b"1,3", ANY_VERSION))
    found.run(200)
    assert T not in found.brokers[2].logs
    assert found.children("/brokers/state/2") == []


def close(topic: str) -> bytes:
    """A close request for partition 0."""
    return znodes.write_state_change(StateChange("close-replica", topic, 0))


@pytest.mark.parametrize(
    "path", [REPLICAS, "/brokers/topics/t", "/brokers/topics", QUEUE, "garbage"]
)
def test_assigned_replicas_that_can_be_read_again_are_started(path: str, denied: list[str]) -> None:
    """The queue is empty at the start."""
    found = cluster(1, 2)
    found.create_topic("t", {0: (1, 2)})
    found.create_topic("u", {0: (1, 2)})
    found.start(1, 2)
    found.run(2000)
    assert found.children(QUEUE) == []
    found.stop(1)
    if path == "garbage":
        found.write(SetData(REPLICAS, b"garbage", ANY_VERSION))
    denied.append(path)
    found.start(1)
    found.run(3000)
    denied.clear()
    found.write(SetData(REPLICAS, b"1,2", ANY_VERSION))
    found.run(3000)
    assert partition(found, 1).is_open
    assert partition(found, 1, U).is_open
    assert found.data("/brokers/topics/t/0/ISR").startswith("1,2;")
    opened = [one for one in issued(found, 1, "R-02") if one.topic == "t"]
    assert len(opened) == 1
    assert len(notices(found, 1, "unreadable_znode")) == 1


def test_broker_whose_queue_may_not_be_read_still_leads(denied: list[str]) -> None:
    found = replicated()
    denied.append(QUEUE)
    found.create_topic("u", {0: (1, 2)})
    assert error_of(found, found.produce(1, T, ["a"], -1, wait_ms=1000)) == NONE
    found.stop(1)
    found.start(1)
    found.run(3000)
    found.end_session(int(leader_of(found)[0]))
    found.run(3000)
    assert leader_of(found).startswith("1;")
    assert error_of(found, found.produce(1, T, ["b"], -1, wait_ms=1000)) == NONE


def test_broker_whose_queue_may_not_be_read_does_not_lead_with_the_log_of_a_deleted_topic(
    denied: list[str],
) -> None:
    found = replicated()
    found.produce(1, T, ["old"], -1, wait_ms=1000)
    denied.append(QUEUE)
    found.delete_topic("t")
    found.create_topic("t", {0: (1, 2)})
    found.run(3000)
    assert leader_of(found).startswith("2;")
    assert found.brokers[2].logs[T] == []
    assert not partition(found, 1).is_leader
    denied.clear()
    found.run(3000)
    assert found.brokers[1].logs[T] == []
    assert partition(found, 1).leader == 2


def test_request_that_cannot_be_deleted_is_carried_out_once_and_reported_once(
    unwritable_alone: list[str],
) -> None:
    found = running(1)
    path = f"{QUEUE}/request-0000000000"
    unwritable_alone.append(path)
    found.create_topic("t", {0: (1,)})
    found.run(3000)
    assert (leader_of(found), found.children(QUEUE)) == ("1;1", ["request-0000000000"])
    (notice,) = notices(found, 1, "request_kept")
    assert (notice.level, notice.subject) == ("error", path)
    assert f"the ACL of {QUEUE} does not allow it (NoAuth): correct the ACL" in notice.text
    read = [one for one in issued(found, 1, "S-07") if getattr(one, "paths", ()) == (REPLICAS,)]
    assert len(read) == 1
    found.create_topic("u", {0: (1,)})
    found.run(100)
    assert leader_of(found, U) == "1;2"
    unwritable_alone.clear()
    found.run(200)
    assert found.children(QUEUE) == []


def test_request_that_could_not_be_deleted_harms_nothing_after_a_restart(
    unwritable_alone: list[str],
) -> None:
    """A request to close a replica is carried out again when the topic was created again, and one
    to start it when the topic was deleted."""
    found = replicated()
    for number in range(9):
        unwritable_alone.append(f"/brokers/state/2/request-{number:010}")
    found.delete_topic("t")
    found.run(500)
    found.create_topic("t", {0: (1, 2, 3)})
    found.create_topic("u", {0: (2,)})
    found.run(2000)
    found.delete_topic("u")
    found.run(500)
    assert error_of(found, found.produce(1, T, ["a"], -1, wait_ms=1000)) == NONE
    kept = found.children("/brokers/state/2")
    assert kept
    found.stop(2)
    found.start(2)
    found.run(3000)
    assert found.brokers[2].logs == {T: ["a"]}
    assert found.data("/brokers/topics/t/0/ISR").startswith("1,2,3;")
    assert [one.topic for one in issued(found, 2) if isinstance(one, DeleteLog)] == ["u"]
    assert len(notices(found, 2, "request_kept")) == len(kept)
    unwritable_alone.clear()
    found.run(200)
    assert found.children("/brokers/state/2") == []


def test_second_rules_delete_a_request_whose_replicas_could_not_be_read(
    denied: list[str],
) -> None:
    found = running(1, rules=SECOND_RULES)
    denied.append(REPLICAS)
    found.create_topic("t", {0: (1,)})
    found.run(1000)
    assert (leader_of(found), found.children(QUEUE)) == (None, [])
    assert issued(found, 1, "S-12") == []
