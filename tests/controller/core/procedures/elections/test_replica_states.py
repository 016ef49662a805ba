"""The replica state machine, row by row of KB 17.4 (Kafka's ReplicaStateMachineTest)."""

import pytest

from controller.core import znodes
from controller.core.commands import (
    Choice,
    StopReplicaPartition,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.procedures.elections.replica_state_machine import (
    change_replicas,
    start_replica_states,
)
from controller.core.state import Partition
from controller.core.state_machines import ReplicaState
from controller.core.values import Assignment, LeaderAndIsr
from replay.world.outcomes import ZooKeeperOutcome
from tests.controller.core.driving import (
    EPOCH,
    ControllerHarness,
    refuse_writes,
    state_of,
    state_path,
)

NEW, ONLINE, OFFLINE = ReplicaState.NEW, ReplicaState.ONLINE, ReplicaState.OFFLINE
STARTED, SUCCESSFUL = ReplicaState.DELETION_STARTED, ReplicaState.DELETION_SUCCESSFUL
INELIGIBLE, NON_EXISTENT = ReplicaState.DELETION_INELIGIBLE, ReplicaState.NON_EXISTENT


def move(
    driven: ControllerHarness, partition: Partition, target: ReplicaState, broker: int = 5
) -> None:
    """One transition of the replica on broker 5, or another."""
    driven.run(change_replicas(driven.controller, {broker: [partition]}, target, "test"))


def replica(
    driven: ControllerHarness, state: ReplicaState, replicas: tuple[int, ...] = (5,)
) -> Partition:
    """A partition whose replica on broker 5 is in `state`."""
    partition = driven.partition(replicas)
    if state is not NON_EXISTENT:
        partition.replica_states[5] = state
    return partition


def test_RS_01_replica_on_a_live_broker_starts_online() -> None:
    driven = ControllerHarness(5)
    partition = driven.partition((5,))
    driven.run(start_replica_states(driven.controller))
    assert partition.replica_states == {5: ONLINE}


@pytest.mark.parametrize(
    ("live", "dead"),
    [pytest.param((), 5, id="RS-02"), pytest.param((5,), 100, id="RS-03")],
)
def test_replica_on_a_dead_broker_starts_offline(live: tuple[int, ...], dead: int) -> None:
    driven = ControllerHarness(*live)
    partition = driven.partition((dead,))
    driven.run(start_replica_states(driven.controller))
    assert partition.replica_states == {dead: OFFLINE}


def test_start_notifies_live_replicas_and_removes_dead_ones_from_the_isr() -> None:
    driven = ControllerHarness(5)
    partition = driven.partition((5, 6))
    driven.lead(partition, 5, (5, 6))

    driven.run(start_replica_states(driven.controller))

    assert state_of(driven, partition) == LeaderAndIsr(5, 1, (5,), 1, EPOCH)
    announced = [
        one for one in driven.requests() if one.__class__.__name__ == "LeaderAndIsrRequest"
    ]
    assert [one.broker for one in announced] == [5, 5], (
        "first to the live replica, then without the dead one"
    )


def test_RS_04_nonexistent_becomes_new() -> None:
    driven = ControllerHarness(5)
    partition = replica(driven, NON_EXISTENT)
    move(driven, partition, NEW)
    assert partition.replica_states[5] is NEW
    assert not driven.requests(), "no request without leadership"


@pytest.mark.parametrize(
    ("before", "target"),
    [
        pytest.param(NON_EXISTENT, ONLINE, id="RS-05"),
        pytest.param(NON_EXISTENT, OFFLINE, id="RS-06"),
        pytest.param(NON_EXISTENT, STARTED, id="RS-07"),
        pytest.param(NON_EXISTENT, INELIGIBLE, id="RS-08"),
        pytest.param(NON_EXISTENT, SUCCESSFUL, id="RS-09"),
        pytest.param(NEW, NON_EXISTENT, id="RS-10"),
        pytest.param(NEW, STARTED, id="RS-13"),
        pytest.param(NEW, INELIGIBLE, id="RS-14"),
        pytest.param(NEW, SUCCESSFUL, id="RS-15"),
        pytest.param(ONLINE, NON_EXISTENT, id="RS-16"),
        pytest.param(ONLINE, NEW, id="RS-17"),
        pytest.param(ONLINE, STARTED, id="RS-20"),
        pytest.param(ONLINE, INELIGIBLE, id="RS-21"),
        pytest.param(ONLINE, SUCCESSFUL, id="RS-22"),
        pytest.param(OFFLINE, NON_EXISTENT, id="RS-23"),
        pytest.param(OFFLINE, NEW, id="RS-24"),
        pytest.param(OFFLINE, SUCCESSFUL, id="RS-28"),
        pytest.param(STARTED, NON_EXISTENT, id="RS-29"),
        pytest.param(STARTED, NEW, id="RS-30"),
        pytest.param(STARTED, ONLINE, id="RS-31"),
        pytest.param(STARTED, OFFLINE, id="RS-32"),
        pytest.param(SUCCESSFUL, NEW, id="RS-36"),
        pytest.param(SUCCESSFUL, ONLINE, id="RS-37"),
        pytest.param(SUCCESSFUL, OFFLINE, id="RS-38"),
        pytest.param(SUCCESSFUL, STARTED, id="RS-39"),
        pytest.param(SUCCESSFUL, INELIGIBLE, id="RS-40"),
        pytest.param(INELIGIBLE, NON_EXISTENT, id="RS-41"),
        pytest.param(INELIGIBLE, NEW, id="RS-42"),
        pytest.param(INELIGIBLE, STARTED, id="RS-44"),
        pytest.param(INELIGIBLE, SUCCESSFUL, id="RS-45"),
    ],
)
def test_invalid_transition_is_reported_and_changes_nothing(
    before: ReplicaState, target: ReplicaState
) -> None:
    driven = ControllerHarness(5)
    partition = replica(driven, before)

    move(driven, partition, target)

    assert partition.replica_states == {5: before}
    assert partition.replicas == (5,)
    assert driven.notices() == ["replica_state_refused"]
    assert not driven.requests()


@pytest.mark.parametrize(
    ("before", "target"),
    [
        pytest.param(NEW, ONLINE, id="RS-11"),
        pytest.param(OFFLINE, INELIGIBLE, id="RS-27"),
        pytest.param(STARTED, INELIGIBLE, id="RS-33"),
        pytest.param(STARTED, SUCCESSFUL, id="RS-34"),
    ],
)
def test_transition_sends_no_request(before: ReplicaState, target: ReplicaState) -> None:
    driven = ControllerHarness(5)
    partition = replica(driven, before)
    driven.lead(partition, 5, (5,))

    move(driven, partition, target)

    assert partition.replica_states == {5: target}
    assert not driven.issued


def test_RS_12_new_replica_goes_offline() -> None:
    driven = ControllerHarness(5)
    partition = replica(driven, NEW)

    move(driven, partition, OFFLINE)

    assert partition.replica_states[5] is OFFLINE
    stop = driven.stop_replica()[5]
    assert stop.partitions == (StopReplicaPartition("t", 0, -1, False),)
    assert stop.controller_epoch == EPOCH
    assert list(driven.update_metadata()) == [5]
    assert not driven.of_kind(WriteZnodes)


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(ONLINE, id="RS-18"),
        pytest.param(OFFLINE, id="RS-25"),
        pytest.param(INELIGIBLE, id="RS-43"),
    ],
)
def test_replica_that_comes_online_gets_the_known_leadership(before: ReplicaState) -> None:
    driven = ControllerHarness(5)
    partition = replica(driven, before)
    leadership = driven.lead(partition, 5, (5,))

    move(driven, partition, ONLINE)

    assert partition.replica_states[5] is ONLINE
    (announced,) = driven.leader_and_isr()[5].partitions
    assert (announced.leadership, announced.is_new) == (leadership, False)
    assert len(driven.update_metadata()[5].partitions) == 1
    assert not driven.of_kind(WriteZnodes)


def test_RS_19_online_replica_goes_offline() -> None:
    driven = ControllerHarness(5, 6)
    partition = replica(driven, ONLINE, (5, 6))
    driven.lead(partition, 5, (5, 6))

    move(driven, partition, OFFLINE)

    state = LeaderAndIsr(-1, 1, (6,), 1, EPOCH)
    assert partition.replica_states[5] is OFFLINE
    assert partition.leadership == state_of(driven, partition) == state
    stop = driven.stop_replica()
    assert {broker: one.partitions for broker, one in stop.items()} == {
        5: (StopReplicaPartition("t", 0, 0, False),)
    }, "with the epoch before the ISR shrank"
    assert list(driven.leader_and_isr()) == [6]
    (announced,) = driven.leader_and_isr()[6].partitions
    assert (announced.leadership, announced.is_new) == (state, False)


def test_last_member_stays_in_the_isr() -> None:
    driven = ControllerHarness(6)
    partition = replica(driven, ONLINE, (5, 6))
    driven.lead(partition, 5, (5,))

    move(driven, partition, OFFLINE)

    assert state_of(driven, partition) == LeaderAndIsr(-1, 1, (5,), 1, EPOCH)
    [write] = [one for one in driven.issued if isinstance(one.command, WriteZnodes)]
    assert write.reason.choices == (Choice("t", 0, -1, "last member of the isr stays"),)


def test_follower_that_goes_offline_does_not_change_the_leader() -> None:
    driven = ControllerHarness(5, 6)
    partition = replica(driven, ONLINE, (5, 6))
    driven.lead(partition, 6, (6, 5), epoch=4)

    move(driven, partition, OFFLINE)

    assert state_of(driven, partition) == LeaderAndIsr(6, 5, (6,), 1, EPOCH)


def test_replica_outside_the_isr_goes_offline_without_a_write() -> None:
    driven = ControllerHarness(5, 6)
    partition = replica(driven, ONLINE, (5, 6))
    driven.lead(partition, 6, (6,))
    other = LeaderAndIsr(6, 3, (6,), 0, EPOCH - 1)
    driven.put(state_path(partition), znodes.write_state(other))

    move(driven, partition, OFFLINE)

    assert partition.replica_states[5] is OFFLINE
    assert not driven.of_kind(WriteZnodes)
    assert partition.leadership == LeaderAndIsr(6, 3, (6,), 1, EPOCH)
    assert list(driven.leader_and_isr()) == [6]


def test_isr_changed_by_its_leader_meanwhile_is_read_again() -> None:
    driven = ControllerHarness(5, 6, 7)
    partition = replica(driven, ONLINE, (5, 6, 7))
    driven.lead(partition, 6, (6, 5))
    changes = iter([LeaderAndIsr(6, 0, (6, 5, 7), 0, EPOCH)])

    def change_before_the_write(command: ZooKeeperCommand) -> list[ZooKeeperOutcome] | None:
        if isinstance(command, WriteZnodes) and (state := next(changes, None)):
            driven.put(state_path(partition), znodes.write_state(state))
        return None

    driven.reply = change_before_the_write
    move(driven, partition, OFFLINE)

    assert partition.leadership == state_of(driven, partition)
    assert partition.leadership == LeaderAndIsr(6, 1, (6, 7), 2, EPOCH)


def test_replica_without_a_state_znode_is_stopped_and_not_offline() -> None:
    driven = ControllerHarness(5)
    partition = replica(driven, ONLINE)
    partition.leadership = LeaderAndIsr(5, 0, (5,), 0, EPOCH)

    move(driven, partition, OFFLINE)

    assert partition.replica_states[5] is ONLINE
    assert list(driven.stop_replica()) == [5]
    assert driven.notices() == ["isr_not_shrunk"]


def test_each_removal_is_written_and_only_the_last_state_is_sent() -> None:
    driven = ControllerHarness(5, 6, 7)
    partition = driven.partition((5, 6, 7))
    driven.lead(partition, 7, (5, 6, 7))
    partition.replica_states.update(dict.fromkeys((5, 6, 7), ONLINE))

    replicas = {5: [partition], 6: [partition]}
    driven.run(change_replicas(driven.controller, replicas, OFFLINE, "test"))

    assert state_of(driven, partition) == LeaderAndIsr(7, 2, (7,), 2, EPOCH)
    epochs = {
        broker: one.partitions[0].leader_epoch for broker, one in driven.stop_replica().items()
    }
    assert epochs == {5: 0, 6: 1}
    (announced,) = driven.leader_and_isr()[7].partitions
    assert announced.leadership.leader_epoch == 2


def test_RS_26_deletion_starts() -> None:
    driven = ControllerHarness(5)
    partition = replica(driven, OFFLINE)
    driven.lead(partition, 5, (5,), epoch=2)

    move(driven, partition, STARTED)

    assert partition.replica_states[5] is STARTED
    assert driven.stop_replica()[5].partitions == (StopReplicaPartition("t", 0, 2, True),)


def test_RS_35_deleted_replica_is_forgotten() -> None:
    driven = ControllerHarness(5)
    partition = replica(driven, SUCCESSFUL)
    partition.assignment = Assignment((5,), (5,), (5,))

    move(driven, partition, NON_EXISTENT)

    assert partition.assignment == Assignment()
    assert partition.replica_states == {}


def test_leader_cannot_become_new() -> None:
    driven = ControllerHarness(5, 6)
    partition = replica(driven, NON_EXISTENT, (5, 6))
    driven.lead(partition, 5, (5,))

    move(driven, partition, NEW)
    move(driven, partition, NEW, broker=6)

    assert partition.replica_states == {5: NON_EXISTENT, 6: NEW}
    assert list(driven.leader_and_isr()) == [6]
    assert driven.leader_and_isr()[6].partitions[0].is_new
    assert driven.notices() == ["replica_state_refused"]


def test_removed_replica_gets_no_state_from_an_invalid_transition() -> None:
    driven = ControllerHarness(5, 6)
    partition = replica(driven, NON_EXISTENT, (6,))
    move(driven, partition, ONLINE)
    assert partition.replica_states == {}
    assert driven.notices() == ["replica_state_refused"]


def test_isr_that_cannot_be_written_leaves_the_replica_online() -> None:
    driven = ControllerHarness(5, 6)
    partition = replica(driven, ONLINE, (5, 6))
    before = driven.lead(partition, 6, (6, 5))
    driven.reply = refuse_writes

    move(driven, partition, OFFLINE)

    assert (partition.replica_states[5], partition.leadership) == (ONLINE, before)
    assert driven.notices() == ["isr_not_shrunk"]
    assert not driven.leader_and_isr()


def test_only_changed_isrs_are_sent_if_the_caller_wants_no_others() -> None:
    driven = ControllerHarness(5, 6, 7)
    partitions = [driven.partition((5, 6, 7), number=number) for number in (0, 1)]
    for partition, isr in zip(partitions, ((6, 5), (6,)), strict=True):
        partition.replica_states[5] = ONLINE
        driven.lead(partition, 6, isr)

    driven.run(
        change_replicas(
            driven.controller, {5: partitions}, OFFLINE, "test", notifies_unchanged=False
        )
    )

    sent = {broker: one.partitions for broker, one in driven.leader_and_isr().items()}
    assert {broker: [one.partition for one in sent[broker]] for broker in sent} == {6: [0], 7: [0]}
    [write] = [one for one in driven.issued if isinstance(one.command, WriteZnodes)]
    assert write.reason.choices == (Choice("t", 0, 6, "isr shrunk"),)


def test_new_replica_that_comes_online_joins_the_assignment() -> None:
    driven = ControllerHarness(5, 6)
    partition = replica(driven, NEW, (6,))
    move(driven, partition, ONLINE)
    assert partition.replicas == (6, 5)


def test_shrunk_isrs_of_a_queued_topic_are_not_sent() -> None:
    driven = ControllerHarness(5, 6)
    partition = replica(driven, ONLINE, (5, 6))
    driven.lead(partition, 6, (6, 5))
    driven.queue_deletion("t")

    move(driven, partition, OFFLINE)

    assert partition.replica_states[5] is OFFLINE
    assert not driven.leader_and_isr()
    assert driven.stop_replica()[5].partitions[0].leader_epoch == -2


def test_broker_without_replicas_does_not_prevent_the_transitions_of_others() -> None:
    driven = ControllerHarness(5, 6)
    partition = replica(driven, ONLINE, (5, 6))
    driven.lead(partition, 6, (6, 5))
    driven.run(change_replicas(driven.controller, {6: [], 5: [partition]}, OFFLINE, "test"))
    assert partition.replica_states[5] is OFFLINE
