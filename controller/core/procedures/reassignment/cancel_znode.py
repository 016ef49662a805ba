"""/admin/reassign_cancel: while it exists, no reassignment makes progress (KB 14.2.3)."""

from typing import NamedTuple

from controller.core.controller import Controller
from controller.core.operations import OK
from controller.core.triggers import ExtraReassignments, ReassignmentCancel
from controller.core.znodes import REASSIGN_CANCEL, is_forced
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
    return Cancellation(found.czxids[0], is_forced(found.data[0]))


async def is_cancelled(controller: Controller) -> bool:
    """Whether the znode exists now: a watch may not have fired yet."""
    if not controller.configuration.has_kip_236:
        return False
    if controller.context.cancel != 0:
        return True
    stats = await read_stats(controller, [REASSIGN_CANCEL], _RULE, watch=True)
    return stats.errors[0] == OK


def report_waiting(controller: Controller, path: str) -> None:
    """Report that the content of a znode waits until the cancellation is removed."""
    text = f"what it asks for waits until {REASSIGN_CANCEL} is removed"
    controller.notice("warning", "reassignment_waits", path, text)


def retry_waiting_rollbacks(controller: Controller) -> None:
    """Replicas or leaders changed: waiting rollbacks may be possible now."""
    if controller.context.rollback_waiting:
        controller.enqueue(ReassignmentCancel())
        controller.enqueue(ExtraReassignments())
