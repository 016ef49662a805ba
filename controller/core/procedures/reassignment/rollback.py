"""Cancelling: partitions go back to the replicas that they had (KB 14.2.2, steps 1 to 7).

OAR are a partition's originals, RAR - OAR the other replicas that it has: what the text of the
document calls OAR - RAR (KIP-236 C-14). All partitions take a step together, then the next one.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from controller.core import znodes
from controller.core.commands import Choice, Reason
from controller.core.controller import Controller
from controller.core.election import Elected, offline_partition_leader
from controller.core.errors import ProcedureError
from controller.core.operations import NO_NODE, OK, SetData, WriteOperation
from controller.core.partition_states import PartitionState
from controller.core.procedures.elections.leadership import (
    OFFLINE,
    Candidate,
    Strategy,
    Unclean,
    online_test,
    read_states,
)
from controller.core.procedures.elections.min_insync_replicas import read_min_insync_replicas
from controller.core.procedures.elections.partition_changes import change_partitions
from controller.core.procedures.elections.replica_changes import Replicas, change_replicas
from controller.core.procedures.failures import Failures, some
from controller.core.procedures.reassignment.reassign_partitions_znode import remove_entries
from controller.core.procedures.reassignment.records import holder, remove_records
from controller.core.procedures.reassignment.replica_deletion import (
    delete_replicas,
    store_deletions,
)
from controller.core.procedures.topics.deletion import mark_ineligible, resume_deletion_for
from controller.core.procedures.topics.topics import topic_content
from controller.core.replica_states import ReplicaState
from controller.core.state import ControllerContext, Partition
from controller.core.values import ANY_VERSION, NO_LEADER, Assignment, LeaderAndIsr
from controller.core.zookeeper_io import read_znodes, write

_RULE: Final = "rollback"
_WAITS: Final = "rollback_waits"
_NOBODY: Final = (
    "none of its original replicas {originals} is live and in sync: its rollback waits until one "
    "is, its leader stays"
)
_TOO_FEW: Final = (
    "of its original replicas {originals} only {in_sync} are live and in sync and {needed} are "
    "needed: its rollback waits, its other replicas stay; `refold reassign --cancel --force` does "
    "not wait"
)


class Rollback:
    """What goes back in one go, and the assignment and ISR that each had before.

    `needed`: how many originals have to be live and in sync before another replica that is in sync
    is removed.
    """

    def __init__(
        self, originals: dict[Partition, tuple[int, ...]], needed: dict[Partition, int]
    ) -> None:
        self.originals = originals
        self.needed = needed
        self.before = {one: one.assignment for one in originals}

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
    controller: Controller, originals: dict[Partition, tuple[int, ...]], cause: str
) -> list[Partition]:
    """Take partitions back to their originals; gives those that are there now. `cause`: what
    cancels their reassignments.

    Where too few originals are in sync the partition waits, and the log says so.
    """
    context = controller.context
    moving = [one for one in originals if one.assignment != Assignment(originals[one])]
    resting = [one for one in originals if one not in moving]
    needed = await _needed(controller, moving, originals)
    possible = await _without_waiting(controller, moving, originals, needed)
    if resting:
        _tell(controller, 6, "nothing of it is under way", resting)
        await _forget(controller, resting)
    rollback = Rollback(possible, needed)
    routes = {one: holder(controller, one) for one in possible}
    mark_ineligible(context, dict.fromkeys(one.topic.name for one in possible))
    for step in STEPS:
        if rollback.originals:
            await step(controller, rollback)
    _tell_rolled_back(controller, rollback, routes, cause)
    done = [*resting, *rollback.partitions]
    for partition in done:
        context.rollback_waiting.pop(partition, None)
    await resume_deletion_for(controller, dict.fromkeys(one.topic.name for one in done))
    return done


def _tell(controller: Controller, step: int, what: str, partitions: list[Partition]) -> None:
    """A step, before it is taken."""
    controller.notice("info", "rollback", some(partitions), f"step {step} of {len(STEPS)}: {what}")


def _tell_rolled_back(
    controller: Controller, rollback: Rollback, routes: dict[Partition, str], cause: str
) -> None:
    for partition, originals in rollback.originals.items():
        target = list(rollback.before[partition].target)
        text = (
            f"it is on {list(originals)} again; its move to {target}, asked for by "
            f"{routes[partition]}, was cancelled by {cause}"
        )
        controller.notice("info", "reassignment_rolled_back", repr(partition), text)


# Who has to wait --------------------------------------------------------------------------------


async def _needed(
    controller: Controller,
    partitions: list[Partition],
    originals: dict[Partition, tuple[int, ...]],
) -> dict[Partition, int]:
    """How many originals must be in sync: min.insync.replicas of them, or all; one if the operator
    forces it."""
    if controller.context.cancel_forced:
        return dict.fromkeys(partitions, 1)
    topics = [one.topic.name for one in partitions]
    least = await read_min_insync_replicas(controller, topics, _RULE)
    return {one: min(least[one.topic.name], len(originals[one])) for one in partitions}


async def _without_waiting(
    controller: Controller,
    moving: list[Partition],
    originals: dict[Partition, tuple[int, ...]],
    needed: dict[Partition, int],
) -> dict[Partition, tuple[int, ...]]:
    """Those that can go back now. A partition without any state has nothing to lose."""
    await _watch_states(controller, moving)
    stateless: list[Partition] = []
    unreadable = Failures(controller, _WAITS)
    states = dict(await read_states(controller, moving, _RULE, unreadable, stateless))
    failures = Failures(controller, _WAITS, controller.context.rollback_waiting)
    possible = {one: originals[one] for one in moving}
    for partition in moving:
        state = states.get(partition)
        if state is None:
            if partition not in stateless or partition.leadership is not None:
                failures.add(partition, "its state cannot be read: its rollback waits")
                del possible[partition]
        elif why := _why_wait(
            controller.context, partition, originals[partition], needed[partition], state
        ):
            failures.add(partition, why)
            del possible[partition]
    failures.tell()
    return possible


async def _watch_states(controller: Controller, partitions: list[Partition]) -> None:
    """Below IBP 2.7-IV2 leaders write the ISR themselves, on which a rollback may wait."""
    if not controller.protocol.has_alter_partition:
        paths = [znodes.state_path(*one.key) for one in partitions]
        await read_znodes(controller, paths, _RULE, watch=True)


def _why_wait(
    context: ControllerContext,
    partition: Partition,
    originals: tuple[int, ...],
    needed: int,
    state: LeaderAndIsr,
) -> str:
    """Why other replicas than the originals have to stay; empty: they can go.

    What is in sync is not removed before enough originals are
    (docs/kip-236-design.md#when-a-rollback-waits). Where nobody in sync is live the election
    decides: the topic may allow an unclean leader.
    """
    is_online = online_test(context, partition)
    if all(one in originals for one in state.isr):
        return ""
    in_sync = [one for one in originals if one in state.isr and is_online(one)]
    if len(in_sync) >= max(needed, 1):
        return ""
    if any(map(is_online, originals)) and not any(map(is_online, state.isr)):
        return ""
    why = _TOO_FEW if in_sync else _NOBODY
    return why.format(originals=list(originals), in_sync=in_sync, needed=needed)


# The seven steps --------------------------------------------------------------------------------


async def _take_originals(controller: Controller, rollback: Rollback) -> None:
    _tell(controller, 1, "AR is OAR in memory", rollback.partitions)
    for partition, originals in rollback.originals.items():
        controller.follower.reassigns(partition, Assignment(originals))
        partition.assignment = Assignment(originals)


async def _lead_by_originals(controller: Controller, rollback: Rollback) -> None:
    """Steps 2 and 3 in one write and one batch of requests: between two of them replicas outside
    of the originals would be in the ISR and fenced, and producers with acks=all would wait."""
    _tell(controller, 2, "a leader in OAR, the ISR without RAR - OAR", rollback.partitions)
    led = [one for one in rollback.partitions if one.leadership is not None]
    why_not: dict[Partition, str] = {}
    strategy = Strategy(
        "rollback: leader among the originals",
        OFFLINE.kafka_name,
        partial(_choose, rollback.needed, why_not),
        _originals,
        Unclean.AS_CONFIGURED,
        is_rollback=True,
    )
    results = await change_partitions(controller, led, PartitionState.ONLINE, _RULE, strategy)
    failures = Failures(controller, _WAITS, controller.context.rollback_waiting)
    for partition in led:
        if results.get(partition) is not None:
            continue
        why = why_not.get(partition, "its state cannot be read or written: its rollback waits")
        if why:
            failures.add(partition, why)
            rollback.leave(partition)
    failures.tell()


def _choose(
    needed: dict[Partition, int],
    why_not: dict[Partition, str],
    context: ControllerContext,
    candidate: Candidate,
) -> Elected:
    """The leader stays if it is an original, else another original is elected; the ISR keeps its
    originals.

    What is in ZooKeeper may have changed: whether the partition has to wait is asked again. If it
    gets no leader, `why_not` says why it has to wait; empty: it goes back without a leader.
    """
    partition, current = candidate.partition, candidate.current
    originals = partition.replicas
    why_not[partition] = _why_wait(context, partition, originals, needed[partition], current)
    if why_not[partition]:
        lagging = [one for one in originals if one not in current.isr]
        passed_over = tuple((one, "not in sync") for one in lagging)
        return Elected(NO_LEADER, current.isr, passed_over=passed_over)
    is_online = online_test(context, partition)
    in_sync = tuple(one for one in current.isr if one in originals)
    if current.leader in in_sync and is_online(current.leader):
        del why_not[partition]
        return Elected(current.leader, in_sync)
    elected = offline_partition_leader(originals, in_sync, is_online, candidate.allow_unclean)
    if elected.leader != NO_LEADER:
        del why_not[partition]
    elif in_sync != current.isr:
        why_not[partition] = _NOBODY.format(originals=list(originals))
    return elected if elected.unclean else elected._replace(isr=in_sync)


def _originals(context: ControllerContext, partition: Partition) -> tuple[int, ...]:
    return partition.replicas


async def _take_offline(controller: Controller, rollback: Rollback) -> None:
    _tell(controller, 3, "RAR - OAR offline", rollback.partitions)
    await change_replicas(
        controller, rollback.dropped(), ReplicaState.OFFLINE, _RULE, tells_unchanged=False
    )


async def _delete_replicas(controller: Controller, rollback: Rollback) -> None:
    _tell(controller, 4, "RAR - OAR deleted", rollback.partitions)
    await delete_replicas(controller, rollback.dropped(), _RULE)
    await store_deletions(controller)


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
        Choice(
            *one.key,
            one.leader,
            f"replicas={','.join(map(str, one.replicas))}",
        )
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
