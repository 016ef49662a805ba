"""How a broker registers in ZooKeeper (KafkaZkClient.registerBroker and CheckedEphemeral)."""

from collections.abc import Callable
from typing import Final

import msgspec

from controller.core import znodes
from controller.core.operations import NO_NODE, NODE_EXISTS, OK, Create, Delete, SetData
from controller.core.protocol_versions import ProtocolVersion
from controller.core.values import ANY_VERSION
from replay.world.broker.settings import LISTENER
from replay.world.broker.zookeeper_requests import ZooKeeperRequests
from replay.world.requests import GetData, Multi, OperationResult

_PORT: Final = 9092


def registration_of(broker: int, rack: str | None, protocol: ProtocolVersion, now_ms: int) -> bytes:
    """The data of a broker's znode (BrokerIdZNode.encode)."""
    data: dict[str, object] = {
        "version": 5 if protocol.at_least("2.7-IV0") else 4,
        "host": f"host{broker}",
        "port": _PORT,
        "jmx_port": -1,
        "timestamp": str(now_ms),
        "endpoints": [f"{LISTENER}://host{broker}:{_PORT}"],
        "listener_security_protocol_map": {LISTENER: "PLAINTEXT"},
    }
    if rack is not None:
        data["rack"] = rack
    if protocol.at_least("2.7-IV0"):
        data["features"] = {}
    return msgspec.json.encode(data)


class Registration:
    """Creates the broker's znode in each session (KB 1.4.9).

    `on_registered` gets the broker epoch. `on_conflict`: the znode belongs to another session.
    """

    def __init__(
        self,
        requests: ZooKeeperRequests,
        broker: int,
        make_data: Callable[[], bytes],
        on_registered: Callable[[int], None],
        on_conflict: Callable[[], None],
    ) -> None:
        self._requests = requests
        self._path = znodes.broker_path(broker)
        self._make_data = make_data
        self._on_registered = on_registered
        self._on_conflict = on_conflict
        self._session = 0
        self._registered_in = 0
        """The session of the last create that this broker saw succeed (KAFKA-7165)."""

    def begin(self, session: int) -> None:
        """Register in a new session."""
        self._session = session
        self._create()

    def rewrite(self) -> None:
        """Write the data again, as a broker does when its listeners are open."""
        self._requests.submit(
            SetData(self._path, self._make_data(), ANY_VERSION), lambda results: None
        )

    def _create(self) -> None:
        create = Create(self._path, b"", ephemeral=True)
        self._requests.submit(
            Multi((create, SetData(self._path, self._make_data(), 0))), self._check_creation
        )

    def _check_creation(self, results: tuple[OperationResult, ...]) -> None:
        error = results[0].error
        if error == OK:
            self._registered_in = self._session
            stat = results[1].stat
            assert stat is not None
            self._on_registered(stat.czxid)
        elif error == NODE_EXISTS:
            self._requests.submit(GetData(self._path), self._check_owner)
        else:
            self._on_conflict()

    def _check_owner(self, results: tuple[OperationResult, ...]) -> None:
        (result,) = results
        if result.error == NO_NODE:
            self._create()
            return
        stat = result.stat
        if stat is None:
            self._on_conflict()
        elif stat.ephemeral_owner == self._session:
            # The reply to a create was lost: the znode stays as it is.
            self._on_registered(stat.czxid)
        elif stat.ephemeral_owner == self._registered_in:
            delete = Delete(self._path, ANY_VERSION)
            self._requests.submit(delete, lambda results: self._create())
        else:
            self._on_conflict()
