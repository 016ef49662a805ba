"""The controller's knowledge, row by row of KB 17.8 (Kafka's ControllerContextTest)."""

from collections.abc import Callable

import pytest

from controller.core.errors import ProcedureError
from controller.core.state import ControllerContext, EntrySeen, Partition, sorted_partitions
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.values import (
    ANY_VERSION,
    NO_ASSIGNMENT,
    NO_LEADER,
    Assignment,
    LeaderAndIsr,
)
from controller.core.znodes import Reassignment
from tests.controller.core.driving import broker


@pytest.fixture
def context() -> ControllerContext:
    """Brokers 1, 2, 3; A-0 on [1,2,3], A-1 on [2,3,1], B-0 on [3,1,2]."""
    context = ControllerContext("PLAINTEXT")
    for id in (1, 2, 3):
        context.brokers[id] = broker(id)
    for topic, number, replicas in (("A", 0, (1, 2, 3)), ("A", 1, (2, 3, 1)), ("B", 0, (3, 1, 2))):
        context.topic(topic).is_known = True
        context.topic(topic).partition(number).assignment = Assignment(replicas)
    return context


@pytest.mark.parametrize(
    "assignment",
    [Assignment((4,)), Assignment((3,), (1,), (2,)), Assignment((4, 1, 2), (4,), (2,))],
)
def test_CX_01_assignment_is_kept_as_given(
    context: ControllerContext, assignment: Assignment
) -> None:
    partition = context.topic("A").partition(0)
    partition.assignment = assignment
    assert context.find("A", 0) is partition
    found = next(one for one in context.partitions() if one.key == ("A", 0))
    assert found.replicas == assignment.replicas
    assert (found.assignment.adding, found.assignment.removing) == (
        assignment.adding,
        assignment.removing,
    )


@pytest.mark.parametrize(("topic", "number"), [("unknown", 0), ("A", 100)])
def test_CX_02_unknown_partition_is_not_found(
    context: ControllerContext, topic: str, number: int
) -> None:
    assert context.find(topic, number) is None
    assert all(one.key != (topic, number) for one in context.partitions())


def test_CX_03_partition_without_an_assignment_has_no_replicas(
    context: ControllerContext,
) -> None:
    partition = context.topic("A").partition(100)
    assert partition.assignment == NO_ASSIGNMENT == Assignment((), (), ())
    assert partition not in list(context.partitions())


def test_CX_04_unknown_topic_has_no_partitions(context: ControllerContext) -> None:
    assert context.topic("unknown").assigned() == []
    assert context.known_topics() == ["A", "B"]


def test_CX_05_topic_returns_its_partitions(context: ControllerContext) -> None:
    assigned = {one.number: one.replicas for one in context.topic("A").assigned()}
    assert assigned == {0: (1, 2, 3), 1: (2, 3, 1)}


@pytest.mark.parametrize(
    ("assignment", "is_being_reassigned", "origin", "target"),
    [
        (
            Assignment((1, 2, 3, 4, 5, 6), (2, 3, 4), (1, 5, 6)),
            True,
            (1, 5, 6),
            (2, 3, 4),
        ),
        (Assignment((1, 2, 3, 4), (), (1, 4)), True, (1, 2, 3, 4), (2, 3)),
        (Assignment((1, 2, 3, 4), (4,), (2,)), True, (1, 2, 3), (1, 3, 4)),
        (Assignment((1, 2, 3, 4)), False, (1, 2, 3, 4), (1, 2, 3, 4)),
    ],
)
def test_CX_06_assignment_has_an_origin_and_a_target(
    assignment: Assignment,
    is_being_reassigned: bool,
    origin: tuple[int, ...],
    target: tuple[int, ...],
) -> None:
    assert assignment.is_being_reassigned is is_being_reassigned
    assert (assignment.origin, assignment.target) == (origin, target)


@pytest.mark.parametrize(
    ("replicas", "target", "expected"),
    [
        ((1, 2, 3, 4), (4, 2, 5, 3), Assignment((4, 2, 5, 3, 1), (5,), (1,))),
        ((1, 2, 3), (4, 5, 6), Assignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3))),
        ((1, 2, 3), (3, 1, 2), Assignment((3, 1, 2))),
        ((1, 2), (3, 3, 1), Assignment((3, 1, 2), (3,), (2,))),
        ((1, 2), (), Assignment((1, 2), (), (1, 2))),
    ],
)
def test_CX_06_new_target_replaces_the_target_under_way(
    replicas: tuple[int, ...], target: tuple[int, ...], expected: Assignment
) -> None:
    assert Assignment(replicas).reassign_to(target) == expected


@pytest.mark.parametrize(
    "assignment",
    [
        Assignment((1, 2, 3)),
        Assignment((4, 5, 6, 1, 2, 3), (4, 5, 6), (1, 2, 3)),
        Assignment((4, 2, 5, 3, 1), (5,), (1,)),
    ],
)
def test_CX_07_same_target_again_changes_nothing(assignment: Assignment) -> None:
    assert assignment.reassign_to(assignment.target) == assignment


def test_CX_08_replaced_target_starts_from_the_origin() -> None:
    origin = Assignment((1, 2, 3))
    replaced = origin.reassign_to((4, 5, 6)).reassign_to((7, 8, 9))
    assert replaced == Assignment((7, 8, 9, 1, 2, 3), (7, 8, 9), (1, 2, 3))
    assert replaced == origin.reassign_to((7, 8, 9))
    assert replaced.reassign_to((1, 2, 3)) == origin


def test_brokers_that_shut_down_are_registered_and_not_live(context: ControllerContext) -> None:
    partition = context.topic("A").partition(0)
    context.shutting_down[2] = None
    assert list(context.live_brokers) == [1, 3]
    assert not context.is_online(2, partition)
    assert context.is_online_or_shutting_down(2, partition)
    assert not context.is_online_or_shutting_down(4, partition)


def test_offline_log_directory_makes_only_its_replicas_offline(
    context: ControllerContext,
) -> None:
    first, second = context.topic("A").partition(0), context.topic("A").partition(1)
    context.offline_dirs[1] = {first: None}
    assert not context.is_online(1, first)
    assert not context.is_online_or_shutting_down(1, first)
    assert context.is_online(1, second)


def test_partition_with_leader_minus_one_is_offline_unless_its_topic_is_queued_for_deletion(
    context: ControllerContext,
) -> None:
    partition = context.topic("A").partition(0)
    assert not context.has_offline_leader(partition), "no leader was ever chosen"
    partition.leadership = LeaderAndIsr(1, 0, (1,), 0, 1)
    assert not context.has_offline_leader(partition)
    partition.leadership = LeaderAndIsr(-1, 0, (1,), 0, 1)
    assert context.has_offline_leader(partition)
    context.queued_for_deletion["A"] = None
    assert not context.has_offline_leader(partition)


def test_stop_replica_epochs_mark_deletions_and_missing_leadership(
    context: ControllerContext,
) -> None:
    partition = context.topic("A").partition(0)
    assert context.stop_replica_epoch(partition) == -1
    partition.leadership = LeaderAndIsr(1, 7, (1,), 0, 1)
    assert context.stop_replica_epoch(partition) == 7
    context.queued_for_deletion["A"] = None
    assert context.stop_replica_epoch(partition) == -2


def test_replicas_on_brokers_include_removing_replicas(context: ControllerContext) -> None:
    context.topic("A").partition(0).assignment = Assignment((4, 1, 2, 3), (4,), (3,))
    on = context.replicas_on([4, 3])
    assert {id: [one.key for one in partitions] for id, partitions in on.items()} == {
        4: [("A", 0)],
        3: [("A", 0), ("A", 1), ("B", 0)],
    }


def test_removed_topic_leaves_no_states(context: ControllerContext) -> None:
    partition = context.topic("A").partition(0)
    partition.leadership = LeaderAndIsr(1, 0, (1,), 0, 1)
    context.reassigning[partition] = None
    context.queued_for_deletion["A"] = None

    context.remove_topic("A")
    context.remove_topic("never there")

    assert context.known_topics() == ["B"]
    assert [one.key for one in context.partitions()] == [("B", 0)]
    assert partition.leadership is None
    assert not context.queued_for_deletion
    assert context.find("A", 0) is partition
    assert list(context.reassigning) == [partition]


def test_removed_topic_leaves_nothing_for_a_topic_of_the_same_name(
    context: ControllerContext,
) -> None:
    topic = context.add_known_topic("A", b"id")
    topic.version = 3
    partition = topic.partition(0)
    partition.is_listed = True
    partition.replica_states = {1: ReplicaState.OFFLINE}
    context.awaiting_brokers["A"] = {2: Assignment((1000,))}
    context.leaderless[partition] = "no leader"
    context.reassignments[partition] = Reassignment((3,), 0, False, (1, 2, 3))
    context.rollback_waiting[partition] = "no original is in sync"

    context.remove_topic("A")

    assert (context.topic("A").id, context.topic("A").version) == (None, ANY_VERSION)
    assert context.topic("A").assigned() == []
    assert not context.topics_by_id
    assert not context.awaiting_brokers
    assert not context.leaderless
    assert not context.reassignments
    assert not context.rollback_waiting


def keeps_its_state(context: ControllerContext, partition: Partition) -> None:
    partition.state = PartitionState.OFFLINE


def keeps_a_replica_state(context: ControllerContext, partition: Partition) -> None:
    partition.set_replica_state(1, ReplicaState.OFFLINE)


def is_in_a_failed_directory(context: ControllerContext, partition: Partition) -> None:
    context.offline_dirs[1] = {partition: None}


@pytest.mark.parametrize(
    "has_left", [keeps_its_state, keeps_a_replica_state, is_in_a_failed_directory]
)
def test_removed_topic_is_known_by_what_its_partition_has_left(
    context: ControllerContext, has_left: Callable[[ControllerContext, Partition], None]
) -> None:
    partition = context.topic("A").partition(0)
    has_left(context, partition)
    context.remove_topic("A")
    assert context.find("A", 0) is partition


def test_removed_topic_is_forgotten_if_its_partitions_have_nothing_left(
    context: ControllerContext,
) -> None:
    context.offline_dirs[1] = {context.topic("B").partition(0): None}
    context.remove_topic("A")
    assert list(context.topics) == ["B"]


def test_partition_without_a_leadership_has_no_leader(context: ControllerContext) -> None:
    partition = context.topic("A").partition(0)
    assert partition.leader == NO_LEADER
    partition.leadership = LeaderAndIsr(1, 0, (1,), 0, 1)
    assert partition.leader == 1


def test_listed_partition_without_replicas_has_no_preferred_one(
    context: ControllerContext,
) -> None:
    """Kafka's event fails as soon as such a partition has a leader."""
    partition = context.topic("A").partition(100)
    partition.leadership = LeaderAndIsr(1, 0, (1,), 0, 1)
    partition.check_balance()
    partition.is_listed, partition.leadership = True, None
    partition.check_balance()
    assert partition in context.topic("A").assigned()
    partition.leadership = LeaderAndIsr(1, 0, (1,), 0, 1)
    with pytest.raises(ProcedureError, match="A-100 has no replicas"):
        partition.check_balance()


def test_released_topic_has_no_partitions(context: ControllerContext) -> None:
    topic = context.topics["A"]
    topic.release()
    assert not topic.partitions


def test_topic_whose_znode_was_not_read_has_no_version(context: ControllerContext) -> None:
    assert context.topic("new").version == ANY_VERSION


def test_topic_is_in_the_metadata_while_it_is_known_with_a_leader_and_not_deleted(
    context: ControllerContext,
) -> None:
    assert not context.is_in_metadata("A")
    context.topic("A").partition(1).leadership = LeaderAndIsr(-1, 0, (1,), 0, 1)
    assert context.is_in_metadata("A")
    context.topic("A").is_known = False
    assert not context.is_in_metadata("A")
    context.topic("A").is_known = True
    context.deletion_started["A"] = None
    assert not context.is_in_metadata("A")


def test_kept_topics_lose_their_leaders_or_are_forgotten(context: ControllerContext) -> None:
    first, second = context.topic("A").partition(0), context.topic("B").partition(0)
    first.leadership = second.leadership = LeaderAndIsr(1, 0, (1,), 0, 1)
    context.forget_leaders(list(context.topics.values()), {"A"})
    assert first.leader == second.leader == NO_LEADER
    assert list(context.topics) == ["A"]


def test_partitions_of_named_topics_are_left_out(context: ControllerContext) -> None:
    assert [one.key for one in context.assigned_without({"A"})] == [("B", 0)]


def test_entry_with_the_target_of_a_partition_is_unrecorded_without_a_record(
    context: ControllerContext,
) -> None:
    """A stock controller has begun the reassignment."""
    partition = context.topic("A").partition(0)
    partition.assignment = Assignment((4, 1, 2, 3), (4,), (1, 2, 3))
    entry = context.entries_seen["A", 0] = EntrySeen((4,), 7)
    assert context.unrecorded_entry(partition) == entry
    context.entries_seen["A", 0] = EntrySeen((3,), 7)
    assert context.unrecorded_entry(partition) is None
    context.entries_seen["A", 0] = entry
    context.reassignments[partition] = Reassignment((4,), 0, True, (1, 2, 3))
    assert context.unrecorded_entry(partition) is None


@pytest.mark.parametrize(
    ("cancelled", "waits", "preferred"),
    [(False, False, 4), (False, True, 4), (True, False, 4), (True, True, 1)],
)
def test_preferred_replica_is_the_first_original_while_a_cancelled_rollback_waits(
    context: ControllerContext, cancelled: bool, waits: bool, preferred: int
) -> None:
    partition = context.topic("A").partition(0)
    partition.assignment = Assignment((4, 1, 2, 3), (4,), (1, 2, 3))
    if cancelled:
        context.cancel = 7
    if waits:
        context.rollback_waiting[partition] = "no original is in sync"
    assert context.preferred_replica(partition) == preferred


def test_partitions_are_sorted_by_topic_and_number(context: ControllerContext) -> None:
    context.topic("A").partition(10).assignment = Assignment((1,))
    found = [one.key for one in sorted_partitions(reversed(list(context.partitions())))]
    assert found == [("A", 0), ("A", 1), ("A", 10), ("B", 0)]
