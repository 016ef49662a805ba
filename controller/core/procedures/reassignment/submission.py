"""Beginning or changing a reassignment by way of ZooKeeper: an entry, or a request (KB 14.5.2).

A partition is reassigned by one route at a time: by /admin/reassign_partitions (legacy), by
/admin/reassignment_requests, or by admin tools.
"""

from enum import Enum, auto
from typing import NamedTuple

from controller.core.controller import Controller
from controller.core.dropped_replicas import changed_assignment, replicas_to_drop
from controller.core.procedures.elections.min_insync_replicas import read_min_insync_replicas
from controller.core.procedures.pauses import parts, pause
from controller.core.procedures.reassignment.assignments import Move
from controller.core.procedures.reassignment.cancel_znode import is_cancelled
from controller.core.procedures.reassignment.partition_reassignment import (
    carry_out,
    read_isrs,
    tell_failed,
)
from controller.core.procedures.reassignment.records import LEGACY, REQUESTS, holder
from controller.core.procedures.topics.own_id import own_id_problem
from controller.core.reassignment_znodes import Entry, Name, Reassignment
from controller.core.state import Partition
from controller.core.topic_configs import MIN_INSYNC_REPLICAS
from controller.core.values import Assignment

_RULE = "reassignment: begin"


class Verdict(Enum):
    """What became of a submission."""

    UNDER_WAY = auto()
    """Now, or already; a step of it may have failed and been told."""
    REFUSED = auto()
    WAITS = auto()
    """/admin/reassign_cancel stands: nothing was done."""


class Submission(NamedTuple):
    """A partition, the replicas that it shall have, and the route by which that was asked for."""

    name: Name
    target: tuple[int, ...]
    legacy: bool
    source: str = ""
    """The znode that asks for it, where that says more than the route."""

    @property
    def route(self) -> str:
        """By which way it was asked for."""
        return LEGACY if self.legacy else REQUESTS


def held_text(route: str) -> str:
    """That a partition is reassigned by another route."""
    return f"It is being reassigned by way of {route}, which has to end or be cancelled first."


def problem_with(controller: Controller, name: Name, target: tuple[int, ...]) -> str:
    """Why a partition cannot be moved to these replicas at all; empty: nothing is wrong.

    A broker that is not registered may be one that starts again: it is waited for.
    """
    partition = controller.context.find(*name)
    if partition is None or not partition.replicas or controller.context.is_queued(partition):
        return "The partition does not exist."
    if not target:
        return "The replica list is empty."
    if len(set(target)) != len(target):
        return f"The replica list {list(target)} names a broker twice."
    if any(one < 0 for one in target):
        return f"The replica list {list(target)} names a broker id that no broker can have."
    return own_id_problem(controller, target)


def is_possible(controller: Controller, path: str, name: Name, entry: Entry) -> bool:
    """Whether an entry of /admin/reassign_partitions, or of the extra znode, can be done; why it is
    removed from its znode is told."""
    why = problem_with(controller, name, entry.replicas)
    partition = controller.context.find(*name)
    if not why and partition is not None:
        route = holder(controller, partition)
        why = held_text(route) if route not in ("", LEGACY) else ""
    if why:
        topic, number = name
        text = f"its entry {list(entry.replicas)} is removed from {path}: {why}"
        controller.notice("warning", "reassignment_refused", f"{topic}-{number}", text)
    return not why


async def submit(controller: Controller, submissions: list[Submission]) -> dict[Name, Verdict]:
    """Begin reassignments, or change those of the same route that are under way.

    Of a partition that is submitted several times the last target counts.
    """
    verdicts: dict[Name, Verdict] = {}
    for number, part in enumerate(parts(controller, submissions)):
        if number:
            await pause(controller)
        verdicts |= await _submit(controller, part)
        if Verdict.WAITS in verdicts.values():
            for one in submissions:
                verdicts.setdefault(one.name, Verdict.WAITS)
            break
    return verdicts


async def _submit(controller: Controller, submissions: list[Submission]) -> dict[Name, Verdict]:
    verdicts: dict[Name, Verdict] = {}
    wanted: dict[Partition, Submission] = {}
    for one in submissions:
        partition = controller.context.find(*one.name)
        if refused := _refused(controller, partition, one):
            verdicts[one.name] = _refuse(controller, one, refused)
        elif partition is not None:
            verdicts[one.name] = Verdict.UNDER_WAY
            wanted[partition] = one
    known = controller.context.reassignments
    wanted = {
        partition: one
        for partition, one in wanted.items()
        if partition not in known or known[partition].replicas != one.target
    }
    if not wanted:
        return verdicts
    known = controller.context.reassignments
    new = [one.topic.name for one in wanted if one not in known]
    least = await read_min_insync_replicas(controller, new, _RULE)
    isrs = await read_isrs(controller, [one for one in wanted if one in known])
    if await is_cancelled(controller):
        return verdicts | {one.name: Verdict.WAITS for one in wanted.values()}
    moves = _moves(controller, wanted, least, isrs)
    begun = {one.partition for one in moves}
    verdicts |= {one.name: Verdict.REFUSED for each, one in wanted.items() if each not in begun}
    errors = await carry_out(controller, moves)
    tell_failed(controller, errors)
    for partition in errors:
        if partition not in controller.context.reassigning:
            verdicts[partition.key] = Verdict.REFUSED
    return verdicts


def _refused(controller: Controller, partition: Partition | None, one: Submission) -> str:
    """Why a submission cannot be carried out whatever is configured; empty: it can."""
    refused = problem_with(controller, one.name, one.target)
    if refused or partition is None:
        return refused
    held_by = holder(controller, partition)
    return held_text(held_by) if held_by not in ("", one.route) else ""


def _moves(
    controller: Controller,
    wanted: dict[Partition, Submission],
    least: dict[str, int],
    isrs: dict[Partition, tuple[int, ...]],
) -> list[Move]:
    """What each submission makes of its partition; those with too few replicas are refused. `least`
    has the topics' min.insync.replicas, `isrs` those that are in ZooKeeper."""
    known = controller.context.reassignments
    moves: list[Move] = []
    for partition, one in wanted.items():
        before = known.get(partition)
        if before is not None:
            record = Reassignment(one.target, before.top, one.legacy, before.original_replicas)
            assignment = _changed(controller, partition, record, isrs[partition])
            _tell_replaced(controller, partition, before, one)
        else:
            originals = partition.replicas
            if not _has_enough(controller, one, len(originals), least[partition.topic.name]):
                continue
            record = Reassignment(one.target, len(originals), one.legacy, originals)
            assignment = partition.assignment.reassign_to(one.target)
            tell_begun(controller, partition, record, one.source or one.route)
        moves.append(Move(partition, assignment, record))
    return moves


def _has_enough(controller: Controller, one: Submission, replicas: int, least: int) -> bool:
    """Whether a partition has min.insync.replicas (KIP-236 D-08). An entry of the old znode
    passes, as existing software expects; the operator is warned."""
    if replicas >= least:
        return True
    lacks = (
        f"It has {replicas} replicas, fewer than {MIN_INSYNC_REPLICAS}={least} of its topic: "
        "producers with acks=all fail until it has more."
    )
    if one.legacy:
        topic, number = one.name
        controller.notice("warning", "below_min_insync_replicas", f"{topic}-{number}", lacks)
        return True
    _refuse(controller, one, f"{lacks} Lower the setting, or move it by way of {LEGACY}.")
    return False


def _changed(
    controller: Controller, partition: Partition, record: Reassignment, isr: tuple[int, ...]
) -> Assignment:
    """What a change of target makes of the assignment: intermediate replicas are dropped."""
    assigned, target = partition.replicas, record.replicas
    originals = record.original_replicas
    dropped = replicas_to_drop(assigned, partition.leader, isr, record.top, target, originals)
    if dropped:
        text = f"{list(dropped)} are dropped: neither wanted any more nor needed"
        controller.notice("info", "replicas_dropped", repr(partition), text)
    return changed_assignment(assigned, dropped, target, originals)


def tell_begun(
    controller: Controller, partition: Partition, record: Reassignment, source: str
) -> None:
    """A reassignment begins: from where, to where, and where it was asked for. The replicas that
    the partition has are no move."""
    if record.replicas == partition.replicas == record.original_replicas:
        return
    text = f"from {list(record.original_replicas)} to {list(record.replicas)}, by {source}"
    controller.notice("info", "reassignment_begun", repr(partition), text)
    _tell_dead(controller, partition, record.replicas)


def _tell_replaced(
    controller: Controller, partition: Partition, before: Reassignment, one: Submission
) -> None:
    source = one.source or one.route
    text = f"its target {list(before.replicas)} becomes {list(one.target)}, by {source}"
    controller.notice("info", "reassignment_replaced", repr(partition), text)
    _tell_dead(controller, partition, one.target)


def _tell_dead(controller: Controller, partition: Partition, target: tuple[int, ...]) -> None:
    dead = [one for one in target if one not in controller.context.brokers]
    if dead:
        text = f"its reassignment waits for brokers {dead}, which are not registered"
        controller.notice("warning", "reassignment_waits", repr(partition), text)


def tell_held(controller: Controller, submission: Submission) -> None:
    """A partition is asked for whose reassignment came by another route."""
    partition = controller.context.find(*submission.name)
    if partition is not None:
        _refuse(controller, submission, held_text(holder(controller, partition)))


def _refuse(controller: Controller, submission: Submission, why: str) -> Verdict:
    topic, number = submission.name
    source = submission.source or submission.route
    text = f"{source} asks for {list(submission.target)}, which is refused: {why}"
    controller.notice("warning", "reassignment_refused", f"{topic}-{number}", text)
    return Verdict.REFUSED
