"""/admin/reassign_cancel: while it exists, no reassignment makes progress (KB 14.2.3)."""

from collections.abc import Collection
from typing import NamedTuple

from controller.core.controller import Controller
from controller.core.errors import ZnodeError
from controller.core.failures import listed_names
from controller.core.operations import OK
from controller.core.state import UNKNOWN_ZXID, ControllerContext, WaitReport
from controller.core.triggers import (
    ExtraReassignments,
    ReassignmentCancel,
    Trigger,
    ZkPartitionReassignment,
)
from controller.core.znodes import REASSIGN_CANCEL, Name, read_force
from controller.core.zookeeper_io import read_stats, read_znodes

_RULE = "reassignment: is it cancelled"


class Cancellation(NamedTuple):
    """The znode: the transaction that created it (0: it does not exist), and whether it asks for
    rollbacks without enough originals in sync."""

    czxid: int = 0
    forced: bool = False


async def read_cancel(controller: Controller) -> Cancellation:
    """Read the znode; watches it, also for its creation."""
    stats = await read_stats(controller, [REASSIGN_CANCEL], _RULE, watch=True)
    if stats.errors[0] != OK:
        return Cancellation()
    found = await read_znodes(controller, [REASSIGN_CANCEL], _RULE)
    if found.errors[0] != OK:
        return Cancellation()
    try:
        return Cancellation(found.czxids[0], read_force(found.data[0]))
    except ZnodeError as unreadable:
        _report_unreadable(controller, str(unreadable))
        return Cancellation(found.czxids[0])


def _report_unreadable(controller: Controller, why: str) -> None:
    """Report content that cannot be read, once while it stays the same: the znode cancels, and
    forces nothing."""
    text = f"{why}; the znode cancels as without content: it does not force the rollbacks"
    if _note_if_new(controller, REASSIGN_CANCEL, WaitReport(text, while_cancelled=True)):
        controller.notice("warning", "unreadable_znode", REASSIGN_CANCEL, text)


def _note_if_new(controller: Controller, path: str, report: WaitReport) -> bool:
    """Note the last report about a znode. Returns whether it differs from the one before."""
    reported = controller.context.waiting_reported
    is_new = reported.get(path) != report
    reported[path] = report
    return is_new


async def current_cancel(controller: Controller) -> int:
    """The transaction that created the znode, 0 if it does not exist now: a watch may not have
    fired yet."""
    if not controller.configuration.has_kip_236:
        return 0
    if controller.context.cancel != 0:
        return controller.context.cancel
    stats = await read_stats(controller, [REASSIGN_CANCEL], _RULE, watch=True)
    return stats.czxids[0] if stats.errors[0] == OK else 0


async def is_cancelled(controller: Controller) -> bool:
    """Whether the znode exists now."""
    return await current_cancel(controller) != 0


def with_cancellation_bound(context: ControllerContext, trigger: Trigger) -> Trigger:
    """The controller event of a watch that fired, with a bound for the transaction of a
    cancellation where the server did not send its zxid.

    Watches fire in the order of transactions. While that of /admin/reassign_partitions has not
    fired, entries that are read later are younger than the cancellation.
    """
    match trigger:
        case ZkPartitionReassignment():
            context.entries_mzxid = UNKNOWN_ZXID
        case ReassignmentCancel(created=True, zxid=zxid) if zxid == UNKNOWN_ZXID:
            if context.entries_mzxid != UNKNOWN_ZXID:
                return ReassignmentCancel(True, context.entries_mzxid + 1)
    return trigger


def report_cancelled(controller: Controller, path: str, names: Collection[Name]) -> None:
    """Report the partitions whose reassignments a znode requests, and which wait for the end of the
    cancellation; once while they stay the same."""
    until = f"until {REASSIGN_CANCEL} is deleted"
    if len(names) == 1:
        text = f"the reassignment of {listed_names(list(names))} waits {until}"
    elif names:
        text = f"the reassignments of {listed_names(list(names))} wait {until}"
    else:
        text = f"the reassignments that this znode requests wait {until}"
    report_waiting(controller, path, text, while_cancelled=True)


def report_waiting(
    controller: Controller, path: str, text: str, *, while_cancelled: bool = False
) -> None:
    """Report that the content of a znode waits, once while the text stays the same.
    `while_cancelled`: it waits for the end of the cancellation."""
    if _note_if_new(controller, path, WaitReport(text, while_cancelled)):
        controller.notice("warning", "reassignment_waits", path, text)


def forget_reported(context: ControllerContext) -> None:
    """A cancellation is over: entries that wait for the next one are reported again. Entries of the
    extra znode that wait for a rollback still wait, and were reported."""
    context.waiting_reported = {
        path: report
        for path, report in context.waiting_reported.items()
        if not report.while_cancelled
    }


def retry_waiting_rollbacks(controller: Controller) -> None:
    """Replicas or leaders changed: waiting rollbacks may be possible now."""
    if controller.context.rollback_waiting:
        controller.enqueue(ReassignmentCancel())
        controller.enqueue(ExtraReassignments())
