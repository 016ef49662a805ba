"""What a failover makes of reassignments that the last controller left (KB 14.5.5, 14.5.6).

First what /admin/reassignments says, then the requests, then /admin/reassign_partitions: a later
source wins the target, unless it comes by another route.
"""

from typing import NamedTuple

from controller.core import znodes
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.operations import SetData
from controller.core.procedures.cancellation import roll_back_names
from controller.core.procedures.extra_reassignments import process_extra
from controller.core.procedures.legacy_reassignments import (
    LegacyZnode,
    entries_under_way,
    put_entries,
    read_legacy,
    with_originals,
)
from controller.core.procedures.reassignment_cancel import read_cancel, tell_waiting
from controller.core.procedures.reassignment_queue import (
    Queued,
    delete_request,
    list_requests,
    read_requests,
    remove_refused,
)
from controller.core.procedures.reassignment_records import (
    load_records,
    make_parents,
    remove_records,
    write_with_record,
)
from controller.core.procedures.reassignment_submission import Submission, Verdict, submit
from controller.core.procedures.reassignment_znode import remove_entries
from controller.core.procedures.topics import topic_content
from controller.core.reassignment_znodes import REASSIGNMENT_REQUESTS, Name, Reassignment
from controller.core.state import Partition
from controller.core.values import ANY_VERSION


class Sources(NamedTuple):
    """What stands in ZooKeeper besides the records: requests, and entries."""

    requests: list[Queued]
    legacy: LegacyZnode


async def recover(controller: Controller) -> list[Partition]:
    """Rebuild what is under way and begin what was asked for meanwhile.

    A cancellation that stands goes first, and nothing begins then. Gives the partitions that
    were begun or changed; those that go on as they were are the caller's.
    """
    await make_parents(controller)
    await _forget_ended(controller, await load_records(controller))
    children = await list_requests(controller)
    sources = Sources(await read_requests(controller, children), await read_legacy(controller))
    await _adopt(controller, sources.legacy)
    controller.context.cancel = await read_cancel(controller)
    if controller.context.cancel:
        await _cancel(controller, sources)
        return []
    begun = await _begin(controller, sources)
    await _mend_entries(controller)
    await process_extra(controller)
    return begun


async def _forget_ended(controller: Controller, ended: list[Partition]) -> None:
    """Reassignments that somebody else ended: their entries and records go."""
    records = controller.context.reassignments
    targets = {one.key: records[one].replicas for one in ended}
    if targets:
        await remove_entries(controller, lambda name, target: targets.get(name) == target)
        await remove_records(controller, ended)


async def _adopt(controller: Controller, legacy: LegacyZnode) -> None:
    """Reassignments that a stock controller began by the znode are of that route from now on."""
    context = controller.context
    for name, entry in legacy.entries.items():
        partition = context.find(*name)
        if (
            partition is None
            or partition not in context.reassigning
            or partition in context.reassignments
            or partition.assignment.target != entry.replicas
        ):
            continue
        originals = entry.original_replicas
        origin = partition.assignment.origin
        if originals is None or set(originals) != set(origin):
            originals = origin
        record = Reassignment(entry.replicas, len(originals), True, originals)
        content = znodes.write_topic(topic_content(context, partition.topic))
        topic = SetData(znodes.topic_path(partition.topic.name), content, ANY_VERSION)
        reason = Reason("reassignment: record what a stock controller began")
        await write_with_record(controller, partition, record, topic, reason)


async def _cancel(controller: Controller, sources: Sources) -> None:
    """Resume the rollback. An entry that has not begun is cancelled, too, if it is older."""
    context, legacy = controller.context, sources.legacy
    records = context.reassignments
    is_older = legacy.mzxid < context.cancel
    names: dict[Name, None] = {}
    for name in legacy.entries:
        partition = context.find(*name)
        if is_older or partition is None or partition in records:
            names[name] = None
    for partition, record in records.items():
        if record.legacy:
            names[partition.key] = None
    if is_older:
        for queued in sources.requests:
            if queued.request.legacy:
                await delete_request(controller, queued.child)
    if sources.requests:
        tell_waiting(controller, REASSIGNMENT_REQUESTS)
    await roll_back_names(controller, list(names))
    await process_extra(controller)


async def _begin(controller: Controller, sources: Sources) -> list[Partition]:
    records = controller.context.reassignments
    wanted, refused = _merged(controller, sources)
    begun: list[Partition] = []
    for name in controller.turns.names(wanted):
        partition = controller.context.find(*name)
        before = records.get(partition) if partition is not None else None
        verdict = await submit(controller, wanted[name])
        if verdict is Verdict.WAITS:
            return begun
        if verdict is Verdict.REFUSED and wanted[name].legacy:
            refused[name] = wanted[name].target
        elif partition is not None and records.get(partition) != before:
            begun.append(partition)
    await remove_refused(controller, refused)
    for queued in sources.requests:
        await delete_request(controller, queued.child)
    return begun


def _merged(
    controller: Controller, sources: Sources
) -> tuple[dict[Name, Submission], dict[Name, tuple[int, ...]]]:
    """What is new: the last target of the route that has the partition; and what is ignored of
    the entries."""
    wanted: dict[Name, Submission] = {}
    ignored: dict[Name, tuple[int, ...]] = {}
    asked = [
        Submission(name, target, queued.request.legacy)
        for queued in sources.requests
        for name, target in queued.request.assignments.items()
    ]
    asked += [
        Submission(name, entry.replicas, True) for name, entry in sources.legacy.entries.items()
    ]
    for one in asked:
        before = wanted.get(one.name)
        if before is not None and before.legacy != one.legacy:
            _tell_ignored(controller, one, before)
            if one.legacy:
                ignored[one.name] = one.target
        elif before is not None or not _is_under_way(controller, one):
            wanted[one.name] = one
    return wanted, ignored


def _is_under_way(controller: Controller, one: Submission) -> bool:
    partition = controller.context.find(*one.name)
    record = controller.context.reassignments.get(partition) if partition is not None else None
    return record is not None and (record.replicas, record.legacy) == (one.target, one.legacy)


def _tell_ignored(controller: Controller, one: Submission, before: Submission) -> None:
    topic, number = one.name
    text = (
        f"{one.route} asks for {list(one.target)}, which is ignored: it was asked for by way of "
        f"{before.route} before"
    )
    controller.notice("warning", "reassignment_refused", f"{topic}-{number}", text)


async def _mend_entries(controller: Controller) -> None:
    """Entries that a stock controller removed, and originals that were stripped, come back."""
    legacy = await read_legacy(controller)
    whole = with_originals(controller, legacy.entries | entries_under_way(controller))
    if whole != legacy.entries:
        await put_entries(controller, whole, legacy.version)
