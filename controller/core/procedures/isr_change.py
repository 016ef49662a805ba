"""ISR changes that leaders wrote themselves, below IBP 2.7-IV2 (KB 3.12)."""

from controller.core import znodes
from controller.core.controller import Controller
from controller.core.errors import ZnodeError
from controller.core.operations import OK
from controller.core.procedures.cancellation import process_isr_change
from controller.core.procedures.failures import Failures
from controller.core.procedures.leadership import read_states
from controller.core.procedures.notifications import (
    delete_notifications,
    list_notifications,
)
from controller.core.settle import read_znodes
from controller.core.state import Partition, sorted_partitions

_RULE = "ISR change notification"


async def process_isr_changes(controller: Controller) -> None:
    """Take the new states of the announced partitions and tell every broker.

    The notifications are deleted in the end, also those that cannot be read.
    """
    context = controller.context
    paths = await list_notifications(controller, znodes.ISR_CHANGES, _RULE)
    if not paths:
        return
    partitions = await _announced(controller, paths)
    if partitions:
        failures = Failures(controller, "isr_change_not_read")
        for partition, state in await read_states(controller, partitions, _RULE, failures):
            partition.leadership = state
        failures.tell()
        batch = controller.new_batch(_RULE)
        batch.add_update_metadata(context.brokers, partitions)
        controller.send(batch)
        for partition in controller.turns.partitions(partitions):
            await process_isr_change(controller, partition)
    await delete_notifications(controller, paths, "delete ISR change notifications")


async def _announced(controller: Controller, paths: list[str]) -> list[Partition]:
    found = await read_znodes(controller, paths, _RULE)
    announced: dict[Partition, None] = {}
    for path, error, data in zip(paths, found.errors, found.data, strict=True):
        if error != OK:
            continue
        try:
            names = znodes.read_isr_change(path, data)
        except ZnodeError as unreadable:
            controller.notice("error", "unreadable_znode", path, f"{unreadable}; skipped")
            continue
        for topic, number in names:
            partition = controller.context.find(topic, number)
            if partition is not None and partition.assignment.replicas:
                announced[partition] = None
    return sorted_partitions(announced)
