"""Moving a partition to other replicas (KafkaController.onPartitionReassignment, KB 7.7; seed 001).

RS, ORS, TRS, AR and RR are the seed's: all replicas, those before, those wanted, those being added
and those being removed. The assignment in ZooKeeper is written before replicas are added and after
others are removed, so that whoever is controller next can go on from any point between.
"""

from controller.core import znodes
from controller.core.commands import Choice, Reason
from controller.core.controller import Controller
from controller.core.deviations import LEADER_MOVED_FIRST, REQUEST_CHANGES_SEEN
from controller.core.election import Elected, reassignment_leader
from controller.core.errors import ProcedureError, ZnodeError
from controller.core.operations import BAD_VERSION, OK, SetData
from controller.core.partition_states import PartitionState
from controller.core.procedures.deletion import mark_ineligible, resume_deletion_for
from controller.core.procedures.failures import Failures
from controller.core.procedures.leadership import (
    OFFLINE,
    REASSIGNMENT,
    Candidate,
    Strategy,
    online_test,
    read_states,
    write_states,
)
from controller.core.procedures.partition_changes import change_partitions
from controller.core.procedures.reassignment_cancel import is_cancelled
from controller.core.procedures.reassignment_records import remove_records, write_with_record
from controller.core.procedures.reassignment_znode import remove_entries
from controller.core.procedures.replica_changes import change_replicas
from controller.core.procedures.topics import topic_content
from controller.core.reassignment_znodes import Reassignment
from controller.core.replica_states import ReplicaState
from controller.core.settle import read_znodes, write
from controller.core.state import ControllerContext, Partition
from controller.core.values import ANY_VERSION, NO_LEADER, Assignment, LeaderAndIsr

RULE = "reassignment"
STORE = "reassignment: store the assignment"
RAISE = "reassignment: raise the leader epoch"
_REMOVAL = (
    ReplicaState.OFFLINE,
    ReplicaState.DELETION_STARTED,
    ReplicaState.DELETION_SUCCESSFUL,
    ReplicaState.NON_EXISTENT,
)


async def reassign(
    controller: Controller,
    partition: Partition,
    assignment: Assignment,
    record: Reassignment | None = None,
) -> None:
    """Begin, go on with, replace, cancel or end the reassignment of one partition.

    `record` is what /admin/reassignments shall say of it from now on; None: what it says. While
    /admin/reassign_cancel stands nothing is done, but for cancelling (KB 14.2.3).
    Raises ProcedureError where a step fails for good; steps done stay done (KB 7.4).
    """
    if assignment.is_being_reassigned and await is_cancelled(controller):
        return
    mark_ineligible(controller.context, [partition.topic.name])
    await _store(controller, partition, assignment, record)
    if await is_complete(controller, partition):
        await _finish(controller, partition)
    else:
        await _start_replicas(controller, partition)


async def complete_if_caught_up(controller: Controller, partition: Partition) -> None:
    """The ISR changed: end the reassignment if it is complete now (maybeCompleteReassignment)."""
    if partition in controller.context.reassigning and await is_complete(controller, partition):
        await reassign(controller, partition, partition.assignment)


async def is_complete(controller: Controller, partition: Partition) -> bool:
    """Whether all of TRS are in the ISR that stands in ZooKeeper now (KB 7.5)."""
    assignment = partition.assignment
    if not assignment.is_being_reassigned:
        return True
    isr = await read_isr(controller, partition)
    return bool(isr) and all(one in isr for one in assignment.target)


async def drops_all_in_sync(
    controller: Controller, partition: Partition, assignment: Assignment
) -> bool:
    """Whether only replicas are in sync that this assignment drops: records would be lost."""
    unwanted = [one for one in partition.replicas if one not in assignment.replicas]
    isr = await read_isr(controller, partition) if unwanted else ()
    return bool(isr) and all(one in unwanted for one in isr)


async def read_isr(controller: Controller, partition: Partition) -> tuple[int, ...]:
    """The ISR that stands in ZooKeeper now; empty where it cannot be read.

    Below IBP 2.7-IV2 the read watches the state, whose leader writes it.
    """
    path = znodes.state_path(*partition.key)
    watch = not controller.protocol.has_alter_partition
    found = await read_znodes(controller, [path], RULE, watch=watch)
    if found.errors[0] != OK:
        return ()
    try:
        return znodes.read_state(path, found.data[0], found.versions[0]).isr
    except ZnodeError as unreadable:
        controller.notice("error", "unreadable_znode", path, f"{unreadable}; skipped")
        return ()


# Phase U ----------------------------------------------------------------------------------------


async def _store(
    controller: Controller,
    partition: Partition,
    assignment: Assignment,
    record: Reassignment | None,
) -> None:
    before = partition.assignment
    if assignment != before:
        unwanted = tuple(one for one in before.replicas if one not in assignment.replicas)
        if LEADER_MOVED_FIRST.applies(controller.configuration):
            controller.follower.reassigns(partition, assignment)
            if unwanted:
                await _drop(controller, partition, unwanted)
            await write_assignment(controller, partition, assignment, record)
            partition.assignment = assignment
            controller.follower.stored(partition)
        else:
            await write_assignment(controller, partition, assignment)
            partition.assignment = assignment
            await _remove_replicas(controller, partition, unwanted)
    controller.context.reassigning[partition] = None


async def write_assignment(
    controller: Controller,
    partition: Partition,
    assignment: Assignment,
    record: Reassignment | None = None,
) -> None:
    """Write the topic's znode as it is known, this partition with another assignment (U1, B6).

    A record is written with it, both or none.
    """
    topic = partition.topic
    content = topic_content(controller.context, topic)
    assignments = content.assignments | {partition.number: assignment}
    data = znodes.write_topic(znodes.TopicContent(assignments, content.topic_id))
    path = znodes.topic_path(topic.name)
    choice = Choice(topic.name, partition.number, _leader(partition), _spelt(assignment))
    reason, store = Reason(STORE, (choice,)), SetData(path, data, ANY_VERSION)
    if record is not None:
        await write_with_record(controller, partition, record, store, reason)
        return
    writes = await write(controller, [store], reason)
    if writes.errors[0] != OK:
        raise ProcedureError(
            f"{path} cannot be written for the reassignment of {partition} "
            f"(ZooKeeper code {writes.errors[0]})"
        )


def _leader(partition: Partition) -> int:
    return partition.leadership.leader if partition.leadership is not None else NO_LEADER


def _spelt(assignment: Assignment) -> str:
    def spelt(replicas: tuple[int, ...]) -> str:
        return ",".join(map(str, replicas))

    return (
        f"replicas={spelt(assignment.replicas)}, adding={spelt(assignment.adding)}, "
        f"removing={spelt(assignment.removing)}"
    )


async def _remove_replicas(
    controller: Controller, partition: Partition, brokers: tuple[int, ...]
) -> None:
    """Stop and delete replicas; no answer is waited for (KB 7.7.1)."""
    replicas = {broker: [partition] for broker in brokers}
    for state in _REMOVAL:
        await change_replicas(controller, replicas, state, RULE)


# U3, with LEADER_MOVED_FIRST ----------------------------------------------------------------------


async def _drop(controller: Controller, partition: Partition, unwanted: tuple[int, ...]) -> None:
    """Drop what a reassignment that is replaced or cancelled was adding.

    Before the assignment without them is stored: should this controller fail in between, the
    next one goes on with the earlier one, and none of them is left in the ISR unknown.
    """
    before = partition.assignment
    partition.assignment = Assignment(
        *(
            tuple(one for one in replicas if one not in unwanted)
            for replicas in (before.replicas, before.adding, before.removing)
        )
    )
    if _leader(partition) in unwanted:
        await change_partitions(controller, [partition], PartitionState.ONLINE, RULE, _STAYING)
    await _remove_replicas(controller, partition, unwanted)
    if partition.leadership is not None and partition.leadership.leader == NO_LEADER:
        # Nobody who stays could lead: as any other partition it waits, offline, for who can.
        await change_partitions(controller, [partition], PartitionState.OFFLINE, RULE)
        await change_partitions(controller, [partition], PartitionState.ONLINE, RULE, OFFLINE)


def _choose_among_all(context: ControllerContext, candidate: Candidate) -> Elected:
    partition = candidate.partition
    return reassignment_leader(
        partition.replicas, candidate.current.isr, online_test(context, partition)
    )


def _all_replicas(context: ControllerContext, partition: Partition) -> tuple[int, ...]:
    return partition.replicas


_STAYING = Strategy(
    "leader among the replicas that stay",
    REASSIGNMENT.kafka_name,
    _choose_among_all,
    _all_replicas,
)


# Phase A ----------------------------------------------------------------------------------------


async def _start_replicas(controller: Controller, partition: Partition) -> None:
    await raise_leader_epoch(controller, partition)
    assignment = partition.assignment
    batch = controller.new_batch(RULE)
    batch.add_leader_and_isr(assignment.origin, partition, is_new=False)
    batch.add_leader_and_isr(assignment.adding, partition, is_new=True)
    controller.send(batch)
    for broker in assignment.adding:
        # One that was told before has a state: the raised leader epoch is all it needs.
        if partition.replica_states.get(broker) in (None, ReplicaState.NON_EXISTENT):
            await change_replicas(controller, {broker: [partition]}, ReplicaState.NEW, RULE)


async def raise_leader_epoch(controller: Controller, partition: Partition) -> None:
    """The same leader and ISR with a new leader epoch (updateLeaderEpoch)."""
    context = controller.context
    failures = Failures(controller, "leader_epoch_not_raised")
    while True:
        states = await read_states(controller, [partition], RAISE, failures)
        failures.tell()
        if not states:
            raise ProcedureError(f"the leader epoch of {partition} cannot be raised")
        current = states[0][1]
        raised = LeaderAndIsr(
            current.leader,
            current.leader_epoch + 1,
            current.isr,
            current.partition_epoch,
            context.epoch,
            current.recovery_state,
        )
        choice = Choice(partition.topic.name, partition.number, raised.leader, "same leader")
        [(_, written, error)] = await write_states(
            controller, [(partition, raised)], Reason(RAISE, (choice,))
        )
        if error == OK:
            partition.leadership = written
            return
        if error != BAD_VERSION:
            path = znodes.state_path(*partition.key)
            raise ProcedureError(f"{path} cannot be written (ZooKeeper code {error})")


# Phase B ----------------------------------------------------------------------------------------


async def _finish(controller: Controller, partition: Partition) -> None:
    context, before = controller.context, partition.assignment
    if not before.target and not partition.is_listed:
        raise ProcedureError(f"the reassignment of {partition} names no replica")
    await change_replicas(
        controller, {one: [partition] for one in before.adding}, ReplicaState.ONLINE, RULE
    )
    done = Assignment(before.target)
    controller.follower.reassigns(partition, done)
    partition.assignment = done
    if not context.is_queued(partition):
        partition.check_balance()
    await _move_leader_if_required(controller, partition)
    await _remove_replicas(controller, partition, before.removing)
    await write_assignment(controller, partition, partition.assignment)
    controller.follower.stored(partition)
    await _remove_request(controller, partition)
    await remove_records(controller, [partition])
    del context.reassigning[partition]
    batch = controller.new_batch(RULE)
    batch.add_update_metadata(context.brokers, (partition,))
    controller.send(batch)
    await resume_deletion_for(controller, [partition.topic.name])


async def _move_leader_if_required(controller: Controller, partition: Partition) -> None:
    """A leader among TRS, and followers that know the final assignment (B3).

    Whether an election succeeds is not looked at (KB 7.7, B3).
    """
    leader = _leader(partition)
    is_staying = leader in partition.replicas
    if not is_staying or not controller.context.is_online(leader, partition):
        await change_partitions(controller, [partition], PartitionState.ONLINE, RULE, REASSIGNMENT)
        return
    await raise_leader_epoch(controller, partition)
    batch = controller.new_batch(RULE)
    batch.add_leader_and_isr(partition.replicas, partition, is_new=False)
    controller.send(batch)


async def _remove_request(controller: Controller, partition: Partition) -> None:
    """The entry of the request that is fulfilled goes; one with another list stays (7.6.3)."""
    key, done = partition.key, partition.replicas
    takes_repeated = REQUEST_CHANGES_SEEN.applies(controller.configuration)

    def is_done(name: tuple[str, int], target: tuple[int, ...]) -> bool:
        wanted = tuple(dict.fromkeys(target)) if takes_repeated else target
        return name == key and wanted == done

    await remove_entries(controller, is_done)
