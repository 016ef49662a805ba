"""An old leader whose topic was deleted and created again, which it does not know yet: I-03, A-01,
A-02. The znodes of the new partition have the same versions as those of the old one."""

import pytest

from controller.core.error_codes import NONE, NOT_LEADER_OR_FOLLOWER
from controller.kafka_0_8 import rules
from controller.kafka_0_8.triggers import ElectionWaitOver, IsrChange, PartitionsReassigned, Trigger
from replay.world.kafka_0_8.cluster import Cluster08
from tests.controller.kafka_0_8.clusters import (
    T,
    cluster,
    error_of,
    issued,
    leader_of,
    notices,
    partition,
)

ISR = "/brokers/topics/t/0/ISR"
REPLICAS = "/brokers/topics/t/0/replicas"


def busy_leader() -> Cluster08:
    """Broker 1 leads t-0 as the only member of the ISR, and begins 100 elections."""
    found = cluster(1, 2, 3)
    found.create_topic("t", {0: (1, 2)})
    found.create_topic("x", {one: (3, 1) for one in range(100)})
    found.start(1, 3)
    found.run(3000)
    found.produce(1, T, ["old"], 1, wait_ms=50)
    assert found.data(ISR) == "1;1"
    found.stop(3)
    found.run(505)
    return found


def run_until_queued(found: Cluster08, trigger: Trigger) -> None:
    """Let time pass until the trigger waits while broker 1 elects leaders."""
    broker = found.brokers[1].fold.broker
    while trigger not in broker.triggers:
        found.run(1)
    assert any(isinstance(one, ElectionWaitOver) for one in broker.triggers)


def commit_as_new_leader(found: Cluster08) -> None:
    """Broker 2 leads the new t-0, and commits a record."""
    while leader_of(found) is None:
        found.run(1)
    assert leader_of(found).startswith("2;")
    found.run(5)
    request = found.produce(2, T, ["committed"], -1, wait_ms=2)
    assert error_of(found, request) == NONE
    assert partition(found, 1).is_leader


def create_again(found: Cluster08) -> None:
    found.delete_topic("t")
    found.create_topic("t", {0: (2, 1)})
    commit_as_new_leader(found)


def test_old_leader_does_not_change_the_isr_of_the_partition_that_was_created_again() -> None:
    found = busy_leader()
    found.boot(2)
    run_until_queued(found, IsrChange(*T))
    create_again(found)
    found.run(3000)
    assert found.data(ISR).startswith("2,1;")
    assert leader_of(found).startswith("2;")
    assert [one.text for one in notices(found, 1, "stepped_down")] == [
        "no longer the leader (epoch 1): another leader has written the ISR"
    ]
    found.stop(2)
    found.run(3000)
    assert found.brokers[1].logs[T] == ["committed"]


@pytest.mark.parametrize("replicas", [(1,), (1, 3)])
def test_old_leader_does_not_reassign_the_partition_that_was_created_again(
    replicas: tuple[int, ...],
) -> None:
    """(1,): the last step, since it is the old ISR; (1, 3): the first step."""
    found = busy_leader()
    found.boot(2)
    found.run(13)
    found.reassign(("x", 99), (3, 1))
    run_until_queued(found, PartitionsReassigned())
    assert IsrChange(*T) not in found.brokers[1].fold.broker.triggers, "broker 2 has caught up"
    create_again(found)
    found.stop(2, session_ends=False)
    isr = found.data(ISR)
    found.reassign(T, replicas)
    while partition(found, 1).is_leader:
        found.run(1)
    found.run(50)
    assert (found.data(REPLICAS), found.data(ISR)) == ("2,1", isr)


def test_candidate_of_a_deleted_partition_does_not_win_the_election_of_the_next_one() -> None:
    """Before the deletion, the candidate read the znodes of a partition that had never had a
    leader."""
    found = cluster(1, 2)
    found.start(1, 2)
    found.create_topic("t", {0: (1, 2)})
    while not issued(found, 1, rules.ELECT_OR_FOLLOW):
        found.run(1)
    found.delete_topic("t")
    found.create_topic("t", {0: (2, 1)})
    found.run(3)
    request = found.produce(1, T, ["on the old log"], -1, wait_ms=3)
    assert error_of(found, request) == NOT_LEADER_OR_FOLLOWER
    found.run(3000)
    assert leader_of(found).startswith("2;")
    assert found.data(ISR).startswith("2,1;")
