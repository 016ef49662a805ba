"""ZooKeeper of an imported cluster with a version's own controller in it.

What others do comes from the log's transactions, what the controller does from the version.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from controller.core import znodes
from controller.core.commands import CommandId, ZooKeeperCommand
from controller.core.events import WatchFired
from controller.core.operations import Create as Creation
from controller.core.operations import Delete as Deletion
from controller.core.operations import SetData as Setting
from controller.core.values import ANY_VERSION
from replay.diff.version import assumptions
from replay.diff.version.own_requests import state_as_it_would_be
from replay.diff.version.recorded_history import znode_of
from replay.stock_clusters.agreement.trace.znode_view import ZnodeView
from replay.stock_clusters.zookeeper_log.restoring import State
from replay.stock_clusters.zookeeper_log.transactions import (
    CloseSession,
    Create,
    CreateContainer,
    CreateSession,
    CreateTtl,
    Delete,
    Error,
    Multi,
    Operation,
    SetData,
    Transaction,
)
from replay.world.outcomes import ZooKeeperOutcome, carry_out
from replay.world.requests import Write
from replay.world.tree import Znode
from replay.world.zookeeper import ZooKeeper


class ImportedWorld:
    """From a state on. `session` is the controller's; `assumed` counts what was supposed."""

    def __init__(self, state: State, view: ZnodeView) -> None:
        self.session = 0
        self.assumed: Counter[str] = Counter()
        self._view = view
        self._server = ZooKeeper.load(self._in_kafka(state.tree.dump()), state.zxid)
        for session in state.sessions:
            self._begin(session)

    def elect(self, session: int, now_ms: int) -> None:
        """Whoever is controller, is so no more: `session` stands for the role now."""
        self._begin(session)
        self.session = session
        self._apply(session, Deletion(znodes.CONTROLLER, ANY_VERSION), now_ms)

    @property
    def is_controlled(self) -> bool:
        """Whether the controller's session lives, and nobody has taken the role from it."""
        return self._server.is_live(self.session) and self.find(znodes.CONTROLLER) is not None

    def find(self, path: str) -> Znode | None:
        """A znode, None if it is not there."""
        return self._server.find(path)

    def watch(self, command: ZooKeeperCommand) -> None:
        """The server notes what is watched when it answers."""

    def carry_out(
        self, id: CommandId, command: ZooKeeperCommand, now_ms: int
    ) -> tuple[list[ZooKeeperOutcome], list[WatchFired]]:
        """Do what the controller asks; its outcomes, and the watches that fire before them."""
        outcomes = carry_out(self._server, self.session, id, command, now_ms)
        return outcomes, self._server.take_events(self.session)

    def take(self, one: Transaction) -> list[WatchFired]:
        """Do what somebody else did, as far as it can be done here; what the controller hears.

        Znodes get the zxids that they have in the log: a broker's epoch is one.
        """
        content = one.content
        if isinstance(content, CloseSession):
            if self._server.is_live(one.session):
                self._server.zxid = one.zxid - 1
                self._server.end_session(one.session)
        elif isinstance(content, CreateSession):
            self._begin(one.session)
        else:
            for operation in _done(content):
                self._take(one, operation)
        return self._server.take_events(self.session)

    def _take(self, one: Transaction, operation: Operation) -> None:
        path = self._view.in_kafka("" if isinstance(operation, Error) else operation.path)
        if path is None:
            return
        write = self._as_it_would_be(path, operation)
        if write is not None:
            self._begin(one.session)
            self._server.zxid = one.zxid - 1
            self._apply(one.session, write, one.time_ms)

    def _as_it_would_be(self, path: str, operation: Operation) -> Write | None:
        """None: nothing is written."""
        match operation:
            case Create(data=data, is_ephemeral=is_ephemeral):
                return Creation(path, data or b"", is_ephemeral)
            case CreateTtl(data=data) | CreateContainer(data=data):
                return Creation(path, data or b"")
            case Delete():
                return Deletion(path, ANY_VERSION)
            case SetData(data=data, version=version) if znodes.state_of(path) is not None:
                return self._state(path, znode_of(data or b"", version=version))
            case SetData(data=data):
                return Setting(path, data or b"", ANY_VERSION)
        return None

    def _state(self, path: str, logged: Znode) -> Write | None:
        """What a leader wrote itself."""
        now = state_as_it_would_be(path, self.find(path), logged)
        if now is None:
            self.assumed[assumptions.STATE_BY_LEADER] += 1
            return None
        self.assumed[assumptions.OTHER_LEADER] += _leader(path, now) != _leader(path, logged)
        return Setting(path, now.data, ANY_VERSION)

    def _apply(self, session: int, write: Write, now_ms: int) -> None:
        self._server.apply(session, write, now_ms)

    def _begin(self, session: int) -> None:
        if not self._server.is_live(session):
            self._server.create_session(session)

    def _in_kafka(self, tree: Mapping[str, Znode]) -> dict[str, Znode]:
        return {known: one for path, one in tree.items() if (known := self._view.in_kafka(path))}


def _leader(path: str, state: Znode) -> int:
    return znodes.read_state(path, state.data, state.version).leader


def _done(content: Operation | Multi) -> Iterator[Operation]:
    if not isinstance(content, Multi):
        yield content
    elif not content.error:
        yield from content.operations
