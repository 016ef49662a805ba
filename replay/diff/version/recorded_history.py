"""What a log tells beside its events: znodes, which command asked for what, and usual times."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Final

import msgspec

from controller.core.api_requests.alter_partition import AnswerAlterPartition
from controller.core.canonical import decode_command
from controller.core.commands import (
    CancelTimer,
    Command,
    CommandId,
    DrawNumbers,
    DrawTopicIds,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    StartTimer,
    SyncZnodes,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.events import (
    BrokerAnswered,
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
from replay.world.paths import parent_of
from replay.world.tree import Znode
from replay.world.watches import Watches

USUAL_NS: Final = 2_000_000
"""Where a log does not tell."""
_TIMES_MAX: Final = 1000
"""Of a kind of command: enough to know what is usual."""

Place = tuple[CommandId, int]
"""One operation of a command in the log."""


class RecordedHistory:
    """Told all records in order, then asked. `left_at` is the event at which the version leaves
    the log: what was open then, which timers ran, and what was watched, is kept as it was."""

    def __init__(self, left_at: int) -> None:
        self.znodes = LogZnodes()
        self.session_when_left = 0
        self.open_when_left: dict[CommandId, Command] = {}
        self.timers_when_left: dict[str, None] = {}
        self.watches = Watches()
        self.own_watches: dict[int, Place] = {}
        """Watches that fired because of the log's own writes, by event."""
        self.accepted: dict[tuple[int, str, int], bool] = {}
        """By request, topic and partition: whether an AlterPartition was granted."""
        self.without_body = 0
        self._left_at = left_at
        self._session = 0
        self._timers: dict[str, None] = {}
        self._open: dict[CommandId, tuple[Command, int]] = {}
        self._asked: dict[CommandId, tuple[str, int]] = {}
        self._times: dict[str, list[int]] = defaultdict(list)

    def tell(
        self,
        recorded: Recorded,
        stored: Iterable[CommandRecord],
        derived: Mapping[CommandId, Command],
    ) -> None:
        """A record of the log; `derived` are commands whose body it may not hold."""
        self._event(recorded)
        if recorded.seq == self._left_at:
            self.session_when_left = self._session
            self.open_when_left = {id: command for id, (command, _) in self._open.items()}
            self.timers_when_left = dict(self._timers)
        for record in stored:
            id = CommandId(record.cause, record.ordinal)
            self._asked[id] = (record.kind, recorded.wall_ns)
            command = derived.get(id) or body_of(record)
            if command is None:
                self.without_body += recorded.seq > self._left_at
            else:
                self._command(recorded.seq, id, command)

    def usual_ns(self, kind: str) -> int:
        """How long the answer to this kind of command takes."""
        times = self._times.get(kind)
        return int(median(times)) if times else USUAL_NS

    def _command(self, seq: int, id: CommandId, command: Command) -> None:
        match command:
            case ReadZnodes() | ReadStats() | ReadChildren() | WriteZnodes() | WriteAtomically():
                self._open[id] = (command, seq)
            case SyncZnodes() | DrawTopicIds() | DrawNumbers():
                self._open[id] = (command, seq)
            case AnswerAlterPartition():
                self._answered(command)
            case StartTimer(timer=timer):
                self._timers[timer] = None
            case CancelTimer(timer=timer):
                self._timers.pop(timer, None)
            case _:
                pass
        if seq < self._left_at:
            watch(self.watches, self._session, command)

    def _answered(self, answer: AnswerAlterPartition) -> None:
        for one in answer.partitions:
            topic = one.topic_id.hex() if one.topic_id else one.topic
            granted = not answer.error and not one.error
            self.accepted[answer.request, topic, one.partition] = granted

    def _event(self, recorded: Recorded) -> None:
        event, seq = recorded.event, recorded.seq
        match event:
            case ZnodesRead() | ChildrenRead() | ZnodesWritten() | BrokerAnswered():
                self._note_time(event.command, recorded.wall_ns)
            case SessionConnected(session_id=session):
                self._session = session
            case SessionExpired(session_id=session) if seq < self._left_at:
                self.watches.drop(session)
            case TimerFired(timer=timer):
                self._timers.pop(timer, None)
            case TopicIdsDrawn() | NumbersDrawn():
                self._open.pop(event.command, None)
            case WatchFired():
                self._watch(seq, event)
            case _:
                pass
        if not isinstance(event, (ZnodesRead, ChildrenRead, ZnodesWritten)):
            return
        command, asked_at = self._open.get(event.command, (None, 0))
        match event, command:
            case ZnodesRead(), ReadZnodes() | ReadStats():
                self._read(seq, asked_at, event, command.paths)
                is_last = event.offset + len(event.errors) >= len(command.paths)
            case ZnodesWritten(), WriteZnodes() | WriteAtomically():
                self._written(seq, event, command.operations)
                is_last = event.offset + len(event.errors) >= len(command.operations)
            case ChildrenRead(), ReadChildren():
                self._listed(asked_at, event, command.path)
                is_last = True
            case _:
                is_last = True
        if is_last:
            self._open.pop(event.command, None)

    def _note_time(self, id: CommandId, now_ns: int) -> None:
        kind, asked_ns = self._asked.pop(id, ("", 0))
        times = self._times[kind]
        if kind and len(times) < _TIMES_MAX:
            times.append(now_ns - asked_ns)

    def _watch(self, seq: int, event: WatchFired) -> None:
        for id, (command, _) in self._open.items():
            if isinstance(command, (WriteZnodes, WriteAtomically)):
                for place, operation in enumerate(command.operations):
                    if is_told_by(operation, event):
                        self.own_watches[seq] = (id, place)
                        return
        self.znodes.passed(seq, event.zxid)
        self.znodes.fired(seq, event.path, event.change)

    def _read(self, seq: int, asked_at: int, event: ZnodesRead, paths: tuple[str, ...]) -> None:
        for number, error in enumerate(event.errors):
            path = paths[event.offset + number]
            if error == OK:
                self.znodes.passed(seq, event.mzxids[number])
                self.znodes.read(seq, asked_at, path, _znode(event, number))
            elif error == NO_NODE:
                self.znodes.read(seq, asked_at, path, None)

    def _listed(self, asked_at: int, event: ChildrenRead, path: str) -> None:
        if event.error in (OK, NO_NODE):
            self.znodes.listed(asked_at, path, tuple(event.children))

    def _written(
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
                    self.znodes.wrote(seq, path, None, znode_of(data, owner=owner))
                case SetData(path=path, data=data):
                    version = event.versions[number]
                    czxid = before.czxid if before else 0
                    now = znode_of(data, version=version, czxid=czxid)
                    self.znodes.wrote(seq, path, znode_of(b"", version=version - 1), now)
                case Delete(path=path):
                    self.znodes.wrote(seq, path, znode_of(b""), None)
                case _:
                    pass


def watch(watches: Watches, session: int, command: Command) -> None:
    """Take in what a command asks to be told of."""
    match command:
        case ReadZnodes(paths=paths, watch=True) | ReadStats(paths=paths, watch=True):
            for path in paths:
                watches.watch_always(session, path)
        case ReadChildren(path=path, watch=True):
            watches.watch_always(session, path)
        case _:
            pass


def body_of(record: CommandRecord) -> Command | None:
    """A stored command; None if the log has only its digest, or it is another version's."""
    if record.body is None:
        return None
    try:
        return decode_command(record.body)
    except msgspec.DecodeError:
        return None


def is_told_by(operation: WriteOperation, event: WatchFired) -> bool:
    """Whether a watch that fires can come from this write."""
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


def znode_of(data: bytes, *, version: int = 0, czxid: int = 0, owner: int = 0) -> Znode:
    """A znode of which no more is known."""
    return Znode(data, czxid, 0, 0, 0, version, 0, owner, 0)


def _znode(event: ZnodesRead, number: int) -> Znode:
    return Znode(
        event.data[number] or b"",
        event.czxids[number],
        event.mzxids[number],
        0,
        0,
        event.versions[number],
        0,
        event.owners[number],
        0,
    )
