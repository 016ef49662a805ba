"""/admin/reassignment_requests: the requests, one after the other (KB 14.5.2)."""

from typing import NamedTuple

from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.errors import ZnodeError
from controller.core.operations import NO_NODE, OK, Delete
from controller.core.procedures.failures import shown
from controller.core.procedures.reassignment_cancel import is_cancelled, tell_waiting
from controller.core.procedures.reassignment_records import make_parents, mend_records
from controller.core.procedures.reassignment_submission import Submission, Verdict, submit
from controller.core.procedures.reassignment_znode import remove_entries
from controller.core.reassignment_znodes import (
    REASSIGNMENT_REQUESTS,
    Name,
    Request,
    read_request,
    request_number,
    request_path,
)
from controller.core.settle import read_children, read_znodes, write
from controller.core.values import ANY_VERSION

_RULE = "reassignment requests"


class Queued(NamedTuple):
    """A request, by the name of its znode."""

    child: str
    request: Request


async def process_requests(controller: Controller) -> None:
    """Begin what each request asks for, then delete it."""
    if not controller.configuration.has_kip_236:
        return
    children = await list_requests(controller)
    if not children:
        return
    if await is_cancelled(controller):
        tell_waiting(controller, REASSIGNMENT_REQUESTS)
        return
    await mend_records(controller)
    for queued in await read_requests(controller, children):
        if not await _process(controller, queued):
            tell_waiting(controller, request_path(queued.child))
            return


async def list_requests(controller: Controller) -> list[str]:
    """The children by their numbers, whatever else is there behind them; watches them."""
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
    """The requests in order; those that nobody can read are moved out of the way."""
    paths = [request_path(one) for one in children]
    found = await read_znodes(controller, paths, _RULE)
    requests = []
    for child, path, error, data in zip(children, paths, found.errors, found.data, strict=True):
        if error != OK:
            continue
        try:
            requests.append(Queued(child, read_request(path, data)))
        except ZnodeError as unreadable:
            text = f"{unreadable}; it is removed, it held {shown(data)}"
            controller.notice("error", "unreadable_znode", path, text)
            await delete_request(controller, child)
    return requests


async def delete_request(controller: Controller, child: str) -> None:
    """It is done with."""
    path = request_path(child)
    delete = Delete(path, ANY_VERSION)
    [error] = (await write(controller, [delete], Reason("reassignment request: done"))).errors
    if error not in (OK, NO_NODE):
        text = f"it is done with and cannot be deleted (ZooKeeper code {error}): remove it"
        controller.notice("error", "request_not_deleted", path, text)


async def _process(controller: Controller, queued: Queued) -> bool:
    """False: a cancellation came in between, and what is left of it waits."""
    assignments, legacy = queued.request.assignments, queued.request.legacy
    refused: dict[Name, tuple[int, ...]] = {}
    for name in controller.turns.names(assignments):
        target = assignments[name]
        verdict = await submit(controller, Submission(name, target, legacy))
        if verdict is Verdict.WAITS:
            return False
        if verdict is Verdict.REFUSED and legacy:
            refused[name] = target
    await remove_refused(controller, refused)
    await delete_request(controller, queued.child)
    return True


async def remove_refused(controller: Controller, refused: dict[Name, tuple[int, ...]]) -> None:
    """Entries that are ignored leave /admin/reassign_partitions: else it would stand for ever."""
    if refused:
        await remove_entries(controller, lambda name, target: refused.get(name) == target)
