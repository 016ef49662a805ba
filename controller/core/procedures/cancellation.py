"""/admin/reassign_cancel: what stands in /admin/reassign_partitions goes back (KB 14.2)."""

from controller.core.controller import Controller
from controller.core.procedures.failures import Failures
from controller.core.procedures.legacy_reassignments import (
    LegacyZnode,
    originals_of,
    read_legacy,
)
from controller.core.procedures.reassignment import complete_if_caught_up
from controller.core.procedures.reassignment_cancel import read_cancel
from controller.core.procedures.reassignment_queue import (
    delete_request,
    list_requests,
    read_requests,
)
from controller.core.procedures.reassignment_records import mend_records
from controller.core.procedures.reassignment_znode import remove_entries
from controller.core.procedures.rollback import roll_back
from controller.core.reassignment_znodes import REASSIGN_CANCEL, Name
from controller.core.state import Partition, sorted_partitions
from controller.core.triggers import (
    ExtraReassignments,
    ReassignmentRequests,
    ZkPartitionReassignment,
)


async def process_cancel(controller: Controller) -> None:
    """The znode was created: roll back; removed: what waited for that goes on.

    What is written into /admin/reassign_partitions while it stands is not cancelled: it waits.
    """
    context = controller.context
    if not controller.configuration.has_kip_236:
        return
    before, context.cancel = context.cancel, await read_cancel(controller)
    if context.cancel and context.cancel != before:
        await mend_records(controller)
        await cancel_entries(controller, await read_legacy(controller))
    elif context.cancel:
        await retry_rollbacks(controller)
    elif before:
        await _go_on(controller)


async def cancel_entries(controller: Controller, legacy: LegacyZnode) -> None:
    """Roll back what stands there, and drop what was asked for by it and has not begun."""
    records = controller.context.reassignments
    names = dict.fromkeys(legacy.entries)
    names.update(dict.fromkeys(one.key for one, record in records.items() if record.legacy))
    controller.notice(
        "info", "reassignments_cancelled", REASSIGN_CANCEL, f"{len(names)} go back to what they had"
    )
    await _drop_requests(controller)
    await roll_back_names(controller, list(names))


async def roll_back_names(controller: Controller, names: list[Name]) -> list[Partition]:
    """Roll partitions back; entries of those that do not exist are removed."""
    found = {name: controller.context.find(*name) for name in names}
    unknown = {name for name, one in found.items() if one is None or not one.replicas}
    if unknown:
        await remove_entries(controller, lambda name, target: name in unknown)
    known = [one for name, one in found.items() if one is not None and name not in unknown]
    partitions = controller.turns.partitions(known)
    return await roll_back(controller, {one: originals_of(controller, one) for one in partitions})


async def _drop_requests(controller: Controller) -> None:
    """Requests that were made of entries and wait: their entries are cancelled."""
    children = await list_requests(controller)
    for queued in await read_requests(controller, children) if children else ():
        if queued.request.legacy:
            await delete_request(controller, queued.child)


async def retry_rollbacks(controller: Controller) -> None:
    """Something changed: those that waited may be able to go back now."""
    waiting = list(controller.context.rollback_waiting)
    if not waiting:
        return
    if controller.context.cancel:
        await roll_back_names(controller, [one.key for one in waiting])
    controller.enqueue(ExtraReassignments())


async def process_isr_change(controller: Controller, partition: Partition) -> None:
    """The ISR of a partition changed: its rollback may go on, or its reassignment is complete."""
    if partition in controller.context.rollback_waiting:
        await retry_rollbacks(controller)
    else:
        await complete_if_caught_up(controller, partition)


def _give_up_rollbacks(controller: Controller) -> None:
    """Those that waited: a partition goes on to its target. What is asked for by the extra znode
    is looked at anew."""
    failures = Failures(controller, "rollback_given_up")
    waiting, controller.context.rollback_waiting = controller.context.rollback_waiting, {}
    for partition in sorted_partitions(waiting):
        origin = list(originals_of(controller, partition))
        target = list(partition.assignment.target)
        failures.add(
            partition,
            f"{REASSIGN_CANCEL} was removed before it could go back to {origin}: its rollback is "
            f"given up, it goes on to {target}",
        )
    failures.tell()


async def _go_on(controller: Controller) -> None:
    context = controller.context
    controller.notice("info", "reassignments_go_on", REASSIGN_CANCEL, "it was removed")
    _give_up_rollbacks(controller)
    for partition in controller.turns.partitions(context.reassigning):
        await complete_if_caught_up(controller, partition)
    controller.enqueue(ZkPartitionReassignment())
    controller.enqueue(ExtraReassignments())
    controller.enqueue(ReassignmentRequests())
