"""Reassignment requests that no log has, and that show by something else than new replicas.

docs/agreement-rules.md has the rules.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from controller.core import znodes
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from controller.core.errors import ZnodeError
from controller.core.state import Partition
from controller.core.triggers import ApiCall
from controller.core.values import LeaderAndIsr
from controller.core.znodes import read_reassignments
from replay.agreement.decisions.write_batch import StockDecision
from replay.agreement.logs.index import BrokerLogIndex
from replay.agreement.logs.inferred_requests import NextReassignment
from replay.agreement.trace.shadow_fold import ShadowFold
from replay.stock_clusters.zookeeper_log.transactions import Operation, SetData

_FIRST_VERSION: Final = 0


def possible_reassignments(
    decision: StockDecision, session: int, fold: ShadowFold, index: BrokerLogIndex
) -> Iterator[ApiCall]:
    """The requests whose first write a decision may be."""
    for path, operation in decision.operations:
        if path == znodes.REASSIGN_PARTITIONS:
            yield from _replacing_entries(operation, session, fold, index)
        elif isinstance(operation, SetData) and znodes.partition_of_state(path) is not None:
            yield from _for_same_replicas(path, operation, fold)
        elif isinstance(operation, SetData) and znodes.topic_of(path) is not None:
            yield from _without_leader(path, operation, fold)


def _replacing_entries(
    operation: Operation, session: int, fold: ShadowFold, index: BrokerLogIndex
) -> Iterator[ApiCall]:
    """A request for partitions that are in /admin/reassign_partitions.

    It first removes them from the znode; a request for other partitions writes the znode unchanged.
    If nothing else is written for a partition, its target is unknown: to cancel is assumed, or
    else the present replicas.
    """
    found = index.inferred.take_next_reassignment(session, fold.seq)
    targets = [] if found is None else [*_targets_before(found, fold), *found.request.reassignments]
    named = {(one.topic, one.partition) for one in targets}
    removed = _removed_partitions(operation, fold)
    if found is None and removed is None:
        return
    others = [one for one in removed or () if one.key not in named]
    reassigning = fold.controller.context.reassigning
    yield _call(
        [*targets, *(_target(one, None if one in reassigning else one.replicas) for one in others)]
    )


def _targets_before(found: NextReassignment, fold: ShadowFold) -> list[ReassignmentTarget]:
    """The partitions of a request that already have their replicas, or are getting them, and are
    written before its others."""
    partitions = [fold.controller.context.find(*name) for name in found.before]
    return [_target(one, one.assignment.target) for one in partitions if one is not None]


def _removed_partitions(operation: Operation, fold: ShadowFold) -> list[Partition] | None:
    """The partitions that a write removes from /admin/reassign_partitions.

    Returns None if a request for other partitions does not make this write either.
    """
    try:
        listed = read_reassignments(fold.content(znodes.REASSIGN_PARTITIONS))
        remaining = read_reassignments(operation.data) if isinstance(operation, SetData) else {}
    except ZnodeError:
        return None
    context = fold.controller.context
    removed = [context.find(*name) for name in listed if name not in remaining]
    known = [one for one in removed if one is not None and one.replicas]
    return known if known or remaining == listed else None


def _for_same_replicas(path: str, operation: SetData, fold: ShadowFold) -> Iterator[ApiCall]:
    """A request for the replicas that a partition already has or is getting.

    It only increments the leader epoch (updateLeaderEpochAndSendRequest). Without a live leader it
    does so only while the partition is reassigned; otherwise it elects a leader.
    """
    name = znodes.partition_of_state(path)
    partition = None if name is None else fold.controller.context.find(*name)
    try:
        before = znodes.read_state(path, fold.content(path), operation.version - 1)
        written = znodes.read_state(path, operation.data, operation.version)
    except ZnodeError:
        return
    if partition is None or not _is_only_epoch_incremented(before, written):
        return
    context = fold.controller.context
    if partition in context.reassigning or context.is_online(written.leader, partition):
        yield _call([_target(partition, partition.assignment.target)])


def _without_leader(path: str, operation: SetData, fold: ShadowFold) -> Iterator[ApiCall]:
    """A request for the replicas that a partition already has, if none of them can be leader.

    It only writes the topic's znode, unchanged. If several partitions of the topic have no possible
    leader, the first of them is assumed.
    """
    topic = znodes.topic_of(path) or ""
    try:
        before = znodes.read_topic(topic, fold.content(path)).assignments
        written = znodes.read_topic(topic, operation.data).assignments
    except ZnodeError:
        return
    context = fold.controller.context
    for number in sorted(written) if written == before else ():
        partition = context.find(topic, number)
        state = partition.leadership if partition is not None else None
        if partition is None or state is None or partition in context.reassigning:
            continue
        if not any(context.is_online(one, partition) for one in state.isr):
            yield _call([_target(partition, partition.replicas)])


def _is_only_epoch_incremented(before: LeaderAndIsr, written: LeaderAndIsr) -> bool:
    return (written.leader, written.leader_epoch, written.isr, written.recovery_state) == (
        before.leader,
        before.leader_epoch + 1,
        before.isr,
        before.recovery_state,
    )


def _target(partition: Partition, replicas: tuple[int, ...] | None) -> ReassignmentTarget:
    return ReassignmentTarget(*partition.key, replicas)


def _call(targets: Sequence[ReassignmentTarget]) -> ApiCall:
    return ApiCall(AlterPartitionReassignmentsReceived(0, _FIRST_VERSION, list(targets)))
