"""A simulated ZooKeeper server: sessions, transactions and watches in memory.

It is pure: it has no clock (the time is an argument), no randomness and no I/O. It behaves like a
standalone ZooKeeper 3.9; tests/replay/world compares the two. It does not implement ACLs, quotas,
container and TTL znodes and the session time-out; the caller ends sessions with `end_session`.
"""

from collections.abc import Iterable, Mapping
from typing import Final, Self

from controller.core.events import WatchFired
from controller.core.operations import (
    OK,
    RUNTIME_INCONSISTENCY,
    SESSION_EXPIRED,
    Check,
    Create,
    CreateSequential,
    Delete,
    SetData,
)
from controller.core.values import ANY_VERSION
from replay.world.requests import (
    NO_WATCHER,
    AddWatch,
    Exists,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    OperationResult,
    Read,
    RemoveWatches,
    Reply,
    Request,
    SetWatches,
    Sync,
    Write,
    WriteInMulti,
)
from replay.world.watches import Change, ServerWatches
from replay.znode_tree.owners import is_session
from replay.znode_tree.tree import Refused, Tree, Znode

Changes = list[tuple[Change, str]]
"""The znodes that a transaction changed, and how."""

_DONE = OperationResult()
_NO_ZXID: Final = -1


class ZooKeeper:
    """One server and its sessions. Sessions that it creates are numbered from 1 on."""

    def __init__(self) -> None:
        self._tree = Tree()
        self._watches = ServerWatches()
        self._inboxes: dict[int, list[WatchFired]] = {}
        self._last_session = 0
        self.zxid = 0
        self.changes: Changes = []
        """The changes of the last transaction, in order; empty if it was refused."""

    @classmethod
    def load(cls, znodes: Mapping[str, Znode], zxid: int) -> Self:
        """A server with these znodes after transaction `zxid`; their owners are live sessions."""
        server = cls()
        server._tree.load(znodes)
        server._inboxes = {node.owner: [] for node in znodes.values() if is_session(node.owner)}
        server.zxid = zxid
        return server

    def find(self, path: str) -> Znode | None:
        """A znode, None if it does not exist."""
        try:
            return self._tree.get(path)
        except Refused:
            return None

    def dump(self) -> dict[str, Znode]:
        """All znodes by path, for `load` and for tests."""
        return self._tree.dump()

    def copy(self) -> Self:
        """A server that changes independently of this one."""
        copy = self.__class__.__new__(self.__class__)
        copy._tree = self._tree.copy()
        copy._watches = self._watches.copy()
        copy._inboxes = {session: events.copy() for session, events in self._inboxes.items()}
        copy._last_session = self._last_session
        copy.zxid = self.zxid
        copy.changes = self.changes
        return copy

    def split(self, sessions: Iterable[int]) -> Self:
        """A copy that receives the same transactions later: a server that lags. The watches of its
        sessions move to it."""
        copy = self.copy()
        copy._watches = ServerWatches()
        for session in sessions:
            self._watches.move(session, copy._watches)
        return copy

    def join(self, copy: Self, sessions: Iterable[int]) -> None:
        """Take the watches of these sessions back from a copy."""
        for session in sessions:
            copy._watches.move(session, self._watches)

    # Sessions

    def create_session(self, session: int | None = None) -> int:
        """Start a session, which is one transaction. An import passes the session's real id."""
        if session is None:
            session = self._last_session + 1
            while session in self._inboxes:
                session += 1
            self._last_session = session
        assert session not in self._inboxes, f"session {session:#x} exists already"
        self._inboxes[session] = []
        self.zxid += 1
        self.changes = []
        return session

    def is_live(self, session: int) -> bool:
        """Whether the session has not ended."""
        return session in self._inboxes

    def disconnect(self, session: int) -> None:
        """End the connection of a live session: its watches and undelivered events are dropped."""
        self._watches.drop(session)
        self._inboxes[session] = []

    def end_session(self, session: int) -> None:
        """End a live session, closed or expired: its ephemeral znodes are deleted in one
        transaction.

        They are deleted in the order of their paths; a real server uses the order of a Java hash
        set.
        """
        self.disconnect(session)
        del self._inboxes[session]
        self.zxid += 1
        changes = self.changes = []
        for path in self._tree.ephemerals(session):
            self._tree.delete(path, ANY_VERSION, self.zxid)
            changes.append(("deleted", path))
        self._publish(changes)

    def notified(self) -> list[int]:
        """The sessions that have watch events to take."""
        return [session for session, events in self._inboxes.items() if events]

    def take_events(self, session: int) -> list[WatchFired]:
        """Return and remove the watch events that the session has not received yet, in order.

        A server sends them before the reply to any later request of that session.
        """
        events = self._inboxes.get(session)
        if not events:
            return []
        self._inboxes[session] = []
        return events

    # Requests

    def apply(self, session: int, request: Request, now_ms: int) -> Reply:
        """Carry out a request of a session at a wall-clock time.

        Every write gets a zxid, even a refused one; reads get none. In a session that has ended,
        every operation fails with SESSION_EXPIRED.
        """
        if session not in self._inboxes:
            self.changes = []
            return Reply(self.zxid, (OperationResult(SESSION_EXPIRED),) * _size(request))
        match request:
            case Multi(operations=operations):
                results = self._apply_multi(session, operations, now_ms)
            case MultiRead(reads=reads):
                results = tuple(self._apply_read(session, one, armed=False) for one in reads)
            case GetData() | Exists() | GetChildren():
                results = (self._apply_read(session, request, armed=request.watch),)
            case AddWatch(path=path, recursive=True):
                self._watches.watch_subtree(session, path)
                results = (_DONE,)
            case AddWatch(path=path):
                self._watches.watch_always(session, path)
                results = (_DONE,)
            case RemoveWatches(path=path):
                had_any = self._watches.remove(session, path)
                results = (_DONE if had_any else OperationResult(NO_WATCHER),)
            case SetWatches():
                self._set_watches(session, request)
                results = (_DONE,)
            case Sync(path=path):
                results = (OperationResult(path=path),)
            case _:
                results = (self._apply_single(session, request, now_ms),)
        return Reply(self.zxid, results)

    def _apply_single(self, session: int, operation: Write, now_ms: int) -> OperationResult:
        self.zxid += 1
        changes: Changes = []
        self.changes = []
        try:
            result = self._write(session, operation, now_ms, changes)
        except Refused as refusal:
            return OperationResult(refusal.code)
        self._publish(changes)
        return result

    def _apply_multi(
        self, session: int, operations: tuple[WriteInMulti, ...], now_ms: int
    ) -> tuple[OperationResult, ...]:
        self.zxid += 1
        changes: Changes = []
        self.changes = []
        results: list[OperationResult] = []
        self._tree.begin()
        for operation in operations:
            try:
                results.append(self._write(session, operation, now_ms, changes))
            except Refused as refusal:
                self._tree.roll_back()
                before = [OperationResult(OK)] * len(results)
                after = [OperationResult(RUNTIME_INCONSISTENCY)] * (
                    len(operations) - len(results) - 1
                )
                return (*before, OperationResult(refusal.code), *after)
        self._tree.commit()
        self._publish(changes)
        return tuple(results)

    def _write(
        self, session: int, operation: WriteInMulti, now_ms: int, changes: Changes
    ) -> OperationResult:
        tree, zxid = self._tree, self.zxid
        match operation:
            case Create(path, data, ephemeral):
                tree.create(path, data, session if ephemeral else 0, False, zxid, now_ms)
                changes.append(("created", path))
                return OperationResult(path=path, stat=tree.stat(path))
            case CreateSequential(path, data, ephemeral):
                path = tree.create(path, data, session if ephemeral else 0, True, zxid, now_ms)
                changes.append(("created", path))
                return OperationResult(path=path, stat=tree.stat(path))
            case SetData(path, data, version):
                tree.set_data(path, data, version, zxid, now_ms)
                changes.append(("data", path))
                return OperationResult(stat=tree.stat(path))
            case Delete(path, version):
                tree.delete(path, version, zxid)
                changes.append(("deleted", path))
                return _DONE
            case Check(path, version):
                tree.check(path, version)
                return _DONE

    def _apply_read(self, session: int, request: Read, armed: bool) -> OperationResult:
        tree, path = self._tree, request.path
        if armed and isinstance(request, Exists):
            self._watches.watch_data(session, path)
        try:
            stat = tree.stat(path)
        except Refused as refusal:
            return OperationResult(refusal.code)
        match request:
            case Exists():
                return OperationResult(stat=stat)
            case GetData():
                if armed:
                    self._watches.watch_data(session, path)
                return OperationResult(data=tree.get(path).data, stat=stat)
            case GetChildren():
                if armed:
                    self._watches.watch_children(session, path)
                return OperationResult(stat=stat, children=tree.children(path))

    def _set_watches(self, session: int, request: SetWatches) -> None:
        """The rules of ZooKeeper's DataTree.setWatches."""
        watches, since = self._watches, request.relative_zxid
        missed: list[tuple[str, str]] = []
        for path in request.data:
            node = self.find(path)
            if node is None or node.mzxid > since:
                missed.append((path, "deleted" if node is None else "data"))
            else:
                watches.watch_data(session, path)
        for path in request.exist:
            if self.find(path) is not None:
                missed.append((path, "created"))
            else:
                watches.watch_data(session, path)
        for path in request.child:
            node = self.find(path)
            if node is None or node.pzxid > since:
                missed.append((path, "deleted" if node is None else "children"))
            else:
                watches.watch_children(session, path)
        for path in request.persistent:
            watches.watch_always(session, path)
        for path in request.recursive:
            watches.watch_subtree(session, path)
        self._inboxes[session] += [WatchFired(*one, _NO_ZXID) for one in missed]

    def _publish(self, changes: Changes) -> None:
        self.changes = changes
        for change, path in changes:
            for session, event in self._watches.fire(change, path, self.zxid):
                self._inboxes[session].append(event)


def _size(request: Request) -> int:
    match request:
        case Multi(operations=operations):
            return len(operations)
        case MultiRead(reads=reads):
            return len(reads)
        case _:
            return 1
