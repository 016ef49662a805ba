"""The partition state machine, row by row of KB 17.3 (Kafka's PartitionStateMachineTest)."""

import pytest

from controller.core import znodes
from controller.core.commands import CommandId, Notice, ReadZnodes, WriteZnodes, ZooKeeperCommand
from controller.core.election import CONTROLLED_SHUTDOWN, OFFLINE, PREFERRED, UNCLEAN_LEADER
from controller.core.events import ZnodesRead
from controller.core.operations import NO_AUTH, Create, SetData
from controller.core.procedures.elections.partition_state_machine import (
    change_partitions,
    retry_offline_partitions,
    start_partition_states,
)
from controller.core.state import Partition
from controller.core.state_machines import PREVIOUS_PARTITION_STATES, PartitionState
from controller.core.values import RECOVERED, RECOVERING, LeaderAndIsr
from replay.world.outcomes import ZooKeeperOutcome
from tests.controller.core.driving import (
    CONTROLLER_ID,
    EPOCH,
    ControllerHarness,
    refuse_writes,
    state_of,
    state_path,
)

NEW, ONLINE = PartitionState.NEW, PartitionState.ONLINE
GONE, NON_EXISTENT = PartitionState.OFFLINE, PartitionState.NON_EXISTENT
ANY_COMMAND = CommandId(0, 0)


def move(driven: ControllerHarness, partition: Partition, target: PartitionState) -> None:
    """One transition. A leader is chosen by the rule for offline partitions."""
    driven.run(change_partitions(driven.controller, [partition], target, "test", OFFLINE))


def failures(driven: ControllerHarness) -> list[str]:
    """The texts of the reports that no leader was elected."""
    return [one.text for one in driven.of_kind(Notice) if one.code == "no_leader_elected"]


def refuse_reads(command: ZooKeeperCommand) -> list[ZooKeeperOutcome] | None:
    """Every read ends in an error that does not concern the znode."""
    if not isinstance(command, ReadZnodes):
        return None
    nothing = [-1] * len(command.paths)
    none: list[bytes | None] = [None] * len(command.paths)
    refused = [NO_AUTH] * len(command.paths)
    return [ZnodesRead(ANY_COMMAND, 0, refused, none, nothing, nothing, nothing, nothing)]


def test_PS_01_nonexistent_becomes_new() -> None:
    driven = ControllerHarness(5)
    partition = driven.partition()
    move(driven, partition, NEW)
    assert partition.state is NEW
    assert not driven.issued


@pytest.mark.parametrize(
    ("before", "target"),
    [
        pytest.param(NON_EXISTENT, ONLINE, id="PS-02"),
        pytest.param(NON_EXISTENT, GONE, id="PS-03"),
        pytest.param(NEW, NON_EXISTENT, id="PS-08"),
        pytest.param(ONLINE, NON_EXISTENT, id="PS-12"),
        pytest.param(ONLINE, NEW, id="PS-13"),
        pytest.param(GONE, NEW, id="PS-19"),
    ],
)
def test_invalid_transition_is_reported_and_other_partitions_continue(
    before: PartitionState, target: PartitionState
) -> None:
    driven = ControllerHarness(5)
    invalid = driven.partition(state=before)
    valid = driven.partition(state=PREVIOUS_PARTITION_STATES[target][0], number=1)
    if target is ONLINE:
        driven.put(f"/brokers/topics/{valid.topic.name}", b"{}")

    partitions = [invalid, valid]
    driven.run(change_partitions(driven.controller, partitions, target, "test", OFFLINE))

    assert (invalid.state, valid.state) == (before, target)
    assert driven.notices() == ["partition_state_refused"]


def test_PS_04_new_partition_comes_online() -> None:
    driven = ControllerHarness(5)
    driven.put("/brokers/topics/t", b"{}")
    partition = driven.partition((5,), NEW)

    move(driven, partition, ONLINE)

    state = LeaderAndIsr(5, 0, (5,), 0, EPOCH)
    assert partition.state is ONLINE
    assert partition.leadership == state_of(driven, partition) == state
    (announced,) = driven.leader_and_isr()[5].partitions
    assert (announced.leadership, announced.assignment.replicas, announced.is_new) == (
        state,
        (5,),
        True,
    )
    request = driven.leader_and_isr()[5]
    assert (request.controller_id, request.controller_epoch) == (CONTROLLER_ID, EPOCH)
    assert list(driven.update_metadata()) == [5]


def test_first_leader_is_the_first_live_replica_and_only_the_isr_gets_requests() -> None:
    driven = ControllerHarness(5, 6, 7, 8)
    driven.put("/brokers/topics/t", b"{}")
    partition = driven.partition((4, 6, 5), NEW)

    move(driven, partition, ONLINE)

    assert partition.leadership == LeaderAndIsr(6, 0, (6, 5), 0, EPOCH)
    assert list(driven.leader_and_isr()) == [5, 6]
    assert list(driven.update_metadata()) == [5, 6, 7, 8]


def test_new_partition_without_a_live_replica_stays_new() -> None:
    driven = ControllerHarness(5)
    partition = driven.partition((6,), NEW)
    move(driven, partition, ONLINE)
    assert (partition.state, partition.leadership) == (NEW, None)
    assert driven.notices() == ["no_leader_created"]
    assert not driven.requests()


def test_new_partition_with_a_live_replica_again_is_no_longer_leaderless() -> None:
    driven = ControllerHarness(5)
    driven.put("/brokers/topics/t", b"{}")
    partition = driven.partition((6,), NEW)
    move(driven, partition, ONLINE)
    assert list(driven.context.leaderless) == [partition]
    driven.register(6)
    move(driven, partition, ONLINE)
    assert (partition.state, driven.context.leaderless) == (ONLINE, {})


def test_PS_05_state_that_cannot_be_created_leaves_the_partition_new() -> None:
    driven = ControllerHarness(5)
    partition = driven.partition((5,), NEW)
    driven.reply = refuse_writes

    move(driven, partition, ONLINE)

    assert (partition.state, partition.leadership) == (NEW, None)
    assert driven.notices() == ["no_leader_created"]
    assert not driven.requests()


def test_PS_06_state_that_exists_leaves_the_partition_new() -> None:
    driven = ControllerHarness(5, rules="kafka")
    partition = driven.partition((5,), NEW)
    driven.put(state_path(partition), b"somebody else's")

    move(driven, partition, ONLINE)

    assert (partition.state, partition.leadership) == (NEW, None)
    assert driven.data(state_path(partition)) == b"somebody else's"
    assert driven.notices() == ["no_leader_created"]
    assert not driven.requests()


@pytest.mark.parametrize(
    ("before", "target"),
    [
        pytest.param(NEW, GONE, id="PS-07"),
        pytest.param(ONLINE, GONE, id="PS-11"),
        pytest.param(GONE, NON_EXISTENT, id="PS-18"),
    ],
)
def test_transition_sends_no_request(before: PartitionState, target: PartitionState) -> None:
    driven = ControllerHarness(5)
    partition = driven.partition(state=before)
    move(driven, partition, target)
    assert partition.state is target
    assert not driven.issued


def test_PS_09_online_partition_is_elected_again() -> None:
    driven = ControllerHarness(5)
    partition = driven.partition((5,), ONLINE)
    driven.lead(partition, 5, (5,))
    driven.lead(partition, 5, (5,))

    driven.run(change_partitions(driven.controller, [partition], ONLINE, "test", PREFERRED))

    state = LeaderAndIsr(5, 1, (5,), 2, EPOCH)
    assert partition.state is ONLINE
    assert partition.leadership == state_of(driven, partition) == state
    assert driven.of_kind(ReadZnodes) == [ReadZnodes((state_path(partition),))]
    (announced,) = driven.leader_and_isr()[5].partitions
    assert (announced.leadership, announced.is_new) == (state, False)


def test_PS_10_leader_in_controlled_shutdown_is_replaced() -> None:
    driven = ControllerHarness(5, 6)
    driven.shut_down(5)
    partition = driven.partition((5, 6), ONLINE)
    driven.lead(partition, 5, (5, 6))

    driven.run(
        change_partitions(driven.controller, [partition], ONLINE, "test", CONTROLLED_SHUTDOWN)
    )

    state = LeaderAndIsr(6, 1, (6,), 1, EPOCH)
    assert partition.state is ONLINE
    assert partition.leadership == state_of(driven, partition) == state
    assert list(driven.leader_and_isr()) == [5, 6]


def test_PS_14_offline_partition_comes_online() -> None:
    driven = ControllerHarness(5)
    partition = driven.partition((5,), GONE)
    driven.lead(partition, -1, (5,), epoch=3)

    move(driven, partition, ONLINE)

    state = LeaderAndIsr(5, 4, (5,), 1, EPOCH)
    assert partition.state is ONLINE
    assert partition.leadership == state_of(driven, partition) == state
    (announced,) = driven.leader_and_isr()[5].partitions
    assert (announced.leadership, announced.is_new) == (state, False)
    configurations = [one for one in driven.of_kind(ReadZnodes) if "/config" in str(one.paths)]
    assert not configurations, "an ISR member is live: the unclean setting is not read"


@pytest.mark.parametrize(
    ("protocol", "recovery"),
    [
        pytest.param("3.2-IV0", RECOVERING, id="PS-15-from-3.2"),
        pytest.param("3.1-IV0", RECOVERED, id="PS-15-below-3.2"),
    ],
)
def test_unclean_leader_recovers_from_ibp_3_2_on(protocol: str, recovery: int) -> None:
    driven = ControllerHarness(5, inter_broker_protocol_version=protocol)
    partition = driven.partition((6, 5), GONE)
    driven.lead(partition, -1, (6,))
    driven.put("/config/topics/t", b'{"config":{"unclean.leader.election.enable":"true"}}')

    move(driven, partition, ONLINE)

    state = LeaderAndIsr(5, 1, (5,), 1, EPOCH, recovery)
    [choice] = next(
        one for one in driven.issued if isinstance(one.command, WriteZnodes)
    ).reason.choices
    assert (choice.chosen, choice.code) == (5, UNCLEAN_LEADER)
    assert partition.state is ONLINE
    assert partition.leadership == state_of(driven, partition) == state
    assert list(driven.leader_and_isr()) == [5]


@pytest.mark.parametrize(
    ("setting", "override", "leads"),
    [(False, None, False), (True, None, True), (True, "false", False), (False, "true", True)],
)
def test_topic_override_has_priority_over_the_controllers_unclean_setting(
    setting: bool, override: str | None, leads: bool
) -> None:
    driven = ControllerHarness(5, unclean_leader_election_enable=setting)
    partition = driven.partition((6, 5), GONE)
    driven.lead(partition, -1, (6,))
    if override:
        driven.put(
            "/config/topics/t",
            b'{"config":{"unclean.leader.election.enable":"%s"}}' % override.encode(),
        )

    move(driven, partition, ONLINE)

    assert (partition.state is ONLINE) is leads
    assert ("unclean_leader" in driven.notices()) is leads


@pytest.mark.parametrize(("count", "rest"), [(2, ""), (7, "; and of 2 more")])
def test_unclean_elections_are_logged_with_the_replicas_that_were_passed_over(
    count: int, rest: str
) -> None:
    driven = ControllerHarness(5, unclean_leader_election_enable=True)
    partitions = [driven.partition((6, 5), GONE, number=number) for number in range(count)]
    for one in partitions:
        driven.lead(one, -1, (6,))
    driven.run(change_partitions(driven.controller, partitions, ONLINE, "test", OFFLINE))
    [text] = [one.text for one in driven.of_kind(Notice) if one.code == "unclean_leader"]
    reasons = "; ".join(f"t-{n}: 6 not online, 5 not in sync" for n in range(min(count, 5)))
    assert text.endswith(f"records may be lost (passed over: {reasons}{rest})")


def test_election_of_a_partition_without_replicas_is_logged() -> None:
    driven = ControllerHarness(5)
    partition = driven.partition((), GONE)
    driven.lead(partition, -1, (6,))
    move(driven, partition, ONLINE)
    assert failures(driven) == ["no replica can lead: it has none"]


def test_unreadable_configuration_fails_only_its_topic() -> None:
    driven = ControllerHarness(5, unclean_leader_election_enable=True)
    bad, good = driven.partition((6, 5), GONE), driven.partition((6, 5), GONE, topic="u")
    for one in (bad, good):
        driven.lead(one, -1, (6,))
    driven.put("/config/topics/t", b"{not json")

    driven.run(change_partitions(driven.controller, [bad, good], ONLINE, "test", OFFLINE))

    assert (bad.state, good.state) == (GONE, ONLINE)
    assert "unreadable_znode" in driven.notices()
    assert failures(driven) == ["the configuration of its topic cannot be read"]


def test_configuration_that_zookeeper_does_not_return_fails_the_election() -> None:
    driven = ControllerHarness(5, unclean_leader_election_enable=True)
    partition = driven.partition((6, 5), GONE)
    driven.lead(partition, -1, (6,))
    driven.reply = lambda command: (
        refuse_reads(command) if "/config/topics/t" in getattr(command, "paths", ()) else None
    )

    move(driven, partition, ONLINE)

    assert partition.state is GONE
    assert failures(driven) == ["the configuration of its topic cannot be read"]


def test_configuration_is_not_needed_while_a_member_of_the_isr_is_live() -> None:
    driven = ControllerHarness(5)
    partition = driven.partition((6, 5), GONE)
    driven.lead(partition, -1, (6, 5))
    driven.put("/config/topics/t", b"{not json")

    move(driven, partition, ONLINE)

    assert partition.leadership == LeaderAndIsr(5, 1, (5,), 1, EPOCH)
    assert driven.notices() == ["leaders_elected"]


def test_unclean_leader_that_was_not_written_is_not_reported() -> None:
    """Before the write, broker 5 joins the ISR."""
    driven = ControllerHarness(5, unclean_leader_election_enable=True)
    partition = driven.partition((6, 5), GONE)
    driven.lead(partition, -1, (6,))
    changes = iter([LeaderAndIsr(-1, 7, (6, 5), 0, EPOCH)])

    def change_before_the_write(command: ZooKeeperCommand) -> None:
        if isinstance(command, WriteZnodes) and (state := next(changes, None)):
            driven.put(state_path(partition), znodes.write_state(state))

    driven.reply = change_before_the_write
    move(driven, partition, ONLINE)

    assert partition.leadership == LeaderAndIsr(5, 8, (5,), 2, EPOCH)
    assert driven.notices() == ["leaders_elected"]


def test_partition_that_has_had_a_leader_in_between_is_reported_again() -> None:
    driven = ControllerHarness()
    partition = driven.partition((5,), GONE)
    driven.lead(partition, -1, (5,))
    for change in (driven.unregister, driven.unregister, driven.register, driven.unregister):
        change(5)
        move(driven, partition, GONE)
        move(driven, partition, ONLINE)
    assert driven.notices().count("no_leader_elected") == 2


def test_PS_16_unreadable_state_leaves_the_partition_offline() -> None:
    driven = ControllerHarness(5)
    partition = driven.partition((5,), GONE)
    driven.lead(partition, -1, (5,))
    driven.reply = refuse_reads

    move(driven, partition, ONLINE)

    assert partition.state is GONE
    assert driven.notices() == ["no_leader_elected"]
    assert not driven.requests()


def test_state_that_cannot_be_written_leaves_the_partition_offline() -> None:
    driven = ControllerHarness(5)
    partition = driven.partition((5,), GONE)
    before = driven.lead(partition, -1, (5,))
    driven.reply = refuse_writes

    move(driven, partition, ONLINE)

    assert (partition.state, partition.leadership) == (GONE, before)
    assert driven.notices() == ["no_leader_elected"]
    assert not driven.requests()


def test_PS_17_partition_without_a_state_stays_offline() -> None:
    driven = ControllerHarness(5)
    partition = driven.partition((5,), GONE)

    move(driven, partition, ONLINE)

    assert partition.state is GONE
    assert driven.notices() == ["no_leader_elected"]
    assert not driven.requests()


def test_state_written_by_a_later_controller_is_not_changed() -> None:
    driven = ControllerHarness(5)
    partition = driven.partition((5,), GONE)
    later = znodes.write_state(LeaderAndIsr(-1, 3, (5,), 0, EPOCH + 1))
    driven.put(state_path(partition), later)

    move(driven, partition, ONLINE)

    assert partition.state is GONE
    assert driven.data(state_path(partition)) == later


def test_state_changed_between_read_and_write_is_read_again() -> None:
    driven = ControllerHarness(5, 6)
    partition = driven.partition((5, 6), GONE)
    driven.lead(partition, -1, (5, 6))
    changes = iter([LeaderAndIsr(-1, 7, (6,), 0, EPOCH)])

    def change_before_the_write(command: ZooKeeperCommand) -> None:
        if isinstance(command, WriteZnodes) and (state := next(changes, None)):
            driven.put(state_path(partition), znodes.write_state(state))

    driven.reply = change_before_the_write
    move(driven, partition, ONLINE)

    assert partition.leadership == state_of(driven, partition)
    assert partition.leadership == LeaderAndIsr(6, 8, (6,), 2, EPOCH)


def test_partitions_of_one_call_share_a_batch() -> None:
    driven = ControllerHarness(5, 6)
    partitions = [driven.partition((5, 6), GONE, number=number) for number in range(3)]
    for partition in partitions:
        driven.lead(partition, -1, (5, 6))

    results = driven.run(change_partitions(driven.controller, partitions, ONLINE, "test", OFFLINE))

    assert list(results) == partitions
    assert [len(one.partitions) for one in driven.leader_and_isr().values()] == [3, 3]
    (write,) = driven.of_kind(WriteZnodes)
    assert all(isinstance(one, SetData) and one.version == 0 for one in write.operations)
    assert write.epoch_version == driven.context.epoch_version


def test_call_without_partitions_issues_nothing() -> None:
    driven = ControllerHarness(5)
    assert driven.run(change_partitions(driven.controller, [], ONLINE, "test", OFFLINE)) == {}
    assert not driven.issued


def test_retry_moves_new_and_offline_partitions_not_queued_for_deletion() -> None:
    driven = ControllerHarness(5)
    driven.put("/brokers/topics/t", b"{}")
    new, offline = driven.partition(state=NEW), driven.partition(state=GONE, number=1)
    queued = driven.partition(state=GONE, topic="queued")
    for partition in (offline, queued):
        driven.lead(partition, -1, (5,))
    driven.queue_deletion("queued")

    driven.run(retry_offline_partitions(driven.controller, "test"))

    assert (new.state, offline.state, queued.state) == (ONLINE, ONLINE, GONE)


def test_failover_derives_states_from_the_leader() -> None:
    driven = ControllerHarness(5)
    led, lost = driven.partition((5, 6)), driven.partition((5, 6), number=1)
    dead, none = driven.partition((6,), number=2), driven.partition((6,), number=3)
    driven.lead(led, 5, (5,))
    driven.lead(lost, 6, (5, 6), epoch=2)
    driven.lead(dead, 6, (6,))

    partitions = list(driven.context.partitions())
    driven.run(start_partition_states(driven.controller, partitions))

    assert [one.state for one in partitions] == [ONLINE, ONLINE, GONE, NEW]
    assert state_of(driven, led).leader_epoch == 0
    assert state_of(driven, lost) == LeaderAndIsr(5, 3, (5,), 1, EPOCH)
    assert none.leadership is None


def test_parent_znodes_are_created_before_the_state() -> None:
    driven = ControllerHarness(5)
    driven.put("/brokers/topics/t", b"{}")
    move(driven, driven.partition((5,), NEW), ONLINE)
    (write,) = driven.of_kind(WriteZnodes)
    paths = [one.path for one in write.operations if isinstance(one, Create)]
    parent = "/brokers/topics/t/partitions"
    assert paths == [parent, f"{parent}/0", f"{parent}/0/state"]
