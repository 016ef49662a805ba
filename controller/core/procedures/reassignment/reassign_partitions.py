"""/admin/reassign_partitions with KIP-236: originals are added, and new entries become a request.

Without KIP-236, initiation.py handles the znode as Kafka does. Other parts remove entries by
reassignment_znodes/entries.py.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.errors import ProcedureError, ZnodeError
from controller.core.failures import excerpt, listed
from controller.core.operations import (
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    OK,
    Create,
    CreateSequential,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.pauses import parts, pause
from controller.core.procedures.reassignment.assignments import NewAssignment, write_recorded
from controller.core.procedures.reassignment.submission import is_possible
from controller.core.procedures.reassignment_znodes.cancel_znode import (
    current_cancel,
    report_cancelled,
)
from controller.core.procedures.reassignment_znodes.entries import (
    note_ages,
    remove_entries,
)
from controller.core.procedures.reassignment_znodes.records import (
    make_parents,
    make_parents_of,
    repair_records,
)
from controller.core.state import EntrySeen, Partition
from controller.core.triggers import ZkPartitionReassignment
from controller.core.values import format_brokers
from controller.core.znodes import (
    DATA_BYTES_MAX,
    REQUEST_PREFIX,
    Entries,
    Entry,
    Name,
    Reassignment,
    read_entries,
    without_originals,
    write_entries,
    write_request,
)
from controller.core.zookeeper_io import read_stats, read_znodes, write

_PATH = znodes.REASSIGN_PARTITIONS
_RULE = "reassignment entries"
_PUT = "reassignment entries: originals"
_ADOPT = "reassignment: record what a stock controller began"
CANCELLED_LATER: Final = f"{znodes.REASSIGN_CANCEL} was created after the entry"
_NO_VERSION = -2
"""The version of a znode that does not exist."""


class LegacyZnode(NamedTuple):
    """The entries of the znode and its version; none and `_NO_VERSION` if it does not exist.

    `ControllerContext.entries_seen` has the age of each entry.
    """

    entries: Entries
    version: int = _NO_VERSION

    @property
    def exists(self) -> bool:
        """Whether the znode exists."""
        return self.version != _NO_VERSION


async def read_legacy(controller: Controller) -> LegacyZnode:
    """Read the entries; watches them. Unreadable content is replaced by the reassignments under
    way."""
    stats = await read_stats(controller, [_PATH], _RULE, watch=True)
    controller.context.entries_mzxid = stats.mzxids[0] if stats.errors[0] == OK else 0
    if stats.errors[0] != OK:
        note_ages(controller, {}, 0)
        return LegacyZnode({})
    found = await read_znodes(controller, [_PATH], _RULE)
    if found.errors[0] != OK:
        note_ages(controller, {}, 0)
        return LegacyZnode({})
    data, version = found.data[0], found.versions[0]
    try:
        read = read_entries(_PATH, data)
    except ZnodeError as unreadable:
        return await _replace_unreadable(controller, str(unreadable), data, version)
    for name in read.repeated:
        report_repeated(controller, _PATH, name)
    note_ages(controller, read.entries, found.mzxids[0])
    return LegacyZnode(read.entries, version)


def note_request(
    controller: Controller, name: Name, target: tuple[int, ...], *, is_waiting: bool
) -> None:
    """Note that a legacy request for an entry waits, or no longer does. While it waits, a second
    look at the entry makes no other request."""
    seen = controller.context.entries_seen
    entry = seen.get(name)
    if entry is not None and entry.replicas == target:
        seen[name] = EntrySeen(target, entry.mzxid, is_waiting)


def are_older(controller: Controller, names: Iterable[Name], zxid: int) -> dict[Name, None]:
    """Select the entries that existed before a transaction, of those that `read_legacy` has
    read."""
    seen = controller.context.entries_seen
    return {name: None for name in names if name in seen and seen[name].mzxid < zxid}


def zxid_after_entries(controller: Controller) -> int:
    """A zxid that is higher than those of all entries which `read_legacy` has read."""
    seen = controller.context.entries_seen.values()
    return 1 + max((one.mzxid for one in seen), default=0)


def report_dropped(controller: Controller, name: Name, target: tuple[int, ...], why: str) -> None:
    """Report that an entry which has not begun is cancelled."""
    text = (
        f"the entry with replicas {format_brokers(target)} is removed from {_PATH}, and its "
        f"reassignment does not begin: {why}"
    )
    controller.notice("info", "reassignment_cancelled", f"{name[0]}-{name[1]}", text)


def report_repeated(controller: Controller, path: str, name: Name) -> None:
    """Report that a partition has several entries."""
    text = f"the znode has several entries for {name[0]}-{name[1]}: the last one counts"
    controller.notice("warning", "repeated_entry", path, text)


async def _replace_unreadable(
    controller: Controller, unreadable: str, data: bytes | None, version: int
) -> LegacyZnode:
    under_way = entries_under_way(controller)
    what = (
        "the reassignments under way replace its content" if under_way else "the znode is deleted"
    )
    text = f"{unreadable}; {what}; its content was {excerpt(data)}"
    controller.notice("error", "unreadable_znode", _PATH, text)
    error = await put_entries(controller, under_way, version)
    return LegacyZnode(under_way, version + 1) if under_way and error == OK else LegacyZnode({})


def entries_under_way(controller: Controller, besides: Collection[Name] = ()) -> Entries:
    """The entries of the reassignments by this route, except `besides`."""
    records = controller.context.reassignments
    of_route = [one for one, record in records.items() if record.legacy and one.key not in besides]
    return {
        one.key: Entry(records[one].replicas, records[one].original_replicas)
        for one in controller.order.partitions(of_route)
    }


async def put_entries(controller: Controller, entries: Mapping[Name, Entry], version: int) -> int:
    """Write the znode if it still has that version, or delete it if there are no entries. Returns
    ZooKeeper's code."""
    reason = Reason(_PUT)
    operation: WriteOperation
    if not entries:
        operation = Delete(_PATH, version)
    elif version == _NO_VERSION:
        operation = Create(_PATH, fit_into_znode(entries))
    else:
        operation = SetData(_PATH, fit_into_znode(entries), version)
    [error] = (await write(controller, [operation], reason)).errors
    if error not in (OK, BAD_VERSION, NO_NODE, NODE_EXISTS):
        text = f"the znode cannot be written (ZooKeeper code {error})"
        controller.notice("error", "entries_not_written", _PATH, text)
    if not entries:
        # Watch for the next request as at the start (KB 7.6.1).
        controller.enqueue(ZkPartitionReassignment())
    return error


def fit_into_znode(entries: Mapping[Name, Entry]) -> bytes:
    """The entries, without their originals if they are too large for a znode: /admin/reassignments
    has them too."""
    data = write_entries(entries)
    if len(data) <= DATA_BYTES_MAX:
        return data
    return write_entries(without_originals(entries))


async def process_legacy(controller: Controller) -> None:
    """Make a request of the new entries, and add their originals (KB 14.5.1).

    Impossible entries are reported and removed. Entries that a client removed while they were under
    way are written again, and the records are checked, which may have been changed too.
    """
    legacy = await read_legacy(controller)
    missing = _missing_entries(controller, legacy.entries)
    if not legacy.exists and not missing:
        return
    if cancel := await current_cancel(controller):
        waiting = [
            name for name, one in legacy.entries.items() if _is_new(controller, name, one.replicas)
        ]
        older = are_older(controller, waiting, cancel)
        if younger := [name for name in waiting if name not in older]:
            report_cancelled(controller, _PATH, younger)
        # If the creation of the znode is still to be processed, that drops the older ones.
        if controller.context.cancel:
            await drop_not_begun(controller, older, cancel)
        return
    kept = {
        name: one
        for name, one in legacy.entries.items()
        if is_possible(controller, _PATH, name, one)
    }
    new = {
        name: one.replicas
        for name, one in kept.items()
        if _is_new(controller, name, one.replicas)
        and not controller.context.entries_seen[name].is_requested
    }
    if missing:
        _report_missing(controller, missing)
        await repair_records(controller)
    completed = with_originals(controller, kept | missing)
    if new:
        epoch = controller.context.epoch
        await _make_request(controller, write_request(new, legacy=True, controller_epoch=epoch))
        for name, target in new.items():
            note_request(controller, name, target, is_waiting=True)
    if not completed or fit_into_znode(completed) != write_entries(legacy.entries):
        error = await put_entries(controller, completed, legacy.version)
        if error == BAD_VERSION:
            controller.enqueue(ZkPartitionReassignment())


async def drop_not_begun(controller: Controller, names: Iterable[Name], zxid: int) -> None:
    """Drop the entries of these partitions that have not begun and that are older than the
    cancellation by transaction `zxid`. If a reassignment to another target is under way, the entry
    names that target again.

    They may be read after the cancellation was handled: at a failover, a client may write them and
    cancel between the reads of the two znodes.
    """
    seen = controller.context.entries_seen
    targets = {
        name: seen[name].replicas
        for name in are_older(controller, names, zxid)
        if _is_new(controller, name, seen[name].replicas)
    }

    def report(name: Name, target: tuple[int, ...]) -> None:
        report_dropped(controller, name, target, CANCELLED_LATER)

    if targets:
        under_way = entries_under_way(controller)
        instead = {name: one for name, one in under_way.items() if name in targets}
        await remove_entries(
            controller, lambda name, target: targets.get(name) == target, report, instead
        )


def _missing_entries(controller: Controller, entries: Entries) -> Entries:
    """The reassignments by this route without an entry, if all entries fit into the znode; the
    records are sufficient to continue them."""
    missing = entries_under_way(controller, entries)
    is_too_much = missing and len(fit_into_znode(entries | missing)) > DATA_BYTES_MAX
    return {} if is_too_much else missing


def _report_missing(controller: Controller, missing: Entries) -> None:
    names = [one for name in missing if (one := controller.context.find(*name)) is not None]
    text = (
        f"the entries of {listed(names)} were removed while their reassignments were under way: "
        "the controller writes the entries again; to end the reassignments, cancel them"
    )
    controller.notice("warning", "entries_mended", _PATH, text)


async def _make_request(controller: Controller, data: bytes) -> None:
    create: list[WriteOperation] = [CreateSequential(REQUEST_PREFIX, data)]
    reason = Reason("reassignment entries: make a request")
    [error] = (await write(controller, create, reason)).errors
    if error == NO_NODE:
        await make_parents(controller)
        [error] = (await write(controller, create, reason)).errors
    if error != OK:
        raise ProcedureError(f"{REQUEST_PREFIX} cannot be created (ZooKeeper code {error})")


def _is_new(controller: Controller, name: Name, target: tuple[int, ...]) -> bool:
    """Whether the target of an entry differs from that of the reassignment under way."""
    partition = controller.context.find(*name)
    record = controller.context.reassignments.get(partition) if partition is not None else None
    return record is None or record.replicas != target


def with_originals(controller: Controller, entries: Mapping[Name, Entry]) -> Entries:
    """The entries with the original replicas of each partition, whatever the znode has."""
    return {name: _with_original(controller, name, one) for name, one in entries.items()}


def _with_original(controller: Controller, name: Name, entry: Entry) -> Entry:
    partition = controller.context.find(*name)
    if partition is None:
        return entry
    originals = controller.context.originals(partition)
    given = entry.original_replicas
    if given == originals:
        return entry
    if given is not None:
        text = (
            f"the entry of {partition} has wrong original replicas {format_brokers(given)}: the "
            f"controller replaces them by {format_brokers(originals)}"
        )
        controller.notice("warning", "wrong_originals", _PATH, text)
    return Entry(entry.replicas, originals)


async def adopt(controller: Controller, names: Iterable[Name], legacy: LegacyZnode) -> LegacyZnode:
    """Record the reassignments of these entries that a stock controller has begun: they belong to
    this route from now on.

    Returns the entries; they are read again if other controller events were handled meanwhile,
    which may have completed some. Raises ProcedureError if a record cannot be written.
    """
    begun = _missing_records(controller, names, legacy)
    await make_parents_of(controller, [one for one, _ in begun.values()])
    number = 0
    for number, part in enumerate(parts(controller, list(begun))):
        if number:
            await pause(controller)
        still = _missing_records(controller, part, legacy)
        moves = [NewAssignment(one, one.assignment, record) for one, record in still.values()]
        errors = await write_recorded(controller, moves, _ADOPT, have_parents=True)
        if errors:
            raise next(iter(errors.values()))
    return await read_legacy(controller) if number else legacy


def _missing_records(
    controller: Controller, names: Iterable[Name], legacy: LegacyZnode
) -> dict[Name, tuple[Partition, Reassignment]]:
    """Select the entries whose reassignment is under way without a record, and return the record of
    each."""
    context = controller.context
    found: dict[Name, tuple[Partition, Reassignment]] = {}
    for name in names:
        partition, entry = context.find(*name), legacy.entries[name]
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
        found[name] = (partition, record)
    return found


async def strip_originals(controller: Controller) -> None:
    """Remove the originals from the entries, because another controller takes over: stock brokers
    cannot read entries with originals."""
    if not controller.configuration.has_kip_236:
        return
    legacy = await read_legacy(controller)
    stripped = without_originals(legacy.entries)
    if legacy.exists and stripped != legacy.entries:
        put = SetData(_PATH, write_entries(stripped), legacy.version)
        await write(controller, [put], Reason("hand back: entries that stock brokers can read"))
