"""ISR changes that leaders wrote to ZooKeeper, below IBP 2.7-IV2 (KB 3.12)."""

from collections.abc import Iterable

from controller.core import znodes
from controller.core.controller import Controller
from controller.core.deviations import LONG_WORK_INTERRUPTED
from controller.core.failures import Failures
from controller.core.procedures.elections.leadership import read_states
from controller.core.procedures.reassignment.cancellation import process_changed_isrs
from controller.core.state import Partition, sorted_partitions
from controller.core.triggers import PartitionReassignmentIsrChange
from controller.core.zookeeper_io import (
    delete_notifications,
    list_notifications,
    read_contents,
)

_RULE = "ISR change notification"


async def process_isr_changes(controller: Controller) -> None:
    """Read the new states of the announced partitions and send them to every broker.

    Brokers are sent the live brokers even if no announced partition exists any more
    (KafkaController.processIsrChangeNotification). The notifications are deleted at the end,
    unreadable ones included.
    """
    context = controller.context
    paths = await list_notifications(controller, znodes.ISR_CHANGES, _RULE)
    announced = await _read_notified_partitions(controller, paths)
    if announced:
        partitions = _known_partitions(controller, announced)
        failures = Failures(controller, "isr_change_not_read")
        for partition, state in await read_states(controller, partitions, _RULE, failures):
            partition.leadership = state
        failures.report()
        batch = controller.new_batch(_RULE)
        batch.add_update_metadata(context.brokers, partitions)
        controller.send(batch)
        await _continue(controller, controller.order.partitions(partitions))
    await delete_notifications(controller, paths, "delete ISR change notifications")


async def _continue(controller: Controller, partitions: list[Partition]) -> None:
    """Continue the work that waits for these ISRs: as a separate controller event if that may be
    long work, which urgent events interrupt (LONG_WORK_INTERRUPTED).
    """
    if not LONG_WORK_INTERRUPTED.applies(controller.configuration):
        await process_changed_isrs(controller, partitions)
        return
    known = controller.context.reassigning | controller.context.rollback_waiting
    moving = [one.key for one in partitions if one in known]
    if moving:
        controller.enqueue(PartitionReassignmentIsrChange(*moving[0], tuple(moving[1:])))


async def _read_notified_partitions(
    controller: Controller, paths: list[str]
) -> list[tuple[str, int]]:
    """Topic and number of the partitions in the notifications."""
    contents = await read_contents(controller, paths, _RULE, znodes.read_isr_change)
    return [name for names in contents.values() for name in names]


def _known_partitions(controller: Controller, names: Iterable[tuple[str, int]]) -> list[Partition]:
    found = {controller.context.find(*name) for name in names}
    return sorted_partitions(one for one in found if one is not None and one.assignment.replicas)
