"""The content of a recorded log for a simulation: znodes, pending commands, usual times."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Final

import msgspec

from controller.core.api_requests.alter_partition import AlterPartitionResponse
from controller.core.canonical import decode_command
from controller.core.commands import (
    BrokerRequest,
    CancelTimer,
    Command,
    CommandId,
    DrawNumbers,
    DrawTopicIds,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    StartTimer,
    WatchSubtree,
    WriteAtomically,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.error_codes import STALE_BROKER_EPOCH
from controller.core.events import (
    BrokerResponded,
    ChildrenRead,
    NumbersDrawn,
    Recorded,
    SessionConnected,
    SessionExpired,
    TimerFired,
    TopicIdsDrawn,
    WatchFired,
    ZnodesRead,
    ZnodesWritten,
)
from controller.core.operations import NO_NODE, OK, Create, Delete, SetData, WriteOperation
from eventstore.records import CommandRecord
from replay.diff.version.log_znodes import LogZnodes
from replay.world.watches import ServerWatches
from replay.znode_tree.paths import parent_of
from replay.znode_tree.tree import Znode

USUAL_NS: Final = 2_000_000
"""The default for a kind of command without outcomes in the log."""
_TIMES_MAX: Final = 1000
"""The number of times per kind of command that are used for the median."""

Place = tuple[CommandId, int]
"""A command in the log, and the position of an operation in it."""


class RecordedHistory:
    """Filled with all records in order, and queried afterwards.

    `left_at` is the event at which the version leaves the log. The pending commands, timers and
    watches at this event are kept.
    """

    def __init__(self, left_at: int) -> None:
        self.znodes = LogZnodes()
        self.session_when_left = 0
        self.pending_when_left: dict[CommandId, Command] = {}
        self.timers_when_left: dict[str, None] = {}
        self.watches = ServerWatches()
        self.own_watches: dict[int, Place] = {}
        """Watches that fired because of writes of the log's controller, by event."""
        self.accepted: dict[tuple[int, str, int], bool] = {}
        """By request, topic and partition: whether an AlterPartition was accepted."""
        self.without_body = 0
        self._left_at = left_at
        self._session = 0
        self._timers: dict[str, None] = {}
        self._pending: dict[CommandId, tuple[Command, int]] = {}
        self._asked: dict[CommandId, tuple[str, int]] = {}
        self._times: dict[str, list[int]] = defaultdict(list)

    def add(
        self,
        recorded: Recorded,
        stored: Iterable[CommandRecord],
        derived: Mapping[CommandId, Command],
    ) -> None:
        """Add an event with its commands. `derived` are commands that may have no stored body."""
        self._event(recorded)
        if recorded.seq == self._left_at:
            self.session_when_left = self._session
            self.pending_when_left = {id: command for id, (command, _) in self._pending.items()}
            self.timers_when_left = dict(self._timers)
        for record in stored:
            id = CommandId(record.cause, record.ordinal)
            self._asked[id] = (record.kind, recorded.wall_ns)
            command = derived.get(id) or decoded_body(record)
            if command is None:
                self.without_body += recorded.seq > self._left_at
            else:
                self._command(recorded.seq, id, command)

    def usual_ns(self, kind: str) -> int:
        """The median time until the outcome of a kind of command."""
        times = self._times.get(kind)
        return int(median(times)) if times else USUAL_NS

    def _command(self, seq: int, id: CommandId, command: Command) -> None:
        match command:
            case DrawTopicIds() | DrawNumbers():
                self._pending[id] = (command, seq)
            case _ if isinstance(command, (ZooKeeperCommand, BrokerRequest)):
                self._pending[id] = (command, seq)
            case AlterPartitionResponse():
                self.accepted.update(accepted_proposals(command))
            case StartTimer(timer=timer):
                self._timers[timer] = None
            case CancelTimer(timer=timer):
                self._timers.pop(timer, None)
            case _:
                pass
        if seq < self._left_at:
            watch(self.watches, self._session, command)

    def _event(self, recorded: Recorded) -> None:
        event, seq = recorded.event, recorded.seq
        match event:
            case ZnodesRead() | ChildrenRead() | ZnodesWritten() | BrokerResponded():
                self._note_time(event.command, recorded.wall_ns)
            case SessionConnected(session_id=session):
                self._session = session
            case SessionExpired(session_id=session) if seq < self._left_at:
                self.watches.drop(session)
            case TimerFired(timer=timer):
                self._timers.pop(timer, None)
            case TopicIdsDrawn() | NumbersDrawn() | BrokerResponded():
                self._pending.pop(event.command, None)
            case WatchFired():
                self._watch(seq, event)
            case _:
                pass
        if not isinstance(event, (ZnodesRead, ChildrenRead, ZnodesWritten)):
            return
        command, asked_at = self._pending.get(event.command, (None, 0))
        match event, command:
            case ZnodesRead(), ReadZnodes() | ReadStats():
                self._note_read(seq, asked_at, event, command.paths)
                is_last = event.offset + len(event.errors) >= len(command.paths)
            case ZnodesWritten(), WriteZnodes() | WriteAtomically():
                self._note_write(seq, event, command.operations)
                is_last = event.offset + len(event.errors) >= len(command.operations)
            case ChildrenRead(), ReadChildren():
                self._note_listing(asked_at, event, command.path)
                is_last = True
            case _:
                is_last = True
        if is_last:
            self._pending.pop(event.command, None)

    def _note_time(self, id: CommandId, now_ns: int) -> None:
        kind, asked_ns = self._asked.pop(id, ("", 0))
        times = self._times[kind]
        if kind and len(times) < _TIMES_MAX:
            times.append(now_ns - asked_ns)

    def _watch(self, seq: int, event: WatchFired) -> None:
        for id, (command, _) in self._pending.items():
            if isinstance(command, (WriteZnodes, WriteAtomically)):
                for place, operation in enumerate(command.operations):
                    if may_fire(operation, event):
                        self.own_watches[seq] = (id, place)
                        return
        self.znodes.note_transaction(seq, event.zxid)
        self.znodes.fired(seq, event.path, event.change)

    def _note_read(
        self, seq: int, asked_at: int, event: ZnodesRead, paths: tuple[str, ...]
    ) -> None:
        for number, error in enumerate(event.errors):
            path = paths[event.offset + number]
            if error == OK:
                self.znodes.note_transaction(seq, event.mzxids[number])
                self.znodes.read(seq, asked_at, path, _znode(event, number))
            elif error == NO_NODE:
                self.znodes.read(seq, asked_at, path, None)

    def _note_listing(self, asked_at: int, event: ChildrenRead, path: str) -> None:
        if event.error in (OK, NO_NODE):
            self.znodes.listed(asked_at, path, tuple(event.children))

    def _note_write(
        self, seq: int, event: ZnodesWritten, operations: tuple[WriteOperation, ...]
    ) -> None:
        for number, error in enumerate(event.errors):
            operation = operations[event.offset + number]
            before = self.znodes.latest(operation.path)
            if error != OK:
                continue
            match operation:
                case Create(path=path, data=data, ephemeral=ephemeral):
                    owner = self._session if ephemeral else 0
                    mzxid = self.znodes.last_zxid
                    self.znodes.note_write(
                        seq, path, None, znode_of(data, owner=owner, mzxid=mzxid)
                    )
                case SetData(path=path, data=data):
                    version = event.versions[number]
                    czxid = before.czxid if before else 0
                    mzxid = self.znodes.last_zxid
                    now = znode_of(data, version=version, czxid=czxid, mzxid=mzxid)
                    self.znodes.note_write(seq, path, znode_of(b"", version=version - 1), now)
                case Delete(path=path):
                    self.znodes.note_write(seq, path, znode_of(b""), None)
                case _:
                    pass


def watch(watches: ServerWatches, session: int, command: Command) -> None:
    """Set the watches of a command."""
    match command:
        case ReadZnodes(paths=paths, watch=True) | ReadStats(paths=paths, watch=True):
            for path in paths:
                watches.watch_always(session, path)
        case ReadChildren(path=path, watch=True):
            watches.watch_always(session, path)
        case WatchSubtree(path=path, ends=True):
            watches.remove(session, path)
        case WatchSubtree(path=path):
            watches.watch_subtree(session, path)
        case _:
            pass


WHOLE_REQUEST: Final = ("", -1)
"""In place of topic and partition: an AlterPartition with a broker epoch that is not current."""


def accepted_proposals(response: AlterPartitionResponse) -> dict[tuple[int, str, int], bool]:
    """By request, topic and partition: whether the controller accepted the proposed ISR."""
    if response.error == STALE_BROKER_EPOCH:
        return {(response.request, *WHOLE_REQUEST): False}
    return {
        (response.request, one.topic_id.hex() if one.topic_id else one.topic, one.partition): (
            not response.error and not one.error
        )
        for one in response.partitions
    }


def decoded_body(record: CommandRecord) -> Command | None:
    """A stored command; None if the log has only its digest, or this version does not know it."""
    if record.body is None:
        return None
    try:
        return decode_command(record.body)
    except msgspec.DecodeError:
        return None


def may_fire(operation: WriteOperation, event: WatchFired) -> bool:
    """Whether a write can be the cause of a watch event."""
    match operation:
        case SetData(path=path):
            return event.change == "data" and event.path == path
        case Create(path=path) | Delete(path=path):
            if event.change == "children":
                return event.path == parent_of(path)
            change = "created" if isinstance(operation, Create) else "deleted"
            return event.path == path and event.change == change
        case _:
            return False


def znode_of(
    data: bytes, *, version: int = 0, czxid: int = 0, mzxid: int = 0, owner: int = 0
) -> Znode:
    """A znode of which only these fields are known."""
    return Znode(data, czxid, mzxid, 0, 0, version, 0, owner, 0)


def _znode(event: ZnodesRead, number: int) -> Znode:
    return znode_of(
        event.data[number] or b"",
        version=event.versions[number],
        czxid=event.czxids[number],
        mzxid=event.mzxids[number],
        owner=event.owners[number],
    )
