"""Reassignment requests that no log has, and that show otherwise than by the replicas that they
write: docs/agreement-rules.md states the rules."""

from collections.abc import Iterator, Sequence
from typing import Final

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.events import AlterPartitionReassignmentsReceived, ReassignmentTarget
from controller.core.state import Partition
from controller.core.triggers import ApiCall
from controller.core.values import LeaderAndIsr
from controller.core.znodes import read_reassignments
from replay.stock_clusters.agreement.batches import Decision
from replay.stock_clusters.agreement.index import Index
from replay.stock_clusters.agreement.shadow_fold import ShadowFold
from replay.stock_clusters.zookeeper_log.transactions import Operation, SetData

_FIRST_VERSION: Final = 0


def reassignments_asked_for(
    decision: Decision, session: int, fold: ShadowFold, index: Index
) -> Iterator[ApiCall]:
    """The requests that a decision may be the first write of."""
    for path, operation in decision.operations:
        if path == znodes.REASSIGN_PARTITIONS:
            yield from _otherwise(operation, session, fold, index)
        elif isinstance(operation, SetData) and znodes.state_of(path) is not None:
            yield from _once_more(path, operation, fold)


def _otherwise(
    operation: Operation, session: int, fold: ShadowFold, index: Index
) -> Iterator[ApiCall]:
    """A request for what /admin/reassign_partitions asks otherwise takes that out first, and a
    request for others writes it again as it is. Where nothing more is written for a partition, what
    was asked for shows nowhere: maybe to cancel, or to stay where it is."""
    found = index.inferred.take_next_reassignment(session, fold.seq)
    targets = [] if found is None else found.reassignments
    named = {(one.topic, one.partition) for one in targets}
    taken_out = _taken_out(operation, fold)
    if found is None and taken_out is None:
        return
    others = [one for one in taken_out or () if one.key not in named]
    reassigning = fold.controller.context.reassigning
    yield _call(
        [*targets, *(_target(one, None if one in reassigning else one.replicas) for one in others)]
    )


def _taken_out(operation: Operation, fold: ShadowFold) -> list[Partition] | None:
    """The partitions that a write takes out of /admin/reassign_partitions; None if no request for
    others, either, writes that."""
    try:
        listed = read_reassignments(fold.content(znodes.REASSIGN_PARTITIONS))
        left = read_reassignments(operation.data) if isinstance(operation, SetData) else {}
    except ZnodeError:
        return None
    context = fold.controller.context
    gone = [context.find(*name) for name in listed if name not in left]
    known = [one for one in gone if one is not None and one.replicas]
    return known if known or left == listed else None


def _once_more(path: str, operation: SetData, fold: ShadowFold) -> Iterator[ApiCall]:
    """A request for the replicas that a partition is going to have anyway only raises the leader
    epoch (updateLeaderEpochAndSendRequest)."""
    name = znodes.state_of(path)
    partition = None if name is None else fold.controller.context.find(*name)
    try:
        before = znodes.read_state(path, fold.content(path), operation.version - 1)
        written = znodes.read_state(path, operation.data, operation.version)
    except ZnodeError:
        return
    if partition is None or not _is_only_epoch_raised(before, written):
        return
    if fold.controller.context.is_online(written.leader, partition):
        yield _call([_target(partition, partition.assignment.target)])


def _is_only_epoch_raised(before: LeaderAndIsr, written: LeaderAndIsr) -> bool:
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
