"""/admin/reassignment_requests: requests, carried out one after the other (KB 14.5.2)."""

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.errors import ZnodeError
from controller.core.failures import excerpt, listed_names
from controller.core.operations import NO_NODE, OK, Delete, SetData
from controller.core.procedures.reassignment.reassign_partitions import (
    are_older,
    note_request,
    read_legacy,
)
from controller.core.procedures.reassignment.submission import (
    Submission,
    reject,
    rejected_text,
    submit,
)
from controller.core.procedures.reassignment_znodes.cancel_znode import (
    current_cancel,
    report_cancelled,
)
from controller.core.procedures.reassignment_znodes.entries import remove_entries
from controller.core.procedures.reassignment_znodes.records import (
    LEGACY,
    make_parents,
    repair_records,
)
from controller.core.triggers import ZkPartitionReassignment
from controller.core.values import ANY_VERSION, Assignment
from controller.core.znodes import (
    REASSIGNMENT_REQUESTS,
    Entries,
    Name,
    ReassignmentRequest,
    read_request,
    request_number,
    request_path,
    write_request,
)
from controller.core.zookeeper_io import read_children, read_znodes, write

_RULE = "reassignment requests"


class RequestOutcome(Enum):
    """The outcome of a request, after "the request ..."."""

    CARRIED_OUT = "was carried out"
    IN_PART = "was carried out except for rejected partitions"
    REJECTED = "was rejected"
    CANCELLED = "was cancelled"
    UNREADABLE = "cannot be read"


class RequestZnode(NamedTuple):
    """A request, with the name of its znode and the transaction that created it."""

    child: str
    request: ReassignmentRequest
    czxid: int = 0

    @property
    def path(self) -> str:
        """The znode of this request."""
        return request_path(self.child)


class BegunReassignment(NamedTuple):
    """A reassignment that began: its target, and the transaction that wrote its record."""

    target: tuple[int, ...]
    mzxid: int


async def process_requests(controller: Controller) -> None:
    """Begin the reassignments of each request, then delete it."""
    if not controller.configuration.has_kip_236:
        return
    children = await list_requests(controller)
    if children and (cancel := await current_cancel(controller)):
        requests = await read_requests(controller, children)
        waiting = [one.request for one in requests if _waits(controller, one, cancel)]
        if waiting:
            names = dict.fromkeys(name for one in waiting for name in one.assignments)
            report_cancelled(controller, REASSIGNMENT_REQUESTS, names)
        return
    if children:
        await repair_records(controller)
    for queued in await read_requests(controller, children):
        if not await _process(controller, queued):
            if _waits(controller, queued, await current_cancel(controller)):
                report_cancelled(controller, queued.path, queued.request.assignments)
            return
    _request_again(controller)


def _waits(controller: Controller, queued: RequestZnode, cancel: int) -> bool:
    """Whether a request waits for the end of the cancellation that transaction `cancel` created.
    The entries of a legacy request may be older than the cancellation, which removes them."""
    names = queued.request.assignments
    is_cancelled = queued.request.legacy and len(are_older(controller, names, cancel)) == len(names)
    return bool(names) and not is_cancelled


def _request_again(controller: Controller) -> None:
    """Look again at the entries whose request another client deleted."""
    seen = controller.context.entries_seen
    lost = [name for name, one in seen.items() if one.is_requested]
    for name in lost:
        note_request(controller, name, seen[name].replicas, is_waiting=False)
    if lost:
        controller.enqueue(ZkPartitionReassignment(created=False))


async def list_requests(controller: Controller) -> list[str]:
    """The children in the order of their numbers, then all others; watches them."""
    found = await read_children(controller, REASSIGNMENT_REQUESTS, _RULE, watch=True)
    if found.error == NO_NODE:
        await make_parents(controller)
        found = await read_children(controller, REASSIGNMENT_REQUESTS, _RULE, watch=True)
    numbers = {one: request_number(one) for one in found.children}
    numbered = [(number, one) for one, number in numbers.items() if number is not None]
    return [one for _, one in sorted(numbered)] + [
        one for one, number in numbers.items() if number is None
    ]


async def read_requests(controller: Controller, children: list[str]) -> list[RequestZnode]:
    """The requests in order. Unreadable ones are deleted; those that were carried out and could not
    be deleted are skipped."""
    done = controller.context.requests_done
    children = [one for one in children if one not in done]
    paths = [request_path(one) for one in children]
    found = await read_znodes(controller, paths, _RULE)
    requests = []
    for child, path, error, data, czxid in zip(
        children, paths, found.errors, found.data, found.czxids, strict=True
    ):
        if error != OK:
            continue
        try:
            requests.append(RequestZnode(child, read_request(path, data), czxid))
        except ZnodeError as unreadable:
            text = f"{unreadable}; the znode is deleted; its content was {excerpt(data)}"
            controller.notice("error", "unreadable_znode", path, text)
            await _delete(controller, child, RequestOutcome.UNREADABLE)
    return requests


async def delete_request(
    controller: Controller, queued: RequestZnode, outcome: RequestOutcome
) -> None:
    """Delete a request that is over. If it cannot be deleted, it is emptied."""
    assignments = queued.request.assignments
    await _delete(controller, queued.child, outcome, asks=bool(assignments))
    if queued.request.legacy:
        for name, target in assignments.items():
            note_request(controller, name, target, is_waiting=False)


async def forget_begun(controller: Controller, begun: Mapping[Name, BegunReassignment]) -> None:
    """Remove from the requests the reassignments that they have begun, and that are over. Their
    controller failed before it deleted the request, which otherwise would begin them again."""
    children = await list_requests(controller)
    for queued in await read_requests(controller, children):
        assignments = queued.request.assignments
        left = {
            name: target
            for name, target in assignments.items()
            if name not in begun
            or begun[name].target != target
            or begun[name].mzxid < queued.czxid
            or queued.request.legacy
        }
        if not left:
            await delete_request(controller, queued, RequestOutcome.CARRIED_OUT)
        elif len(left) < len(assignments):
            await _reduce(controller, queued, left)


async def _reduce(
    controller: Controller, queued: RequestZnode, left: Mapping[Name, tuple[int, ...]]
) -> None:
    """Write a request again, with the rest of its reassignments."""
    rest = SetData(queued.path, write_request(left), ANY_VERSION)
    reason = Reason("reassignment request: done in part")
    [error] = (await write(controller, [rest], reason)).errors
    if error not in (OK, NO_NODE):
        done = [name for name in queued.request.assignments if name not in left]
        text = (
            f"the reassignments of {listed_names(done)} that it requests are over, but the znode "
            f"cannot be written (ZooKeeper code {error}); they begin again"
        )
        controller.notice("error", "request_not_deleted", queued.path, text)


def outcome_of(queued: RequestZnode, rejected: Collection[Name]) -> RequestOutcome:
    """The outcome of a request of which these partitions were rejected."""
    if not rejected:
        return RequestOutcome.CARRIED_OUT
    is_rejected = len(rejected) == len(queued.request.assignments)
    return RequestOutcome.REJECTED if is_rejected else RequestOutcome.IN_PART


async def _delete(
    controller: Controller, child: str, outcome: RequestOutcome, *, asks: bool = True
) -> None:
    path = request_path(child)
    delete = Delete(path, ANY_VERSION)
    [error] = (await write(controller, [delete], Reason("reassignment request: done"))).errors
    if error in (OK, NO_NODE) or not asks:
        return
    emptied = SetData(path, write_request({}), ANY_VERSION)
    reason = Reason("reassignment request: done, though it cannot be deleted")
    [failed] = (await write(controller, [emptied], reason)).errors
    if failed != OK:
        controller.context.requests_done[child] = None
    was_carried_out = outcome in (RequestOutcome.CARRIED_OUT, RequestOutcome.IN_PART)
    then = "is not carried out again" if was_carried_out else "is ignored from now on"
    text = (
        f"the request {outcome.value}, but its znode cannot be deleted (ZooKeeper code {error}); "
        f"the request {then}{'' if failed == OK else ' by this controller'}: delete the znode and "
        "its children"
    )
    controller.notice("error", "request_not_deleted", path, text)


async def _process(controller: Controller, queued: RequestZnode) -> bool:
    """Carry out one request. False: a cancellation came in between, and the rest of it waits."""
    assignments, legacy = queued.request.assignments, queued.request.legacy
    names = controller.order.names(assignments)
    unfounded: set[Name] = set()
    rejected: set[Name] = set()
    if legacy:
        entries = (await read_legacy(controller)).entries
        unfounded = _unfounded_partitions(queued, entries)
        rejected = refuse_unfounded(controller, queued, entries)
    refused = await submit(
        controller,
        [
            Submission(name, assignments[name], legacy, "" if legacy else queued.path)
            for name in names
            if name not in unfounded
        ],
    )
    if refused is None:
        return False
    if legacy:
        await remove_refused(controller, {name: assignments[name] for name in refused})
    await delete_request(controller, queued, outcome_of(queued, rejected.union(refused)))
    return True


def _unfounded_partitions(queued: RequestZnode, entries: Entries) -> set[Name]:
    """The partitions of a legacy request that have no such entry."""
    asked = queued.request.assignments
    return {name for name in asked if name not in entries or entries[name].replicas != asked[name]}


def refuse_unfounded(controller: Controller, queued: RequestZnode, entries: Entries) -> set[Name]:
    """Refuse the partitions of a legacy request whose entry does not exist, and return them. Do not
    refuse a repeated request: after a lost reply an entry may have two requests."""
    asked = queued.request.assignments
    unfounded = _unfounded_partitions(queued, entries)
    refused = {name for name in unfounded if not _is_on(controller, name, asked[name])}
    for name in sorted(refused):
        why = f"{LEGACY} has no such entry"
        reject(controller, name, rejected_text(asked[name], queued.path, why), why)
    return refused


def _is_on(controller: Controller, name: Name, target: tuple[int, ...]) -> bool:
    """Whether a partition is on these replicas, and not being reassigned."""
    partition = controller.context.find(*name)
    return partition is not None and partition.assignment == Assignment(target)


async def remove_refused(controller: Controller, refused: dict[Name, tuple[int, ...]]) -> None:
    """Remove refused entries from /admin/reassign_partitions, which would stay there for ever."""
    if refused:
        await remove_entries(controller, lambda name, target: refused.get(name) == target)
