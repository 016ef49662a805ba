"""/admin/reassign_cancel: while it stands no reassignment goes on (KB 14.2.3)."""

from controller.core.controller import Controller
from controller.core.operations import OK
from controller.core.reassignment_znodes import REASSIGN_CANCEL
from controller.core.settle import read_stats

_RULE = "reassignment: is it cancelled"


async def read_cancel(controller: Controller) -> int:
    """The czxid of the znode, 0 where there is none; watches it, also for its creation."""
    found = await read_stats(controller, [REASSIGN_CANCEL], _RULE, watch=True)
    return found.czxids[0] if found.errors[0] == OK else 0


async def is_cancelled(controller: Controller) -> bool:
    """Whether it stands now: a watch may not have fired yet."""
    if not controller.configuration.has_kip_236:
        return False
    return controller.context.cancel != 0 or await read_cancel(controller) != 0


def tell_waiting(controller: Controller, path: str) -> None:
    """What stands in a znode starts when the cancellation is removed."""
    text = f"what it asks for waits until {REASSIGN_CANCEL} is removed"
    controller.notice("warning", "reassignment_waits", path, text)
