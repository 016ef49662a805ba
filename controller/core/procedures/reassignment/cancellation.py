"""/admin/reassign_cancel: rolls back the entries of /admin/reassign_partitions (KB 14.2)."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from controller.core.controller import Controller
from controller.core.failures import Failures, listed
from controller.core.pauses import parts, pause
from controller.core.procedures.reassignment.kip236_requests import (
    RequestOutcome,
    delete_request,
    list_requests,
    read_requests,
)
from controller.core.procedures.reassignment.partition_reassignment import (
    complete_if_caught_up,
    resume_held,
)
from controller.core.procedures.reassignment.reassign_partitions import (
    CANCELLED_LATER,
    LegacyZnode,
    adopt,
    are_older,
    drop_not_begun,
    read_legacy,
    report_dropped,
    zxid_after_entries,
)
from controller.core.procedures.reassignment.rollback import WAITS, RollbackCause, roll_back
from controller.core.procedures.reassignment_znodes.cancel_znode import (
    forget_reported,
    read_cancel,
    report_cancelled,
)
from controller.core.procedures.reassignment_znodes.entries import (
    remove_entries,
    replaced_by_entries,
)
from controller.core.procedures.reassignment_znodes.records import LEGACY, repair_records
from controller.core.state import UNKNOWN_ZXID, Partition, sorted_partitions
from controller.core.topic_configs import MIN_INSYNC_REPLICAS
from controller.core.triggers import (
    ExtraReassignments,
    ReassignmentCancel,
    ReassignmentRequests,
    ZkPartitionReassignment,
)
from controller.core.values import format_brokers
from controller.core.znodes import REASSIGN_CANCEL, REASSIGN_PARTITIONS_EXTRA, Name

_AS_THEY_WERE: Final[Mapping[Name, tuple[int, ...]]] = {}


async def process_cancel(controller: Controller, trigger: ReassignmentCancel) -> None:
    """The znode was created: roll back. It was removed: resume what waited.

    Entries that are written while the znode exists are not cancelled, they wait. A znode that was
    removed before the controller read it has cancelled nevertheless.
    """
    context = controller.context
    if not controller.configuration.has_kip_236:
        return
    before, found = context.cancel, await read_cancel(controller)
    was_forced = context.cancel_forced
    context.cancel, context.cancel_forced = found.czxid, found.forced
    if before and found.czxid != before:
        forget_reported(context)
    if found.czxid and found.czxid != before:
        await repair_records(controller)
        await cancel_entries(controller, await read_legacy(controller), found.czxid)
    elif found.czxid:
        if not was_forced:
            _report_forced(controller, context.rollback_waiting)
        await retry_rollbacks(controller)
    elif trigger.created and not before:
        await _cancel_removed(controller, trigger.zxid)
    elif before:
        await _continue(controller)


async def _cancel_removed(controller: Controller, zxid: int) -> None:
    """The creation of the znode was reported, but it is already removed: roll back the
    reassignments that it covers. A reassignment that cannot be rolled back now proceeds to its
    target.
    """
    await repair_records(controller)
    if zxid == UNKNOWN_ZXID:
        # The entries had changed before, and those that were read since then count as older.
        zxid = zxid_after_entries(controller)
    legacy = await read_legacy(controller)
    await cancel_entries(controller, legacy, zxid, was_removed=True)
    forget_reported(controller.context)
    await _continue(controller)


async def cancel_entries(
    controller: Controller, legacy: LegacyZnode, zxid: int, *, was_removed: bool = False
) -> None:
    """Roll back the reassignments of entries, and drop entries that have not begun. Entries that
    are younger than the cancellation, which transaction `zxid` created, wait."""
    records = controller.context.reassignments
    legacy = await adopt(controller, are_older(controller, legacy.entries, zxid), legacy)
    older = are_older(controller, legacy.entries, zxid)
    under_way = dict.fromkeys(one.key for one, record in records.items() if record.legacy)
    if was_removed:
        # Younger entries may have begun since.
        began_since = [one for one in under_way if one in legacy.entries and one not in older]
        under_way = {one: None for one in under_way if one not in began_since}
    not_begun = {name: legacy.entries[name].replicas for name in older if name not in under_way}
    younger = [name for name in legacy.entries if name not in under_way and name not in older]
    removed = (
        f", although {REASSIGN_CANCEL} was deleted before the controller read it"
        if was_removed
        else ""
    )
    text = _numbers(len(under_way), len(not_begun)) + removed
    controller.notice("info", "reassignments_cancelled", REASSIGN_CANCEL, text)
    for name, target in not_begun.items():
        report_dropped(controller, name, target, CANCELLED_LATER)
    if younger and not was_removed:
        report_cancelled(controller, LEGACY, younger)
        _report_begun_since(controller, younger)
    await _drop_requests(controller, dict.fromkeys(younger))
    if not_begun:
        # This comes first: a later write of the controller makes the znode younger. An entry that a
        # client has written meanwhile stays.
        await remove_entries(controller, lambda name, target: not_begun.get(name) == target)
    _report_forced(controller, (one for one in records if one.key in under_way))
    if was_removed:
        replaced = await replaced_by_entries(controller, controller.context.rollback_waiting)
        proceed = [one for one in under_way if one not in replaced]
        await roll_back_names(controller, proceed, _cause_of_deleted_znode(zxid))
        wait = [one for one in under_way if one in replaced]
        await roll_back_names(controller, wait, _cause_of_deleted_znode(zxid, is_replaced=True))
    else:
        await roll_back_names(controller, list(under_way), _cause(controller, zxid))
    # A rollback has dropped a newer target of its partition. One that waits may be given up later.
    await drop_not_begun(controller, under_way, zxid)


def _numbers(under_way: int, not_begun: int) -> str:
    """How many reassignments and entries are cancelled."""
    parts: list[str] = []
    if under_way:
        what = "reassignment is" if under_way == 1 else "reassignments are"
        parts.append(f"{under_way} {what} to be rolled back")
    if not_begun:
        what = "entry that had not begun is" if not_begun == 1 else "entries that had not begun are"
        parts.append(f"{not_begun} {what} removed")
    nothing = (
        f"no reassignment by {LEGACY} that is older than this znode is under way: nothing is "
        "rolled back"
    )
    return ", and ".join(parts) or nothing


def _report_forced(controller: Controller, partitions: Iterable[Partition]) -> None:
    """Report a cancellation that does not wait until enough originals are in sync."""
    forced = sorted_partitions(partitions) if controller.context.cancel_forced else []
    if forced:
        text = (
            f"{REASSIGN_CANCEL} forces the rollback: the rollback waits for one original replica "
            f"in sync, not for {MIN_INSYNC_REPLICAS}"
        )
        controller.notice("warning", "rollback_forced", listed(forced), text)


def _cause(controller: Controller, zxid: int) -> RollbackCause:
    meanwhile = "the rollback waits, and the other replicas stay"
    remedy = "`refold reassign --cancel --force` needs only one"
    reported = controller.context.rollback_waiting
    return RollbackCause(
        REASSIGN_CANCEL,
        WAITS,
        meanwhile,
        remedy,
        reported,
        zxid,
        CANCELLED_LATER,
        controller.context.cancel_forced,
    )


def _cause_of_deleted_znode(zxid: int, *, is_replaced: bool = False) -> RollbackCause:
    """The cause of rollbacks for a znode that is already deleted: they do not wait. `is_replaced`:
    an entry of /admin/reassign_partitions_extra already waits for the same rollback."""
    if is_replaced:
        meanwhile = f"the rollback still waits for the entry of {REASSIGN_PARTITIONS_EXTRA}"
        remedy = f"{REASSIGN_CANCEL} is already deleted"
    else:
        meanwhile = f"{REASSIGN_CANCEL} is already deleted, so the reassignment continues"
        remedy = "cancel it again, and wait for the rollback before you delete the znode"
    return RollbackCause(
        REASSIGN_CANCEL, "reassignment_not_cancelled", meanwhile, remedy, {}, zxid, CANCELLED_LATER
    )


def _report_begun_since(controller: Controller, younger: list[Name]) -> None:
    """Report the entries that a stock controller has begun while /admin/reassign_cancel existed."""
    for topic, number in younger:
        if controller.context.find(topic, number) in controller.context.reassigning:
            text = (
                f"another controller began the reassignment by {LEGACY} after {REASSIGN_CANCEL} "
                "was created: the reassignment is not rolled back, and completes only after that "
                "znode is deleted"
            )
            controller.notice("warning", "reassignment_waits", f"{topic}-{number}", text)


async def roll_back_names(
    controller: Controller,
    names: list[Name],
    cause: RollbackCause,
    orders: Mapping[Name, tuple[int, ...]] = _AS_THEY_WERE,
) -> list[Partition]:
    """Roll partitions back. Returns those that are rolled back.

    `orders`: the originals of a partition in another order than the one that they had.
    """
    found = [controller.context.find(*name) for name in names]
    partitions = controller.order.partitions([one for one in found if one is not None])
    back: list[Partition] = []
    for number, part in enumerate(parts(controller, partitions)):
        if number:
            await pause(controller)
        originals = {one: orders.get(one.key, controller.context.originals(one)) for one in part}
        back += await roll_back(controller, originals, cause)
    return back


async def _drop_requests(controller: Controller, younger: dict[Name, None]) -> None:
    """Delete the requests that were made of entries and wait, except those of waiting entries."""
    children = await list_requests(controller)
    for queued in await read_requests(controller, children) if children else ():
        if queued.request.legacy and younger.keys().isdisjoint(queued.request.assignments):
            await delete_request(controller, queued, RequestOutcome.CANCELLED)


async def retry_rollbacks(controller: Controller) -> None:
    """Try waiting rollbacks again: something has changed, so they may be possible now."""
    waiting = list(controller.context.rollback_waiting)
    if not waiting:
        return
    if controller.context.cancel:
        cause = _cause(controller, controller.context.cancel)
        await roll_back_names(controller, [one.key for one in waiting], cause)
    controller.enqueue(ExtraReassignments())


async def process_changed_isrs(controller: Controller, partitions: list[Partition]) -> None:
    """The ISRs of partitions changed: rollbacks may proceed, or reassignments are complete."""
    waiting = controller.context.rollback_waiting
    if any(one in waiting for one in partitions):
        await retry_rollbacks(controller)
    await complete_if_caught_up(controller, [one for one in partitions if one not in waiting])


async def give_up_rollbacks(
    controller: Controller, why: str, wanted: Collection[Name] = ()
) -> None:
    """Give up the waiting rollbacks that are not `wanted`: these partitions proceed to their
    target."""
    failures = Failures(controller, "rollback_given_up")
    waiting = controller.context.rollback_waiting
    given_up = sorted_partitions(one for one in waiting if one.key not in wanted)
    for partition in given_up:
        del waiting[partition]
        originals = format_brokers(controller.context.originals(partition))
        target = format_brokers(partition.assignment.target)
        failures.add(
            partition,
            f"{why} before the partition was on its original replicas {originals} again: the "
            f"rollback ends, and the reassignment to {target} continues",
        )
    failures.report()
    await complete_if_caught_up(controller, given_up)


async def _continue(controller: Controller) -> None:
    context = controller.context
    text = f"{REASSIGN_CANCEL} was deleted: reassignments continue"
    controller.notice("info", "reassignments_go_on", REASSIGN_CANCEL, text)
    if any(one not in context.reassignments for one in context.reassigning):
        legacy = await read_legacy(controller)
        await adopt(controller, legacy.entries, legacy)
    # These rollbacks continue for another entry.
    replaced = await replaced_by_entries(controller, context.rollback_waiting)
    await give_up_rollbacks(controller, f"{REASSIGN_CANCEL} was deleted", replaced)
    proceed = [one for one in context.reassigning if one not in context.rollback_waiting]
    await complete_if_caught_up(controller, controller.order.partitions(proceed))
    await resume_held(controller)
    controller.enqueue(ZkPartitionReassignment())
    controller.enqueue(ExtraReassignments())
    controller.enqueue(ReassignmentRequests())
