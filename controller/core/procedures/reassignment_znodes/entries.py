"""Entries of /admin/reassign_partitions: their age and their removal (KB 7.6). Entries of
/admin/reassign_partitions_extra that replace a reassignment under way (KB 14.3).

The procedures of these znodes are in the folder `reassignment`; other parts need only what is here.
"""

from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final

from controller.core import znodes
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.deviations import REQUEST_CHANGES_SEEN, UNREADABLE_REQUEST_KEPT
from controller.core.errors import ProcedureError, ZnodeError
from controller.core.operations import BAD_VERSION, NO_NODE, OK, Create, Delete, SetData
from controller.core.state import EntrySeen, Partition
from controller.core.triggers import ExtraReassignments, ZkPartitionReassignment
from controller.core.values import ANY_VERSION
from controller.core.znodes import (
    REASSIGN_PARTITIONS_EXTRA,
    Entries,
    Entry,
    Name,
    read_entries,
    write_entries,
)
from controller.core.zookeeper_io import read_stats, read_znodes, write

_PATH = znodes.REASSIGN_PARTITIONS
_RULE = "reassignment: what is left of the request"
_REPLACE = "extra reassignments: which rollbacks do they need"
_NOTHING: Final[Mapping[Name, Entry]] = MappingProxyType({})

IsDone = Callable[[tuple[str, int], tuple[int, ...]], bool]
"""Whether an entry is to be removed, by partition and target."""


Removes = Callable[[tuple[str, int], tuple[int, ...]], None]
"""Called with the partition and target of each entry, before it is removed."""


async def remove_entries(
    controller: Controller,
    is_done: IsDone,
    removes: Removes | None = None,
    instead: Mapping[Name, Entry] = _NOTHING,
) -> None:
    """Remove entries from the request; without entries the znode is deleted (KB 7.6.1). `instead`
    has entries that take the place of removed ones.

    If another client writes the znode before that, it is read again: a client's new entry for the
    same partition stays only if `is_done` compares its target.

    Raises ProcedureError if ZooKeeper refuses the write.
    """
    reported: dict[tuple[tuple[str, int], tuple[int, ...]], None] = {}

    def report(name: tuple[str, int], target: tuple[int, ...]) -> None:
        if removes is not None and (name, target) not in reported:
            reported[name, target] = None
            removes(name, target)

    while not await _try_to_remove(controller, is_done, report, instead):
        pass


async def _try_to_remove(
    controller: Controller, is_done: IsDone, removes: Removes, instead: Mapping[Name, Entry]
) -> bool:
    """Try once. False if another client wrote the znode first.

    Checking whether the znode exists sets the watch for the next request (KB 7.6.1): a deletion by
    hand has used up the watch.
    """
    stats = await read_stats(controller, [_PATH], _RULE, watch=True)
    if stats.errors[0] != OK:
        return True
    found = await read_znodes(controller, [_PATH], _RULE)
    if found.errors[0] != OK:
        return True
    entries: Entries = {}
    try:
        entries = read_entries(_PATH, found.data[0]).entries
    except ZnodeError:
        if UNREADABLE_REQUEST_KEPT.applies(controller.configuration):
            controller.observer.deviates(UNREADABLE_REQUEST_KEPT, _PATH)
            return True
    kept = {name: one for name, one in entries.items() if not is_done(name, one.replicas)}
    known = {**instead, **kept}
    remaining = {name: known[name] for name in entries if name in known}
    if REQUEST_CHANGES_SEEN.applies(controller.configuration):
        if entries and kept == entries:
            return True
        for name, entry in entries.items():
            if name not in kept:
                removes(name, entry.replicas)
        error = await _write_remaining_entries(controller, remaining, found.versions[0])
        if error == BAD_VERSION:
            controller.observer.deviates(REQUEST_CHANGES_SEEN, _PATH)
            return False
        # If a client writes a removed entry again, it is a new one. The others stay as old.
        note_ages(controller, remaining if error == OK else {}, found.mzxids[0])
    else:
        await _write_remaining_entries(controller, remaining, ANY_VERSION)
    return True


def note_ages(controller: Controller, entries: Entries, mzxid: int) -> None:
    """Note since when each entry exists; the controller's own writes do not count."""
    before = controller.context.entries_seen
    controller.context.entries_seen = {
        name: before[name]
        if name in before and before[name].replicas == one.replicas
        else EntrySeen(one.replicas, mzxid)
        for name, one in entries.items()
    }
    moved = controller.context.entries_moved
    controller.context.entries_moved = {
        name: target
        for name, target in moved.items()
        if name in entries and entries[name].replicas == target
    }


async def _write_remaining_entries(controller: Controller, remaining: Entries, version: int) -> int:
    """Write the remaining entries, or delete the znode. Returns ZooKeeper's code."""
    reason = Reason(_RULE)
    if not remaining:
        error = (await write(controller, [Delete(_PATH, version)], reason)).errors[0]
        # Watch for the next request as at the start (KB 7.6.1).
        controller.enqueue(ZkPartitionReassignment())
    else:
        data = write_entries(remaining)
        error = (await write(controller, [SetData(_PATH, data, version)], reason)).errors[0]
        if error == NO_NODE and version == ANY_VERSION:
            error = (await write(controller, [Create(_PATH, data)], reason)).errors[0]
    if controller.context.extra_waits:
        controller.enqueue(ExtraReassignments())
    if error not in (OK, NO_NODE, BAD_VERSION):
        raise ProcedureError(f"{_PATH} cannot be written (ZooKeeper code {error})")
    return error


async def replaced_by_entries(controller: Controller, partitions: Iterable[Partition]) -> set[Name]:
    """Select the partitions for which the znode requests another target than their reassignment
    under way has: they are rolled back for the entry."""
    records = controller.context.reassignments
    targets = {one.key: records[one].replicas for one in partitions if one in records}
    if not targets:
        return set()
    found = await read_znodes(controller, [REASSIGN_PARTITIONS_EXTRA], _REPLACE)
    if found.errors[0] != OK:
        return set()
    try:
        entries = read_entries(REASSIGN_PARTITIONS_EXTRA, found.data[0]).entries
    except ZnodeError:
        # The procedure of the znode reports and deletes it.
        return set()
    return {
        name
        for name, target in targets.items()
        if name in entries and entries[name].replicas != target
    }
