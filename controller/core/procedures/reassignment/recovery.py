"""Reassignments at failover, as the previous controller left them in ZooKeeper (KB 14.5.5, 14.5.6).

First the records in /admin/reassignments, then the requests, then /admin/reassign_partitions: a
later source determines the target, unless it uses another route.
"""

from typing import NamedTuple

from controller.core.controller import Controller
from controller.core.pauses import has_parts, pause
from controller.core.procedures.reassignment.cancellation import cancel_entries
from controller.core.procedures.reassignment.kip236_requests import (
    BegunReassignment,
    RequestZnode,
    delete_request,
    forget_begun,
    list_requests,
    outcome_of,
    read_requests,
    refuse_unfounded,
    remove_refused,
)
from controller.core.procedures.reassignment.reassign_partitions import (
    LegacyZnode,
    adopt,
    entries_under_way,
    put_entries,
    read_legacy,
    with_originals,
)
from controller.core.procedures.reassignment.reassign_partitions_extra import process_extra
from controller.core.procedures.reassignment.submission import (
    Submission,
    refuse_by_other_route,
    reject,
    rejected_text,
    source_of,
    submit,
)
from controller.core.procedures.reassignment_znodes.cancel_znode import (
    read_cancel,
    report_cancelled,
)
from controller.core.procedures.reassignment_znodes.entries import remove_entries
from controller.core.procedures.reassignment_znodes.records import (
    is_completed_entry,
    load_records,
    make_parents,
    remove_records,
    report_ended,
    route_of,
)
from controller.core.state import ControllerContext, EntrySeen, Partition
from controller.core.znodes import (
    REASSIGNMENT_REQUESTS,
    Entries,
    Name,
    Reassignment,
)


class Sources(NamedTuple):
    """The reassignments in ZooKeeper that are not records: requests and entries."""

    requests: list[RequestZnode]
    legacy: LegacyZnode


async def load_reassignments(controller: Controller, *, may_pause: bool) -> LegacyZnode:
    """Load the reassignments that were requested by way of ZooKeeper, and whether they are
    cancelled, which elections depend on. Those that a stock controller began have no record yet.

    `may_pause`: all partitions have their states, and urgent controller events may be handled.
    Returns the content of /admin/reassign_partitions.
    """
    context = controller.context
    await make_parents(controller)
    ended = await load_records(controller)
    records = {one: context.reassignments[one] for one in ended}
    completed = [one for one, record in records.items() if is_completed_entry(record, one)]
    await _forget_ended(controller, ended)
    if may_pause and has_parts(context.reassigning) and _are_recorded(context):
        await pause(controller)
    legacy = await read_legacy(controller)
    found = await read_cancel(controller)
    context.cancel, context.cancel_forced = found.czxid, found.forced
    for partition in completed:
        report_ended(controller, partition, records[partition], is_cancelled=bool(found.czxid))
    return legacy


def _are_recorded(context: ControllerContext) -> bool:
    """Whether an election can find out who is eligible: without a record, it depends on the entry
    of the partition, which is not read yet. A cancellation is read when it is needed."""
    return all(one in context.reassignments for one in context.reassigning)


async def recover(controller: Controller, legacy: LegacyZnode) -> list[Partition]:
    """Continue the reassignments under way, and begin those that were requested meanwhile.

    An existing cancellation goes first, and then nothing begins. Returns the partitions that were
    begun or changed; the caller resumes the others.
    """
    context = controller.context
    if not context.cancel:
        legacy = await adopt(controller, legacy.entries, legacy)
    children = await list_requests(controller)
    sources = Sources(await read_requests(controller, children), legacy)
    _date_entries(controller, sources)
    if context.cancel:
        await _cancel(controller, sources)
        return []
    begun = await _begin(controller, sources)
    await _repair_entries(controller, legacy)
    await process_extra(controller)
    return begun


async def _forget_ended(controller: Controller, ended: dict[Partition, int]) -> None:
    """Remove the entries, the requests and last the records of reassignments that another
    controller ended. `ended`: the transactions that wrote the records."""
    records = controller.context.reassignments
    targets = {one.key: records[one].replicas for one in ended}
    if not targets:
        return
    await remove_entries(controller, lambda name, target: targets.get(name) == target)
    requested = {
        one.key: BegunReassignment(records[one].replicas, mzxid)
        for one, mzxid in ended.items()
        if route_of(records[one]) == REASSIGNMENT_REQUESTS
    }
    if requested:
        await forget_begun(controller, requested)
    await remove_records(controller, ended)


async def _cancel(controller: Controller, sources: Sources) -> None:
    """Resume the rollback. Entries that have not begun are cancelled as well, if they are older."""
    await cancel_entries(controller, sources.legacy, controller.context.cancel)
    requested = [one.request for one in sources.requests if not one.request.legacy]
    waiting = dict.fromkeys(name for one in requested for name in one.assignments)
    if waiting:
        report_cancelled(controller, REASSIGNMENT_REQUESTS, waiting)
    await process_extra(controller)


def _date_entries(controller: Controller, sources: Sources) -> None:
    """Note the entries that a request was made of: each is at least as old as the request."""
    seen = controller.context.entries_seen
    for queued in sources.requests:
        for name, target in queued.request.assignments.items():
            entry = seen.get(name)
            if queued.request.legacy and entry is not None and entry.replicas == target:
                seen[name] = EntrySeen(target, min(entry.mzxid, queued.czxid), is_requested=True)


async def _begin(controller: Controller, sources: Sources) -> list[Partition]:
    records = controller.context.reassignments
    unfounded = [
        refuse_unfounded(controller, queued, sources.legacy.entries)
        if queued.request.legacy
        else set[Name]()
        for queued in sources.requests
    ]
    wanted, refused = _merge_submissions(controller, sources)
    before = dict(records)
    names = controller.order.names(wanted)
    rejected_now = await submit(controller, [wanted[name] for name in names])
    begun = [one for one in records if one.key in wanted and records[one] != before.get(one)]
    if rejected_now is None:
        return begun
    refused += [wanted[name] for name in rejected_now]
    await remove_refused(controller, {one.name: one.target for one in refused if one.legacy})
    for queued, rejected in zip(sources.requests, unfounded, strict=True):
        rejected.update(one.name for one in refused if _requests(queued, one))
        await delete_request(controller, queued, outcome_of(queued, rejected))
    return begun


def _requests(queued: RequestZnode, one: Submission) -> bool:
    """Whether a request contains a submission."""
    asked = queued.request
    return asked.legacy == one.legacy and asked.assignments.get(one.name) == one.target


def _merge_submissions(
    controller: Controller, sources: Sources
) -> tuple[dict[Name, Submission], list[Submission]]:
    """The new submissions, with the last target of the route that has the partition; and the
    rejected ones."""
    wanted: dict[Name, Submission] = {}
    rejected: list[Submission] = []
    for one in _submissions(sources):
        before = wanted.get(one.name)
        record = _record(controller, one.name)
        if before is not None and before.legacy != one.legacy:
            _report_ignored(controller, one, before)
            rejected.append(one)
        elif record is not None and route_of(record) != one.route:
            refuse_by_other_route(controller, one)
            rejected.append(one)
        elif before is not None or record is None or record.replicas != one.target:
            wanted[one.name] = one
    return wanted, rejected


def _submissions(sources: Sources) -> list[Submission]:
    """The targets of the requests, and then those of the entries, which legacy requests repeat."""
    asked = [
        Submission(name, target, False, queued.path)
        for queued in sources.requests
        for name, target in queued.request.assignments.items()
        if not queued.request.legacy
    ]
    entries = sources.legacy.entries
    return asked + [Submission(name, one.replicas, True) for name, one in entries.items()]


def _record(controller: Controller, name: Name) -> Reassignment | None:
    partition = controller.context.find(*name)
    return controller.context.reassignments.get(partition) if partition is not None else None


def _report_ignored(controller: Controller, one: Submission, before: Submission) -> None:
    why = f"{before.request or before.route} requested a reassignment of the partition earlier"
    text = rejected_text(one.target, source_of(controller, one), why)
    reject(controller, one.name, text, why)


async def _repair_entries(controller: Controller, legacy: LegacyZnode) -> None:
    """Write the entries again that a stock controller removed, with their originals."""
    if _repaired_entries(controller, legacy) != legacy.entries:
        # A new reassignment may be complete already, and refused entries are removed.
        legacy = await read_legacy(controller)
        repaired = _repaired_entries(controller, legacy)
        if repaired != legacy.entries:
            await put_entries(controller, repaired, legacy.version)


def _repaired_entries(controller: Controller, legacy: LegacyZnode) -> Entries:
    return with_originals(controller, legacy.entries | entries_under_way(controller))
