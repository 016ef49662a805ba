"""A generated history of a Kafka cluster of any length, as ZooKeeper would have logged it.

Brokers start, one becomes controller, and a topic is created. After that, followers leave and
rejoin the ISRs of one partition after the other. Now and then a write is refused, a client requests
a missing znode, or a broker bounces. Versions, cversions and zxids are correct.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice

from msgspec import structs

from controller.core import znodes
from replay.stock_clusters.imports.digests import VERSION, digest_of
from replay.stock_clusters.imports.terms import find_znode
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.transactions import (
    OPEN_ACL,
    Check,
    CloseSession,
    Content,
    Create,
    CreateSession,
    Error,
    Multi,
    OpCode,
    Operation,
    SetData,
    Transaction,
    TreeDigest,
)

BROKERS = (1, 2, 3)
_FIRST_SESSION = 0x1000020D7780000
_START_MS = 1_700_000_000_000
_PERSISTENT = (
    "/consumers",
    "/brokers",
    znodes.BROKER_IDS,
    znodes.TOPICS,
    znodes.CONFIGS,
    znodes.CONFIG_CHANGES,
    znodes.TOPIC_CONFIGS,
    znodes.BROKER_CONFIGS,
    "/admin",
    znodes.DELETE_TOPICS,
    znodes.ISR_CHANGES,
    znodes.LOG_DIR_EVENTS,
)
_DIGEST_MODULUS = 1 << 64
_BAD_VERSION, _NO_NODE, _NOT_TRIED = -103, -101, -2
_REFUSED_EVERY, _MISSED_EVERY, _BOUNCED_EVERY = 50, 20, 10_000


def incident(partitions: int = 1000) -> Iterator[Transaction]:
    """An endless sequence of transactions from zxid 1 on; the topic has `partitions` partitions."""
    history = _History()
    yield from history.start()
    yield from history.create_topic("events", partitions)
    for number in count(1):
        if number % _BOUNCED_EVERY == 0:
            yield from history.bounce(BROKERS[-1])
        if number % _REFUSED_EVERY == 0:
            yield history.refused_write(number % partitions)
        if number % _MISSED_EVERY == 0:
            yield history.by(BROKERS[1], OpCode.ERROR, Error(_NO_NODE))
        yield history.change_isr(number % partitions)


def transactions(number: int, partitions: int = 1000) -> Iterator[Transaction]:
    """The first transactions of the history."""
    return islice(incident(partitions), number)


def with_digests(history: Iterable[Transaction]) -> Iterator[Transaction]:
    """A history that begins with an empty ZooKeeper, each transaction with its digest."""
    state = ZooKeeperState()
    tree = state.tree
    total = sum(digest_of(*one) for one in tree.dump().items())
    for one in history:
        tree.begin()
        state.apply(one)
        before = {path: znode for path, znode in reversed(tree.commit())}
        for path, znode in before.items():
            total += digest_of(path, find_znode(tree, path)) - digest_of(path, znode)
        if isinstance(one.content, Error):
            yield one
        else:
            yield structs.replace(one, digest=TreeDigest(VERSION, total % _DIGEST_MODULUS))


class _History:
    """The state that the next transaction depends on."""

    def __init__(self) -> None:
        self._zxid = 0
        self._versions: dict[str, int] = {}
        # The server created /zookeeper in the root without counting it.
        self._created: dict[str, int] = {}
        self._sessions: dict[int, int] = {}
        self._next_session = _FIRST_SESSION
        self._cxids: dict[int, int] = {}
        self._topic = ""
        self._isr: list[Sequence[int]] = []

    def start(self) -> Iterator[Transaction]:
        yield self._connect(BROKERS[0])
        for path in _PERSISTENT:
            yield self.by(BROKERS[0], OpCode.CREATE, self._create(path, None))
        yield self.by(BROKERS[0], OpCode.CREATE, self._create(znodes.CONTROLLER_EPOCH, b"0"))
        yield self._register(BROKERS[0])
        controller = {"version": 2, "brokerid": BROKERS[0], "timestamp": str(_START_MS)}
        yield self._multi(
            BROKERS[0],
            self._create(
                znodes.CONTROLLER,
                _json({**controller, "kraftControllerEpoch": -1}),
                is_ephemeral=True,
            ),
            self._set(znodes.CONTROLLER_EPOCH, b"1"),
        )
        for broker in BROKERS[1:]:
            yield self._connect(broker)
            yield self._register(broker)

    def create_topic(self, topic: str, partitions: int) -> Iterator[Transaction]:
        self._topic = znodes.topic_path(topic)
        self._isr = [_rotated_brokers(BROKERS, number) for number in range(partitions)]
        assignment = {
            "partitions": {str(number): replicas for number, replicas in enumerate(self._isr)},
            "topic_id": "pPIRp0EbRlmoyqCvGidCAQ",
            "adding_replicas": {},
            "removing_replicas": {},
            "version": 3,
        }
        config = _json({"version": 1, "config": {}})
        yield self.by(
            BROKERS[0], OpCode.CREATE, self._create(znodes.topic_config_path(topic), config)
        )
        yield self.by(BROKERS[0], OpCode.CREATE, self._create(self._topic, _json(assignment)))
        yield self._guarded_transaction(self._create(f"{self._topic}/partitions", None))
        for number in range(partitions):
            yield self._guarded_transaction(
                self._create(f"{self._topic}/partitions/{number}", None)
            )
        for number in range(partitions):
            yield self._guarded_transaction(
                self._create(self._state_path(number), self._state(number))
            )

    def change_isr(self, partition: int) -> Transaction:
        """The last follower leaves the ISR, or all replicas are in it again."""
        replicas = _rotated_brokers(BROKERS, partition)
        is_full = len(self._isr[partition]) == len(replicas)
        self._isr[partition] = replicas[:-1] if is_full else replicas
        return self._guarded_transaction(
            self._set(self._state_path(partition), self._state(partition))
        )

    def refused_write(self, partition: int) -> Transaction:
        """A guarded write with a wrong version."""
        assert partition < len(self._isr)
        return self._multi(BROKERS[0], self._check_epoch(), Error(_BAD_VERSION), Error(_NOT_TRIED))

    def bounce(self, broker: int) -> Iterator[Transaction]:
        registration = znodes.broker_path(broker)
        del self._versions[registration]
        yield self.by(broker, OpCode.CLOSE_SESSION, CloseSession((registration,)))
        yield self._connect(broker)
        yield self._register(broker)

    def by(self, broker: int, opcode: OpCode, content: Content) -> Transaction:
        """The next transaction, in a broker's session."""
        self._zxid += 1
        session = self._sessions[broker]
        self._cxids[session] = self._cxids.get(session, -1) + 1
        time_ms = _START_MS + self._zxid
        return Transaction(self._zxid, session, self._cxids[session], time_ms, int(opcode), content)

    def _connect(self, broker: int) -> Transaction:
        self._sessions[broker] = self._next_session
        self._next_session += 1
        return self.by(broker, OpCode.CREATE_SESSION, CreateSession(18_000))

    def _register(self, broker: int) -> Transaction:
        path = znodes.broker_path(broker)
        endpoint = f"PLAINTEXT://broker{broker}:9092"
        registration = {
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": [endpoint],
            "jmx_port": -1,
            "port": 9092,
            "host": f"broker{broker}",
            "version": 5,
            "timestamp": str(_START_MS + self._zxid),
        }
        create = self._create(path, None, is_ephemeral=True)
        return self._multi(broker, create, self._set(path, _json(registration)))

    def _guarded_transaction(self, operation: Operation) -> Transaction:
        return self._multi(BROKERS[0], self._check_epoch(), operation)

    def _multi(self, broker: int, *operations: Operation) -> Transaction:
        types = tuple(int(_OPCODES[type(one)]) for one in operations)
        return self.by(broker, OpCode.MULTI, Multi(types, operations))

    def _check_epoch(self) -> Check:
        return Check(znodes.CONTROLLER_EPOCH, self._versions[znodes.CONTROLLER_EPOCH] + 1)

    def _create(self, path: str, data: bytes | None, *, is_ephemeral: bool = False) -> Create:
        parent = path[: path.rfind("/")]
        self._created[parent] = self._created.get(parent, 0) + 1
        self._versions[path] = 0
        return Create(path, data, OPEN_ACL, is_ephemeral, self._created[parent])

    def _set(self, path: str, data: bytes) -> SetData:
        self._versions[path] += 1
        return SetData(path, data, self._versions[path])

    def _state_path(self, partition: int) -> str:
        return f"{self._topic}/partitions/{partition}/state"

    def _state(self, partition: int) -> bytes:
        isr = self._isr[partition]
        leader = {"controller_epoch": 1, "leader": isr[0], "version": 1, "leader_epoch": 0}
        return _json({**leader, "isr": list(isr)})


_OPCODES = {
    Create: OpCode.CREATE,
    SetData: OpCode.SET_DATA,
    Check: OpCode.CHECK,
    Error: OpCode.ERROR,
}


def _rotated_brokers(brokers: Sequence[int], by: int) -> Sequence[int]:
    """The brokers rotated, so that each partition has another first broker."""
    first = by % len(brokers)
    return (*brokers[first:], *brokers[:first])


def _json(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()
