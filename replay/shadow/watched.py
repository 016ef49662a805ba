"""Transactions as far as a watching session sees them.

A watch shows that a znode changed, and reading it shows the content, the version, and the zxids of
its creation and last change. Changes with one zxid belong to one transaction. Its session and its
check of /controller_epoch are not visible: they follow from the znode, and from the controller
epoch in a partition's state. Refused transactions cannot be seen.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, Protocol

from msgspec import Struct, structs

from controller.core import znodes
from controller.core.values import Assignment
from controller.zookeeper.observations import (
    Observation,
    WatchBegun,
    WatchComplete,
    WatchLost,
    WatchResumed,
    ZnodeGone,
    ZnodeSeen,
)
from replay.parsed_znodes import (
    controller_epoch_of_state,
    kraft_controller,
    parsed_epoch,
    parsed_topic,
)
from replay.stock_clusters.zookeeper_log.damage import FileDamage
from replay.stock_clusters.zookeeper_log.merging import UnwatchedChanges
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.transactions import (
    OPEN_ACL,
    UNKNOWN_CXID,
    Check,
    CloseSession,
    Content,
    Create,
    CreateSession,
    Delete,
    Error,
    Multi,
    OpCode,
    Operation,
    SetData,
    Transaction,
)
from replay.znode_tree.tree import Znode

_HELD_SECONDS: Final = 0.5
"""A transaction is complete this time after its first znode was read."""
_CATCH_UP_SECONDS: Final = 2.0
"""Changes without a connection were read this long after the session was resumed."""
_TOGETHER_MS: Final = 2
_NO_SESSION: Final = 0
_TIMEOUT_MS: Final = 18_000
_NODE_EXISTS: Final = -110
_BY_ONE: Final = -1
_CODES: Final = {Create: OpCode.CREATE_2, SetData: OpCode.SET_DATA, Delete: OpCode.DELETE}


class ObservationSource(Protocol):
    """Provides the observations of a ZooKeeper session in their order. `pull` returns the new ones,
    and raises ReplayError; `put_back` keeps observations for the next call."""

    def pull(self) -> Sequence[Observation]:
        """The new observations. Raises ReplayError."""

    def put_back(self, observations: Sequence[Observation]) -> None:
        """Keep observations for the next call of `pull`."""


class _Term(NamedTuple):
    session: int
    version: int


class _Change(Struct):
    """One operation of a transaction. `owner` is the session of an ephemeral znode."""

    operation: Create | SetData | Delete
    at_ms: int
    owner: int = _NO_SESSION


class WatchedTransactions:
    """The transactions that a session sees, in the order of zxids.

    `unseen_versions` counts versions that were overwritten before they were read; `unseen_zxids`
    are the transactions that wrote those znodes next.
    """

    def __init__(self, observed: ObservationSource) -> None:
        self.session = _NO_SESSION
        self.zxid = 0
        self.file = "ZooKeeper"
        self.damages: list[FileDamage] = []
        self.stalled: FileDamage | None = None
        self.is_at_end = True
        self.known_ms: int | None = None
        self._resumed_at: float | None = None
        self.is_complete = False
        self.unseen_versions = 0
        self.unseen_zxids: set[int] = set()
        self._observed = observed
        self._seen: dict[str, ZnodeSeen] = {}
        self._changes: dict[int, list[_Change]] = defaultdict(list)
        self._since: deque[tuple[float, int]] = deque()
        self._is_over = False
        self._terms: dict[int, _Term] = {}
        self._current = 0
        self._sessions: set[int] = set()
        self._cxids: dict[int, tuple[int, int]] = {}
        self._last_ms = 0
        self._assignments: dict[str, dict[int, Assignment]] = {}

    def state(self) -> ZooKeeperState:
        """The state when all znodes were read. Waits for nothing."""
        state = ZooKeeperState()
        for one in sorted(self._seen.values(), key=lambda each: each.path):
            state.tree.put(
                one.path,
                Znode(
                    one.data,
                    one.czxid,
                    one.mzxid,
                    one.at_ms,
                    one.at_ms,
                    one.version,
                    0,
                    one.owner,
                    one.mzxid,
                ),
            )
            self.zxid = max(self.zxid, one.czxid, one.mzxid)
            self._note_topic(one.path, one.data)
            if one.owner:
                state.sessions[one.owner] = _TIMEOUT_MS
        state.zxid = state.exact_from = self.zxid
        self._sessions = {*state.sessions}
        holder = self._seen.get(znodes.CONTROLLER)
        if holder is not None and _has_role(holder.data, holder.owner):
            self._begin_term(holder.owner)
        return state

    def begin(self) -> None:
        """Take the observations up to the first complete reading of all znodes."""
        self._pull(0.0)

    def read(self, limit: int, now: float) -> Iterator[Transaction | UnwatchedChanges]:
        """The complete transactions; as of GrowingLogs."""
        self._pull(now)
        if self._is_over:
            yield UnwatchedChanges(self.zxid)
            return
        if self._resumed_at is not None and now - self._resumed_at >= _CATCH_UP_SECONDS:
            self.known_ms = self._resumed_at = None
        ready: list[int] = []
        while self._since and now - self._since[0][0] >= _HELD_SECONDS and len(ready) < limit:
            ready.append(self._since.popleft()[1])
        for zxid in sorted(ready):
            changes = self._changes.pop(zxid, [])
            if changes:
                self.zxid = max(self.zxid, zxid)
                yield from self._transactions(zxid, changes)
        self.is_at_end = not self._since

    def close(self) -> None:
        """Nothing to close: the session ends with the run."""

    # What was observed ----------------------------------------------------------------------------

    def _pull(self, now: float) -> None:
        """Take what is new. A new session begins with all znodes, and changes before it are
        unknown: its observations are left for another object."""
        new = [] if self._is_over else self._observed.pull()
        for place, one in enumerate(new):
            if isinstance(one, WatchBegun) and self.is_complete:
                self._is_over = True
                self.known_ms = None
                self._observed.put_back(new[place:])
                return
            self._apply(one, now)

    def _apply(self, one: Observation, now: float) -> None:
        match one:
            case ZnodeSeen():
                self._apply_znode(one, now)
            case ZnodeGone(at_ms=at_ms, path=path, zxid=zxid):
                before = self._seen.pop(path, None)
                if before is not None and self.is_complete:
                    self._add(self._deletion_zxid(zxid), Delete(path), at_ms, before.owner, now)
            case WatchComplete():
                self.is_complete = True
            case WatchBegun(session=session):
                self.session = session
            case WatchLost(heard_ms=heard_ms):
                self.known_ms = heard_ms if self.known_ms is None else self.known_ms
                self._resumed_at = None
            case WatchResumed():
                self._resumed_at = now

    def _deletion_zxid(self, zxid: int) -> int:
        """The zxid of a deletion; servers before 3.9 do not report it."""
        if zxid > 0:
            return zxid
        last = max([self.zxid, *self._changes])
        self.unseen_zxids.add(last)
        return last

    def _apply_znode(self, one: ZnodeSeen, now: float) -> None:
        before = self._seen.get(one.path)
        self._seen[one.path] = one
        if not self.is_complete:
            return
        if before is not None and before.czxid != one.czxid:
            # Its deletion comes in any case, and maybe later.
            self._add(one.czxid - 1, Delete(one.path), one.at_ms, before.owner, now)
            self.unseen_zxids.add(one.czxid)
            before = None
        if before is None:
            self._add_creation(one, now)
        elif one.mzxid > before.mzxid:
            self._add_write(one, one.version - before.version - 1, now)

    def _add_creation(self, one: ZnodeSeen, now: float) -> None:
        create = Create(one.path, one.data, OPEN_ACL, bool(one.owner), _BY_ONE)
        self._add(one.czxid, create, one.at_ms, one.owner, now)
        if one.mzxid != one.czxid or one.version:
            is_one = one.mzxid == one.czxid
            self.unseen_zxids.update(() if is_one else (one.czxid,))
            self._add_write(one, 0 if is_one else one.version, now)

    def _add_write(self, one: ZnodeSeen, skipped: int, now: float) -> None:
        if skipped:
            self.unseen_versions += skipped
            self.unseen_zxids.add(one.mzxid)
        self._add(one.mzxid, SetData(one.path, one.data, one.version), one.at_ms, one.owner, now)

    def _add(
        self, zxid: int, operation: Create | SetData | Delete, at_ms: int, owner: int, now: float
    ) -> None:
        if zxid not in self._changes:
            self._since.append((now, zxid))
        self._changes[zxid].append(_Change(operation, at_ms, owner))

    # Transactions ---------------------------------------------------------------------------------

    def _transactions(self, zxid: int, changes: Sequence[_Change]) -> Iterator[Transaction]:
        at_ms = self._last_ms = max(self._last_ms, min(one.at_ms for one in changes))
        operations = tuple(one.operation for one in changes)
        owners = {one.owner for one in changes}
        owner = next(iter(owners)) if len(owners) == 1 else _NO_SESSION
        is_end = owner and all(isinstance(one, Delete) for one in operations)
        if is_end and any(one.path.startswith(f"{znodes.BROKER_IDS}/") for one in operations):
            self._sessions.discard(owner)
            paths = tuple(one.path for one in operations)
            end = self._transaction(zxid, owner, at_ms, CloseSession(paths))
            yield structs.replace(end, cxid=UNKNOWN_CXID)
            return
        elected = next(filter(_is_election, changes), None)
        if elected is not None:
            yield self._transaction(zxid, elected.owner, at_ms, _multi(operations))
            self._begin_term(elected.owner, operations)
            return
        if owner and any(isinstance(one, Create) for one in operations):
            yield from self._new_session(zxid, owner, at_ms)
            yield self._transaction(zxid, owner, at_ms, _multi(operations))
            return
        yield self._of_controller_or_client(zxid, at_ms, operations)

    def _new_session(self, zxid: int, session: int, at_ms: int) -> Iterator[Transaction]:
        """A process that registers for the first time creates Kafka's znodes before."""
        if session not in self._sessions:
            self._sessions.add(session)
            yield self._transaction(zxid, session, at_ms, CreateSession(_TIMEOUT_MS))
            yield self._transaction(zxid, session, at_ms, Error(_NODE_EXISTS))

    def _of_controller_or_client(
        self, zxid: int, at_ms: int, operations: tuple[Create | SetData | Delete, ...]
    ) -> Transaction:
        epoch = next(
            (one for one in map(_controller_epoch_of, operations) if one in self._terms),
            self._current,
        )
        term = self._terms.get(epoch)
        if term is not None and any(map(self._is_controllers, operations)):
            guard = Check(znodes.CONTROLLER_EPOCH, term.version + 1)
            types = (int(OpCode.CHECK), *(int(_CODES[type(one)]) for one in operations))
            return self._transaction(zxid, term.session, at_ms, Multi(types, (guard, *operations)))
        is_by_controllers_broker = all(map(_is_by_controllers_broker, operations))
        session = term.session if term is not None and is_by_controllers_broker else _NO_SESSION
        return self._transaction(zxid, session, at_ms, _multi(operations))

    def _is_controllers(self, operation: Create | SetData | Delete) -> bool:
        """Whether only a controller makes this change, with a check of its epoch."""
        path, is_delete = operation.path, isinstance(operation, Delete)
        if path.startswith(f"{znodes.TOPICS}/"):
            if znodes.topic_of(path) is not None and not is_delete:
                return isinstance(operation, SetData) and not self._adds_partitions(operation)
            return True
        if path in (znodes.REASSIGN_PARTITIONS, znodes.PREFERRED_ELECTION):
            return not isinstance(operation, Create)
        return is_delete and path.startswith(_DELETED_BY_CONTROLLERS)

    def _adds_partitions(self, operation: SetData) -> bool:
        """Whether a topic's new znode only has more partitions, for which a client has asked."""
        name = znodes.topic_of(operation.path) or ""
        before = self._assignments.get(name, {})
        after = _assignments(name, operation.data)
        return len(after) > len(before) and all(
            after.get(number) == one for number, one in before.items()
        )

    def _begin_term(self, session: int, operations: Sequence[Operation] = ()) -> None:
        """Note the controller's session and the version of /controller_epoch."""
        epoch = self._seen.get(znodes.CONTROLLER_EPOCH)
        written = [
            (one.data, one.version)
            for one in operations
            if isinstance(one, SetData) and one.path == znodes.CONTROLLER_EPOCH
        ]
        if not written and epoch is not None:
            written = [(epoch.data, epoch.version)]
        for data, version in written:
            stored = parsed_epoch(data)
            if stored is not None:
                self._current = stored
                self._terms[stored] = _Term(session, version)

    def _transaction(self, zxid: int, session: int, at_ms: int, content: Content) -> Transaction:
        last, last_ms = self._cxids.get(session, (0, 0))
        cxid = last + 1 if at_ms <= last_ms + _TOGETHER_MS else last + 2
        self._cxids[session] = cxid, at_ms
        self._note_assignments(content)
        return Transaction(zxid, session, cxid, at_ms, _type_of(content), content)

    def _note_assignments(self, content: Content) -> None:
        for one in content.operations if isinstance(content, Multi) else (content,):
            if isinstance(one, (Create, SetData)):
                self._note_topic(one.path, one.data)
            elif isinstance(one, Delete) and (name := znodes.topic_of(one.path)) is not None:
                self._assignments.pop(name, None)

    def _note_topic(self, path: str, data: bytes | None) -> None:
        if (name := znodes.topic_of(path)) is not None:
            self._assignments[name] = _assignments(name, data)


_DELETED_BY_CONTROLLERS: Final = tuple(
    f"{one}/"
    for one in (
        znodes.TOPIC_CONFIGS,
        znodes.DELETE_TOPICS,
        znodes.ISR_CHANGES,
        znodes.LOG_DIR_EVENTS,
    )
)


def _controller_epoch_of(operation: Operation) -> int:
    if not isinstance(operation, (Create, SetData)):
        return 0
    return controller_epoch_of_state(operation.path, operation.data)


def _is_by_controllers_broker(operation: Operation) -> bool:
    """Whether the broker that is controller writes this, for a client or without a check."""
    if isinstance(operation, (Check, Error)):
        return False
    path = operation.path
    return path.startswith((f"{znodes.TOPICS}/", f"{znodes.CONFIGS}/")) or path in (
        znodes.FEATURE,
        znodes.PRODUCER_IDS,
    )


def _is_election(change: _Change) -> bool:
    one = change.operation
    if not isinstance(one, Create) or one.path != znodes.CONTROLLER:
        return False
    return _has_role(one.data, change.owner)


def _has_role(data: bytes | None, owner: int) -> bool:
    """Whether /controller gives the role to a process: the znode of a broker is ephemeral. That of
    a KRaft controller is persistent, so that its session is not known."""
    return owner != _NO_SESSION or kraft_controller(data) is not None


def _multi(operations: tuple[Create | SetData | Delete, ...]) -> Content:
    if len(operations) == 1:
        return operations[0]
    return Multi(tuple(int(_CODES[type(one)]) for one in operations), operations)


def _type_of(content: Content) -> int:
    match content:
        case CreateSession():
            return int(OpCode.CREATE_SESSION)
        case CloseSession():
            return int(OpCode.CLOSE_SESSION)
        case Multi():
            return int(OpCode.MULTI)
        case Error():
            return int(OpCode.ERROR)
        case _:
            return int(_CODES[type(content)])


def _assignments(name: str, data: bytes | None) -> dict[int, Assignment]:
    content = parsed_topic(name, data)
    return content.assignments if content is not None else {}
