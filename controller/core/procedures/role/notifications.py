"""Sequential notifications of brokers, below one parent: listed, and deleted when done with."""

from controller.core import znodes
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.operations import Delete, WriteOperation
from controller.core.values import ANY_VERSION
from controller.core.zookeeper_io import read_children, write


async def list_notifications(controller: Controller, parent: str, rule: str) -> list[str]:
    """The paths of the notifications there are; the read watches for new ones."""
    children = await read_children(controller, parent, rule, watch=True)
    return [
        znodes.notification_path(parent, child)
        for child in children.children
        if znodes.is_notification(parent, child)
    ]


async def delete_notifications(controller: Controller, paths: list[str], rule: str) -> None:
    """They are done with; whether one was gone already does not matter (KB 1.3)."""
    deletes: list[WriteOperation] = [Delete(path, ANY_VERSION) for path in paths]
    if deletes:
        await write(controller, deletes, Reason(rule))
