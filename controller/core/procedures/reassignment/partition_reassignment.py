"""Moving partitions to other replicas (KafkaController.onPartitionReassignment, KB 7.7).

RS, ORS, TRS, AR and RR (KB 0.1) are all replicas, the original ones, the target ones, those being
added and those being removed. The assignment in ZooKeeper is written before replicas are added and
after others are removed, so that the next controller can continue from any point.

Each step is taken for all given partitions together. Under Kafka's rules that is one partition.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping

from controller.core import znodes
from controller.core.controller import Controller
from controller.core.deviations import (
    ADDED_WITHOUT_STATE,
    LEADER_MOVED_FIRST,
    REQUEST_CHANGES_SEEN,
)
from controller.core.election import OFFLINE, REASSIGNMENT, REMAINING
from controller.core.errors import ControllerMovedError, ProcedureError, ZnodeError
from controller.core.failures import report_error
from controller.core.operations import OK
from controller.core.pauses import parts, pause
from controller.core.procedures.elections.partition_state_machine import change_partitions
from controller.core.procedures.elections.replica_state_machine import Replicas, change_replicas
from controller.core.procedures.reassignment.assignments import (
    Errors,
    NewAssignment,
    write_assignments,
)
from controller.core.procedures.reassignment.leader_epochs import (
    raise_and_send,
    raise_leader_epochs,
)
from controller.core.procedures.reassignment.replica_deletion import delete_replicas
from controller.core.procedures.reassignment_znodes.cancel_znode import is_cancelled
from controller.core.procedures.reassignment_znodes.entries import remove_entries
from controller.core.procedures.reassignment_znodes.records import (
    current_route,
    remove_records,
    unset_leader_epochs,
)
from controller.core.procedures.topics.deletion import mark_ineligible, resume_deletion_for
from controller.core.state import Partition
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.values import NO_LEADER, Assignment, format_brokers
from controller.core.zookeeper_io import read_znodes

RULE = "reassignment"


async def reassign(controller: Controller, moves: list[NewAssignment]) -> Errors:
    """Begin, continue, replace, cancel or complete the reassignment of partitions.

    While /admin/reassign_cancel exists, only cancellations are done (KB 14.2.3). A reassignment
    that was to be resumed is noted, and `resume_held` continues it.
    """
    if any(one.assignment.is_being_reassigned for one in moves) and await is_cancelled(controller):
        for partition, assignment, _ in moves:
            if assignment.is_being_reassigned and assignment == partition.assignment:
                controller.context.held[partition] = None
        moves = [one for one in moves if not one.assignment.is_being_reassigned]
    return await carry_out(controller, moves)


async def carry_out(controller: Controller, moves: list[NewAssignment]) -> Errors:
    """Begin, continue, replace or complete the reassignment of partitions, without a read of
    /admin/reassign_cancel (see `reassign`): the caller knows that none of these are cancelled."""
    if not moves:
        return {}
    try:
        return await _carry_out(controller, moves)
    except ControllerMovedError:
        raise
    except Exception as error:
        return {one.partition: error for one in moves}


async def _carry_out(controller: Controller, moves: list[NewAssignment]) -> Errors:
    mark_ineligible(controller.context, dict.fromkeys(one.partition.topic.name for one in moves))
    moving = {one.partition: None for one in moves if one.partition.assignment.is_being_reassigned}
    errors = await _store(controller, moves)
    stored = [one.partition for one in moves if one.partition not in errors]
    complete = await caught_up(controller, stored)
    under_way = [one for one in stored if one not in complete]
    errors |= await _finish(controller, [one for one in stored if one in complete], moving)
    return errors | await _start_replicas(controller, under_way)


async def complete_if_caught_up(controller: Controller, partitions: Iterable[Partition]) -> None:
    """ISRs changed: complete the reassignments that have caught up (maybeCompleteReassignment)."""
    moving = [one for one in partitions if one in controller.context.reassigning]
    for number, part in enumerate(parts(controller, moving)):
        if number:
            await pause(controller)
        complete = await caught_up(controller, part)
        if complete:
            moves = [NewAssignment(one, one.assignment) for one in part if one in complete]
            report_failed(controller, await reassign(controller, moves))


async def caught_up(controller: Controller, partitions: list[Partition]) -> dict[Partition, None]:
    """The partitions whose TRS are all in the ISR that ZooKeeper has now (KB 7.5)."""
    complete = {one: None for one in partitions if not one.assignment.is_being_reassigned}
    moving = [one for one in partitions if one not in complete]
    for partition, isr in (await read_isrs(controller, moving)).items():
        if isr and all(one in isr for one in partition.assignment.target):
            complete[partition] = None
    return complete


async def drops_all_in_sync(
    controller: Controller, assignments: Mapping[Partition, Assignment]
) -> dict[Partition, None]:
    """The partitions whose new assignment would drop every replica in sync: records would be
    lost."""
    unwanted = {
        partition: [one for one in partition.replicas if one not in assignment.replicas]
        for partition, assignment in assignments.items()
    }
    isrs = await read_isrs(controller, [one for one in assignments if unwanted[one]])
    return {
        partition: None
        for partition, isr in isrs.items()
        if isr and all(one in unwanted[partition] for one in isr)
    }


async def read_isrs(
    controller: Controller, partitions: list[Partition]
) -> dict[Partition, tuple[int, ...]]:
    """The ISRs in ZooKeeper; empty where one cannot be read.

    Below IBP 2.7-IV2 the read watches the states, which leaders write.
    """
    paths = [znodes.state_path(*one.key) for one in partitions]
    watch = not controller.protocol.has_alter_partition
    found = await read_znodes(controller, paths, RULE, watch=watch)
    isrs: dict[Partition, tuple[int, ...]] = {}
    for place, partition in enumerate(partitions):
        isrs[partition] = ()
        if found.errors[place] != OK:
            continue
        path = paths[place]
        try:
            isrs[partition] = znodes.read_state(path, found.data[place], found.versions[place]).isr
        except ZnodeError as unreadable:
            controller.notice("error", "unreadable_znode", path, f"{unreadable}; skipped")
    return isrs


async def resume_held(controller: Controller) -> None:
    """Resume the reassignments that waited while /admin/reassign_cancel existed."""
    context = controller.context
    held, context.held = context.held, {}
    left = [one for one in controller.order.partitions(held) if one in context.reassigning]
    for number, part in enumerate(parts(controller, left)):
        if number:
            await pause(controller)
        moves = [NewAssignment(one, one.assignment) for one in part]
        report_failed(controller, await reassign(controller, moves))


# Phase U ----------------------------------------------------------------------------------------


async def _store(controller: Controller, moves: list[NewAssignment]) -> Errors:
    changed = [one for one in moves if one.assignment != one.partition.assignment]
    errors: Errors = {}
    if not changed:
        pass
    elif LEADER_MOVED_FIRST.applies(controller.configuration):
        for partition, assignment, _ in changed:
            controller.observer.reassigns(partition, assignment)
        stored = {one.partition: one.partition.assignment for one in changed}
        dropped = {one.partition: dropped for one in changed if (dropped := _dropped_replicas(one))}
        if dropped:
            errors = await _drop(controller, dropped)
            changed = [one for one in changed if one.partition not in errors]
        refused = await write_assignments(controller, changed, stored)
        await keep_assignments(controller, {one: stored[one] for one in refused if one in dropped})
        errors |= refused
        for partition in (one.partition for one in changed):
            if partition not in errors:
                controller.observer.stored(partition)
    else:
        unwanted = {one.partition: _dropped_replicas(one) for one in changed}
        errors = await write_assignments(controller, changed)
        await _remove_replicas(
            controller, {one: unwanted[one] for one in unwanted if one not in errors}
        )
    for one in moves:
        if one.partition not in errors:
            controller.context.reassigning[one.partition] = None
    return errors


def _dropped_replicas(move: NewAssignment) -> tuple[int, ...]:
    replicas = move.partition.replicas
    return tuple(one for one in replicas if one not in move.assignment.replicas)


async def _remove_replicas(
    controller: Controller, brokers: Mapping[Partition, Iterable[int]]
) -> None:
    """Stop and delete replicas of each partition, without waiting for responses (KB 7.7.1)."""
    replicas = _by_broker(brokers)
    await change_replicas(controller, replicas, ReplicaState.OFFLINE, RULE)
    await delete_replicas(controller, replicas, RULE)


def _by_broker(brokers: Mapping[Partition, Iterable[int]]) -> Replicas:
    replicas: Replicas = defaultdict(list)
    for partition, of_partition in brokers.items():
        for broker in of_partition:
            replicas[broker].append(partition)
    return replicas


# U3, with LEADER_MOVED_FIRST ----------------------------------------------------------------------


async def _drop(controller: Controller, unwanted: Mapping[Partition, tuple[int, ...]]) -> Errors:
    """Drop the replicas that a replaced or cancelled reassignment was adding.

    This happens before the assignment without them is stored. If this controller fails in between,
    the next one continues with the earlier assignment, and no dropped replica stays in the ISR
    unnoticed.
    """
    before = {partition: partition.assignment for partition in unwanted}
    for partition, dropped in unwanted.items():
        partition.assignment = _assignment_without(partition.assignment, dropped)
    led = [partition for partition, dropped in unwanted.items() if partition.leader in dropped]
    if led:
        for partition in led:
            controller.observer.deviates(LEADER_MOVED_FIRST, repr(partition))
        await change_partitions(controller, led, PartitionState.ONLINE, RULE, REMAINING)
    errors: Errors = {}
    if not controller.protocol.has_alter_partition:
        # These leaders write the ISR themselves, until they know the assignment without the
        # replicas. With a new leader epoch they cannot add one after the controller has looked.
        staying = [one for one in unwanted if one.leadership is not None and one not in led]
        errors = await raise_and_send(controller, staying, RULE)
        for partition in errors:
            partition.assignment = before[partition]
    dropping = {one: unwanted[one] for one in unwanted if one not in errors}
    try:
        await _remove_replicas(controller, dropping)
    except ProcedureError as error:
        await keep_assignments(controller, {one: before[one] for one in dropping})
        return errors | dict.fromkeys(dropping, error)
    leaderless = [one for one in dropping if one.leadership is not None and one.leader == NO_LEADER]
    if leaderless:
        # No remaining replica can lead: the partition goes offline and waits, like any other.
        await change_partitions(controller, leaderless, PartitionState.OFFLINE, RULE)
        await change_partitions(controller, leaderless, PartitionState.ONLINE, RULE, OFFLINE)
    return errors


async def keep_assignments(
    controller: Controller, assignments: Mapping[Partition, Assignment]
) -> None:
    """Continue with the assignments that ZooKeeper has, because it refused a write of those that
    would replace them. Replicas that were already stopped or deleted are started again."""
    for partition, assignment in assignments.items():
        partition.assignment = assignment
    await _start_replicas(controller, list(assignments))


def _assignment_without(assignment: Assignment, dropped: tuple[int, ...]) -> Assignment:
    replicas, adding, removing = (
        tuple(one for one in replicas if one not in dropped)
        for replicas in (assignment.replicas, assignment.adding, assignment.removing)
    )
    return Assignment(replicas, adding, removing)


# Phase A ----------------------------------------------------------------------------------------


async def _start_replicas(controller: Controller, partitions: list[Partition]) -> Errors:
    errors = await raise_leader_epochs(controller, partitions)
    await unset_leader_epochs(controller, errors)
    if ADDED_WITHOUT_STATE.applies(controller.configuration):
        stateless = [one for one in partitions if one in errors and one.leadership is None]
        for partition in (one for one in stateless if one.assignment.adding):
            controller.observer.deviates(ADDED_WITHOUT_STATE, repr(partition))
        await _make_new(controller, {one: one.assignment.adding for one in stateless})
    raised = [one for one in partitions if one not in errors]
    if not raised:
        return errors
    batch = controller.new_batch(RULE)
    for partition in raised:
        assignment = partition.assignment
        batch.add_leader_and_isr(assignment.origin, partition, is_new=False)
        batch.add_leader_and_isr(assignment.adding, partition, is_new=True)
    controller.send(batch)
    await _make_new(controller, {one: one.assignment.adding for one in raised})
    return errors


async def _make_new(controller: Controller, added: Mapping[Partition, Iterable[int]]) -> None:
    """Move added replicas to the state New (KB 7.7 A2).

    A replica that was sent a request before has a state: it only needs the new leader epoch.
    """
    new: Replicas = defaultdict(list)
    for partition, brokers in added.items():
        for broker in brokers:
            if partition.replica_states.get(broker) in (None, ReplicaState.NON_EXISTENT):
                new[broker].append(partition)
    for broker in new:
        await change_replicas(controller, {broker: new[broker]}, ReplicaState.NEW, RULE)


# Phase B ----------------------------------------------------------------------------------------


async def _finish(
    controller: Controller, partitions: list[Partition], moving: Collection[Partition]
) -> Errors:
    """`moving`: those that were being reassigned before the assignment that is complete now."""
    if not partitions:
        return {}
    before = {one: one.assignment for one in partitions}
    for partition in partitions:
        if not before[partition].target and not partition.is_listed:
            raise ProcedureError(f"the reassignment of {partition} names no replica")
    added = _by_broker({one: before[one].adding for one in partitions})
    await change_replicas(controller, added, ReplicaState.ONLINE, RULE)
    done = [NewAssignment(one, Assignment(before[one].target)) for one in partitions]
    for partition, assignment, _ in done:
        controller.observer.reassigns(partition, assignment)
        partition.assignment = assignment
        if not controller.context.is_queued(partition):
            partition.check_balance()
    errors = await _move_leaders_if_required(controller, partitions)
    led = [one for one in done if one.partition not in errors]
    removed = {one.partition: before[one.partition].removing for one in led}
    try:
        await _remove_replicas(controller, removed)
    except ProcedureError as error:
        # The next attempt removes them.
        for partition in removed:
            partition.assignment = before[partition]
        return errors | dict.fromkeys(removed, error)
    errors |= await write_assignments(
        controller, [NewAssignment(one.partition, one.partition.assignment) for one in led]
    )
    finished = [one for one in partitions if one not in errors]
    for partition in finished:
        controller.observer.stored(partition)
        _report_completed(controller, partition, before[partition], was_moving=partition in moving)
    await _forget(controller, finished)
    return errors


async def _forget(controller: Controller, partitions: list[Partition]) -> None:
    """Remove all that is left of the reassignments, and send every broker the outcome."""
    if not partitions:
        return
    context = controller.context
    await _remove_requests(controller, partitions)
    await remove_records(controller, partitions)
    for partition in partitions:
        del context.reassigning[partition]
    batch = controller.new_batch(RULE)
    batch.add_update_metadata(context.brokers, partitions)
    controller.send(batch)
    await resume_deletion_for(controller, dict.fromkeys(one.topic.name for one in partitions))


def _report_completed(
    controller: Controller, partition: Partition, before: Assignment, *, was_moving: bool
) -> None:
    """Report the end of a reassignment, also if a request took it back to the originals. A request
    for the replicas that the partition has is no reassignment."""
    record = controller.context.reassignments.get(partition)
    is_taken_back = record is not None and was_moving
    originals = record.original_replicas if record is not None else partition.replicas
    if not (before.is_being_reassigned or is_taken_back or originals != partition.replicas):
        return
    text = (
        f"the reassignment, requested by {current_route(controller, partition)}, is complete: the "
        f"partition is on replicas {format_brokers(partition.replicas)}"
    )
    controller.notice("info", "reassignment_completed", repr(partition), text)


async def _move_leaders_if_required(controller: Controller, partitions: list[Partition]) -> Errors:
    """Elect leaders among TRS, and send followers the final assignment (B3).

    The result of an election is not checked (KB 7.7, B3).
    """
    staying: list[Partition] = []
    moved: list[Partition] = []
    for partition in partitions:
        leader = partition.leader
        is_online = controller.context.is_online(leader, partition)
        (staying if leader in partition.replicas and is_online else moved).append(partition)
    if moved:
        await change_partitions(controller, moved, PartitionState.ONLINE, RULE, REASSIGNMENT)
    return await raise_and_send(controller, staying, RULE)


async def _remove_requests(controller: Controller, partitions: list[Partition]) -> None:
    """Remove the fulfilled entries of the request; an entry with another list stays (KB 7.6.3)."""
    done = {one.key: one.replicas for one in partitions}
    takes_repeated = REQUEST_CHANGES_SEEN.applies(controller.configuration)

    def is_done(name: tuple[str, int], target: tuple[int, ...]) -> bool:
        wanted = tuple(dict.fromkeys(target)) if takes_repeated else target
        return done.get(name) == wanted

    def report(name: tuple[str, int], target: tuple[int, ...]) -> None:
        if target != done[name]:
            controller.observer.deviates(REQUEST_CHANGES_SEEN, "{}-{}".format(*name))

    await remove_entries(controller, is_done, report)


def report_failed(controller: Controller, errors: Errors) -> None:
    """Report the reassignments that failed half way, each with its error."""
    for partition, error in errors.items():
        report_error(controller, "reassignment_failed", repr(partition), error)
