"""--request: reassignments through /admin/reassignment_requests (KB 14.4, 14.5)."""

import time
from collections.abc import Mapping
from enum import Enum
from typing import Final

import anyio

from controller.core.operations import NODE_EXISTS, OK, Create, CreateSequential, WriteOperation
from controller.core.znodes import (
    DATA_BYTES_MAX,
    REASSIGNMENT_REQUESTS,
    REASSIGNMENTS,
    REQUEST_PREFIX,
    reassignment_path,
    request_number,
    write_request,
)
from controller.operator.reassignment.cluster import ClusterConnection
from controller.operator.reassignment.cluster_state import (
    ClusterState,
    ControllerKind,
    ReassignmentRecord,
)
from controller.operator.reassignment.damaged_znodes import warn_unusable_records
from controller.operator.reassignment.documents import (
    Partition,
    Targets,
    as_document,
    format_partition,
    write_targets,
)
from controller.operator.reassignment.errors import ReassignmentRefused
from controller.operator.reassignment.report import NOT_AS_REQUESTED, NOT_DONE_YET, ProgressReport
from controller.operator.reassignment.steps import Configure, Write
from controller.operator.reassignment.submission import check_is_refold, check_submission
from controller.operator.reassignment.throttling import planned_moves, set_throttle, throttle_steps

_POLL_SECONDS: Final = 0.1


class RequestResult(Enum):
    """The result for one partition of a request."""

    STARTED = "started"
    CHANGED = "changed"
    DONE = "done"
    IGNORED = "ignored"
    WAITING = "waiting"


async def request(
    cluster: ClusterConnection,
    report: ProgressReport,
    targets: Targets,
    throttle: int | None,
    *,
    timeout_ms: int,
    dry_run: bool,
) -> None:
    """Submit a request and wait until the controller has handled it. Print the czxid of each
    reassignment, and the assignment to go back to. Raises ReassignmentRefused."""
    state = await cluster.admin.describe({topic for topic, _ in targets})
    check_is_refold(state, REASSIGNMENT_REQUESTS)
    check_submission(state, targets, (REASSIGNMENTS, REASSIGNMENT_REQUESTS))
    warn_unusable_records(report, state)
    current = state.origins(targets)
    report.data |= {"route": REASSIGNMENT_REQUESTS, "rollback": as_document(current)}
    report.print_line(
        f"Current partition replica assignment\n\n{write_targets(current)}\n\nSave this "
        "to use as the --reassignment-json-file option of another --request for a "
        "rollback"
    )
    parts = split_targets(targets, DATA_BYTES_MAX)
    limits: list[Configure] = []
    if throttle is not None:
        limits = throttle_steps(planned_moves(targets, state.assignments), throttle)
    steps = [Write((CreateSequential(REQUEST_PREFIX, write_request(one)),)) for one in parts]
    if dry_run:
        report.print_steps([*limits, *steps])
        return
    await set_throttle(cluster, report, limits)
    for step in steps:
        await _add(cluster, step)
    plural = "" if len(parts) == 1 else f" in {len(parts)} parts"
    report.print_line(f"Submitted the request{plural}.")
    if state.controller.kind is ControllerKind.NONE:
        report.warn("there is no controller: refold handles the request when it takes the role")
    found = await _wait_for_outcomes(cluster, state, targets, timeout_ms)
    _report_outcomes(report, targets, *found)


def split_targets(targets: Targets, bytes_max: int) -> list[dict[Partition, tuple[int, ...]]]:
    """Split targets in halves until each part fits into a znode."""
    if len(write_request(targets)) <= bytes_max or len(targets) == 1:
        return [dict(targets)]
    items = sorted(targets.items())
    half = len(items) // 2
    return [
        *split_targets(dict(items[:half]), bytes_max),
        *split_targets(dict(items[half:]), bytes_max),
    ]


async def _add(cluster: ClusterConnection, step: Write) -> None:
    """Create a request. The first request of a cluster also creates the parent."""
    store = cluster.zookeeper.client
    operations: tuple[WriteOperation, ...] = step.operations
    if not await store.exists(REASSIGNMENT_REQUESTS):
        operations = (Create(REASSIGNMENT_REQUESTS), *operations)
    error = await store.write(operations)
    if error == NODE_EXISTS:
        error = await store.write(step.operations)
    if error != OK:
        raise ReassignmentRefused(f"{REQUEST_PREFIX} could not be created (ZooKeeper code {error})")


async def _wait_for_outcomes(
    cluster: ClusterConnection, before: ClusterState, targets: Targets, timeout_ms: int
) -> tuple[dict[Partition, RequestResult], Mapping[Partition, ReassignmentRecord]]:
    """Poll until the controller has handled every partition, or the time limit has passed.

    A poll reads the topics before the requests and records. A reassignment that ends between these
    reads looks as if it had been ignored, so a second poll must show the same.
    """
    deadline = time.monotonic() + timeout_ms / 1000
    unsettled = dict.fromkeys(targets)
    while True:
        state = await cluster.admin.describe({topic for topic, _ in targets})
        outcomes = {one: _outcome(before, state, one, targets[one]) for one in targets}
        ignored = [one for one, what in outcomes.items() if what is RequestResult.IGNORED]
        is_settled = RequestResult.WAITING not in outcomes.values() and not any(
            one in unsettled for one in ignored
        )
        if is_settled or time.monotonic() >= deadline:
            return outcomes, state.znodes.records
        unsettled = {one: None for one in unsettled if one not in ignored}
        await anyio.sleep(_POLL_SECONDS)


def _outcome(
    before: ClusterState, state: ClusterState, partition: Partition, target: tuple[int, ...]
) -> RequestResult:
    known = max((request_number(_name(path)) or 0 for path in before.znodes.requests), default=-1)
    for path, one in state.znodes.requests.items():
        # ZooKeeper did not return the path of this request: identify it by its content.
        number = request_number(_name(path))
        is_later = number is not None and number > known
        if is_later and one.assignments.get(partition) == target:
            return RequestResult.WAITING
    record = state.znodes.records.get(partition)
    if record is not None and record.reassignment.replicas == target:
        return RequestResult.STARTED if record.czxid == record.mzxid else RequestResult.CHANGED
    assignment = state.assignments.get(partition)
    is_done = assignment is not None and not assignment.is_being_reassigned
    if is_done and assignment is not None and assignment.replicas == target:
        return RequestResult.DONE
    return RequestResult.IGNORED


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _report_outcomes(
    report: ProgressReport,
    targets: Targets,
    outcomes: Mapping[Partition, RequestResult],
    records: Mapping[Partition, ReassignmentRecord],
) -> None:
    entries = []
    for partition in sorted(targets):
        what = outcomes[partition]
        entry = {"topic": partition[0], "partition": partition[1], "outcome": what.value}
        name = format_partition(partition)
        if what in (RequestResult.STARTED, RequestResult.CHANGED):
            identity = f"{records[partition].czxid:#x}"
            entry["czxid"] = identity
            report.print_line(
                f"{name}: {what.value}, {reassignment_path(*partition)} has czxid {identity}"
            )
        elif what is RequestResult.DONE:
            report.print_line(f"{name}: already done")
        elif what is RequestResult.WAITING:
            report.print_line(
                f"{name}: the controller has not handled the request yet; it stays pending"
            )
            report.status = NOT_DONE_YET
        else:
            report.warn(
                f"{name}: the controller did not start the reassignment: see its log for the "
                "reason, or the request was deleted"
            )
        entries.append(entry)
    report.data["requested"] = entries
    report.awaited = targets
    if RequestResult.IGNORED in outcomes.values():
        report.status = NOT_AS_REQUESTED
