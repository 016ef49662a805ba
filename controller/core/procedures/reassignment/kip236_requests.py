"""/admin/reassignment_requests: requests, carried out one after the other (KB 14.5.2)."""

from typing import NamedTuple

from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.errors import ZnodeError
from controller.core.failures import excerpt
from controller.core.operations import NO_NODE, OK, Delete, SetData
from controller.core.procedures.reassignment.legacy_znode import note_request, read_legacy
from controller.core.procedures.reassignment.submission import (
    Submission,
    Verdict,
    reject,
    rejected_text,
    submit,
)
from controller.core.procedures.reassignment_znodes.cancel_znode import is_cancelled, report_waiting
from controller.core.procedures.reassignment_znodes.reassign_partitions_znode import remove_entries
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
    Request,
    read_request,
    request_number,
    request_path,
    write_request,
)
from controller.core.zookeeper_io import read_children, read_znodes, write

_RULE = "reassignment requests"


class Queued(NamedTuple):
    """A request, with the name of its znode and the transaction that created it."""

    child: str
    request: Request
    czxid: int = 0

    @property
    def path(self) -> str:
        """The znode of this request."""
        return request_path(self.child)


async def process_requests(controller: Controller) -> None:
    """Begin the reassignments of each request, then delete it."""
    if not controller.configuration.has_kip_236:
        return
    children = await list_requests(controller)
    if children and await is_cancelled(controller):
        if any(one.request.assignments for one in await read_requests(controller, children)):
            report_waiting(controller, REASSIGNMENT_REQUESTS)
        return
    if children:
        await repair_records(controller)
    for queued in await read_requests(controller, children):
        if not await _process(controller, queued):
            report_waiting(controller, queued.path)
            return
    _request_again(controller)


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


async def read_requests(controller: Controller, children: list[str]) -> list[Queued]:
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
            requests.append(Queued(child, read_request(path, data), czxid))
        except ZnodeError as unreadable:
            text = f"{unreadable}; the znode is deleted; its content was {excerpt(data)}"
            controller.notice("error", "unreadable_znode", path, text)
            await _delete(controller, child, "the request cannot be read")
    return requests


async def delete_request(controller: Controller, queued: Queued) -> None:
    """Delete a request that was carried out. If it cannot be deleted, it is emptied."""
    assignments = queued.request.assignments
    await _delete(controller, queued.child, "the request was carried out", asks=bool(assignments))
    if queued.request.legacy:
        for name, target in assignments.items():
            note_request(controller, name, target, is_waiting=False)


async def _delete(controller: Controller, child: str, done: str, *, asks: bool = True) -> None:
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
    text = (
        f"{done}, but its znode cannot be deleted (ZooKeeper code {error}); the request is not "
        f"carried out again{'' if failed == OK else ' by this controller'}: delete the znode and "
        "its children"
    )
    controller.notice("error", "request_not_deleted", path, text)


async def _process(controller: Controller, queued: Queued) -> bool:
    """Carry out one request. False: a cancellation came in between, and the rest of it waits."""
    assignments, legacy = queued.request.assignments, queued.request.legacy
    names = controller.order.names(assignments)
    unfounded: set[Name] = set()
    if legacy:
        unfounded = refuse_unfounded(controller, queued, (await read_legacy(controller)).entries)
    verdicts = await submit(
        controller,
        [
            Submission(name, assignments[name], legacy, "" if legacy else queued.path)
            for name in names
            if name not in unfounded
        ],
    )
    if Verdict.WAITS in verdicts.values():
        return False
    if legacy:
        refused = [name for name, one in verdicts.items() if one is Verdict.REFUSED]
        await remove_refused(controller, {name: assignments[name] for name in refused})
    await delete_request(controller, queued)
    return True


def refuse_unfounded(controller: Controller, queued: Queued, entries: Entries) -> set[Name]:
    """Refuse the partitions of a legacy request that have no such entry; returns them."""
    asked = queued.request.assignments
    unfounded = {
        name for name in asked if name not in entries or entries[name].replicas != asked[name]
    }
    for name in sorted(unfounded):
        if _is_on(controller, name, asked[name]):
            # After a lost reply an entry may have two requests, of which the first has ended.
            continue
        why = f"{LEGACY} has no such entry"
        reject(controller, name, rejected_text(asked[name], queued.path, why), why)
    return unfounded


def _is_on(controller: Controller, name: Name, target: tuple[int, ...]) -> bool:
    """Whether a partition is on these replicas, and not being reassigned."""
    partition = controller.context.find(*name)
    return partition is not None and partition.assignment == Assignment(target)


async def remove_refused(controller: Controller, refused: dict[Name, tuple[int, ...]]) -> None:
    """Remove refused entries from /admin/reassign_partitions, which would stay there for ever."""
    if refused:
        await remove_entries(controller, lambda name, target: refused.get(name) == target)
