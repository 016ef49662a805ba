"""Beginning or changing a reassignment by way of ZooKeeper: by an entry, or by a request (KB
14.5.2).

A partition is reassigned by one route at a time: by /admin/reassign_partitions (legacy), by
/admin/reassignment_requests, or by admin tools.
"""

from typing import NamedTuple

from controller.core import error_codes
from controller.core.controller import Controller
from controller.core.pauses import parts, pause
from controller.core.procedures.dynamic_configuration import read_min_insync_replicas
from controller.core.procedures.reassignment.assignments import NewAssignment
from controller.core.procedures.reassignment.partition_reassignment import (
    carry_out,
    read_isrs,
    report_failed,
)
from controller.core.procedures.reassignment_znodes.cancel_znode import is_cancelled
from controller.core.procedures.reassignment_znodes.records import LEGACY, REQUESTS, current_route
from controller.core.procedures.topics.daemon_id import daemon_id_problem
from controller.core.replica_assignment import changed_assignment, replicas_to_drop
from controller.core.state import Partition
from controller.core.topic_configs import MIN_INSYNC_REPLICAS
from controller.core.values import Assignment, format_brokers
from controller.core.znodes import REASSIGN_PARTITIONS_EXTRA, Entry, Name, Reassignment

_RULE = "reassignment: begin"
_MOVED = f"the controller added the entry of {REASSIGN_PARTITIONS_EXTRA}"


class Submission(NamedTuple):
    """A partition, its target replicas, and the route of the request."""

    name: Name
    target: tuple[int, ...]
    legacy: bool
    request: str = ""
    """The znode of the request, if it says more than the route."""

    @property
    def route(self) -> str:
        """The route of the request."""
        return LEGACY if self.legacy else REQUESTS


def source_of(controller: Controller, submission: Submission) -> str:
    """Where a reassignment was requested, in words."""
    if submission.request:
        return submission.request
    if submission.legacy and _was_moved(controller, submission.name, submission.target):
        return f"{LEGACY}, to which {_MOVED}"
    return submission.route


def _was_moved(controller: Controller, name: Name, target: tuple[int, ...]) -> bool:
    """Whether the controller moved an entry of /admin/reassign_partitions there from the extra
    znode."""
    return controller.context.entries_moved.get(name) == target


def rejected_text(target: tuple[int, ...], source: str, why: str) -> str:
    """The message that a requested reassignment is rejected."""
    return (
        f"the reassignment to {format_brokers(target)}, requested by {source}, is rejected: {why}"
    )


def other_route_text(route: str) -> str:
    """The text that a partition is being reassigned by another route."""
    return (
        f"The partition is being reassigned by way of {route}: that reassignment has to end or be "
        "cancelled first."
    )


def problem_with(controller: Controller, name: Name, target: tuple[int, ...]) -> str:
    """Why a partition cannot be moved to these replicas at all; empty: nothing is wrong.

    A broker that is not registered may be restarting: the reassignment waits for it.
    """
    if _existing_partition(controller, name) is None:
        return "The partition does not exist."
    if not target:
        return "The replica list is empty."
    if len(set(target)) != len(target):
        return f"The replica list {format_brokers(target)} names a broker twice."
    if any(one < 0 for one in target):
        return f"The replica list {format_brokers(target)} has a negative broker id."
    return daemon_id_problem(controller, target)


def is_possible(controller: Controller, path: str, name: Name, entry: Entry) -> bool:
    """Whether an entry of /admin/reassign_partitions, or of the extra znode, is possible. If not,
    reports why it is removed."""
    why = problem_with(controller, name, entry.replicas)
    partition = controller.context.find(*name)
    if not why and partition is not None:
        route = current_route(controller, partition)
        why = other_route_text(route) if route not in ("", LEGACY) else ""
    if why:
        replicas = format_brokers(entry.replicas)
        was_moved = path == LEGACY and _was_moved(controller, name, entry.replicas)
        origin = f", to which {_MOVED}" if was_moved else ""
        text = f"the entry with replicas {replicas} is removed from {path}{origin}: {why}"
        reject(controller, name, text, why, _error_of(controller, name))
    return not why


def reject(
    controller: Controller,
    name: Name,
    text: str,
    why: str,
    error: int = error_codes.INVALID_REPLICA_ASSIGNMENT,
) -> None:
    """Report that a reassignment is rejected. `why` is the reason alone; `text` also has the
    request."""
    controller.observer.rejects(name, error, why)
    topic, number = name
    controller.notice("warning", "reassignment_refused", f"{topic}-{number}", text)


def _error_of(controller: Controller, name: Name) -> int:
    if _existing_partition(controller, name) is None:
        return error_codes.UNKNOWN_TOPIC_OR_PARTITION
    return error_codes.INVALID_REPLICA_ASSIGNMENT


def _existing_partition(controller: Controller, name: Name) -> Partition | None:
    partition = controller.context.find(*name)
    if partition is None or not partition.replicas or controller.context.is_queued(partition):
        return None
    return partition


async def submit(controller: Controller, submissions: list[Submission]) -> list[Name] | None:
    """Begin reassignments, or change those of the same route that are under way. Each partition is
    submitted once.

    Returns the rejected partitions; None: /admin/reassign_cancel exists, and submissions wait.
    """
    rejected: list[Name] = []
    for number, part in enumerate(parts(controller, submissions)):
        if number:
            await pause(controller)
        rejected_now = await _submit(controller, part)
        if rejected_now is None:
            return None
        rejected += rejected_now
    return rejected


async def _submit(controller: Controller, submissions: list[Submission]) -> list[Name] | None:
    rejected: list[Name] = []
    wanted: dict[Partition, Submission] = {}
    for one in submissions:
        partition = controller.context.find(*one.name)
        if problem := _submission_problem(controller, partition, one):
            _refuse(controller, one, problem)
            rejected.append(one.name)
        elif partition is not None:
            wanted[partition] = one
    known = controller.context.reassignments
    wanted = {
        partition: one
        for partition, one in wanted.items()
        if partition not in known or known[partition].replicas != one.target
    }
    if not wanted:
        return rejected
    new = [one.topic.name for one in wanted if one not in known]
    least = await read_min_insync_replicas(controller, new, _RULE)
    isrs = await read_isrs(controller, [one for one in wanted if one in known])
    if await is_cancelled(controller):
        return None
    moves = _moves(controller, wanted, least, isrs)
    begun = {one.partition for one in moves}
    rejected += [one.name for each, one in wanted.items() if each not in begun]
    failed = await carry_out(controller, moves)
    report_failed(controller, failed)
    return rejected + [one.key for one in failed if one not in controller.context.reassigning]


def _submission_problem(
    controller: Controller, partition: Partition | None, one: Submission
) -> str:
    """Why a submission cannot be carried out, whatever the settings; empty: it can."""
    refused = problem_with(controller, one.name, one.target)
    if refused or partition is None:
        return refused
    held_by = current_route(controller, partition)
    return other_route_text(held_by) if held_by not in ("", one.route) else ""


def _moves(
    controller: Controller,
    wanted: dict[Partition, Submission],
    least: dict[str, int],
    isrs: dict[Partition, tuple[int, ...]],
) -> list[NewAssignment]:
    """The move of each submission; those with too few replicas are refused. `least` has the topics'
    min.insync.replicas, `isrs` the ISRs in ZooKeeper."""
    known = controller.context.reassignments
    moves: list[NewAssignment] = []
    for partition, one in wanted.items():
        before = known.get(partition)
        if before is not None:
            record = Reassignment(one.target, before.top, one.legacy, before.original_replicas)
            assignment = _retargeted_assignment(controller, partition, record, isrs[partition])
            source = source_of(controller, one)
            report_replaced(controller, partition, before.replicas, one.target, source)
            _report_dead(controller, partition, one.target)
        else:
            originals = partition.replicas
            if not _check_min_insync_replicas(
                controller, one, len(originals), least[partition.topic.name]
            ):
                continue
            record = Reassignment(one.target, len(originals), one.legacy, originals)
            assignment = partition.assignment.reassign_to(one.target)
            report_begun(controller, partition, record, source_of(controller, one))
        moves.append(NewAssignment(partition, assignment, record))
    return moves


def _check_min_insync_replicas(
    controller: Controller, one: Submission, replicas: int, least: int
) -> bool:
    """Refuse a target with fewer replicas than min.insync.replicas (KIP-236 D-08). Returns whether
    it is accepted. An entry of /admin/reassign_partitions is, with a warning, as existing software
    expects."""
    if replicas >= least:
        return True
    lacks = (
        f"The partition has {replicas} replicas, fewer than {MIN_INSYNC_REPLICAS}={least} of its "
        "topic: producers with acks=all fail until the partition has more."
    )
    if one.legacy:
        topic, number = one.name
        controller.notice("warning", "below_min_insync_replicas", f"{topic}-{number}", lacks)
        return True
    _refuse(controller, one, f"{lacks} Lower the setting, or request the reassignment in {LEGACY}.")
    return False


def _retargeted_assignment(
    controller: Controller, partition: Partition, record: Reassignment, isr: tuple[int, ...]
) -> Assignment:
    """The assignment after a change of target, without the intermediate replicas that the new
    target does not need. Logs a notice about these."""
    assigned, target = partition.replicas, record.replicas
    originals = record.original_replicas
    dropped = replicas_to_drop(assigned, partition.leader, isr, record.top, target, originals)
    if dropped:
        text = f"replicas {format_brokers(dropped)} are removed: the new target does not need them"
        controller.notice("info", "replicas_dropped", repr(partition), text)
    return changed_assignment(assigned, dropped, target, originals)


def report_begun(
    controller: Controller, partition: Partition, record: Reassignment, source: str
) -> None:
    """Report that a reassignment begins: from where, to where, and where it was requested. A target
    that the partition already has is no move."""
    if record.replicas == partition.replicas == record.original_replicas:
        return
    before, target = format_brokers(record.original_replicas), format_brokers(record.replicas)
    text = f"a reassignment from {before} to {target} begins, requested by {source}"
    controller.notice("info", "reassignment_begun", repr(partition), text)
    _report_dead(controller, partition, record.replicas)


def report_replaced(
    controller: Controller,
    partition: Partition,
    before: tuple[int, ...],
    target: tuple[int, ...],
    source: str,
) -> None:
    """Report that a reassignment has another target, and where the change was requested."""
    change = f"from {format_brokers(before)} to {format_brokers(target)}"
    text = f"the target of the reassignment changes {change}, requested by {source}"
    controller.notice("info", "reassignment_replaced", repr(partition), text)


def _report_dead(controller: Controller, partition: Partition, target: tuple[int, ...]) -> None:
    dead = [one for one in target if one not in controller.context.brokers]
    if dead:
        text = f"the reassignment waits until these brokers are registered: {format_brokers(dead)}"
        controller.notice("warning", "reassignment_waits", repr(partition), text)


def refuse_by_other_route(controller: Controller, submission: Submission) -> None:
    """Refuse a submission for a partition whose reassignment came by another route."""
    partition = controller.context.find(*submission.name)
    if partition is not None:
        _refuse(controller, submission, other_route_text(current_route(controller, partition)))


def _refuse(controller: Controller, submission: Submission, why: str) -> None:
    text = rejected_text(submission.target, source_of(controller, submission), why)
    reject(controller, submission.name, text, why, _error_of(controller, submission.name))
