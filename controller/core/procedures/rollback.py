"""Cancelling: partitions go back to the replicas that they had (seed 000, steps 1 to 7; KB 14.2).

OAR are a partition's originals, RAR - OAR the other replicas that it has: what the text of the
document calls OAR - RAR (kip-236.md). All partitions take a step together, then the next one.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Final

from controller.core import znodes
from controller.core.commands import CancelTimer, Choice, Reason, StartTimer, StopReplicaRequest
from controller.core.controller import Controller
from controller.core.election import Elected, offline_partition_leader
from controller.core.errors import ProcedureError
from controller.core.operations import BAD_VERSION, NO_NODE, OK, SetData, WriteOperation
from controller.core.outcomes import Answers, Wait, suspend
from controller.core.partition_states import PartitionState
from controller.core.procedures.deletion import mark_ineligible, resume_deletion_for
from controller.core.procedures.failures import Failures, some
from controller.core.procedures.leadership import (
    OFFLINE,
    Candidate,
    Strategy,
    Unclean,
    online_test,
    read_states,
    write_states,
)
from controller.core.procedures.partition_changes import change_partitions
from controller.core.procedures.reassignment_records import remove_records
from controller.core.procedures.reassignment_znode import remove_entries
from controller.core.procedures.replica_changes import Replicas, change_replicas
from controller.core.procedures.topics import topic_content
from controller.core.replica_states import ReplicaState
from controller.core.settle import read_znodes, write
from controller.core.state import ControllerContext, Partition
from controller.core.values import ANY_VERSION, NO_LEADER, Assignment, LeaderAndIsr

_RULE: Final = "rollback"
_TIMER: Final = "rollback: replicas that are deleted"
_DELETED_MS_MAX: Final = 2_000
_EPOCH: Final = "rollback: raise the leader epoch"
_FOLLOWERS: Final = "rollback: followers go on under the new leader epoch"
_WAITS: Final = "rollback_waits"
_NOBODY: Final = (
    "none of its original replicas {} is live and in sync: its rollback waits until one is, its "
    "leader stays"
)


class Rollback:
    """What goes back in one go, and the assignment and ISR that each had before."""

    def __init__(self, originals: dict[Partition, tuple[int, ...]]) -> None:
        self.originals = originals
        self.before = {one: one.assignment for one in originals}
        self.isr = {one: one.leadership.isr if one.leadership else () for one in originals}

    @property
    def partitions(self) -> list[Partition]:
        """Those that are still on their way."""
        return list(self.originals)

    def dropped(self) -> Replicas:
        """RAR - OAR, by broker."""
        replicas: Replicas = defaultdict(list)
        for partition, originals in self.originals.items():
            for broker in self.before[partition].replicas:
                if broker not in originals:
                    replicas[broker].append(partition)
        return replicas

    def leave(self, partition: Partition) -> None:
        """It cannot go back now: it has what it had."""
        partition.assignment = self.before[partition]
        del self.originals[partition]


Step = Callable[[Controller, Rollback], Awaitable[None]]


async def roll_back(
    controller: Controller, originals: dict[Partition, tuple[int, ...]]
) -> list[Partition]:
    """Take partitions back to their originals; gives those that are there now.

    Where only an unclean leader could be elected the partition waits, and the operator is told.
    """
    context = controller.context
    possible = await _without_waiting(controller, originals)
    moving = {one: possible[one] for one in possible if one.assignment != Assignment(possible[one])}
    resting = [one for one in possible if one not in moving]
    if resting:
        _tell(controller, 6, "nothing of it is under way", resting)
        await _forget(controller, resting)
    rollback = Rollback(moving)
    mark_ineligible(context, dict.fromkeys(one.topic.name for one in moving))
    for step in STEPS:
        if rollback.originals:
            await step(controller, rollback)
    done = [*resting, *rollback.partitions]
    for partition in done:
        context.rollback_waiting.pop(partition, None)
    await resume_deletion_for(controller, dict.fromkeys(one.topic.name for one in done))
    return done


def _tell(controller: Controller, step: int, what: str, partitions: list[Partition]) -> None:
    """A step, before it is taken."""
    controller.notice("info", "rollback", some(partitions), f"step {step} of {len(STEPS)}: {what}")


# Who has to wait --------------------------------------------------------------------------------


async def _without_waiting(
    controller: Controller, originals: dict[Partition, tuple[int, ...]]
) -> dict[Partition, tuple[int, ...]]:
    """Those that can go back now. A partition without any state has nothing to lose."""
    moving = [one for one in originals if one.assignment != Assignment(originals[one])]
    await _watch_states(controller, moving)
    stateless: list[Partition] = []
    unreadable = Failures(controller, _WAITS)
    states = dict(await read_states(controller, moving, _RULE, unreadable, stateless))
    failures = Failures(controller, _WAITS, controller.context.rollback_waiting)
    possible = dict(originals)
    for partition in moving:
        state = states.get(partition)
        if state is None:
            if partition not in stateless or partition.leadership is not None:
                failures.add(partition, "its state cannot be read: its rollback waits")
                del possible[partition]
        elif not _can_go_back(controller, partition, originals[partition], state):
            failures.add(partition, _NOBODY.format(list(originals[partition])))
            del possible[partition]
    failures.tell()
    return possible


async def _watch_states(controller: Controller, partitions: list[Partition]) -> None:
    """Below IBP 2.7-IV2 leaders write the ISR themselves, on which a rollback may wait."""
    if not controller.protocol.has_alter_partition:
        paths = [znodes.state_path(*one.key) for one in partitions]
        await read_znodes(controller, paths, _RULE, watch=True)


def _can_go_back(
    controller: Controller, partition: Partition, originals: tuple[int, ...], state: LeaderAndIsr
) -> bool:
    """Whether no record is lost: a live original is in sync, or no other replica is.

    Where nobody in sync is live the election decides: the topic may allow an unclean leader.
    """
    is_online = online_test(controller.context, partition)
    if any(one in originals and is_online(one) for one in state.isr):
        return True
    if all(one in originals for one in state.isr):
        return True
    return any(map(is_online, originals)) and not any(map(is_online, state.isr))


# The seven steps --------------------------------------------------------------------------------


async def _take_originals(controller: Controller, rollback: Rollback) -> None:
    _tell(controller, 1, "AR is OAR in memory", rollback.partitions)
    for partition, originals in rollback.originals.items():
        controller.follower.reassigns(partition, Assignment(originals))
        partition.assignment = Assignment(originals)


async def _lead_by_originals(controller: Controller, rollback: Rollback) -> None:
    _tell(controller, 2, "a leader in OAR, a new leader epoch", rollback.partitions)
    context = controller.context
    staying: list[Partition] = []
    elected: list[Partition] = []
    for partition in rollback.partitions:
        state = partition.leadership
        if state is None:
            continue
        is_staying = state.leader in partition.replicas
        online = is_staying and context.is_online(state.leader, partition)
        (staying if online else elected).append(partition)
    await _raise_epochs(controller, rollback, staying)
    await change_partitions(controller, elected, PartitionState.ONLINE, _RULE, _AMONG_ORIGINALS)
    failures = Failures(controller, _WAITS, context.rollback_waiting)
    for partition in elected:
        state = partition.leadership
        is_safe = state is None or all(one in partition.replicas for one in state.isr)
        if not is_safe and _leader(partition) not in partition.replicas:
            failures.add(partition, _NOBODY.format(list(partition.replicas)))
            rollback.leave(partition)
        elif state is not None and _leader(partition) not in (NO_LEADER, *rollback.isr[partition]):
            text = f"{state.leader} leads though it was not in sync: records may be lost"
            controller.notice("warning", "unclean_leader", repr(partition), text)
    failures.tell()


def _leader(partition: Partition) -> int:
    return partition.leadership.leader if partition.leadership is not None else NO_LEADER


def _choose(context: ControllerContext, candidate: Candidate) -> Elected:
    partition, current = candidate.partition, candidate.current
    elected = offline_partition_leader(
        partition.replicas, current.isr, online_test(context, partition), candidate.allow_unclean
    )
    # Step 3 takes the others out of the ISR.
    return elected if elected.unclean else elected._replace(isr=current.isr)


def _originals(context: ControllerContext, partition: Partition) -> tuple[int, ...]:
    return partition.replicas


_AMONG_ORIGINALS: Final = Strategy(
    "rollback: leader among the originals",
    OFFLINE.kafka_name,
    _choose,
    _originals,
    Unclean.AS_CONFIGURED,
)


async def _raise_epochs(
    controller: Controller, rollback: Rollback, partitions: list[Partition]
) -> None:
    """The same leaders under new leader epochs, told to all of OAR."""
    failures = Failures(controller, _WAITS, controller.context.rollback_waiting)
    batch = controller.new_batch(_RULE)
    remaining = partitions
    while remaining:
        states = await read_states(controller, remaining, _EPOCH, failures)
        raised = [(one, _raised(state, controller.context.epoch)) for one, state in states]
        choices = tuple(Choice(*one.key, state.leader, "leads on") for one, state in raised)
        read = dict.fromkeys(one for one, _ in states)
        for partition in remaining:
            if partition not in read:
                rollback.leave(partition)
        remaining = []
        for partition, written, error in await write_states(
            controller, raised, Reason(_EPOCH, choices)
        ):
            if error == OK:
                partition.leadership = written
                batch.add_leader_and_isr(partition.replicas, partition, is_new=False)
            elif error == BAD_VERSION:
                remaining.append(partition)
            else:
                failures.add(partition, f"its state cannot be written (ZooKeeper code {error})")
                rollback.leave(partition)
    failures.tell()
    controller.send(batch)


def _raised(state: LeaderAndIsr, controller_epoch: int) -> LeaderAndIsr:
    return LeaderAndIsr(
        state.leader,
        state.leader_epoch + 1,
        state.isr,
        state.partition_epoch,
        controller_epoch,
        state.recovery_state,
    )


async def _take_offline(controller: Controller, rollback: Rollback) -> None:
    _tell(controller, 3, "RAR - OAR offline, out of the ISR", rollback.partitions)
    before = {one: one.leadership for one in rollback.partitions}
    await change_replicas(
        controller, rollback.dropped(), ReplicaState.OFFLINE, _RULE, tells_leader_only=True
    )
    shrunk = [one for one in rollback.partitions if one.leadership != before[one]]
    _tell_followers(controller, shrunk)


def _tell_followers(controller: Controller, partitions: list[Partition]) -> None:
    """The document tells the leader only. Since then brokers fence followers of an older leader
    epoch (KIP-320), and these stop to fetch until they are told of the new one."""
    batch = controller.new_batch(_FOLLOWERS)
    for partition in partitions:
        followers = [one for one in partition.replicas if one != _leader(partition)]
        batch.add_leader_and_isr(followers, partition, is_new=False)
    controller.send(batch)


async def _delete_replicas(controller: Controller, rollback: Rollback) -> None:
    _tell(controller, 4, "RAR - OAR deleted", rollback.partitions)
    for state in (
        ReplicaState.DELETION_STARTED,
        ReplicaState.DELETION_SUCCESSFUL,
        ReplicaState.NON_EXISTENT,
    ):
        await change_replicas(controller, rollback.dropped(), state, _RULE)
    await _hear_of_deletion(controller, rollback)


async def _hear_of_deletion(controller: Controller, rollback: Rollback) -> None:
    """Wait a moment until brokers have answered: what comes next is stored, and if this controller
    ends then, nobody knows any more that replicas are to be deleted."""
    names = {one.key for one in rollback.partitions}
    asked = [
        id
        for id, request in controller.context.in_flight.items()
        if isinstance(request, StopReplicaRequest)
        and any((one.topic, one.partition) in names for one in request.partitions)
    ]
    if not asked:
        return
    controller.issue(StartTimer(_TIMER, _DELETED_MS_MAX), Reason(_TIMER))
    await suspend(Wait(None, Answers(asked, _TIMER)))
    controller.issue(CancelTimer(_TIMER), Reason(_TIMER))


async def _store_originals(controller: Controller, rollback: Rollback) -> None:
    _tell(controller, 5, "AR is OAR in ZooKeeper", rollback.partitions)
    topics = dict.fromkeys(one.topic for one in rollback.partitions)
    sets: list[WriteOperation] = [
        SetData(
            znodes.topic_path(one.name),
            znodes.write_topic(topic_content(controller.context, one)),
            ANY_VERSION,
        )
        for one in topics
    ]
    choices = tuple(
        Choice(*one.key, _leader(one), f"replicas={','.join(map(str, one.replicas))}")
        for one in rollback.partitions
    )
    writes = await write(controller, sets, Reason("rollback: store the originals", choices))
    for operation, error in zip(sets, writes.errors, strict=True):
        if error not in (OK, NO_NODE):
            raise ProcedureError(f"{operation.path} cannot be written (ZooKeeper code {error})")
    for partition in rollback.partitions:
        controller.follower.stored(partition)


async def _remove_from_znodes(controller: Controller, rollback: Rollback) -> None:
    _tell(controller, 6, f"out of {znodes.REASSIGN_PARTITIONS}", rollback.partitions)
    await _forget(controller, rollback.partitions)


async def _forget(controller: Controller, partitions: list[Partition]) -> None:
    names = {one.key for one in partitions}
    await remove_entries(controller, lambda name, target: name in names)
    await remove_records(controller, partitions)
    for partition in partitions:
        controller.context.reassigning.pop(partition, None)


async def _tell_everybody(controller: Controller, rollback: Rollback) -> None:
    _tell(controller, 7, "every broker is told", rollback.partitions)
    batch = controller.new_batch(_RULE)
    batch.add_update_metadata(controller.context.brokers, rollback.partitions)
    controller.send(batch)


STEPS: Final[tuple[Step, ...]] = (
    _take_originals,
    _lead_by_originals,
    _take_offline,
    _delete_replicas,
    _store_originals,
    _remove_from_znodes,
    _tell_everybody,
)
"""In the document's order; one after the other, each for all partitions."""
