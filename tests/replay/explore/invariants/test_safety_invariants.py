"""Each invariant that always holds reports a planted history that breaks it, and no healthy one."""

import pytest

from controller.core import znodes
from controller.core.values import LEADER_DURING_DELETE, Assignment, LeaderAndIsr
from replay.explore.invariants.assignments import (
    AssignmentNotSmaller,
    CancellationRestores,
    PartitionsKept,
    ReassignmentNotGivenUp,
)
from replay.explore.invariants.epochs import (
    ControllerEpochsForward,
    StateCarriesEpoch,
)
from replay.explore.invariants.leadership import (
    LeaderEpochsForward,
    LeaderInIsr,
    OneLeaderPerEpoch,
    TopicIdsKept,
)
from replay.explore.invariants.metadata import MetadataForward
from replay.explore.invariants.replicas import (
    AssignedReplicasKept,
    IsrAsRequested,
)
from tests.replay.explore.invariants.facts import (
    ID,
    NAME,
    History,
    leader_and_isr,
    replica,
    stop_replica,
    update_metadata,
)


def test_two_leaders_stored_in_one_epoch_are_reported() -> None:
    history = History(OneLeaderPerEpoch)
    history.state(1, 4, (1, 2))
    history.state(1, 4, (1, 2, 3))
    assert not history.reported
    history.state(2, 4, (2, 1))
    assert history.reported == [
        "one-leader-per-epoch: orders-0: refold 100 stored broker 2 as the leader in leader epoch "
        "4; broker 1 was the leader in that epoch"
    ]


def test_two_brokers_that_lead_in_one_epoch_are_reported() -> None:
    history = History(OneLeaderPerEpoch)
    history.invariant.leads(replica(1), 4)
    history.invariant.leads(replica(2), 5)
    assert not history.reported
    history.invariant.leads(replica(3), 5)
    assert "broker 3 begins to lead in leader epoch 5" in history.reported[0]


def test_leader_epoch_of_deleted_topic_may_begin_again() -> None:
    history = History(LeaderEpochsForward)
    history.state(1, 4, (1, 2))
    history.topic.czxid += 1
    history.state(1, 0, (1, 2))
    assert not history.reported


def test_stored_leader_epoch_that_goes_back_is_reported() -> None:
    history = History(LeaderEpochsForward)
    history.state(1, 4, (1, 2))
    history.state(1, 3, (1, 2))
    assert "stored leader epoch 3 after leader epoch 4" in history.reported[0]


def test_accepted_leader_epoch_that_goes_back_is_reported() -> None:
    history = History(LeaderEpochsForward)
    history.invariant.applied(leader_and_isr(1, 1, 4))
    history.invariant.applied(leader_and_isr(2, 1, 3))
    assert not history.reported
    history.invariant.applied(leader_and_isr(1, 1, 3))
    assert "broker 1 accepted leader epoch 3 after leader epoch 4" in history.reported[0]


def test_leader_outside_of_isr_is_reported() -> None:
    history = History(LeaderInIsr)
    history.state(1, 4, (1, 2))
    history.state(-1, 5, (1,))
    assert not history.reported
    history.state(3, 6, (1, 2))
    assert "stored leader 3 with the ISR [1, 2]" in history.reported[0]


def test_replaced_topic_id_is_reported() -> None:
    history = History(TopicIdsKept)
    history.invariant.topic_id_written(history.topic, None, ID)
    history.invariant.topic_id_written(history.topic, ID, ID)
    assert not history.reported
    history.invariant.topic_id_written(history.topic, None, bytes(16))
    assert "was replaced" in history.reported[0]


def test_topic_id_that_a_controller_removes_is_reported() -> None:
    history = History(TopicIdsKept)
    history.known.has_topic_ids = lambda process: process == "refold 101"
    history.invariant.topic_id_removed(history.topic, "refold 100")
    assert not history.reported
    history.invariant.topic_id_removed(history.topic, "refold 101")
    assert "refold 101 wrote the topic without its id" in history.reported[0]


def test_controller_epoch_that_goes_back_is_reported() -> None:
    history = History(ControllerEpochsForward)
    history.invariant.epoch_written(1, 2, "refold 100")
    history.invariant.applied(leader_and_isr(1, 1, 1, controller_epoch=3))
    assert not history.reported
    history.invariant.applied(leader_and_isr(1, 1, 2, controller_epoch=2))
    history.invariant.epoch_written(3, 2, "refold 101")
    assert len(history.reported) == 2


def test_state_of_deposed_controller_is_reported() -> None:
    history = History(StateCarriesEpoch)
    history.state(1, 4, (1, 2), controller_epoch=1)
    history.state(1, 4, (1,), controller_epoch=0, process="broker 1")
    assert not history.reported
    history.known.epoch = 2
    history.state(2, 5, (2,), controller_epoch=1)
    assert "stored a state with controller epoch 1" in history.reported[0]


def test_isr_with_another_partition_epoch_than_requested_is_reported() -> None:
    history = History(IsrAsRequested)
    history.state(1, 1, (1, 2))
    history.invariant.isr_requested(NAME, LeaderAndIsr(1, 1, (1, 2, 3), 0, 0))
    history.state(1, 1, (1, 2, 3))
    assert not history.reported
    history.state(2, 2, (2, 3))
    assert not history.reported, "a new leader epoch"
    history.invariant.isr_requested(NAME, LeaderAndIsr(2, 2, (2,), 1, 0))
    history.state(2, 2, (2,))
    assert "broker 2 has not requested it" in history.reported[0]


def test_deletion_of_an_assigned_replica_is_reported() -> None:
    history = History(AssignedReplicasKept)
    history.state(1, 1, (1, 2, 3))
    history.invariant.sent("refold 100", 1, stop_replica(1, delete=False))
    history.invariant.sent("refold 100", 1, stop_replica(4, delete=True))
    assert not history.reported
    history.invariant.sent("refold 100", 1, stop_replica(1, delete=True))
    assert "asks broker 1 to delete its replica" in history.reported[0]


def test_deletion_before_a_partition_has_a_state_is_not_reported() -> None:
    """A client has created the topic again, and the controller does not know that yet: it carries
    out a request to delete the replica of the topic before."""
    history = History(AssignedReplicasKept)
    history.invariant.sent("refold 100", 1, stop_replica(1, delete=True))
    assert not history.reported
    history.state(1, 1, (1, 2, 3))
    history.invariant.sent("refold 100", 1, stop_replica(1, delete=True))
    assert history.reported


@pytest.mark.parametrize(("process", "is_reported"), [("admin", False), ("refold 100", True)])
def test_deletion_of_a_replica_that_only_a_tool_has_assigned_again_is_not_reported(
    process: str, is_reported: bool
) -> None:
    history = History(AssignedReplicasKept)
    history.assign((2, 3))
    history.assign((1, 2, 3), process=process)
    history.state(2, 1, (2, 3))
    history.invariant.sent("refold 100", 1, stop_replica(1, delete=True))
    assert bool(history.reported) is is_reported


def test_deletion_of_a_topic_being_deleted_is_not_reported() -> None:
    history = History(AssignedReplicasKept)
    history.known.admin["/admin/delete_topics/orders"] = b""
    history.state(1, 1, (1, 2))
    history.invariant.sent("refold 100", 1, stop_replica(1, delete=True))
    history.invariant.replica_deleted(replica(1))
    assert not history.reported


def test_deletion_of_the_log_of_an_earlier_topic_is_not_reported() -> None:
    history = History(AssignedReplicasKept)
    history.state(1, 1, (1, 2, 3))
    history.known.has_earlier_log = lambda broker, name: (broker, name) == (1, NAME)
    history.invariant.sent("refold 100", 1, stop_replica(1, delete=True))
    assert not history.reported
    history.invariant.sent("refold 100", 1, stop_replica(2, delete=True))
    assert "asks broker 2 to delete its replica" in history.reported[0]


@pytest.mark.parametrize(
    ("rules", "later", "is_reported"),
    [("kafka", None, False), ("refold", None, True), ("kafka", "refold 100", True)],
)
def test_deletion_of_a_member_of_the_isr_is_accepted_if_kafkas_rules_have_requested_it(
    rules: str, later: str | None, is_reported: bool
) -> None:
    history = History(AssignedReplicasKept)
    history.known.is_kafka = lambda process: process == "stock 1" and rules == "kafka"
    history.state(1, 1, (1, 2))
    history.assign((1, 3))
    history.invariant.sent("stock 1", 1, stop_replica(2, delete=True))
    if later is not None:
        history.invariant.sent(later, 1, stop_replica(2, delete=True))
    history.invariant.replica_deleted(replica(2))
    assert bool(history.reported) is is_reported


def test_deleted_member_of_the_isr_is_reported() -> None:
    history = History(AssignedReplicasKept)
    history.state(1, 1, (1, 2))
    history.invariant.replica_deleted(replica(3))
    assert not history.reported
    history.invariant.replica_deleted(replica(2))
    assert "broker 2 deleted its replica" in history.reported[0]


def test_assignment_smaller_than_original_and_target_is_reported() -> None:
    history = History(AssignmentNotSmaller)
    history.assign((4, 5, 1, 2, 3), (4, 5), (1, 2, 3))
    history.assign((4, 5))
    assert not history.reported
    history.assign((3, 4, 5), (3,), (4, 5))
    history.assign((4,), (), ())
    assert not history.reported
    history.assign((4, 5, 6), (5, 6), (4,))
    history.assign((), (), ())
    assert "stored the replicas []" in history.reported[0]


def test_cancellation_in_another_order_is_reported() -> None:
    history = History(CancellationRestores)
    history.assign((4, 1, 2, 3), (4,), (1,))
    history.assign((1, 2, 3))
    history.assign((4, 1, 2, 3), (4,), (1,))
    assert not history.reported
    history.assign((2, 1, 3))
    assert "with the replicas [2, 1, 3]" in history.reported[0]


def test_cancellation_in_another_order_with_kafkas_rules_is_not_reported() -> None:
    history = History(CancellationRestores)
    history.known.restores_order = lambda process: False
    history.assign((4, 1, 2, 3), (4,), (1,))
    history.assign((2, 1, 3), process="stock 1")
    assert not history.reported


def test_cancellation_in_another_order_after_kafka_replaced_the_target_is_not_reported() -> None:
    history = History(CancellationRestores)
    history.known.restores_order = lambda process: process.startswith("refold")
    history.assign((4, 1, 2, 3), (4,), (1,))
    history.assign((4, 1, 2, 3), (4,), (2,), process="stock 1")
    history.assign((2, 1, 3))
    assert not history.reported


def test_reassignment_given_up_is_reported() -> None:
    history = History(ReassignmentNotGivenUp)
    history.assign((4, 1, 2, 3), (4,), (1,))
    history.assign((1, 2, 3))
    assert "no cancellation was requested" in history.reported[0]


def test_cancelled_reassignment_is_not_given_up() -> None:
    history = History(ReassignmentNotGivenUp)
    history.assign((4, 1, 2, 3), (4,), (1,))
    history.known.requests_of(NAME).is_cancelled = True
    history.assign((1, 2, 3))
    assert not history.reported


def test_removed_partition_is_reported() -> None:
    history = History(PartitionsKept)
    history.invariant.partitions_removed(history.topic, [1], "refold 100")
    assert "removed the partitions [1]" in history.reported[0]


@pytest.mark.parametrize("process", ["stock 1", "admin"])
def test_partition_removed_by_a_write_without_version_is_not_reported(process: str) -> None:
    history = History(PartitionsKept)
    history.known.keeps_partitions = lambda process: process.startswith("refold ")
    history.invariant.partitions_removed(history.topic, [1], process)
    assert not history.reported


def test_reassignment_undone_by_a_tool_that_adds_partitions_is_not_given_up() -> None:
    history = History(ReassignmentNotGivenUp)
    history.assign((4, 1, 2, 3), (4,), (1,))
    history.assign((1, 2, 3), process="admin")
    assert not history.reported


def test_older_metadata_is_reported() -> None:
    history = History(MetadataForward)
    history.invariant.applied(leader_and_isr(1, 1, 4))
    history.invariant.applied(update_metadata(1, 1, 4))
    history.invariant.applied(update_metadata(2, 1, 3))
    assert not history.reported
    history.invariant.applied(update_metadata(1, 1, 3))
    assert "broker 1 got UpdateMetadata with leader epoch 3" in history.reported[0]


def test_metadata_after_that_of_a_deposed_controller_may_be_older() -> None:
    """The deposed controller has read a state of its successor, whose first request is late."""
    history = History(MetadataForward)
    history.invariant.applied(update_metadata(1, 1, 4, state_epoch=2))
    history.invariant.applied(update_metadata(1, 1, 3))
    assert not history.reported


def test_metadata_of_deleted_topic_may_begin_again() -> None:
    history = History(MetadataForward)
    history.invariant.applied(update_metadata(1, 1, 4))
    history.invariant.applied(update_metadata(1, LEADER_DURING_DELETE, -2))
    history.invariant.applied(update_metadata(1, 1, 0))
    assert not history.reported


def test_new_partition_is_no_reassignment() -> None:
    history = History(AssignmentNotSmaller)
    history.topic.assignments[0] = Assignment((1, 2))
    history.assign((2, 1))
    assert not history.reported


@pytest.mark.parametrize("process", ["admin", "refold 100"])
def test_order_is_unknown_after_an_operator_deleted_the_record(process: str) -> None:
    history = History(CancellationRestores, replicas=(2, 1, 3))
    history.assign((1, 2, 3, 4), (4,), (3,))
    path = znodes.reassignment_path(*NAME)
    history.known.admin[path] = b""
    history.admin(path, None, process)
    history.assign((3, 1, 2))
    assert bool(history.reported) is (process != "admin")
