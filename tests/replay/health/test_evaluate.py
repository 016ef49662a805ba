"""The states of partitions (docs/health.md)."""

import msgspec
import pytest
from msgspec import structs

from controller.core.values import Assignment, LeaderAndIsr
from replay.cluster_view.views import (
    BrokerView,
    ClusterView,
    ControllerView,
    DeletionView,
    NotInSync,
    StuckRegistrationView,
    TopicView,
    partition_view,
)
from replay.health.evaluate import Health, PartitionHealth, State, evaluate

LIVE = (1, 2, 3, 4)

OfPartition = tuple[Assignment, int, tuple[int, ...]]
"""The assignment, leader and ISR of a partition."""


def cluster(
    *partitions: OfPartition,
    live: tuple[int, ...] = LIVE,
    min_insync_replicas: int | None = None,
) -> ClusterView:
    """A topic with partitions of these assignments, leaders and ISRs."""
    views = [
        partition_view(
            "test",
            number,
            "online",
            LeaderAndIsr(
                leader=leader, leader_epoch=1, isr=isr, partition_epoch=1, controller_epoch=1
            ),
            assignment,
            (),
        )
        for number, (assignment, leader, isr) in enumerate(partitions)
    ]
    return ClusterView(
        seq=1,
        time="2026-11-21T00:00:00.000000Z",
        log="world-backed",
        controller=ControllerView("observed", 1, 1, 1),
        brokers=[BrokerView(one, one, [], None) for one in live],
        topics=[TopicView("test", None, views, min_insync_replicas)],
    )


def one(found: Health) -> PartitionHealth:
    [partition] = found.partitions
    return partition


def test_lost_replica_and_other_leader_among_32_partitions() -> None:
    """32 partitions with two replicas: partition 0 has lost replica 4 from its ISR, partition 9 is
    led by 2 instead of 3."""
    partitions: list[OfPartition] = [(Assignment((1, 2)), 1, (1, 2))] * 32
    partitions[0] = (Assignment((4, 1)), 1, (1,))
    partitions[9] = (Assignment((3, 2)), 2, (2, 3))
    found = evaluate(cluster(*partitions, live=(1, 2, 3)), 1)
    [topic] = found.topics
    assert (topic.partitions, topic.replication_factors, topic.well) == (32, (2,), 30)
    first, second, *rest = found.partitions
    assert (first.partition, first.states) == (0, (State.UNDER_REPLICATED, State.NOT_PREFERRED))
    assert (first.leader, first.isr, first.missing) == (1, (1,), {4: NotInSync.NOT_REGISTERED})
    assert (second.partition, second.states) == (9, (State.NOT_PREFERRED,))
    assert [one.states for one in rest] == [()] * 30
    assert found.worst == State.UNDER_REPLICATED


@pytest.mark.parametrize(
    ("leader", "isr", "live", "is_lost"),
    [(-1, (1,), LIVE, False), (1, (), LIVE, False), (1, (1, 2), (2, 3), True)],
    ids=["no leader", "empty ISR", "leader not registered"],
)
def test_partition_without_a_leader_is_offline(
    leader: int, isr: tuple[int, ...], live: tuple[int, ...], is_lost: bool
) -> None:
    found = one(evaluate(cluster((Assignment((1, 2)), leader, isr), live=live)))
    assert found.worst == State.OFFLINE
    assert found.leader_is_lost == is_lost


def test_broker_whose_registration_is_left_is_not_called_live() -> None:
    partition = (Assignment((1, 2)), 1, (1,))
    left = StuckRegistrationView(2, "/brokers/ids/2", True, 0, "host:9092")
    found = one(evaluate(cluster(partition).with_stuck([left])))
    assert found.missing == {2: NotInSync.REGISTRATION_LEFT}
    silent = StuckRegistrationView(2, "/brokers/ids/2", False, 0, "host:9092")
    found = one(evaluate(cluster(partition).with_stuck([silent])))
    assert found.missing == {2: NotInSync.LAGGING}


def test_offline_partition_waits_for_the_members_of_its_isr() -> None:
    gone = NotInSync.NOT_REGISTERED
    found = one(evaluate(cluster((Assignment((1, 2)), -1, (1,)), live=(2,))))
    assert (found.waits_for, found.missing) == ({1: gone}, {2: NotInSync.NO_LEADER})
    found = one(evaluate(cluster((Assignment((1, 2)), 1, (1, 2)), live=(2,))))
    assert found.waits_for == {}


def test_min_insync_replicas_of_the_topic_goes_before_that_of_the_brokers() -> None:
    partition = (Assignment((1, 2, 3)), 1, (1, 2))
    assert one(evaluate(cluster(partition))).worst == State.UNDER_REPLICATED
    assert one(evaluate(cluster(partition), 3)).worst == State.UNDER_MIN_ISR
    own = cluster(partition, min_insync_replicas=2)
    assert one(evaluate(own, 3)).worst == State.UNDER_REPLICATED
    assert one(evaluate(own, 3)).min_insync_replicas == 2


def test_setting_above_the_replicas_counts_for_brokers_before_kafka_3_7_only() -> None:
    """KAFKA-15583: later brokers accept acks=all if all replicas are in sync."""
    single = cluster((Assignment((1,)), 1, (1,)), min_insync_replicas=2)
    assert one(evaluate(single)).worst == State.UNDER_MIN_ISR
    bounded = one(evaluate(single, is_bounded=True))
    assert (bounded.states, bounded.min_insync_replicas) == ((), 1)
    lagging = cluster((Assignment((1, 2)), 1, (1,)), min_insync_replicas=3)
    assert one(evaluate(lagging, is_bounded=True)).worst == State.UNDER_MIN_ISR


def test_reassignment_to_a_broker_that_is_not_registered_is_stuck() -> None:
    moving = Assignment((5, 1, 2), adding=(5,), removing=(1, 2))
    found = one(evaluate(cluster((moving, 1, (1, 2)))))
    assert found.states == (
        State.STUCK,
        State.UNDER_REPLICATED,
        State.REASSIGNING,
        State.NOT_PREFERRED,
    )
    on_its_way = one(evaluate(cluster((moving, 1, (1, 2)), live=(*LIVE, 5))))
    assert State.STUCK not in on_its_way.states
    assert State.REASSIGNING in on_its_way.states


@pytest.mark.parametrize(("status", "is_stuck"), [("waits", True), ("under way", False)])
def test_deletion_that_waits_is_stuck(status: str, is_stuck: bool) -> None:
    found = cluster((Assignment((1, 2)), 1, (1, 2)))
    deletion = msgspec.convert(
        {"topic": "test", "status": status, "offline_brokers": []}, DeletionView
    )
    states = one(evaluate(structs.replace(found, deletions=[deletion]))).states
    assert (State.STUCK in states) == is_stuck
    assert State.DELETING in states


@pytest.mark.parametrize("status", ["waits", "under way"])
def test_partition_of_a_topic_that_is_deleted_is_not_offline(status: str) -> None:
    """The deletion itself ends the leader and the replicas."""
    found = cluster((Assignment((1, 2)), -1, (1,)), min_insync_replicas=2)
    deletion = msgspec.convert(
        {"topic": "test", "status": status, "offline_brokers": []}, DeletionView
    )
    health = evaluate(structs.replace(found, deletions=[deletion]))
    expected = [State.STUCK] if status == "waits" else []
    assert one(health).states == (*expected, State.DELETING)
    assert health.counts[State.OFFLINE] == 0


def test_live_replica_that_is_deleted_with_its_topic_does_not_wait_for_a_leader() -> None:
    found = cluster((Assignment((1, 2)), -1, (1,)))
    [topic] = found.topics
    deleting = structs.replace(topic.partitions[0], status="deleting")
    found = structs.replace(found, topics=[structs.replace(topic, partitions=[deleting])])
    assert one(evaluate(found)).missing == {
        2: "live, but its replica is being deleted with the topic"
    }


def test_worst_partition_comes_first() -> None:
    well = (Assignment((1, 2)), 1, (1, 2))
    small = (Assignment((1, 2)), 1, (1,))
    offline = (Assignment((1, 2)), -1, (1,))
    found = evaluate(cluster(well, small, well, offline))
    assert [one.partition for one in found.partitions] == [3, 1, 0, 2]
    assert (found.counts[State.OFFLINE], found.counts[State.UNDER_REPLICATED]) == (1, 2)
    assert found.well_count == 2


@pytest.mark.parametrize(
    ("controller", "states"),
    [
        (ControllerView("observed", 1, 1, 1), (State.LATER_EPOCH,)),
        (ControllerView("observed", 1, 2, 1), ()),
        (ControllerView("observed", 3000, 1, 1, is_kraft=True), ()),
        (ControllerView("observed", -1, 0, 0), ()),
    ],
    ids=["earlier epoch", "same epoch", "KRaft", "no controller"],
)
def test_state_with_a_later_controller_epoch_than_the_controller(
    controller: ControllerView, states: tuple[State, ...]
) -> None:
    """A KRaft controller does not compare epochs; without a controller, the next epoch is not
    known."""
    found = cluster((Assignment((1, 2)), 1, (1, 2)))
    [topic] = found.topics
    [view] = topic.partitions
    later = structs.replace(topic, partitions=[structs.replace(view, controller_epoch=2)])
    changed = structs.replace(found, topics=[later], controller=controller)
    assert one(evaluate(changed, 1)).states == states
