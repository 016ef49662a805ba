"""The simulated ZooKeeper of an imported cluster whose controller is a version.

Changes by other clients come from the log's transactions, and those of the controller from the
version.
"""

from collections import Counter
from collections.abc import Mapping

from controller.core import znodes
from controller.core.commands import CommandId, ZooKeeperCommand
from controller.core.events import WatchFired
from controller.core.operations import Create as Creation
from controller.core.operations import Delete as Deletion
from controller.core.operations import SetData as Setting
from controller.core.values import ANY_VERSION
from replay.diff.version import assumptions
from replay.diff.version.adapted_requests import adapt_state
from replay.diff.version.recorded_history import znode_of
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.transactions import (
    CloseSession,
    Create,
    CreateContainer,
    CreateSession,
    CreateTtl,
    Delete,
    Error,
    Operation,
    SetData,
    Transaction,
)
from replay.world.outcomes import ZooKeeperOutcome, carry_out
from replay.world.requests import Write
from replay.world.zookeeper import ZooKeeper
from replay.znode_tree.tree import Znode
from replay.znode_view import ZnodeView


class ImportedZooKeeper:
    """The simulation from a state on. `session` is the controller's session; `assumed` counts
    assumptions."""

    def __init__(self, state: ZooKeeperState, view: ZnodeView) -> None:
        self.session = 0
        self.assumed: Counter[str] = Counter()
        self._view = view
        self._server = ZooKeeper.load(self._in_kafka(state.tree.dump()), state.zxid)
        for session in state.sessions:
            self._begin(session)

    def elect(self, session: int, now_ms: int) -> None:
        """Delete /controller, so that `session` can become controller."""
        self._begin(session)
        self.session = session
        self._apply(session, Deletion(znodes.CONTROLLER, ANY_VERSION), now_ms)

    @property
    def is_controlled(self) -> bool:
        """Whether the controller's session is alive and /controller exists."""
        return self._server.is_live(self.session) and self.find(znodes.CONTROLLER) is not None

    def find(self, path: str) -> Znode | None:
        """A znode, or None if it does not exist."""
        return self._server.find(path)

    def watch(self, command: ZooKeeperCommand) -> None:
        """Do nothing: the server sets watches when it carries out a command."""

    def carry_out(
        self, id: CommandId, command: ZooKeeperCommand, now_ms: int
    ) -> tuple[list[ZooKeeperOutcome], list[WatchFired]]:
        """Carry out a command. Return its outcomes, and the watches that fire before them."""
        outcomes = carry_out(self._server, self.session, id, command, now_ms)
        return outcomes, self._server.take_events(self.session)

    def apply(self, one: Transaction) -> list[WatchFired]:
        """Apply what is possible of a transaction of another client. Return the controller's watch
        events.

        Znodes get the zxids of the log, because they become broker epochs.
        """
        content = one.content
        if isinstance(content, CloseSession):
            if self._server.is_live(one.session):
                self._server.zxid = one.zxid - 1
                self._server.end_session(one.session)
        elif isinstance(content, CreateSession):
            self._begin(one.session)
        else:
            for operation in one.operations:
                self._apply_operation(one, operation)
        return self._server.take_events(self.session)

    def _apply_operation(self, one: Transaction, operation: Operation) -> None:
        path = self._view.in_kafka("" if isinstance(operation, Error) else operation.path)
        if path is None:
            return
        write = self._write_of(path, operation)
        if write is not None:
            self._begin(one.session)
            self._server.zxid = one.zxid - 1
            self._apply(one.session, write, one.time_ms)

    def _write_of(self, path: str, operation: Operation) -> Write | None:
        """The write for an operation of the log; None for no write."""
        match operation:
            case Create(data=data, is_ephemeral=is_ephemeral):
                return Creation(path, data or b"", is_ephemeral)
            case CreateTtl(data=data) | CreateContainer(data=data):
                return Creation(path, data or b"")
            case Delete():
                return Deletion(path, ANY_VERSION)
            case SetData(data=data, version=version) if znodes.partition_of_state(path) is not None:
                return self._state(path, znode_of(data or b"", version=version))
            case SetData(data=data):
                return Setting(path, data or b"", ANY_VERSION)
        return None

    def _state(self, path: str, logged: Znode) -> Write | None:
        """The write for a leader's write of the ISR."""
        now = adapt_state(path, self.find(path), logged)
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
