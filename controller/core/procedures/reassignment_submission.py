"""Beginning or changing a reassignment by way of ZooKeeper: an entry, or a request (KB 14.5.2).

A partition is reassigned by one route at a time: by /admin/reassign_partitions (legacy), by
/admin/reassignment_requests, or by admin tools.
"""

from enum import Enum, auto
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.controller import Controller
from controller.core.dropped_replicas import changed_assignment, replicas_to_drop
from controller.core.errors import ControllerMovedError, ZnodeError
from controller.core.procedures.failures import describe
from controller.core.procedures.own_id import own_id_problem
from controller.core.procedures.reassignment import read_isr, reassign
from controller.core.procedures.reassignment_cancel import is_cancelled
from controller.core.reassignment_znodes import REASSIGNMENT_REQUESTS, Entry, Name, Reassignment
from controller.core.settle import read_znodes
from controller.core.state import Partition
from controller.core.topic_configs import MIN_INSYNC_REPLICAS, least_in_sync
from controller.core.values import NO_LEADER, Assignment

LEGACY: Final = znodes.REASSIGN_PARTITIONS
REQUESTS: Final = REASSIGNMENT_REQUESTS
ADMIN_TOOLS: Final = "the AlterPartitionReassignments API"

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

    @property
    def route(self) -> str:
        """Where it was asked for."""
        return LEGACY if self.legacy else REQUESTS


def holder(controller: Controller, partition: Partition) -> str:
    """The route by which a partition is reassigned; empty: it is not."""
    record = controller.context.reassignments.get(partition)
    if record is not None:
        return LEGACY if record.legacy else REQUESTS
    return ADMIN_TOOLS if partition in controller.context.reassigning else ""


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


async def submit(controller: Controller, submission: Submission) -> Verdict:
    """Begin a reassignment, or change one of the same route that is under way."""
    name, target, legacy = submission
    refused = problem_with(controller, name, target)
    partition = controller.context.find(*name)
    if refused or partition is None:
        return _refuse(controller, submission, refused)
    held_by = holder(controller, partition)
    if held_by not in ("", submission.route):
        return _refuse(controller, submission, held_text(held_by))
    before = controller.context.reassignments.get(partition)
    if before is not None and before.replicas == target:
        return Verdict.UNDER_WAY
    if await is_cancelled(controller):
        return Verdict.WAITS
    if before is None:
        originals = partition.replicas
        least = await _min_insync_replicas(controller, partition.topic.name)
        if len(originals) < least:
            text = (
                f"It has {len(originals)} replicas, less than {MIN_INSYNC_REPLICAS}={least} of its "
                "topic. Lower that, or use kip-236.enable=false, which does not look at it."
            )
            return _refuse(controller, submission, text)
        record = Reassignment(target, len(originals), legacy, originals)
        assignment = partition.assignment.reassign_to(target)
    else:
        record = Reassignment(target, before.top, legacy, before.original_replicas)
        assignment = await _changed(controller, partition, record)
    _tell_begun(controller, partition, record)
    return await _begin(controller, partition, assignment, record)


async def _changed(
    controller: Controller, partition: Partition, record: Reassignment
) -> Assignment:
    """What a change of target makes of the assignment: intermediate replicas are dropped."""
    assigned, target = partition.replicas, record.replicas
    originals = record.original_replicas
    state = partition.leadership
    leader = state.leader if state is not None else NO_LEADER
    isr = await read_isr(controller, partition)
    dropped = replicas_to_drop(assigned, leader, isr, record.top, target, originals)
    if dropped:
        text = f"{list(dropped)} are dropped: neither wanted any more nor needed"
        controller.notice("info", "replicas_dropped", repr(partition), text)
    return changed_assignment(assigned, dropped, target, originals)


def _tell_begun(controller: Controller, partition: Partition, record: Reassignment) -> None:
    dead = [one for one in record.replicas if one not in controller.context.brokers]
    if dead:
        text = f"its reassignment waits for brokers {dead}, which are not registered"
        controller.notice("warning", "reassignment_waits", repr(partition), text)


async def _begin(
    controller: Controller, partition: Partition, assignment: Assignment, record: Reassignment
) -> Verdict:
    try:
        await reassign(controller, partition, assignment, record)
    except ControllerMovedError:
        raise
    except Exception as error:
        controller.notice("error", "reassignment_failed", repr(partition), describe(error))
        if partition not in controller.context.reassigning:
            return Verdict.REFUSED
    return Verdict.UNDER_WAY


def _refuse(controller: Controller, submission: Submission, why: str) -> Verdict:
    topic, number = submission.name
    text = f"{submission.route} asks for {list(submission.target)}, which is ignored: {why}"
    controller.notice("warning", "reassignment_refused", f"{topic}-{number}", text)
    return Verdict.REFUSED


async def _min_insync_replicas(controller: Controller, topic: str) -> int:
    """The topic's, else the cluster's dynamic default, else the daemon's own, else Kafka's."""
    paths = [znodes.topic_config_path(topic), znodes.broker_config_path(None)]
    found = await read_znodes(controller, paths, _RULE)
    settings: list[str | None] = []
    for path, data in zip(paths, found.data, strict=True):
        try:
            settings.append(znodes.read_config(path, data).get(MIN_INSYNC_REPLICAS))
        except ZnodeError as unreadable:
            controller.notice("error", "unreadable_znode", path, f"{unreadable}; skipped")
    settings.append(controller.configuration.broker_settings.get(MIN_INSYNC_REPLICAS))
    return least_in_sync(settings)
