"""/admin/reassign_partitions_extra: more reassignments while some are under way (KB 14.3)."""

from typing import NamedTuple

from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.errors import ZnodeError
from controller.core.failures import excerpt
from controller.core.operations import (
    BAD_VERSION,
    NO_NODE,
    NODE_EXISTS,
    OK,
    Create,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.procedures.reassignment.cancellation import give_up_rollbacks, roll_back_names
from controller.core.procedures.reassignment.reassign_partitions import (
    LegacyZnode,
    read_legacy,
    report_repeated,
    zxid_after_entries,
)
from controller.core.procedures.reassignment.rollback import WAITS, RollbackCause
from controller.core.procedures.reassignment.submission import is_possible
from controller.core.procedures.reassignment_znodes.cancel_znode import (
    is_cancelled,
    report_cancelled,
    report_waiting,
)
from controller.core.procedures.reassignment_znodes.records import LEGACY
from controller.core.triggers import ExtraReassignments
from controller.core.values import format_brokers
from controller.core.znodes import (
    DATA_BYTES_MAX,
    REASSIGN_PARTITIONS_EXTRA,
    Entries,
    Entry,
    Name,
    read_entries,
    write_entries,
)
from controller.core.zookeeper_io import read_stats, read_znodes, write, write_together

_PATH = REASSIGN_PARTITIONS_EXTRA
_RULE = "extra reassignments"
_MOVE = "extra reassignments: into /admin/reassign_partitions"
BOTH_ZNODES_BYTES_MAX = 1_040_000
"""The limit for both znodes together, which are written in one multi: below jute.maxbuffer."""


class _Stored(NamedTuple):
    """The content of the znode."""

    entries: Entries
    version: int


async def process_extra(controller: Controller) -> None:
    """Move entries to /admin/reassign_partitions, as many as fit. The znode is deleted when it is
    empty.

    A partition that is pending there is rolled back first.
    """
    context = controller.context
    if not controller.configuration.has_kip_236:
        return
    context.extra_waits = False
    extra, version = await _read_extra_znode(controller)
    if await is_cancelled(controller):
        if version is not None:
            report_cancelled(controller, _PATH, extra)
        return
    await give_up_rollbacks(controller, f"the entry was removed from {_PATH}", extra)
    if version is None:
        return
    possible = {
        name: one for name, one in extra.items() if is_possible(controller, _PATH, name, one)
    }
    legacy = await read_legacy(controller)
    pending = [name for name, one in possible.items() if _conflicts(controller, name, one, legacy)]
    if pending:
        back = await _roll_back(controller, {name: possible[name] for name in pending})
        waiting = {name: possible[name] for name in pending if name not in back}
        legacy = await read_legacy(controller)
        again = {
            name: one
            for name, one in possible.items()
            if name in back and _conflicts(controller, name, one, legacy)
        }
        if again:
            # A client has written these entries since they were read.
            waiting |= again
            controller.enqueue(ExtraReassignments())
    else:
        waiting = {}
    moved = {name: one for name, one in possible.items() if name not in waiting}
    await _move(controller, legacy, moved, waiting, _Stored(extra, version))


async def _roll_back(controller: Controller, pending: Entries) -> set[Name]:
    """The partitions that are rolled back and can go to their new targets."""
    back: set[Name] = set()
    by_target: dict[tuple[int, ...], list[Name]] = {}
    for name, one in pending.items():
        by_target.setdefault(one.replicas, []).append(name)
    for target, names in by_target.items():
        cause = _cause(controller, target)
        back.update(one.key for one in await roll_back_names(controller, names, cause))
    return back


def _cause(controller: Controller, target: tuple[int, ...]) -> RollbackCause:
    name = f"an entry of {_PATH} with replicas {format_brokers(target)}"
    meanwhile = "the rollback and the new reassignment wait, and the other replicas stay"
    remedy = f"to continue the reassignment under way, remove the entry from {_PATH}"
    return RollbackCause(
        name,
        WAITS,
        meanwhile,
        remedy,
        controller.context.rollback_waiting,
        zxid_after_entries(controller),
        f"{name} takes its place",
    )


async def _read_extra_znode(controller: Controller) -> tuple[Entries, int | None]:
    """The entries and the version; None: there is nothing to do. Watches the znode."""
    stats = await read_stats(controller, [_PATH], _RULE, watch=True)
    if stats.errors[0] != OK:
        return {}, None
    found = await read_znodes(controller, [_PATH], _RULE)
    if found.errors[0] != OK:
        return {}, None
    data, version = found.data[0], found.versions[0]
    try:
        read = read_entries(_PATH, data)
    except ZnodeError as unreadable:
        text = f"{unreadable}; the znode is deleted; its content was {excerpt(data)}"
        controller.notice("error", "unreadable_znode", _PATH, text)
        delete = Delete(_PATH, version)
        reason = Reason("extra reassignments: unreadable")
        if BAD_VERSION in (await write(controller, [delete], reason)).errors:
            controller.enqueue(ExtraReassignments())
        return {}, None
    for name in read.repeated:
        report_repeated(controller, _PATH, name)
    return read.entries, version


def _conflicts(controller: Controller, name: Name, entry: Entry, legacy: LegacyZnode) -> bool:
    """Whether the partition is pending with another target."""
    partition = controller.context.find(*name)
    record = controller.context.reassignments.get(partition) if partition is not None else None
    if record is not None:
        return record.replicas != entry.replicas
    pending = legacy.entries.get(name)
    return pending is not None and pending.replicas != entry.replicas


async def _move(
    controller: Controller, legacy: LegacyZnode, moved: Entries, waiting: Entries, stored: _Stored
) -> None:
    """One multi: from one znode to the other, as many entries as fit. Of those in the other znode,
    the ones that wait stay; impossible ones are removed."""
    entries, rest = _split_by_size(controller, legacy.entries, moved)
    rest = waiting | rest
    controller.context.extra_waits = bool(rest)
    operations: list[WriteOperation] = []
    if entries != legacy.entries:
        data = write_entries(entries)
        operations.append(
            SetData(LEGACY, data, legacy.version) if legacy.exists else Create(LEGACY, data)
        )
    if not rest:
        operations.append(Delete(_PATH, stored.version))
    elif rest != stored.entries:
        operations.append(SetData(_PATH, write_entries(rest), stored.version))
    if rest:
        what = "1 entry waits" if len(rest) == 1 else f"{len(rest)} entries wait"
        text = f"{what} for a rollback, or for room in {LEGACY}"
        report_waiting(controller, _PATH, text)
    else:
        controller.context.waiting_reported.pop(_PATH, None)
    if not operations:
        return
    errors = await write_together(controller, operations, Reason(_MOVE))
    if not any(errors):
        controller.context.entries_moved |= {
            name: one.replicas for name, one in entries.items() if name not in legacy.entries
        }
    elif any(one in (BAD_VERSION, NO_NODE, NODE_EXISTS) for one in errors):
        # One of the znodes was written since it was read.
        controller.enqueue(ExtraReassignments())
    else:
        codes = ",".join(map(str, errors))
        text = f"the entries cannot be moved to {LEGACY} (ZooKeeper codes {codes}), and stay"
        controller.notice("error", "entries_not_written", _PATH, text)


def _split_by_size(
    controller: Controller, before: Entries, moved: Entries
) -> tuple[Entries, Entries]:
    """The new entries of /admin/reassign_partitions, and those that are left for later."""
    entries, rest = dict(before), dict(moved)
    size, both = len(write_entries(before)), len(write_entries(before)) + len(write_entries(moved))
    for name, one in moved.items():
        partition = controller.context.find(*name)
        assert partition is not None, "only what exists is moved"
        entry = Entry(one.replicas, controller.context.originals(partition))
        added = len(write_entries({name: entry}))
        size += added
        both += added - len(write_entries({name: one}))
        if max(size, both - BOTH_ZNODES_BYTES_MAX + DATA_BYTES_MAX) > DATA_BYTES_MAX:
            break
        entries[name] = entry
        del rest[name]
    return entries, rest
