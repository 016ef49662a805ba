"""Cancelling: partitions go back to the replicas that they had (KB 14.2.2, steps 1 to 7).

OAR are a partition's originals, RAR - OAR the other replicas that it has: what the text of the
document calls OAR - RAR (KIP-236 C-14). All partitions take a step together, then the next one.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, NamedTuple

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
    with_unclean_permission,
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
from controller.core.values import ANY_VERSION, NO_LEADER, Assignment
from controller.core.zookeeper_io import read_znodes, write

_RULE: Final = "rollback"
WAITS: Final = "rollback_waits"


class Cause(NamedTuple):
    """What cancels reassignments.

    Of a partition that cannot go back now the log has a line with the code `code`: what happens
    `meanwhile`, and the `remedy` for an operator who does not want to wait for more originals.
    `told` has what was logged of each partition.
    """

    name: str
    code: str
    meanwhile: str
    remedy: str
    told: dict[Partition, str]


class Rollback:
    """What goes back in one go, and the assignment and ISR that each had before.

    `needed`: how many originals have to be live and in sync before the other replicas are removed.
    """

    def __init__(
        self,
        originals: dict[Partition, tuple[int, ...]],
        needed: dict[Partition, int],
        cause: Cause,
    ) -> None:
        self.originals = originals
        self.needed = needed
        self.cause = cause
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
    controller: Controller, originals: dict[Partition, tuple[int, ...]], cause: Cause
) -> list[Partition]:
    """Take partitions back to their originals; gives those that are there now.

    Where too few originals are in sync the partition stays as it is, and the log says so.
    """
    context = controller.context
    moving = [one for one in originals if one.assignment != Assignment(originals[one])]
    resting = [one for one in originals if one not in moving]
    needed = await _needed(controller, moving, originals)
    rollback = Rollback({one: originals[one] for one in moving}, needed, cause)
    await _leave_those_that_wait(controller, rollback)
    if resting:
        _tell(controller, 6, "nothing of it is under way", resting)
        await _forget(controller, resting)
    routes = {one: holder(controller, one) for one in rollback.partitions}
    mark_ineligible(context, dict.fromkeys(one.topic.name for one in rollback.partitions))
    for step in STEPS:
        if rollback.originals:
            await step(controller, rollback)
    _tell_rolled_back(controller, rollback, routes)
    done = [*resting, *rollback.partitions]
    for partition in done:
        context.rollback_waiting.pop(partition, None)
    await resume_deletion_for(controller, dict.fromkeys(one.topic.name for one in done))
    return done


def _tell(controller: Controller, step: int, what: str, partitions: list[Partition]) -> None:
    """A step, before it is taken."""
    controller.notice("info", "rollback", some(partitions), f"step {step} of {len(STEPS)}: {what}")


def _tell_rolled_back(
    controller: Controller, rollback: Rollback, routes: dict[Partition, str]
) -> None:
    for partition, originals in rollback.originals.items():
        target = list(rollback.before[partition].target)
        text = (
            f"it is on {list(originals)} again; its move to {target}, asked for by "
            f"{routes[partition]}, was cancelled by {rollback.cause.name}"
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
    return {one: max(min(least[one.topic.name], len(originals[one])), 1) for one in partitions}


async def _leave_those_that_wait(controller: Controller, rollback: Rollback) -> None:
    """Before the first step. A partition without any state has nothing to lose."""
    moving, cause = rollback.partitions, rollback.cause
    await _watch_states(controller, moving)
    stateless: list[Partition] = []
    unreadable = Failures(controller, cause.code)
    states = await read_states(controller, moving, _RULE, unreadable, stateless)
    permitted = await with_unclean_permission(controller, states, OFFLINE, unreadable)
    candidates = {one.partition: one for one in permitted}
    failures = Failures(controller, cause.code, cause.told)
    for partition in moving:
        candidate = candidates.get(partition)
        if candidate is None:
            if partition not in stateless or partition.leadership is not None:
                failures.add(partition, f"its state cannot be read: {cause.meanwhile}")
                rollback.leave(partition)
        elif why := _why_wait(controller.context, candidate, rollback):
            failures.add(partition, why)
            rollback.leave(partition)
    failures.tell()


async def _watch_states(controller: Controller, partitions: list[Partition]) -> None:
    """Below IBP 2.7-IV2 leaders write the ISR themselves, on which a rollback may wait."""
    if not controller.protocol.has_alter_partition:
        paths = [znodes.state_path(*one.key) for one in partitions]
        await read_znodes(controller, paths, _RULE, watch=True)


def _why_wait(
    context: ControllerContext,
    candidate: Candidate,
    rollback: Rollback,
) -> str:
    """Why replicas outside of the originals have to stay; empty: they can go.

    Those that are in sync, or live and catch up, stay until enough originals are in sync
    (docs/kip-236-design.md#when-a-rollback-waits). Without a live replica in sync nobody catches
    up; if one of the others was in sync, an original has to become an unclean leader.
    """
    partition, isr = candidate.partition, candidate.current.isr
    originals, needed = rollback.originals[partition], rollback.needed[partition]
    cause = rollback.cause
    is_online = online_test(context, partition)
    in_sync = [one for one in originals if one in isr and is_online(one)]
    if len(in_sync) >= needed:
        return ""
    others = [one for one in rollback.before[partition].replicas if one not in originals]
    if any(map(is_online, isr)):
        is_needed = any(one in isr or is_online(one) for one in others)
    else:
        may_lead = candidate.allow_unclean and any(map(is_online, originals))
        is_needed = any(one in isr for one in others) and not may_lead
    if not is_needed:
        return ""
    if in_sync:
        return (
            f"of its original replicas {list(originals)} only {in_sync} are live and in sync and "
            f"{needed} are needed: {cause.meanwhile}; {cause.remedy}"
        )
    return (
        f"none of its original replicas {list(originals)} is live and in sync, {needed} must be: "
        f"{cause.meanwhile}"
    )


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
        partial(_choose, rollback, why_not),
        _originals,
        Unclean.AS_CONFIGURED,
        is_rollback=True,
    )
    results = await change_partitions(controller, led, PartitionState.ONLINE, _RULE, strategy)
    cause = rollback.cause
    failures = Failures(controller, cause.code, cause.told)
    for partition in led:
        if results.get(partition) is not None:
            continue
        why = why_not.get(partition, f"its state cannot be read or written: {cause.meanwhile}")
        if why:
            failures.add(partition, why)
            rollback.leave(partition)
    failures.tell()


def _choose(
    rollback: Rollback,
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
    why_not[partition] = _why_wait(context, candidate, rollback)
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
