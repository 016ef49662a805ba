"""The counts that Kafka's controller shows (KB 2.2.12, 2.2.13, 17.3, 17.8)."""

import pytest

from controller.core.election import OFFLINE
from controller.core.metrics import gauges
from controller.core.procedures.elections.partition_state_machine import change_partitions
from controller.core.procedures.topics.deletion import process_topic_deletion
from controller.core.state import ControllerContext, Partition
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.values import Assignment, LeaderAndIsr
from controller.core.znodes import delete_topic_path, topic_path
from tests.controller.core.cluster import Cluster
from tests.controller.core.driving import ControllerHarness, broker
from tests.controller.core.procedures.topics.deleting import (
    cluster_with_topic,
    mark,
    slow_to_delete,
)


def offline_partitions(context: ControllerContext) -> int:
    return gauges(context)["OfflinePartitionsCount"]


def preferred_replica_imbalance(context: ControllerContext) -> int:
    return gauges(context)["PreferredReplicaImbalanceCount"]


def four_partitions(driven: ControllerHarness, state: PartitionState) -> list[Partition]:
    """The partitions of t on broker 5."""
    partitions = [driven.partition((5,), state, number=number) for number in range(4)]
    for partition in partitions:
        driven.lead(partition, 5, (5,))
    return partitions


def move(driven: ControllerHarness, partitions: list[Partition], target: PartitionState) -> None:
    strategy = OFFLINE if target is PartitionState.ONLINE else None
    driven.run(change_partitions(driven.controller, partitions, target, "test", strategy))


def test_PS_20_offline_partitions_are_counted() -> None:
    driven = ControllerHarness(5)
    partitions = four_partitions(driven, PartitionState.NEW)
    move(driven, partitions, PartitionState.OFFLINE)
    assert offline_partitions(driven.context) == 4
    move(driven, partitions, PartitionState.ONLINE)
    assert offline_partitions(driven.context) == 0


def test_PS_21_topic_whose_deletion_has_started_does_not_count() -> None:
    driven = ControllerHarness(5)
    driven.start_deletion("t")
    move(driven, four_partitions(driven, PartitionState.NEW), PartitionState.OFFLINE)
    assert offline_partitions(driven.context) == 0


def test_PS_22_offline_partitions_do_not_count_after_their_deletion() -> None:
    driven = ControllerHarness(5)
    for partition in four_partitions(driven, PartitionState.OFFLINE):
        partition.replica_states[5] = ReplicaState.OFFLINE
    assert offline_partitions(driven.context) == 4
    driven.put(topic_path("t"), b"")
    driven.put(delete_topic_path("t"), b"")
    driven.run(process_topic_deletion(driven.controller))
    assert offline_partitions(driven.context) == 0


def test_topic_queued_for_deletion_still_counts() -> None:
    """KB 2.2.12: a queued deletion has not started."""
    driven = ControllerHarness(5)
    four_partitions(driven, PartitionState.OFFLINE)
    driven.halt_deletion("t")
    assert offline_partitions(driven.context) == 4


def test_partitions_of_a_deleted_topic_do_not_count() -> None:
    driven = ControllerHarness(5)
    four_partitions(driven, PartitionState.OFFLINE)
    driven.context.remove_topic("t")
    assert offline_partitions(driven.context) == 0


@pytest.fixture
def context() -> ControllerContext:
    """Brokers 1, 2, 3; A-0, A-1 and B-0 on [1,2,3]."""
    context = ControllerContext("PLAINTEXT")
    for id in (1, 2, 3):
        context.brokers[id] = broker(id)
    for topic, number in (("A", 0), ("A", 1), ("B", 0)):
        context.topic(topic).is_known = True
        context.topic(topic).partition(number).assignment = Assignment((1, 2, 3))
    return context


def lead(partition: Partition, leader: int, isr: tuple[int, ...] = (1, 2, 3)) -> None:
    partition.leadership = LeaderAndIsr(leader, 0, isr, 0, 1)


def test_CX_09_partitions_without_their_preferred_leader_are_counted(
    context: ControllerContext,
) -> None:
    first, second = context.topic("A").partition(0), context.topic("A").partition(1)
    third = context.topic("B").partition(0)
    counts = [preferred_replica_imbalance(context)]
    for partition, leader in ((first, 1), (second, 2), (third, 3)):
        lead(partition, leader)
        counts.append(preferred_replica_imbalance(context))
    assert counts == [0, 0, 1, 2]
    first.assignment = second.assignment = Assignment((2, 3, 1))
    assert preferred_replica_imbalance(context) == 2
    context.queued_for_deletion["B"] = None
    assert preferred_replica_imbalance(context) == 1
    lead(third, 1)
    assert preferred_replica_imbalance(context) == 1
    context.remove_topic("A")
    context.remove_topic("B")
    assert preferred_replica_imbalance(context) == 0


def test_CX_10_topics_queued_repeatedly_do_not_count(
    context: ControllerContext,
) -> None:
    context.queued_for_deletion["A"] = None
    lead(context.topic("A").partition(0), -1)
    assert preferred_replica_imbalance(context) == 0
    context.queued_for_deletion |= {"A": None, "B": None}
    assert preferred_replica_imbalance(context) == 0


def test_partitions_without_replicas_or_a_known_leader_have_no_preferred_leader(
    context: ControllerContext,
) -> None:
    """A stock controller has partitions without replicas, and a take-over those without a leader
    until their states are read."""
    empty, unread = context.topic("A").partition(0), context.topic("A").partition(1)
    empty.state = unread.state = PartitionState.ONLINE
    empty.assignment, empty.is_listed = Assignment(()), True
    lead(empty, 1)
    counts = gauges(context)
    assert counts["PreferredReplicaImbalanceCount"] == 0
    assert counts["GlobalPartitionCount"] == 1


def test_queued_topic_that_is_not_known_has_no_replicas_to_delete(
    context: ControllerContext,
) -> None:
    context.queued_for_deletion["missing"] = None
    counts = gauges(context)
    assert (counts["TopicsToDeleteCount"], counts["ReplicasToDeleteCount"]) == (1, 0)


@pytest.mark.parametrize(
    ("leader", "isr", "count"),
    [(1, (1, 2), 0), (1, (1, 2, 4), 1), (4, (1, 2, 4), 1), (2, (1, 2), 0)],
)
def test_preferred_replica_being_added_counts_once_it_is_in_sync(
    context: ControllerContext, leader: int, isr: tuple[int, ...], count: int
) -> None:
    """KB 2.2.13: whichever replica leads."""
    partition = context.topic("B").partition(0)
    partition.assignment = Assignment((4, 1, 2), (4,), (1, 2))
    partition.state = PartitionState.ONLINE
    lead(partition, leader, isr)
    assert preferred_replica_imbalance(context) == count


def counted(cluster: Cluster) -> dict[str, int]:
    return gauges(cluster.fold.controller.context)


def test_every_count_has_the_name_of_kafkas_gauge() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2], 1: [2, 1], 2: [9]})
    cluster.create_topic("u", {0: [1]})
    assert counted(cluster) == {
        "OfflinePartitionsCount": 0,
        "PreferredReplicaImbalanceCount": 0,
        "GlobalTopicCount": 2,
        "GlobalPartitionCount": 3,
        "TopicsToDeleteCount": 0,
        "ReplicasToDeleteCount": 0,
        "TopicsIneligibleToDeleteCount": 0,
        "ReplicasIneligibleToDeleteCount": 0,
        "ActiveBrokerCount": 2,
        "FencedBrokerCount": 0,
    }
    cluster.stop_broker(1)
    now = counted(cluster)
    assert (now["OfflinePartitionsCount"], now["PreferredReplicaImbalanceCount"]) == (1, 2)
    assert (now["GlobalPartitionCount"], now["ActiveBrokerCount"]) == (3, 1)


def of_deletion(cluster: Cluster) -> tuple[int, ...]:
    """Topics to delete and ineligible topics, then replicas to delete and ineligible replicas."""
    now = counted(cluster)
    return (
        now["TopicsToDeleteCount"],
        now["TopicsIneligibleToDeleteCount"],
        now["ReplicasToDeleteCount"],
        now["ReplicasIneligibleToDeleteCount"],
    )


def test_pending_deletions_are_counted() -> None:
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 2, 3)
    mark(cluster, "t")
    assert of_deletion(cluster) == (1, 0, 2, 0)
    cluster.stop_broker(3)
    assert of_deletion(cluster) == (1, 1, 2, 1)
    cluster.answer_slow()
    assert of_deletion(cluster) == (1, 1, 1, 0)
    cluster.start_broker(3)
    cluster.answer_slow()
    assert of_deletion(cluster) == (0, 0, 0, 0)


def test_standby_reports_no_counts() -> None:
    cluster = cluster_with_topic()
    cluster.stop_broker(3)
    mark(cluster, "t")
    cluster.seize_role(1)
    cluster.run()
    assert set(counted(cluster).values()) == {0}
