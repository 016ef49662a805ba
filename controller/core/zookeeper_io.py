"""Reading and writing ZooKeeper so that every outcome is definite.

If the connection breaks, reads have no reply, and the outcome of writes is unknown. The core issues
the reads again when the session is connected again. Only this module determines whether a write
happened: sync, read, compare. It repeats a write only if the write did not happen
(docs/design.md#terms).
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from controller.core.commands import (
    CommandId,
    DrawNumbers,
    DrawTopicIds,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    Reason,
    SyncZnodes,
    WatchSubtree,
    WriteAtomically,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.controller import Controller
from controller.core.errors import ControllerMovedError, ProcedureError, ZnodeError
from controller.core.operations import (
    BAD_VERSION,
    CONNECTION_LOSS,
    FENCED,
    NO_AUTH,
    NO_NODE,
    NODE_EXISTS,
    OK,
    RUNTIME_INCONSISTENCY,
    SESSION_EXPIRED,
    Check,
    Create,
    CreateSequential,
    Delete,
    SetData,
    WriteOperation,
)
from controller.core.outcomes import (
    CONNECTED,
    TERM_END,
    Children,
    CommandResults,
    Numbers,
    ParsedZnodes,
    TopicIds,
    Wait,
    Writes,
    ZnodeColumns,
    suspend,
)
from controller.core.values import ANY_VERSION, LeaderAndIsr
from controller.core.znodes import (
    CONTROLLER_EPOCH,
    is_notification,
    is_numbered_notification,
    notification_path,
    read_state,
)

T = TypeVar("T")
Z = TypeVar("Z", bound=ZnodeColumns)

_RETRY = 1
"""The verdict on a lost write that did not happen."""


class ZooKeeperClient(Protocol):
    """The parts of the fold that a procedure needs for its ZooKeeper session.

    - `connections`: the number of connections to ZooKeeper so far.
    - `epoch_version`: each write happens only while /controller_epoch has this version; None: no
      write is guarded.
    - `lost_reply_rule`: the reason of the reads that determine the outcome of writes whose
      reply was lost.
    """

    is_connected: bool
    connections: int

    @property
    def epoch_version(self) -> int | None:
        """The version that guards writes."""

    @property
    def lost_reply_rule(self) -> str:
        """The reason of those reads."""

    def issue(self, command: ZooKeeperCommand, reason: Reason) -> CommandId:
        """Issue a command for ZooKeeper."""


async def read_znodes(
    controller: Controller,
    paths: list[str],
    rule: str,
    *,
    watch: bool = False,
    may_be_denied: bool = False,
) -> ZnodeColumns:
    """Data and stat of each path, as far as known. `watch` asks for the next change of the znodes
    that exist. Raises ProcedureError if an ACL does not allow a read, unless it `may_be_denied`: a
    denied read must not count as a missing znode (KafkaZkClient throws, too)."""
    known = controller.standby.read(paths, has_data=True)
    return known or await fetch_znodes(
        controller, paths, rule, watch=watch, may_be_denied=may_be_denied
    )


async def fetch_znodes(
    client: ZooKeeperClient,
    paths: list[str],
    rule: str,
    *,
    watch: bool = False,
    may_be_denied: bool = False,
) -> ZnodeColumns:
    """Read data and stat of each path from ZooKeeper. The arguments are those of `read_znodes`."""
    command = ReadZnodes(tuple(paths), watch)
    found = await _issue_read(client, command, lambda: ZnodeColumns(len(paths)), rule)
    if not may_be_denied:
        _require_allowed(paths, found.errors)
    return found


async def read_state_znodes(
    controller: Controller, paths: list[str], rule: str, *, may_be_denied: bool = False
) -> ParsedZnodes[LeaderAndIsr]:
    """The leaders and ISRs in these znodes. Raises as `read_znodes` does."""

    def znodes() -> ParsedZnodes[LeaderAndIsr]:
        return ParsedZnodes(paths, read_state)

    found = await _issue_read(controller, ReadZnodes(tuple(paths), False), znodes, rule)
    if not may_be_denied:
        _require_allowed(paths, found.errors)
    return found


async def read_contents(
    controller: Controller,
    paths: list[str],
    rule: str,
    parse: Callable[[str, bytes | None], T],
    *,
    may_be_denied: bool = False,
) -> dict[str, T]:
    """The parsed content of each znode that exists, by path. A znode that `parse` rejects with
    ZnodeError is reported and left out (UNREADABLE_SKIPPED), and so is one that may not be read, if
    it `may_be_denied`."""
    found = await read_znodes(controller, paths, rule, may_be_denied=may_be_denied)
    contents: dict[str, T] = {}
    for path, error, data in zip(paths, found.errors, found.data, strict=True):
        if error == NO_AUTH:
            controller.notice("error", "unreadable_znode", path, f"{denied_text(path)}; skipped")
        elif error == OK:
            try:
                contents[path] = parse(path, data)
            except ZnodeError as unreadable:
                controller.notice("error", "unreadable_znode", path, f"{unreadable}; skipped")
    return contents


async def read_stats(
    controller: Controller, paths: list[str], rule: str, *, watch: bool = False
) -> ZnodeColumns:
    """The stats of each path. `watch` also covers creation (KB 1.4.3)."""
    known = controller.standby.read(paths, has_data=False)
    return known or await fetch_stats(controller, paths, rule, watch=watch)


async def fetch_stats(
    client: ZooKeeperClient, paths: list[str], rule: str, *, watch: bool = False
) -> ZnodeColumns:
    """Read the stats of each path from ZooKeeper. The arguments are those of `read_stats`."""
    command = ReadStats(tuple(paths), watch)
    return await _issue_read(client, command, lambda: ZnodeColumns(len(paths)), rule)


async def _issue_read(
    client: ZooKeeperClient, command: ReadZnodes | ReadStats, new: Callable[[], Z], rule: str
) -> Z:
    if not command.paths:
        return new()
    while True:
        await _wait_until_connected(client)
        id = client.issue(command, Reason(rule))
        znodes: Z = await suspend(Wait(id, new()))
        if not await _is_lost(znodes.errors):
            return znodes


async def read_children(
    controller: Controller, path: str, rule: str, *, watch: bool = False
) -> Children:
    """The children of a znode, sorted; empty if it does not exist."""
    known = controller.standby.children_of(path)
    return known or await fetch_children(controller, path, rule, watch=watch)


async def fetch_children(
    client: ZooKeeperClient, path: str, rule: str, *, watch: bool = False
) -> Children:
    """Read the children of a znode from ZooKeeper, sorted; empty if it does not exist."""
    while True:
        await _wait_until_connected(client)
        id = client.issue(ReadChildren(path, watch), Reason(rule))
        answer: Children = await suspend(Wait(id, Children()))
        if not await _is_lost([answer.error]):
            _require_allowed((path,), [answer.error])
            return answer


async def read_children_of_each(
    client: ZooKeeperClient, paths: list[str], rule: str
) -> dict[str, list[str]]:
    """The children of several znodes, sorted; empty where one does not exist."""
    while paths:
        await _wait_until_connected(client)
        waiting = {
            client.issue(ReadChildren(path, False), Reason(rule)): Children() for path in paths
        }
        connections = client.connections
        await suspend(Wait(None, CommandResults(waiting)))
        errors = [one.error for one in waiting.values()]
        if not await _is_lost_of(client, connections, errors):
            _require_allowed(paths, errors)
            found = [one.children for one in waiting.values()]
            return dict(zip(paths, found, strict=True))
    return {}


async def watch_subtree(controller: Controller, path: str, rule: str) -> int:
    """Have all changes below a path reported, as long as this connection lasts. Returns ZooKeeper's
    code."""
    while True:
        await _wait_until_connected(controller)
        id = controller.issue(WatchSubtree(path), Reason(rule))
        writes: Writes = await suspend(Wait(id, Writes(1)))
        if not await _is_lost(writes.errors):
            return writes.errors[0]


def end_subtree_watch(controller: Controller, path: str, rule: str) -> None:
    """End the watch of a subtree; its outcome is ignored."""
    controller.issue(WatchSubtree(path, ends=True), Reason(rule))


async def draw_topic_ids(controller: Controller, count: int, rule: str) -> list[bytes]:
    """Fresh random topic ids."""
    if not count:
        return []
    id = controller.issue(DrawTopicIds(count), Reason(rule))
    drawn: TopicIds = await suspend(Wait(id, TopicIds()))
    return drawn.topic_ids


async def draw_numbers(controller: Controller, bounds: list[int], rule: str) -> list[int]:
    """Random numbers, each from 0 to below its bound."""
    if not bounds:
        return []
    id = controller.issue(DrawNumbers(tuple(bounds)), Reason(rule))
    drawn: Numbers = await suspend(Wait(id, Numbers()))
    return drawn.numbers


async def write(
    client: ZooKeeperClient, operations: list[WriteOperation], reason: Reason
) -> Writes:
    """Independent writes, guarded by the controller epoch (KB 1.3.1).

    Raises ControllerMovedError if one was fenced, after the outcome of each is known (KB 1.3.4).
    """
    done = Writes(len(operations))
    waiting = list(range(len(operations)))
    while waiting:
        await _wait_until_connected(client)
        batch = tuple(operations[place] for place in waiting)
        id = client.issue(WriteZnodes(batch, client.epoch_version), reason)
        writes: Writes = await suspend(Wait(id, Writes(len(batch))))
        for place, error, version in zip(waiting, writes.errors, writes.versions, strict=True):
            done.errors[place], done.versions[place] = error, version
        waiting = await _determine_outcomes(client, operations, waiting, done)
    if FENCED in done.errors:
        raise ControllerMovedError(f"a guarded write was refused: {CONTROLLER_EPOCH} has changed")
    return done


async def write_named(
    client: ZooKeeperClient, operations: dict[str, WriteOperation], reason: Reason
) -> dict[str, int]:
    """Make independent writes like `write`. Returns ZooKeeper's code of each write by its name."""
    writes = await write(client, list(operations.values()), reason)
    return dict(zip(operations, writes.errors, strict=True))


async def write_atomically(
    client: ZooKeeperClient, operations: list[WriteOperation], reason: Reason
) -> list[int]:
    """One multi. Returns the errors of its operations: CONNECTION_LOSS if no reply came, after
    which the caller reads the result (only an election needs this, KB 6.1)."""
    await _wait_until_connected(client)
    id = client.issue(WriteAtomically(tuple(operations)), reason)
    writes: Writes = await suspend(Wait(id, Writes(len(operations))))
    await _is_lost(writes.errors)
    return writes.errors


async def write_together(
    controller: Controller, operations: list[WriteOperation], reason: Reason
) -> list[int]:
    """One multi, guarded by the controller epoch: all or nothing. Returns the errors.

    Raises ControllerMovedError if it was fenced. If the reply was lost, reads determine the
    outcome: the multi was done if every operation looks done.
    """
    epoch = Check(CONTROLLER_EPOCH, controller.context.epoch_version)
    while True:
        errors = await write_atomically(controller, [epoch, *operations], reason)
        if CONNECTION_LOSS not in errors:
            break
        verdicts = await _verdicts(controller, operations)
        if _RETRY not in verdicts:
            return verdicts
    _require_not_fenced(errors)
    return errors[1:]


async def write_groups(
    controller: Controller, groups: list[tuple[list[WriteOperation], Reason]]
) -> list[list[int]]:
    """Several multis that do not wait for each other, each guarded by the controller epoch and with
    a separate zxid. Returns the errors of each.

    Raises ControllerMovedError if one was fenced. CONNECTION_LOSS if no reply came: a later multi
    may have changed the same znode, so only the caller knows what to write again.
    """
    epoch = Check(CONTROLLER_EPOCH, controller.context.epoch_version)
    await _wait_until_connected(controller)
    waiting = {
        controller.issue(WriteAtomically((epoch, *operations)), reason): Writes(len(operations) + 1)
        for operations, reason in groups
    }
    if not waiting:
        return []
    connections = controller.connections
    await suspend(Wait(None, CommandResults(waiting)))
    all_errors = [one.errors for one in waiting.values()]
    await _is_lost_of(controller, connections, [one for errors in all_errors for one in errors])
    for errors in all_errors:
        if CONNECTION_LOSS not in errors:
            _require_not_fenced(errors)
    return [errors[1:] for errors in all_errors]


def _require_not_fenced(errors: list[int]) -> None:
    if errors[0] not in (OK, RUNTIME_INCONSISTENCY):
        raise ControllerMovedError(f"a guarded write was refused: {CONTROLLER_EPOCH} has changed")


async def _verdicts(client: ZooKeeperClient, operations: list[WriteOperation]) -> list[int]:
    paths = [one.path for one in operations]
    found = await read_latest(client, paths, client.lost_reply_rule)
    return [
        _verdict(*one)
        for one in zip(operations, found.errors, found.data, found.versions, strict=True)
    ]


async def _determine_outcomes(
    client: ZooKeeperClient, operations: list[WriteOperation], tried: list[int], done: Writes
) -> list[int]:
    """Determine the outcome of the writes whose reply was lost. Returns the indexes of those to
    issue again."""
    lost = [place for place in tried if done.errors[place] in (CONNECTION_LOSS, SESSION_EXPIRED)]
    if not lost:
        return []
    await _is_lost([done.errors[place] for place in lost])
    paths = [operations[place].path for place in lost]
    found = await read_latest(client, paths, client.lost_reply_rule)
    again = []
    for place, error, data, version in zip(
        lost, found.errors, found.data, found.versions, strict=True
    ):
        verdict = _verdict(operations[place], error, data, version)
        if verdict == _RETRY:
            again.append(place)
        else:
            done.errors[place], done.versions[place] = verdict, version
    return again


async def read_latest(client: ZooKeeperClient, paths: list[str], rule: str) -> ZnodeColumns:
    """Read data and stat of each path as of the latest transaction, even if the server lags.

    Sync and read use one connection: after a reconnection the server may be another (race R32).
    """
    while True:
        await _wait_until_connected(client)
        id = client.issue(SyncZnodes("/"), Reason(rule))
        synced: Writes = await suspend(Wait(id, Writes(1)))
        if await _is_lost(synced.errors):
            continue
        id = client.issue(ReadZnodes(tuple(paths), False), Reason(rule))
        found: ZnodeColumns = await suspend(Wait(id, ZnodeColumns(len(paths))))
        if not await _is_lost(found.errors):
            return found


def _verdict(operation: WriteOperation, error: int, data: bytes | None, version: int) -> int:
    """The outcome of one lost write, by the current state of the znode."""
    match operation:
        case SetData(data=wanted, version=expected):
            if error == NO_NODE:
                return NO_NODE
            if data == wanted and expected in (ANY_VERSION, version - 1):
                return OK
            return _RETRY if expected in (ANY_VERSION, version) else BAD_VERSION
        case Create(data=wanted):
            if error == NO_NODE:
                return _RETRY
            return OK if (data or b"") == wanted else NODE_EXISTS
        case Delete(version=expected):
            if error == NO_NODE:
                return OK
            # With a version: it may be another znode, created since. The caller reads it again.
            return _RETRY if expected == ANY_VERSION else BAD_VERSION
        case Check() | CreateSequential():
            # It is unknown which znode was created; a duplicate notification does no harm.
            return _RETRY


async def _wait_until_connected(client: ZooKeeperClient) -> None:
    if not client.is_connected:
        await suspend(CONNECTED)


def _require_allowed(paths: Sequence[str], errors: list[int]) -> None:
    """Refuse replies to reads that an ACL does not allow. Raises ProcedureError."""
    if NO_AUTH in errors:
        path = paths[errors.index(NO_AUTH)]
        raise ProcedureError(denied_text(path))


def denied_text(path: str) -> str:
    """The problem of a znode whose ACL denies the read, for a message."""
    return f"{path} cannot be read (NoAuth): its ACL does not allow it"


async def _is_lost(errors: list[int]) -> bool:
    """Whether a reply was lost; returns when the session is connected again."""
    if SESSION_EXPIRED in errors:
        await suspend(TERM_END)
    if CONNECTION_LOSS in errors:
        # It is always a new connection: lost commands are reported before the loss itself.
        await suspend(CONNECTED)
        return True
    return False


async def _is_lost_of(client: ZooKeeperClient, connections: int, errors: list[int]) -> bool:
    """Whether a reply to some commands, issued on the connection of that number, was lost; returns
    when the session is connected again, which it may be already."""
    if client.connections != connections and SESSION_EXPIRED not in errors:
        return CONNECTION_LOSS in errors
    return await _is_lost(errors)


# Sequential notifications of brokers ------------------------------------------------------------


async def list_notifications(controller: Controller, parent: str, rule: str) -> list[str]:
    """The paths of the notifications below a parent; watches for new ones."""
    children = await read_children(controller, parent, rule, watch=True)
    return [
        notification_path(parent, child)
        for child in children.children
        if is_notification(parent, child)
    ]


async def list_numbered_notifications(controller: Controller, parent: str, rule: str) -> list[str]:
    """The paths of the numbered notifications, which stay; watches for new ones. A child with
    another name would be sorted after all later ones."""
    begin = len(notification_path(parent, ""))
    paths = await list_notifications(controller, parent, rule)
    return [path for path in paths if is_numbered_notification(parent, path[begin:])]


async def delete_notifications(controller: Controller, paths: list[str], rule: str) -> None:
    """Delete processed notifications, whether or not they still exist (KB 1.3)."""
    await write(controller, [Delete(path, ANY_VERSION) for path in paths], Reason(rule))
