"""--request: reassignments by /admin/reassignment_requests (KB 14.4, 14.5)."""

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
from controller.operator.reassignment.access import Cluster
from controller.operator.reassignment.by_hand import warn_of_unusable
from controller.operator.reassignment.documents import (
    Partition,
    Targets,
    as_document,
    spelt,
    write_targets,
)
from controller.operator.reassignment.errors import Refused
from controller.operator.reassignment.report import Report
from controller.operator.reassignment.statuses import NOT_DONE_YET, OTHERWISE
from controller.operator.reassignment.steps import Configure, Write, throttle_steps
from controller.operator.reassignment.submission import check_is_refold, check_submission
from controller.operator.reassignment.throttles import moves
from controller.operator.reassignment.throttling import limit
from controller.operator.reassignment.view import Record, Role, View

_POLL_SECONDS: Final = 0.1


class Taken(Enum):
    """What became of one partition of a request."""

    STARTED = "started"
    CHANGED = "changed"
    DONE = "done"
    IGNORED = "ignored"
    WAITING = "waiting"


async def request(
    cluster: Cluster,
    report: Report,
    targets: Targets,
    throttle: int | None,
    *,
    timeout_ms: int,
    dry_run: bool,
) -> None:
    """Submit and wait until the controller has taken it up; says each reassignment's czxid, and
    what goes back. Raises Refused."""
    view = await cluster.access.look({topic for topic, _ in targets})
    check_is_refold(view, REASSIGNMENT_REQUESTS)
    check_submission(view, targets, (REASSIGNMENTS, REASSIGNMENT_REQUESTS))
    warn_of_unusable(report, view)
    current = view.origins(targets)
    report.data |= {"route": REASSIGNMENT_REQUESTS, "rollback": as_document(current)}
    report.say(
        f"Current partition replica assignment\n\n{write_targets(current)}\n\n"
        "Save this to use as the --reassignment-json-file option of another --request, which goes "
        "back"
    )
    parts = split(targets, DATA_BYTES_MAX)
    limits: list[Configure] = []
    if throttle is not None:
        limits = throttle_steps(moves(targets, view.assignments), throttle)
    steps = [Write((CreateSequential(REQUEST_PREFIX, write_request(one)),)) for one in parts]
    if dry_run:
        report.say_steps([*limits, *steps])
        return
    await limit(cluster, report, limits)
    for step in steps:
        await _add(cluster, step)
    plural = "" if len(parts) == 1 else f" in {len(parts)} parts"
    report.say(f"Submitted the request{plural}.")
    if view.controller.role is Role.NOBODY:
        report.warn("nobody has the controller's role: refold takes the request up when it has")
    found = await _until_taken(cluster, view, targets, timeout_ms)
    _tell(report, targets, *found)


def split(targets: Targets, bytes_max: int) -> list[dict[Partition, tuple[int, ...]]]:
    """In halves until each fits into a znode."""
    if len(write_request(targets)) <= bytes_max or len(targets) == 1:
        return [dict(targets)]
    items = sorted(targets.items())
    half = len(items) // 2
    return [*split(dict(items[:half]), bytes_max), *split(dict(items[half:]), bytes_max)]


async def _add(cluster: Cluster, step: Write) -> None:
    """The first request of a cluster makes the parent, too."""
    store = cluster.zookeeper.store
    operations: tuple[WriteOperation, ...] = step.operations
    if not await store.exists(REASSIGNMENT_REQUESTS):
        operations = (Create(REASSIGNMENT_REQUESTS), *operations)
    error = await store.write(operations)
    if error == NODE_EXISTS:
        error = await store.write(step.operations)
    if error != OK:
        raise Refused(f"{REQUEST_PREFIX} could not be created (ZooKeeper code {error})")


async def _until_taken(
    cluster: Cluster, before: View, targets: Targets, timeout_ms: int
) -> tuple[dict[Partition, Taken], Mapping[Partition, Record]]:
    """Look until the controller has dealt with every partition, or the time is over."""
    deadline = time.monotonic() + timeout_ms / 1000
    while True:
        view = await cluster.access.look({topic for topic, _ in targets})
        taken = {one: _taken(before, view, one, targets[one]) for one in targets}
        if Taken.WAITING not in taken.values() or time.monotonic() >= deadline:
            return taken, view.znodes.records
        await anyio.sleep(_POLL_SECONDS)


def _taken(before: View, view: View, partition: Partition, target: tuple[int, ...]) -> Taken:
    known = max((request_number(_name(path)) or 0 for path in before.znodes.requests), default=-1)
    for path, one in view.znodes.requests.items():
        # The path of our own was not told to us: its content tells.
        number = request_number(_name(path))
        is_later = number is not None and number > known
        if is_later and one.assignments.get(partition) == target:
            return Taken.WAITING
    record = view.znodes.records.get(partition)
    if record is not None and record.reassignment.replicas == target:
        return Taken.STARTED if record.czxid == record.mzxid else Taken.CHANGED
    assignment = view.assignments.get(partition)
    is_done = assignment is not None and not assignment.is_being_reassigned
    if is_done and assignment is not None and assignment.replicas == target:
        return Taken.DONE
    return Taken.IGNORED


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _tell(
    report: Report,
    targets: Targets,
    taken: Mapping[Partition, Taken],
    records: Mapping[Partition, Record],
) -> None:
    told = []
    for partition in sorted(targets):
        what = taken[partition]
        entry = {"topic": partition[0], "partition": partition[1], "outcome": what.value}
        name = spelt(partition)
        if what in (Taken.STARTED, Taken.CHANGED):
            identity = f"{records[partition].czxid:#x}"
            entry["czxid"] = identity
            report.say(
                f"{name}: {what.value}, {reassignment_path(*partition)} has czxid {identity}"
            )
        elif what is Taken.DONE:
            report.say(f"{name}: done already")
        elif what is Taken.WAITING:
            report.say(f"{name}: the controller has not taken it up yet, the request stands")
            report.status = NOT_DONE_YET
        else:
            report.warn(
                f"{name}: the controller has not started it; its log says why, or somebody removed "
                "the request"
            )
        told.append(entry)
    report.data["requested"] = told
    report.awaited = targets
    if Taken.IGNORED in taken.values():
        report.status = OTHERWISE
