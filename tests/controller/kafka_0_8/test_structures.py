"""Replica and Partition."""

from controller.core.values import NO_LEADER
from controller.kafka_0_8.state import Partition
from tests.controller.kafka_0_8.clusters import T, partition, replicated


def test_replica_has_the_fields_of_the_design() -> None:
    leader = partition(replicated(), 1)
    fields = [(one.broker_id, one.is_local, one.hw, one.leo) for one in leader.ar.values()]
    assert fields == [(1, True, 0, 0), (2, False, 0, 0), (3, False, 0, 0)]
    assert leader.ar[1] is leader.local
    assert all(one.partition is leader for one in leader.ar.values())


def test_log_of_a_replica_is_on_the_disk_of_its_broker() -> None:
    found = replicated()
    found.produce(1, T, ["a"], -1, wait_ms=1000)
    for _ in range(2):
        leader = partition(found, 1)
        assert (leader.is_open, leader.local.leo) == (True, len(found.brokers[1].logs[T]))
        assert leader.local.leo == 1
        found.stop(1)
        found.start(1)


def test_partition_has_the_fields_of_the_design() -> None:
    leader = partition(replicated(), 1)
    assert leader.name == ("t", 0)
    assert leader.leader == 1
    assert list(leader.commit_queue) == []
    assert (tuple(leader.ar), leader.isr, leader.cur, leader.rar) == ((1, 2, 3), (1, 2, 3), (), ())


def test_replica_that_stays_assigned_keeps_its_state() -> None:
    one = Partition(("t", 0), 1)
    one.assign((1, 2), 5, 0)
    one.ar[2].leo = 7
    one.assign((2, 3), 9, 4)
    found = {id: (each.leo, each.caught_up_ms, each.assigned_at) for id, each in one.ar.items()}
    assert found == {2: (7, 5, 0), 3: (-1, 9, 4)}


def test_partition_without_leader_has_no_sets() -> None:
    leader = partition(replicated(), 1)
    leader.forget_leader()
    assert leader.leader == NO_LEADER
    assert (leader.ar, leader.isr, leader.cur, leader.rar) == ({}, (), (), ())
