"""Rollback: partitions return to their original replicas (KB 14.2.2, steps 1 to 7).

OAR are a partition's originals, RAR - OAR its other replicas, which the text of the document calls
OAR - RAR (KIP-236 C-14). All partitions take a step together, then the next one.
"""

from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.commands import Choice, Reason
from controller.core.controller import Controller
from controller.core.election import (
    OFFLINE,
    ROLLBACK,
    Elected,
    ElectionInput,
    RollbackGoal,
    Strategy,
    TooFewInSync,
    Unclean,
    all_replicas,
    rollback_leader,
    why_rollback_waits,
)
from controller.core.errors import ProcedureError
from controller.core.failures import Failures, listed
from controller.core.operations import NO_NODE, OK
from controller.core.procedures.dynamic_configuration import read_min_insync_replicas
from controller.core.procedures.elections.leadership import (
    read_states,
    with_unclean_permission,
)
from controller.core.procedures.elections.partition_state_machine import change_partitions
from controller.core.procedures.elections.replica_state_machine import Replicas, change_replicas
from controller.core.procedures.reassignment.partition_reassignment import keep_assignments
from controller.core.procedures.reassignment.reassign_partitions import are_older, report_dropped
from controller.core.procedures.reassignment.replica_deletion import delete_replicas
from controller.core.procedures.reassignment_znodes.entries import remove_entries
from controller.core.procedures.reassignment_znodes.records import (
    LEGACY,
    current_route,
    remove_records,
)
from controller.core.procedures.topics.topics import write_topics
from controller.core.state import ControllerContext, Partition
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.values import NO_LEADER, Assignment, format_brokers
from controller.core.zookeeper_io import read_znodes

_RULE: Final = "rollback"
STORE_ORIGINALS: Final = "rollback: store the originals"
WAITS: Final = "rollback_waits"


class RollbackCause(NamedTuple):
    """A trigger of cancellations.

    If a partition cannot be rolled back now, the log has a line with the code `code`. The line says
    what happens `meanwhile`, and names the `remedy` for an operator who does not want to wait for
    more originals. `reported` has the text that was logged of each partition. Entries that existed
    before the transaction `zxid` are cancelled, with the reason `dropped_because`. `is_forced`: the
    operator accepts that one original in sync is enough.
    """

    name: str
    code: str
    meanwhile: str
    remedy: str
    reported: dict[Partition, str]
    zxid: int = 0
    dropped_because: str = ""
    is_forced: bool = False


class Rollback:
    """The partitions of one rollback, with the assignment that each had before.

    `needed`: how many originals have to be live and in sync before the other replicas are removed.
    """

    def __init__(
        self,
        originals: dict[Partition, tuple[int, ...]],
        needed: dict[Partition, int],
        cause: RollbackCause,
    ) -> None:
        self.originals = originals
        self.needed = needed
        self.cause = cause
        self.before = {one: one.assignment for one in originals}

    @property
    def partitions(self) -> list[Partition]:
        """The partitions whose rollback proceeds."""
        return list(self.originals)

    def goal(self, partition: Partition) -> RollbackGoal:
        """OAR, RAR - OAR, and how many of OAR are needed."""
        originals = self.originals[partition]
        others = tuple(one for one in self.before[partition].replicas if one not in originals)
        return RollbackGoal(originals, others, self.needed[partition])

    def dropped(self) -> Replicas:
        """RAR - OAR, by broker."""
        replicas: Replicas = defaultdict(list)
        for partition in self.originals:
            for broker in self.goal(partition).others:
                replicas[broker].append(partition)
        return replicas

    def before_of(self, partitions: Iterable[Partition]) -> dict[Partition, Assignment]:
        """The assignments that these partitions had."""
        return {one: self.before[one] for one in partitions}

    def leave(self, partition: Partition) -> None:
        """Restore the assignment of a partition that cannot be rolled back now."""
        partition.assignment = self.before[partition]
        del self.originals[partition]


Step = Callable[[Controller, Rollback], Awaitable[None]]


async def roll_back(
    controller: Controller, originals: dict[Partition, tuple[int, ...]], cause: RollbackCause
) -> list[Partition]:
    """Roll partitions back to their originals; returns those that are rolled back.

    A partition with too few originals in sync does not change, which is reported.
    """
    context = controller.context
    moving = [one for one in originals if one.assignment != Assignment(originals[one])]
    resting = [one for one in originals if one not in moving]
    needed = await _count_needed(controller, moving, originals, cause)
    rollback = Rollback({one: originals[one] for one in moving}, needed, cause)
    await _keep_waiting_partitions(controller, rollback)
    if resting:
        what = "not under way: the entry and the record are removed"
        _report_step(controller, 6, what, resting, cause)
        await _forget(controller, resting, cause)
    routes = {one: _requesting_route(controller, one) for one in rollback.partitions}
    for step in STEPS:
        if rollback.originals:
            await step(controller, rollback)
    _report_rolled_back(controller, rollback, routes)
    done = [*resting, *rollback.partitions]
    for partition in done:
        context.rollback_waiting.pop(partition, None)
    return done


def _requesting_route(controller: Controller, partition: Partition) -> str:
    """Where the reassignment was requested; also of an entry that a stock controller has begun, and
    that has no record yet."""
    is_unrecorded = controller.context.unrecorded_entry(partition) is not None
    return LEGACY if is_unrecorded else current_route(controller, partition)


def _report(controller: Controller, step: int, what: str, rollback: Rollback) -> None:
    """Report a step, before it is taken."""
    _report_step(controller, step, what, rollback.partitions, rollback.cause)


def _report_step(
    controller: Controller,
    step: int,
    what: str,
    partitions: list[Partition],
    cause: RollbackCause,
) -> None:
    text = f"step {step} of {len(STEPS)}, cancelled by {cause.name}: {what}"
    controller.notice("info", "rollback", listed(partitions), text)


def _report_rolled_back(
    controller: Controller, rollback: Rollback, routes: dict[Partition, str]
) -> None:
    for partition, originals in rollback.originals.items():
        target = format_brokers(rollback.before[partition].target)
        text = (
            f"the partition is on its original replicas {format_brokers(originals)} again: "
            f"{rollback.cause.name} cancelled the reassignment to {target}, which was requested by "
            f"{routes[partition]}"
        )
        controller.notice("info", "reassignment_rolled_back", repr(partition), text)


# Partitions whose rollback waits ----------------------------------------------------------------


async def _count_needed(
    controller: Controller,
    partitions: list[Partition],
    originals: dict[Partition, tuple[int, ...]],
    cause: RollbackCause,
) -> dict[Partition, int]:
    """How many originals must be in sync: min.insync.replicas, at most all; one if the operator
    forces the rollback."""
    if cause.is_forced:
        return dict.fromkeys(partitions, 1)
    topics = [one.topic.name for one in partitions]
    least = await read_min_insync_replicas(controller, topics, _RULE)
    return {one: max(min(least[one.topic.name], len(originals[one])), 1) for one in partitions}


async def _keep_waiting_partitions(controller: Controller, rollback: Rollback) -> None:
    """Before the first step. A partition that has no state has nothing to lose. If its state cannot
    be read, the other replicas may have the only copies."""
    moving, cause = rollback.partitions, rollback.cause
    await _watch_states(controller, moving)
    missing: list[Partition] = []
    unreadable = Failures(controller, cause.code)
    states = await read_states(controller, moving, _RULE, unreadable, missing)
    permitted = await with_unclean_permission(controller, states, OFFLINE, unreadable)
    inputs = {one.partition: one for one in permitted}
    failures = Failures(controller, cause.code, cause.reported)
    for partition in moving:
        goal, given = rollback.goal(partition), inputs.get(partition)
        if partition.leadership is None and partition in missing:
            continue
        if partition.leadership is None or given is None:
            failures.add(partition, f"the state cannot be read: {cause.meanwhile}")
            rollback.leave(partition)
        elif too_few := why_rollback_waits(controller.context, given, goal):
            failures.add(partition, _in_words(goal, too_few, cause))
            rollback.leave(partition)
    failures.report()


def _in_words(goal: RollbackGoal, too_few: TooFewInSync, cause: RollbackCause) -> str:
    """Why a partition is not rolled back."""
    originals, in_sync = format_brokers(goal.originals), format_brokers(too_few.in_sync)
    needed = f"{too_few.needed} of the original replicas {originals} must be live and in sync, and"
    if not in_sync:
        return f"{needed} none is: {cause.meanwhile}"
    present = f"broker {in_sync} is" if len(too_few.in_sync) == 1 else f"brokers {in_sync} are"
    return f"{needed} only {present}: {cause.meanwhile}; {cause.remedy}"


async def _watch_states(controller: Controller, partitions: list[Partition]) -> None:
    """Below IBP 2.7-IV2 leaders write the ISR themselves, which a rollback may wait for."""
    if not controller.protocol.has_alter_partition:
        paths = [znodes.state_path(*one.key) for one in partitions]
        await read_znodes(controller, paths, _RULE, watch=True)


# The seven steps --------------------------------------------------------------------------------


async def _take_originals(controller: Controller, rollback: Rollback) -> None:
    _report(controller, 1, "the original replicas are the assignment in memory", rollback)
    for partition, originals in rollback.originals.items():
        controller.observer.reassigns(partition, Assignment(originals))
        partition.assignment = Assignment(originals)


async def _lead_by_originals(controller: Controller, rollback: Rollback) -> None:
    """Steps 2 and 3 in one write and one batch of requests. Between them, replicas outside of the
    originals would be in the ISR and fenced, and producers with acks=all would wait."""
    _report(controller, 2, "an original replica leads, and the others leave the ISR", rollback)
    led = [one for one in rollback.partitions if one.leadership is not None]
    why_not: dict[Partition, str] = {}
    cause = rollback.cause

    def choose(context: ControllerContext, given: ElectionInput) -> Elected:
        partition = given.partition
        goal = rollback.goal(partition)
        elected, too_few = rollback_leader(context, given, goal)
        if elected.leader == NO_LEADER:
            why_not[partition] = "" if too_few is None else _in_words(goal, too_few, cause)
        return elected

    strategy = Strategy(
        ROLLBACK,
        OFFLINE.kafka_name,
        choose,
        all_replicas,
        Unclean.AS_CONFIGURED,
        is_rollback=True,
    )
    results = await change_partitions(controller, led, PartitionState.ONLINE, _RULE, strategy)
    failures = Failures(controller, cause.code, cause.reported)
    for partition in led:
        if partition in results:
            continue
        why = why_not.get(partition, f"the state cannot be read or written: {cause.meanwhile}")
        if why:
            failures.add(partition, why)
            rollback.leave(partition)
    failures.report()


async def _take_offline(controller: Controller, rollback: Rollback) -> None:
    _report(controller, 3, "the other replicas go offline", rollback)
    await change_replicas(
        controller, rollback.dropped(), ReplicaState.OFFLINE, _RULE, notifies_unchanged=False
    )


async def _delete_replicas(controller: Controller, rollback: Rollback) -> None:
    _report(controller, 4, "the other replicas are deleted", rollback)
    try:
        await delete_replicas(controller, rollback.dropped(), _RULE)
    except ProcedureError:
        await keep_assignments(controller, rollback.before_of(rollback.partitions))
        raise


async def _store_originals(controller: Controller, rollback: Rollback) -> None:
    _report(controller, 5, "the original replicas are the assignment in ZooKeeper", rollback)
    await _remove_unrecorded(controller, rollback)
    choices = tuple(
        Choice(
            *one.key,
            one.leader,
            f"replicas={format_brokers(one.replicas)}",
        )
        for one in rollback.partitions
    )
    unchanged: dict[int, Assignment] = {}
    topics = dict.fromkeys((one.topic for one in rollback.partitions), unchanged)
    codes = await write_topics(controller, topics, Reason(STORE_ORIGINALS, choices))
    refused = {topic: code for topic, code in codes.items() if code not in (OK, NO_NODE)}
    for partition in rollback.partitions:
        if partition.topic not in refused:
            controller.observer.stored(partition)
    if refused:
        left = [one for one in rollback.partitions if one.topic in refused]
        await keep_assignments(controller, rollback.before_of(left))
        texts = [
            f"{znodes.topic_path(topic.name)} cannot be written (ZooKeeper code {code})"
            for topic, code in refused.items()
        ]
        raise ProcedureError("; ".join(texts))


async def _remove_unrecorded(controller: Controller, rollback: Rollback) -> None:
    """Remove the entries that a stock controller has begun, and that have no record. Without a
    record, the next controller cannot know that the reassignment of such an entry has ended, and
    would begin it again."""
    records = controller.context.reassignments
    targets = {
        one.key: rollback.before[one].target for one in rollback.originals if one not in records
    }
    if targets:
        await remove_entries(controller, lambda name, target: targets.get(name) == target)


async def _remove_from_znodes(controller: Controller, rollback: Rollback) -> None:
    _report(controller, 6, "the entry and the record are removed", rollback)
    await _forget(controller, rollback.partitions, rollback.cause)


async def _forget(
    controller: Controller, partitions: list[Partition], cause: RollbackCause
) -> None:
    """Remove the entries and records. An entry that a client has written since the cancellation
    stays."""
    context = controller.context
    known = context.reassignments
    targets = {
        one.key: known[one].replicas for one in partitions if one in known and known[one].legacy
    }
    older = are_older(controller, [one.key for one in partitions], cause.zxid)
    replaced = {name: context.entries_seen[name].replicas for name in older}

    def is_cancelled(name: znodes.Name, target: tuple[int, ...]) -> bool:
        return target in (targets.get(name), replaced.get(name))

    def report(name: znodes.Name, target: tuple[int, ...]) -> None:
        if targets.get(name) != target:
            report_dropped(controller, name, target, cause.dropped_because)

    await remove_entries(controller, is_cancelled, report)
    await remove_records(controller, partitions)
    for partition in partitions:
        context.reassigning.pop(partition, None)


async def _send_metadata_to_all(controller: Controller, rollback: Rollback) -> None:
    _report(controller, 7, "every broker is informed", rollback)
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
    _send_metadata_to_all,
)
"""In the document's order, one after the other, each for all partitions."""
