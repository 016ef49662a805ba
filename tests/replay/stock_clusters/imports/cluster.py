"""A cluster's transactions, each of which is classified when it is added."""

import json
from collections.abc import Iterable
from typing import Any

from replay.stock_clusters.imported_log.events import (
    STARTED,
    ControllerLogged,
    DecisionObserved,
    LoggedEvent,
    RequestInferred,
    RequestServed,
)
from replay.stock_clusters.imports.decisions import DecisionClassifier
from replay.stock_clusters.imports.logged_requests import LoggedRequests
from replay.stock_clusters.imports.terms import Terms
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.transactions import (
    OPEN_ACL,
    Check,
    CloseSession,
    Content,
    Create,
    Delete,
    Error,
    Multi,
    OpCode,
    Operation,
    SetData,
    Transaction,
)

EPOCH = "/controller_epoch"
T = "/brokers/topics/t"
STATE = f"{T}/partitions/0/state"
REASSIGN = "/admin/reassign_partitions"
FENCED = (Error(-103), Error(-2))

_TYPES = {
    Create: OpCode.CREATE,
    SetData: OpCode.SET_DATA,
    Delete: OpCode.DELETE,
    Check: OpCode.CHECK,
    Error: OpCode.ERROR,
    CloseSession: OpCode.CLOSE_SESSION,
}


def session(broker: int) -> int:
    return 0x1000 + broker


def state(leader: int, epoch: int, *isr: int, controller_epoch: int = 1) -> bytes:
    content = {"version": 1, "leader": leader, "leader_epoch": epoch, "isr": isr}
    return json.dumps(content | {"controller_epoch": controller_epoch}).encode()


def topic(replicas: list[int], adding: Iterable[int] = (), removing: Iterable[int] = ()) -> bytes:
    """The content of a topic's znode with one partition."""
    content = {
        "version": 3,
        "partitions": {"0": replicas},
        "adding_replicas": {"0": list(adding)} if adding else {},
        "removing_replicas": {"0": list(removing)} if removing else {},
        "topic_id": "pPIRp0EbRlmoyqCvGidCAQ",
    }
    return json.dumps(content).encode()


class Cluster:
    """ZooKeeper as Kafka uses it; `does` adds a transaction and returns its classification."""

    def __init__(
        self, chroot: str = "", *logged: LoggedEvent, after: ZooKeeperState | None = None
    ) -> None:
        self.chroot = chroot
        self.state = after or ZooKeeperState()
        self._version = -1
        if after is None:
            self._make_paths()
        self.terms = Terms(chroot, self.state.tree)
        self._decisions = DecisionClassifier(
            chroot, self.state.tree, self.terms, LoggedRequests(logged)
        )

    def does(self, broker: int, *operations: Operation, time_ms: int = 0) -> Any:
        """Adds a multi, or a single operation, in the session of a broker (0: of a client)."""
        operations = tuple(map(self._placed, operations))
        content: Content = operations[0]
        if len(operations) > 1:
            content = Multi(tuple(int(_TYPES[type(one)]) for one in operations), operations)
        return self._next(broker, content, time_ms)

    def guarded(self, broker: int, *operations: Operation, time_ms: int = 0) -> Any:
        """Adds a write with a check of the controller epoch."""
        check = Check(EPOCH, self._version + 1)
        return self.does(broker, check, *operations, time_ms=time_ms)

    def start(self, broker: int) -> None:
        """Registers a broker."""
        path = f"/brokers/ids/{broker}"
        assert self.does(broker, create(path, ephemeral=True), SetData(path, b"{}", 1)) is None

    def elect(self, broker: int, epoch: int = 1, *, kraft_epoch: int = -1) -> Any:
        """Makes a broker the controller, or a KRaft controller with an epoch of KRaft."""
        self._version = epoch
        content = b'{"version":2,"brokerid":%d,"timestamp":"0","kraftControllerEpoch":%d}'
        is_ephemeral = kraft_epoch < 0
        controller = create("/controller", content % (broker, kraft_epoch), ephemeral=is_ephemeral)
        return self.does(broker, controller, SetData(EPOCH, b"%d" % epoch, epoch))

    def end_session(self, broker: int) -> Any:
        return self._next(broker, CloseSession(None), 0)

    def put(self, path: str, data: bytes) -> None:
        """Creates a znode in the session of a client."""
        assert self.does(0, create(path, data)) is None

    def _next(self, broker: int, content: Content, time_ms: int) -> Any:
        opcode = OpCode.MULTI if isinstance(content, Multi) else _TYPES[type(content)]
        zxid = self.state.zxid + 1
        transaction = Transaction(zxid, session(broker), 1, time_ms, int(opcode), content)
        found = self._decisions.classify(transaction)
        self.terms.follow(transaction)
        self.state.apply(transaction)
        return found

    def _placed(self, operation: Operation) -> Operation:
        if isinstance(operation, Error):
            return operation
        fields = {name: getattr(operation, name) for name in operation.__struct_fields__}
        return type(operation)(**(fields | {"path": self.chroot + operation.path}))

    def _make_paths(self) -> None:
        paths = ["", "/brokers", "/brokers/ids", "/brokers/topics", T, f"{T}/partitions"]
        paths += [f"{T}/partitions/0", "/config", "/config/topics", "/admin"]
        paths += ["/admin/delete_topics", "/isr_change_notification", "/latest_producer_id_block"]
        above = [self.chroot[:end] for end, one in enumerate(self.chroot) if one == "/" and end]
        for path in (*above, *(self.chroot + path for path in paths)):
            if path:
                zxid = self.state.zxid + 1
                made = Create(path, b"", OPEN_ACL, False, zxid)
                self.state.apply(Transaction(zxid, 1, 1, 0, int(OpCode.CREATE), made))


def create(path: str, data: bytes = b"", *, ephemeral: bool = False) -> Create:
    return Create(path, data, OPEN_ACL, ephemeral, 1)


def led(broker: int = 1, *logged: LoggedEvent, chroot: str = "") -> Cluster:
    """A cluster of brokers 1, 2 and 3 with a controller; t-0 has all three as replicas."""
    cluster = Cluster(chroot, *logged)
    for one in (1, 2, 3):
        cluster.start(one)
    cluster.does(broker, create(EPOCH, b"0"))
    cluster.elect(broker)
    cluster.does(0, SetData(T, topic([1, 2, 3]), 1))
    cluster.guarded(broker, create(STATE, state(1, 0, 1, 2, 3)))
    return cluster


def kind(found: Any) -> str | None:
    return found.what if isinstance(found, DecisionObserved) else None


def requested(found: Any) -> list[Any]:
    assert isinstance(found, RequestInferred), found
    return [*found.alter_partition, *found.reassignments]


def served(time_ms: int, api: str, request: Any, broker: int = 1, took_ms: int = 5) -> LoggedEvent:
    """A line of a broker's request log."""
    body = json.dumps(request).encode()
    event = RequestServed(broker, api, 3, "2", 1, "", time_ms - took_ms, body, b"{}")
    return LoggedEvent(time_ms, "", event)


def started(time_ms: int, broker: int = 1) -> LoggedEvent:
    """A line of a broker's controller.log."""
    return LoggedEvent(time_ms, "", ControllerLogged(broker, STARTED, ""))
