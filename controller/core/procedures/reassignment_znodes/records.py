"""/admin/reassignments/$topic/$partition: records of the reassignments under way (KB 14.4).

A record is written together with the topic's znode in one multi, so that the two agree. If another
client wrote the topic, the topic's znode counts and the record is obsolete.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.commands import Reason
from controller.core.controller import Controller
from controller.core.deviations import REASSIGNMENTS_TOGETHER
from controller.core.errors import ProcedureError, ZnodeError
from controller.core.failures import excerpt
from controller.core.operations import (
    BAD_VERSION,
    CONNECTION_LOSS,
    NO_NODE,
    NODE_EXISTS,
    NOT_EMPTY,
    OK,
    Check,
    Create,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.state import Partition
from controller.core.values import ANY_VERSION, Assignment, format_brokers
from controller.core.znodes import (
    REASSIGN_CANCEL,
    REASSIGNMENT_REQUESTS,
    REASSIGNMENTS,
    REPLICA_DELETIONS,
    Reassignment,
)
from controller.core.zookeeper_io import (
    read_children,
    read_children_of_each,
    read_znodes,
    write,
    write_groups,
    write_together,
)

_RULE = "reassignment: records of what is under way"
_NO_CHILD = b""
_NEW_VERSION = 0
_ATTEMPTS = 3
"""The attempts are: create a missing record, overwrite an existing one, create its parent first."""


class RecordedMove(NamedTuple):
    """A partition, its new record in /admin/reassignments, and its topic's znode with the new
    assignment, or a check of its version if the assignment does not change."""

    partition: Partition
    record: Reassignment
    topic: SetData | Check
    reason: Reason

    @property
    def writes_topic(self) -> bool:
        """Whether the topic's znode is written."""
        return isinstance(self.topic, SetData)


LEGACY: Final = znodes.REASSIGN_PARTITIONS
REQUESTS: Final = REASSIGNMENT_REQUESTS
ADMIN_TOOLS: Final = "the AlterPartitionReassignments API"


def route_of(record: Reassignment) -> str:
    """Where a reassignment was requested."""
    if record.api:
        return ADMIN_TOOLS
    return LEGACY if record.legacy else REQUESTS


def current_route(controller: Controller, partition: Partition) -> str:
    """The route by which a partition is being reassigned; empty: it is not."""
    record = controller.context.reassignments.get(partition)
    if record is not None:
        return route_of(record)
    return ADMIN_TOOLS if partition in controller.context.reassigning else ""


async def make_parents(controller: Controller) -> None:
    """Create the parents of requests, records and deletions, where they are missing."""
    await _make(controller, [REASSIGNMENT_REQUESTS, REASSIGNMENTS, REPLICA_DELETIONS])


async def _make(controller: Controller, paths: list[str]) -> None:
    creates: list[WriteOperation] = [Create(path, _NO_CHILD) for path in paths]
    writes = await write(controller, creates, Reason(_RULE))
    for path, error in zip(paths, writes.errors, strict=True):
        if error not in (OK, NODE_EXISTS):
            raise ProcedureError(f"{path} cannot be created (ZooKeeper code {error})")


async def make_parents_of(controller: Controller, partitions: Iterable[Partition]) -> None:
    """Create the parents of the records of these partitions, where they are missing."""
    have_parents = {one.topic.name for one in controller.context.reassignments}
    names = dict.fromkeys(one.topic.name for one in partitions)
    missing = [name for name in names if name not in have_parents]
    if missing:
        paths = [znodes.reassignments_path(name) for name in missing]
        await _make(controller, [REASSIGNMENTS, *paths])


async def write_with_records(
    controller: Controller, moves: list[RecordedMove], *, have_parents: bool
) -> dict[Partition, bool]:
    """Store assignments, each with its record in one multi, so that each record has a separate
    czxid. Returns the partitions whose multi was refused, and whether its reply was lost.

    A later multi of a topic must not be done if an earlier one is refused because another client
    has written the topic. A version that is higher by one does not ensure that: the other client's
    write increased it as well. Therefore the later multi checks the record of the earlier one. The
    version of a record that existed is not known: moves that follow such a record are not written.
    `have_parents`: the parents of the records exist.
    """
    known = controller.context.reassignments
    if not have_parents:
        await make_parents_of(controller, [one.partition for one in moves])
    groups: list[tuple[list[WriteOperation], Reason]] = []
    last: dict[str, Create | SetData] = {}
    tried: list[RecordedMove] = []
    for one in moves:
        put, checks = (
            _record_operation(one, is_known=one.partition in known),
            list[WriteOperation](),
        )
        earlier = last.get(one.topic.path)
        if earlier is not None and one.topic.version != ANY_VERSION:
            if isinstance(earlier, SetData):
                continue
            checks.append(Check(earlier.path, _NEW_VERSION))
        groups.append(([*checks, put, one.topic], one.reason))
        if one.writes_topic:
            last[one.topic.path] = put
        tried.append(one)
    refused = dict.fromkeys((one.partition for one in moves), False)
    for one, errors in zip(tried, await write_groups(controller, groups), strict=True):
        refused[one.partition] = CONNECTION_LOSS in errors
        if not any(errors):
            known[one.partition] = one.record
            del refused[one.partition]
    return refused


async def write_with_record(controller: Controller, move: RecordedMove) -> bool:
    """Store one assignment, whatever state its record is in. Returns False if another client has
    written the topic. Raises ProcedureError."""
    known = controller.context.reassignments
    path = znodes.reassignment_path(*move.partition.key)
    errors: list[int] = []
    for _ in range(_ATTEMPTS):
        found = await read_znodes(controller, [path], _RULE)
        is_known = found.errors[0] == OK
        is_same = is_known and _has_record(path, found.data[0], move.record)
        puts: list[WriteOperation] = [] if is_same else [_record_operation(move, is_known=is_known)]
        errors = await write_together(controller, [*puts, move.topic], move.reason)
        if not any(errors):
            known[move.partition] = move.record
            return True
        if BAD_VERSION in errors:
            return False
        if NO_NODE in errors:
            parent = znodes.reassignments_path(move.partition.topic.name)
            await _make(controller, [REASSIGNMENTS, parent])
    raise ProcedureError(
        f"{move.topic.path} and {path} cannot be written for the reassignment of {move.partition} "
        f"(ZooKeeper codes {errors})"
    )


def _record_operation(one: RecordedMove, *, is_known: bool) -> Create | SetData:
    path = znodes.reassignment_path(*one.partition.key)
    state = one.partition.leadership
    epoch = state.leader_epoch if state is not None else None
    data = znodes.write_reassignment(one.record, epoch)
    return SetData(path, data, ANY_VERSION) if is_known else Create(path, data)


async def unset_leader_epochs(controller: Controller, partitions: Iterable[Partition]) -> None:
    """Remove the leader epochs from records, because the leader epoch was not increased after the
    record was written. A rollback would be the first to increase it (`_is_informed_by_failover`).

    The record of a partition without a state has none.
    """
    known = controller.context.reassignments
    writes: list[WriteOperation] = [
        SetData(
            znodes.reassignment_path(*one.key), znodes.write_reassignment(known[one]), ANY_VERSION
        )
        for one in partitions
        if one in known and one.leadership is not None
    ]
    if not writes:
        return
    written = await write(controller, writes, Reason("reassignment: unset the leader epoch"))
    for operation, error in zip(writes, written.errors, strict=True):
        if error not in (OK, NO_NODE):
            raise ProcedureError(f"{operation.path} cannot be written (ZooKeeper code {error})")


async def remove_records(controller: Controller, partitions: Iterable[Partition]) -> None:
    """Remove the records of reassignments that are over, and the parents that become empty."""
    known = controller.context.reassignments
    over = [one for one in partitions if known.pop(one, None) is not None]
    await _delete(controller, [one.key for one in over])


async def _delete(controller: Controller, names: list[znodes.Name]) -> None:
    if not names:
        return
    paths = [znodes.reassignment_path(*name) for name in names]
    remaining = dict.fromkeys(one.topic.name for one in controller.context.reassignments)
    topics = [one for one in dict.fromkeys(name[0] for name in names) if one not in remaining]
    paths += [znodes.reassignments_path(topic) for topic in topics]
    deletes: list[WriteOperation] = [Delete(path, ANY_VERSION) for path in paths]
    writes = await write(controller, deletes, Reason("reassignment: remove the record"))
    for path, error in zip(paths, writes.errors, strict=True):
        if error not in (OK, NO_NODE, NOT_EMPTY):
            text = f"the record cannot be deleted (ZooKeeper code {error})"
            controller.notice("warning", "record_not_removed", path, text)


async def repair_records(controller: Controller) -> None:
    """Write the records again that another client changed or deleted.

    The context counts. The number of records has no bound, so that none is watched: all are read in
    one go. A change after the read is left to the next check.
    """
    known = controller.context.reassignments
    paths = [znodes.reassignment_path(*one.key) for one in known]
    found = await read_znodes(controller, paths, _RULE)
    operations: list[WriteOperation] = []
    parents: dict[str, None] = {}
    for place, (partition, record) in enumerate(known.items()):
        path, error, data = paths[place], found.errors[place], found.data[place]
        wanted = znodes.write_reassignment(record)
        if error == NO_NODE:
            operations.append(Create(path, wanted))
            parents[znodes.reassignments_path(partition.topic.name)] = None
            how = (
                "another client deleted the record; the controller creates it again, with another "
                "czxid"
            )
        elif error == OK and not _has_record(path, data, record):
            operations.append(SetData(path, wanted, found.versions[place]))
            how = (
                "another client changed the record; the controller writes it again; its content "
                f"was {excerpt(data)}"
            )
        else:
            continue
        controller.notice("warning", "record_mended", path, how)
    if parents:
        await _make(controller, [REASSIGNMENTS, *parents])
    await _write_again(controller, operations)


def _has_record(path: str, data: bytes | None, record: Reassignment) -> bool:
    try:
        return znodes.read_reassignment(path, data) == record
    except ZnodeError:
        return False


async def _write_again(controller: Controller, operations: list[WriteOperation]) -> None:
    if not operations:
        return
    writes = await write(controller, operations, Reason("reassignment: repair the record"))
    for operation, error in zip(operations, writes.errors, strict=True):
        if error not in (OK, BAD_VERSION, NO_NODE, NODE_EXISTS):
            text = f"the record cannot be written (ZooKeeper code {error})"
            controller.notice("error", "record_not_mended", operation.path, text)


async def load_records(controller: Controller) -> dict[Partition, int]:
    """Load the records at failover.

    Returns the partitions whose reassignment another controller ended, with the transaction that
    wrote the record last. They are reported, except completed entries: whether they are cancelled
    is not known yet.

    Records that cannot be read, or whose partition does not exist, are removed.
    """
    names = await _list(controller)
    paths = [znodes.reassignment_path(*name) for name in names]
    found = await read_znodes(controller, paths, _RULE)
    ended: dict[Partition, int] = {}
    unusable: list[znodes.Name] = []
    not_increased: list[Partition] = []
    for place, (name, path) in enumerate(zip(names, paths, strict=True)):
        error, data = found.errors[place], found.data[place]
        if error != OK:
            continue
        partition = controller.context.find(*name)
        try:
            record, epoch_before = znodes.read_record(path, data)
        except ZnodeError as unreadable:
            text = f"{unreadable}; the record is deleted; its content was {excerpt(data)}"
            controller.notice("error", "unreadable_znode", path, text)
            unusable.append(name)
            continue
        if partition is not None and controller.context.is_queued(partition):
            report_ended_with_topic(controller, partition, record)
            unusable.append(name)
            continue
        if partition is None or not partition.replicas:
            text = (
                f"the partition {name[0]}-{name[1]} does not exist; the record is deleted; its "
                f"content was {excerpt(data)}"
            )
            controller.notice("warning", "record_removed", path, text)
            unusable.append(name)
            continue
        controller.context.reassignments[partition] = record
        if _is_of(record, partition):
            increased = _epochs_since_begin(partition, epoch_before)
            if _is_informed_by_failover(controller, increased):
                controller.context.informed_by_failover[partition] = None
            elif increased is not None and increased <= 0:
                not_increased.append(partition)
        else:
            ended[partition] = found.mzxids[place]
            if not is_completed_entry(record, partition):
                report_ended(controller, partition, record)
    await _delete(controller, unusable)
    await unset_leader_epochs(controller, not_increased)
    return ended


def _is_of(record: Reassignment, partition: Partition) -> bool:
    """Whether a record is that of the reassignment under way. The originals stay replicas until the
    end: another controller may have ended it, and begun one to the same target from others."""
    assignment = partition.assignment
    has_originals = set(record.original_replicas) <= set(assignment.replicas)
    is_under_way = assignment.is_being_reassigned and assignment.target == record.replicas
    return is_under_way and has_originals


def _epochs_since_begin(partition: Partition, before: int | None) -> int | None:
    """How often the leader epoch was increased since the reassignment was stored, when it was
    `before`. None: unknown."""
    state = partition.leadership
    return None if before is None or state is None else state.leader_epoch - before


def _is_informed_by_failover(controller: Controller, increased: int | None) -> bool:
    """Whether the leader epoch that brokers have is the one that began the reassignment. The
    failover's LeaderAndIsr request contains that epoch.

    A later epoch may be that of a rollback, whose leader knows only the originals. Brokers ignore
    the assignment in a request with the leader epoch that they have (KB 12.4.2).

    Below IBP 2.7-IV2 leaders write the ISR themselves: each state has to be watched, which
    continuing the reassignment does.
    """
    if not controller.protocol.has_alter_partition:
        return False
    is_informed = REASSIGNMENTS_TOGETHER.applies(controller.configuration) and increased == 1
    if is_informed:
        controller.observer.deviates(REASSIGNMENTS_TOGETHER, "")
    return is_informed


def report_ended_with_topic(
    controller: Controller, partition: Partition, record: Reassignment | None
) -> None:
    """Report that the reassignment of a partition ends, because its topic is being deleted."""
    target = format_brokers(partition.assignment.target if record is None else record.replicas)
    route = ADMIN_TOOLS if record is None else route_of(record)
    text = _ended_text(target, route, "its topic is being deleted")
    controller.notice("info", "reassignment_ended", repr(partition), text)


def _ended_text(target: str, route: str, why: str) -> str:
    return f"the reassignment to {target}, requested by {route}, has ended: {why}"


def is_completed_entry(record: Reassignment, partition: Partition) -> bool:
    """Whether another controller has completed the reassignment of an entry."""
    return record.legacy and partition.assignment == Assignment(record.replicas)


def report_ended(
    controller: Controller,
    partition: Partition,
    record: Reassignment,
    *,
    is_cancelled: bool = False,
) -> None:
    """Report that another controller ended a reassignment, and how. `is_cancelled`: it completed
    the reassignment of an entry, and a cancellation exists, which does not undo it."""
    assignment, replicas = partition.assignment, format_brokers(partition.replicas)
    if assignment.is_being_reassigned:
        other = format_brokers(assignment.target)
        if assignment.target == record.replicas:
            what = f"another controller ended it, and began one to {other} again"
        else:
            what = f"another controller replaced it by a reassignment to {other}"
        level = "warning"
    elif is_cancelled:
        level = "warning"
        what = f"an earlier controller completed it, and {REASSIGN_CANCEL} does not undo it"
    elif assignment.replicas == record.replicas:
        level, what = "info", "an earlier controller completed it"
    elif sorted(assignment.replicas) == sorted(record.original_replicas):
        level, what = "info", f"it was rolled back to {replicas}"
    else:
        level, what = "warning", f"another controller left the partition on {replicas}"
    text = _ended_text(format_brokers(record.replicas), route_of(record), what)
    named = dict.fromkeys((*record.original_replicas, *record.replicas))
    former = [one for one in named if one not in assignment.replicas]
    if former:
        text += (
            f"; of brokers {format_brokers(former)}, those that were not alive then may still have "
            "the partition's files: find them with `refold reassign --list-strays`"
        )
    if is_cancelled:
        controller.notice("warning", "reassignment_not_cancelled", repr(partition), text)
    else:
        controller.notice(level, "reassignment_ended", repr(partition), text)


async def _list(controller: Controller) -> list[znodes.Name]:
    """The partitions that have a record. Empty parents are removed: a controller that stopped
    between two writes has left them."""
    topics = (await read_children(controller, REASSIGNMENTS, _RULE)).children
    parents = {znodes.reassignments_path(topic): topic for topic in topics}
    children = await read_children_of_each(controller, list(parents), _RULE)
    empty: list[WriteOperation] = [
        Delete(path, ANY_VERSION) for path, found in children.items() if not found
    ]
    if empty:
        await write(controller, empty, Reason(_RULE))
    return [
        (parents[path], number)
        for path, found in children.items()
        for child in found
        if (number := znodes.parse_natural(child)) is not None
    ]
