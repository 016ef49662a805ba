"""How reassignments begin: by /admin/reassign_partitions, by admin tools, and at failover (KB 7.1
to 7.4)."""

from collections.abc import Collection, Iterable

from controller.core import error_codes, znodes
from controller.core.api_requests.partition_result import PartitionResult
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsReceived,
    ListPartitionReassignmentsResponse,
    OngoingReassignment,
    ReassignmentTarget,
)
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.deviations import (
    EMPTY_TARGET_REFUSED,
    LEADER_MOVED_FIRST,
    ORIGINALS_RESTORED_BY_API,
    REQUEST_CHANGES_SEEN,
    RESUME_ERRORS_REPORTED,
)
from controller.core.errors import ProcedureError, ZnodeError
from controller.core.operations import OK
from controller.core.pauses import parts, pause
from controller.core.procedures.reassignment.assignments import NewAssignment
from controller.core.procedures.reassignment.cancellation import (
    process_changed_isrs,
    roll_back_names,
)
from controller.core.procedures.reassignment.leader_epochs import raise_and_send
from controller.core.procedures.reassignment.partition_reassignment import (
    RULE,
    carry_out,
    drops_all_in_sync,
    reassign,
    report_failed,
)
from controller.core.procedures.reassignment.reassign_partitions import (
    LegacyZnode,
    process_legacy,
    report_dropped,
)
from controller.core.procedures.reassignment.recovery import recover
from controller.core.procedures.reassignment.rollback import RollbackCause
from controller.core.procedures.reassignment.submission import (
    other_route_text,
    reject,
    report_begun,
    report_replaced,
)
from controller.core.procedures.reassignment_znodes.cancel_znode import is_cancelled
from controller.core.procedures.reassignment_znodes.entries import remove_entries
from controller.core.procedures.reassignment_znodes.records import ADMIN_TOOLS, current_route
from controller.core.procedures.topics.daemon_id import daemon_id_problem
from controller.core.state import Partition, sorted_partitions
from controller.core.topic_configs import MIN_INSYNC_REPLICAS
from controller.core.values import NO_ASSIGNMENT, Assignment
from controller.core.znodes import REASSIGN_CANCEL, Reassignment
from controller.core.zookeeper_io import read_stats, read_znodes

_PATH = znodes.REASSIGN_PARTITIONS
_UNKNOWN_PARTITION = "The partition does not exist."
_ALL_DROPPED = "Every replica in sync would be dropped."
_CANCELLED = f"{REASSIGN_CANCEL} exists: no reassignment begins until that znode is deleted."
_NOT_CANCELLED = "the request to cancel the reassignment is rejected"
_REMEDY = f"repeat the request when more are, or lower {MIN_INSYNC_REPLICAS} of the topic first"
_SMALL_SET = 4

Name = tuple[str, int]
Results = dict[Name, PartitionResult]
"""The errors of the requested partitions."""


# The znode --------------------------------------------------------------------------------------


async def process_reassignment_znode(
    controller: Controller, *, created: bool = True
) -> list[Partition]:
    """Process the request in /admin/reassign_partitions (processZkPartitionReassignment, KB 7.2).

    Returns the partitions that were handled without an error. Kafka processes the znode only when
    it is created. With REQUEST_CHANGES_SEEN, later changes count as well, and after a deletion by
    hand the next request is watched for.
    """
    if controller.configuration.has_kip_236:
        await process_legacy(controller)
        return []
    if not created and not REQUEST_CHANGES_SEEN.applies(controller.configuration):
        return []
    stats = await read_stats(controller, [_PATH], RULE, watch=True)
    if stats.errors[0] != OK:
        return []
    found = await read_znodes(controller, [_PATH], RULE)
    if found.errors[0] != OK:
        return []
    try:
        entries = znodes.read_reassignments(found.data[0])
    except ZnodeError as unreadable:
        # UNREADABLE_SKIPPED is for the daemon. For a stock controller, Kafka's behaviour counts.
        if controller.configuration.is_broker and znodes.lacks_entries(found.data[0]):
            raise ProcedureError(f"{unreadable}; a stock controller fails on it") from None
        controller.notice("error", "unreadable_znode", _PATH, f"{unreadable}; skipped")
        return []
    wanted = {name: target for name, target in entries.items() if _is_new(controller, name, target)}
    if wanted and not created:
        controller.observer.deviates(REQUEST_CHANGES_SEEN, _PATH)
    targets = {name: _assignment(controller, name).reassign_to(wanted[name]) for name in wanted}
    errors = await _trigger(controller, targets)
    _report_refused(controller, errors)
    sees_changes = REQUEST_CHANGES_SEEN.applies(controller.configuration)

    def is_refused(name: Name, target: tuple[int, ...]) -> bool:
        return name in errors and (target == wanted[name] or not sees_changes)

    is_empty = sees_changes and not entries
    if is_empty:
        controller.observer.deviates(REQUEST_CHANGES_SEEN, _PATH)
    if errors or is_empty:
        await remove_entries(controller, is_refused)
    done = [controller.context.find(*name) for name in wanted if name not in errors]
    return [one for one in done if one is not None]


def _is_new(controller: Controller, name: Name, target: tuple[int, ...]) -> bool:
    """Whether an entry differs from the reassignment under way."""
    partition = controller.context.find(*name)
    if partition is None or not REQUEST_CHANGES_SEEN.applies(controller.configuration):
        return True
    is_under_way = partition in controller.context.reassigning
    return not (is_under_way and partition.assignment.reassign_to(target) == partition.assignment)


def _report_refused(controller: Controller, errors: Results) -> None:
    for name, error in errors.items():
        why = error.message or f"error code {error.error}"
        reject(controller, name, f"the entry is removed from {_PATH}: {why}", why, error.error)


# Admin tools ------------------------------------------------------------------------------------


async def process_alter_reassignments(
    controller: Controller, request: AlterPartitionReassignmentsReceived
) -> None:
    """Validate every target, then begin or cancel (processApiPartitionReassignment, KB 7.3)."""
    errors: Results = {}
    targets: dict[Name, Assignment] = {}
    # If a partition is named twice, the last target counts, as in KafkaApis.
    wanted = {(one.topic, one.partition): one for one in request.partitions}
    cancelled = await is_cancelled(controller)
    undone: dict[Name, tuple[int, ...]] = {}
    for name, one in wanted.items():
        judged = _judge(controller, one, cancelled=cancelled)
        if not isinstance(judged, Assignment):
            errors[name] = judged
        elif originals := _undone(controller, one):
            undone[name] = originals
        else:
            targets[name] = judged
    errors |= await _roll_back(controller, undone)
    await _replace_entries(controller, targets)
    errors |= await _trigger(controller, targets, by_api=True)
    answers = tuple(errors.get(name) or PartitionResult(*name, error_codes.NONE) for name in wanted)
    answer = AlterPartitionReassignmentsResponse(request.request, error_codes.NONE, answers)
    controller.issue(answer, Reason(RULE))


async def _replace_entries(controller: Controller, names: Collection[Name]) -> None:
    """The request takes the place of the entries of these partitions (KB 7.3 step 4). An entry that
    a client writes while the controller removes another one stays."""
    replaced: dict[Name, tuple[int, ...]] = {}

    def claim(name: Name, target: tuple[int, ...]) -> bool:
        return name in names and replaced.setdefault(name, target) == target

    def report(name: Name, target: tuple[int, ...]) -> None:
        if _is_new(controller, name, target):
            why = f"a request by {ADMIN_TOOLS} takes its place"
            report_dropped(controller, name, target, why)

    await remove_entries(controller, claim, report)


def _undone(controller: Controller, requested: ReassignmentTarget) -> tuple[int, ...]:
    """The originals in the order in which a request restores them; none if it does not undo a
    reassignment under way.

    A null target, and the originals as target, undo it. Any other target replaces it (KB 7.8).
    """
    partition = controller.context.find(requested.topic, requested.partition)
    if not controller.configuration.has_kip_236 or partition not in controller.context.reassigning:
        return ()
    originals = controller.context.originals(partition)
    if requested.replicas is None:
        return originals
    return requested.replicas if set(requested.replicas) == set(originals) else ()


async def _roll_back(controller: Controller, undone: dict[Name, tuple[int, ...]]) -> Results:
    """Undo reassignments for admin tools: roll back to the originals in this order
    (ORIGINALS_RESTORED_BY_API)."""
    if not undone:
        return {}
    # Unlike a cancellation in ZooKeeper, a request that is impossible now does not wait.
    refused: dict[Partition, str] = {}
    cause = RollbackCause(
        ADMIN_TOOLS, "reassignment_not_cancelled", _NOT_CANCELLED, _REMEDY, refused
    )
    for name in undone:
        controller.observer.deviates(ORIGINALS_RESTORED_BY_API, "{}-{}".format(*name))
    back = {one.key for one in await roll_back_names(controller, list(undone), cause, undone)}
    texts = {one.key: why for one, why in refused.items()}
    error = error_codes.INVALID_REPLICA_ASSIGNMENT
    return {
        name: PartitionResult(*name, error, texts.get(name, _ALL_DROPPED))
        for name in undone
        if name not in back
    }


def _judge(
    controller: Controller, requested: ReassignmentTarget, *, cancelled: bool
) -> Assignment | PartitionResult:
    """The requested assignment, or an error message (validateReplicas)."""
    current = _assignment(controller, (requested.topic, requested.partition))
    if requested.replicas is None:
        if current.is_being_reassigned:
            return current.reassign_to(current.origin)
        error = error_codes.NO_REASSIGNMENT_IN_PROGRESS
        return PartitionResult(requested.topic, requested.partition, error)
    wrong = _wrong_with(controller, current, requested.replicas)
    if wrong:
        error = error_codes.INVALID_REPLICA_ASSIGNMENT
        return PartitionResult(requested.topic, requested.partition, error, wrong)
    if refused := _route_problem(controller, requested, cancelled=cancelled):
        error = error_codes.REASSIGNMENT_IN_PROGRESS
        return PartitionResult(requested.topic, requested.partition, error, refused)
    return current.reassign_to(requested.replicas)


def _route_problem(
    controller: Controller, requested: ReassignmentTarget, *, cancelled: bool
) -> str:
    """Why admin tools cannot reassign a partition now; "" if they can. A partition is reassigned by
    one route at a time, and by none while a cancellation exists."""
    if cancelled:
        return _CANCELLED
    partition = controller.context.find(requested.topic, requested.partition)
    route = current_route(controller, partition) if partition is not None else ""
    return other_route_text(route) if route not in ("", ADMIN_TOOLS) else ""


def _wrong_with(controller: Controller, current: Assignment, target: tuple[int, ...]) -> str:
    """Why the target is invalid, in Kafka's words with Scala's names of collections; "" if it is
    valid."""
    if not target:
        return "Empty replica list specified in partition reassignment."
    if len(set(target)) != len(target):
        return f"Duplicate replica ids in partition reassignment replica list: {_buffer(target)}"
    if any(one < 0 for one in target):
        return f"Invalid broker id in replica list: {_buffer(target)}"
    if names_own_id := daemon_id_problem(controller, target):
        return names_own_id
    live = controller.context.live_brokers
    adding = current.reassign_to(target).adding
    if all(one in live for one in adding):
        return ""
    return (
        f"Replica assignment has brokers that are not alive. Replica list: {_buffer(adding)}, "
        f"live broker list: {_set(live)}"
    )


def _buffer(brokers: Iterable[int]) -> str:
    return f"ArrayBuffer({', '.join(map(str, brokers))})"


def _set(brokers: Collection[int]) -> str:
    """Scala uses another class for more than four members, whose order is that of their hashes."""
    name = "Set" if len(brokers) <= _SMALL_SET else "HashSet"
    return f"{name}({', '.join(map(str, sorted(brokers)))})"


def process_list_reassignments(
    controller: Controller, request: ListPartitionReassignmentsReceived
) -> None:
    """Respond with the reassignments under way: all, or those of the requested partitions (KB
    11.6)."""
    context = controller.context
    if request.partitions is None:
        named = list(context.reassigning)
    else:
        found = dict.fromkeys(context.find(*name) for name in request.partitions)
        named = [one for one in found if one is not None]
    ongoing = tuple(
        OngoingReassignment(*one.key, one.assignment)
        for one in sorted_partitions(named)
        if one.assignment.is_being_reassigned
    )
    answer = ListPartitionReassignmentsResponse(request.request, error_codes.NONE, ongoing)
    controller.issue(answer, Reason(RULE))


# Resuming at a failover -------------------------------------------------------------------------


async def resume_reassignments(controller: Controller, legacy: LegacyZnode | None) -> None:
    """At failover: the request, then the reassignments in the topics' znodes (KB 6.2 step 11)."""
    if legacy is not None:
        handled = dict.fromkeys(await recover(controller, legacy))
    else:
        handled = dict.fromkeys(await process_reassignment_znode(controller))
    ordered = controller.order.partitions(controller.context.reassigning)
    left = [one for one in ordered if one not in handled and not _is_in_progress(controller, one)]
    await _resume(
        controller, [NewAssignment(one, _resumed_assignment(controller, one)) for one in left]
    )
    await _inform_held(controller, left)


async def _inform_held(controller: Controller, resumed: list[Partition]) -> None:
    """Send the brokers the assignment of reassignments that wait because of /admin/reassign_cancel.

    An earlier controller may have sent the leader only the target. With the leader epoch that it
    has, the leader ignores the originals (KB 12.4.2), which a rollback waits for.
    """
    held = [one for one in resumed if one in controller.context.held]
    for number, part in enumerate(parts(controller, held)):
        if number:
            await pause(controller)
        left = [one for one in part if one in controller.context.held]
        report_failed(controller, await raise_and_send(controller, left, RULE))


def _is_in_progress(controller: Controller, partition: Partition) -> bool:
    """Whether nothing is to be done: brokers know the reassignment, and it has not caught up."""
    state = partition.leadership
    if partition not in controller.context.informed_by_failover or state is None:
        return False
    return not all(one in state.isr for one in partition.assignment.target)


async def _resume(controller: Controller, moves: list[NewAssignment]) -> None:
    for number, part in enumerate(parts(controller, moves)):
        if number:
            await pause(controller)
        errors = await reassign(controller, part)
        if errors and not RESUME_ERRORS_REPORTED.applies(controller.configuration):
            raise next(iter(errors.values()))
        for partition in errors:
            controller.observer.deviates(RESUME_ERRORS_REPORTED, repr(partition))
        report_failed(controller, errors)


def _resumed_assignment(controller: Controller, partition: Partition) -> Assignment:
    """The current assignment. Logs a notice for one without a target, and returns the assignment
    that cancels the reassignment (EMPTY_TARGET_REFUSED)."""
    assignment = partition.assignment
    if assignment.target or not EMPTY_TARGET_REFUSED.applies(controller.configuration):
        return assignment
    text = "the reassignment has an empty target, and is cancelled"
    controller.notice("warning", "reassignment_cancelled", repr(partition), text)
    controller.observer.deviates(EMPTY_TARGET_REFUSED, repr(partition))
    return assignment.reassign_to(assignment.origin)


async def resume_on_brokers(controller: Controller, brokers: list[int]) -> None:
    """Brokers started: resume the reassignments that wait for them (KB 9.1 step 6).

    After a change of target, an added replica can be outside of the target (docs/kip-236-design.md,
    the drop set). It is started as well.
    """
    ordered = controller.order.partitions(controller.context.reassigning)
    waiting = [
        one
        for one in ordered
        if any(id in brokers for id in (*one.assignment.target, *one.assignment.adding))
    ]
    await _resume(controller, [NewAssignment(one, one.assignment) for one in waiting])


async def process_state_changes(controller: Controller, names: list[Name]) -> None:
    """The states of partitions were written (processPartitionReassignmentIsrChange)."""
    found = dict.fromkeys(controller.context.find(*name) for name in names)
    await process_changed_isrs(controller, [one for one in found if one is not None])


# Common to both ---------------------------------------------------------------------------------


def _assignment(controller: Controller, name: Name) -> Assignment:
    partition = controller.context.find(*name)
    return partition.assignment if partition is not None else NO_ASSIGNMENT


async def _trigger(
    controller: Controller, targets: dict[Name, Assignment], *, by_api: bool = False
) -> Results:
    """Begin reassignments in order (maybeTriggerPartitionReassignment, KB 7.4); returns the
    errors."""
    errors: Results = {}
    for number, part in enumerate(parts(controller, controller.order.names(targets))):
        if number:
            await pause(controller)
        errors |= await _trigger_part(controller, {name: targets[name] for name in part}, by_api)
    return errors


async def _trigger_part(
    controller: Controller, targets: dict[Name, Assignment], by_api: bool
) -> Results:
    errors: Results = {}
    wanted: dict[Partition, Assignment] = {}
    for name, assignment in targets.items():
        partition = controller.context.find(*name)
        if partition is None or not partition.replicas or controller.context.is_queued(partition):
            error = error_codes.UNKNOWN_TOPIC_OR_PARTITION
            errors[name] = PartitionResult(*name, error, _UNKNOWN_PARTITION)
        else:
            wanted[partition] = assignment
    for partition, (error, text) in (await _refused_assignments(controller, wanted)).items():
        errors[partition.key] = PartitionResult(*partition.key, error, text)
        del wanted[partition]
    moves = [_move(controller, *one, by_api=by_api) for one in wanted.items()]
    failed = await carry_out(controller, moves)
    report_failed(controller, failed)
    for partition in failed:
        errors[partition.key] = PartitionResult(*partition.key, error_codes.UNKNOWN_SERVER_ERROR)
    return errors


def _move(
    controller: Controller, partition: Partition, assignment: Assignment, *, by_api: bool
) -> NewAssignment:
    """The move. If an admin tool requests it, report it, and add a record, so that cancelling
    restores the order of the originals (ORIGINALS_RESTORED_BY_API)."""
    if not by_api or not controller.configuration.has_kip_236:
        return NewAssignment(partition, assignment)
    before = controller.context.reassignments.get(partition)
    if before is not None:
        originals = before.original_replicas
        report_replaced(controller, partition, before.replicas, assignment.target, ADMIN_TOOLS)
    else:
        originals = partition.assignment.origin
    record = Reassignment(assignment.target, len(originals), False, originals, api=True)
    if before is None:
        report_begun(controller, partition, record, ADMIN_TOOLS)
    return NewAssignment(partition, assignment, record)


async def _refused_assignments(
    controller: Controller, assignments: dict[Partition, Assignment]
) -> dict[Partition, tuple[int, str]]:
    """The assignments that no route may request, each with the error and message of the
    response."""
    refused: dict[Partition, tuple[int, str]] = {}
    invalid = error_codes.INVALID_REPLICA_ASSIGNMENT
    for partition, assignment in assignments.items():
        if names_own_id := daemon_id_problem(controller, assignment.target):
            refused[partition] = (invalid, names_own_id)
        elif not assignment.target and EMPTY_TARGET_REFUSED.applies(controller.configuration):
            refused[partition] = (invalid, "The replica list is empty.")
            controller.observer.deviates(EMPTY_TARGET_REFUSED, repr(partition))
    if LEADER_MOVED_FIRST.applies(controller.configuration):
        left = {one: each for one, each in assignments.items() if one not in refused}
        for partition in await drops_all_in_sync(controller, left):
            refused[partition] = (invalid, _ALL_DROPPED)
            controller.observer.deviates(LEADER_MOVED_FIRST, repr(partition))
    moving = [one for one in assignments if assignments[one].is_being_reassigned]
    if moving and await is_cancelled(controller):
        refused |= {one: (error_codes.REASSIGNMENT_IN_PROGRESS, _CANCELLED) for one in moving}
    return refused
