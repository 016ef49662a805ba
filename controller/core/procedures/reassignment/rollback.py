"""Rollback: partitions return to their original replicas (KB 14.2.2, steps 1 to 7).

OAR are a partition's originals, RAR - OAR its other replicas, which the text of the document calls
OAR - RAR (KIP-236 C-14). All partitions take a step together, then the next one.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import Final

from controller.core import znodes
from controller.core.commands import Choice, Reason
from controller.core.controller import Controller
from controller.core.election import (
    OFFLINE,
    ROLLBACK,
    Candidate,
    Elected,
    Strategy,
    Unclean,
    all_replicas,
    rollback_leader,
    why_rollback_waits,
)
from controller.core.errors import ProcedureError
from controller.core.failures import Failures, listed
from controller.core.operations import NO_NODE, OK, SetData, WriteOperation
from controller.core.procedures.dynamic_configuration import read_min_insync_replicas
from controller.core.procedures.elections.leadership import read_states
from controller.core.procedures.elections.partition_state_machine import change_partitions
from controller.core.procedures.elections.replica_state_machine import Replicas, change_replicas
from controller.core.procedures.reassignment.reassign_partitions_znode import remove_entries
from controller.core.procedures.reassignment.records import holder, remove_records
from controller.core.procedures.reassignment.replica_deletion import (
    delete_replicas,
    store_deletions,
)
from controller.core.procedures.topics.deletion import mark_ineligible, resume_deletion_for
from controller.core.procedures.topics.topics import topic_content
from controller.core.state import ControllerContext, Partition
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.values import ANY_VERSION, NO_LEADER, Assignment
from controller.core.zookeeper_io import read_znodes, write

_RULE: Final = "rollback"
STORE_ORIGINALS: Final = "rollback: store the originals"
_WAITS: Final = "rollback_waits"


class Rollback:
    """The partitions of one rollback, with the assignment that each had before.

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
        """The partitions whose rollback proceeds."""
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
        """Restore the assignment of a partition that cannot be rolled back now."""
        partition.assignment = self.before[partition]
        del self.originals[partition]


Step = Callable[[Controller, Rollback], Awaitable[None]]


async def roll_back(
    controller: Controller, originals: dict[Partition, tuple[int, ...]], cause: str
) -> list[Partition]:
    """Roll partitions back to their originals; returns those that are rolled back. `cause`: what
    cancels their reassignments.

    A partition with too few originals in sync waits, which is reported.
    """
    context = controller.context
    moving = [one for one in originals if one.assignment != Assignment(originals[one])]
    resting = [one for one in originals if one not in moving]
    needed = await _needed(controller, moving, originals)
    possible = await _without_waiting(controller, moving, originals, needed)
    if resting:
        _report(controller, 6, "nothing of it is under way", resting)
        await _forget(controller, resting)
    rollback = Rollback(possible, needed)
    routes = {one: holder(controller, one) for one in possible}
    mark_ineligible(context, dict.fromkeys(one.topic.name for one in possible))
    for step in STEPS:
        if rollback.originals:
            await step(controller, rollback)
    _report_rolled_back(controller, rollback, routes, cause)
    done = [*resting, *rollback.partitions]
    for partition in done:
        context.rollback_waiting.pop(partition, None)
    await resume_deletion_for(controller, dict.fromkeys(one.topic.name for one in done))
    return done


def _report(controller: Controller, step: int, what: str, partitions: list[Partition]) -> None:
    """Report a step, before it is taken."""
    controller.notice(
        "info", "rollback", listed(partitions), f"step {step} of {len(STEPS)}: {what}"
    )


def _report_rolled_back(
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
    """How many originals must be in sync: min.insync.replicas, at most all; one if the operator
    forces the rollback."""
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
    """The partitions that can be rolled back now. A partition without any state has nothing to
    lose."""
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
        elif why := why_rollback_waits(
            controller.context, partition, originals[partition], needed[partition], state
        ):
            failures.add(partition, why)
            del possible[partition]
    failures.report()
    return possible


async def _watch_states(controller: Controller, partitions: list[Partition]) -> None:
    """Below IBP 2.7-IV2 leaders write the ISR themselves, which a rollback may wait for."""
    if not controller.protocol.has_alter_partition:
        paths = [znodes.state_path(*one.key) for one in partitions]
        await read_znodes(controller, paths, _RULE, watch=True)


# The seven steps --------------------------------------------------------------------------------


async def _take_originals(controller: Controller, rollback: Rollback) -> None:
    _report(controller, 1, "AR is OAR in memory", rollback.partitions)
    for partition, originals in rollback.originals.items():
        controller.observer.reassigns(partition, Assignment(originals))
        partition.assignment = Assignment(originals)


async def _lead_by_originals(controller: Controller, rollback: Rollback) -> None:
    """Steps 2 and 3 in one write and one batch of requests. Between them, replicas outside of the
    originals would be in the ISR and fenced, and producers with acks=all would wait."""
    _report(controller, 2, "a leader in OAR, the ISR without RAR - OAR", rollback.partitions)
    led = [one for one in rollback.partitions if one.leadership is not None]
    why_not: dict[Partition, str] = {}

    def choose(context: ControllerContext, candidate: Candidate) -> Elected:
        partition = candidate.partition
        elected, why_not[partition] = rollback_leader(context, candidate, needed[partition])
        if elected.leader != NO_LEADER:
            del why_not[partition]
        return elected

    needed = rollback.needed
    strategy = Strategy(
        ROLLBACK,
        OFFLINE.kafka_name,
        choose,
        all_replicas,
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
    failures.report()


async def _take_offline(controller: Controller, rollback: Rollback) -> None:
    _report(controller, 3, "RAR - OAR offline", rollback.partitions)
    await change_replicas(
        controller, rollback.dropped(), ReplicaState.OFFLINE, _RULE, notifies_unchanged=False
    )


async def _delete_replicas(controller: Controller, rollback: Rollback) -> None:
    _report(controller, 4, "RAR - OAR deleted", rollback.partitions)
    await delete_replicas(controller, rollback.dropped(), _RULE)
    await store_deletions(controller)


async def _store_originals(controller: Controller, rollback: Rollback) -> None:
    _report(controller, 5, "AR is OAR in ZooKeeper", rollback.partitions)
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
    writes = await write(controller, sets, Reason(STORE_ORIGINALS, choices))
    for operation, error in zip(sets, writes.errors, strict=True):
        if error not in (OK, NO_NODE):
            raise ProcedureError(f"{operation.path} cannot be written (ZooKeeper code {error})")
    for partition in rollback.partitions:
        controller.observer.stored(partition)


async def _remove_from_znodes(controller: Controller, rollback: Rollback) -> None:
    _report(controller, 6, f"out of {znodes.REASSIGN_PARTITIONS}", rollback.partitions)
    await _forget(controller, rollback.partitions)


async def _forget(controller: Controller, partitions: list[Partition]) -> None:
    names = {one.key for one in partitions}
    await remove_entries(controller, lambda name, target: name in names)
    await remove_records(controller, partitions)
    for partition in partitions:
        controller.context.reassigning.pop(partition, None)


async def _report_everybody(controller: Controller, rollback: Rollback) -> None:
    _report(controller, 7, "every broker is told", rollback.partitions)
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
    _report_everybody,
)
"""In the document's order, one after the other, each for all partitions."""
