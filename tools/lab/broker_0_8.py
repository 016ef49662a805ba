"""A broker of Kafka's 0.8 design as a server of the lab (docs/design-0.8.md#for-real)."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import anyio

from controller.kafka_0_8 import znodes
from controller.kafka_0_8_broker import administration
from controller.kafka_0_8_broker.startup import EVENTS
from controller.operator.errors import ZooKeeperUnavailable
from controller.operator.zookeeper_client import ZooKeeperClient
from controller.zookeeper.servers import parse_connect_string
from eventstore.folders import logs_in
from tools.lab.ports import HOST, free_port
from tools.lab.server import LabError, Server
from tools.lab.zookeeper import ZooKeeperServer

_TIMEOUT_MS = 10_000


class Broker08(Server):
    """A broker with its data below `folder`. `config` has options of its command."""

    def __init__(
        self,
        broker_id: int,
        folder: Path,
        zookeeper: ZooKeeperServer,
        config: Mapping[str, str],
        connect: str | None,
    ) -> None:
        super().__init__(f"broker-{broker_id}", folder, free_port())
        self.broker_id = broker_id
        self.data = folder / "data"
        self._zookeeper = zookeeper
        self._config = config
        self._zookeeper_connect = connect or zookeeper.connect

    def _command(self) -> Sequence[str]:
        return [
            *(sys.executable, "-m", "tools.kafka_0_8", "broker"),
            *("--broker-id", str(self.broker_id), "--port", str(self.port)),
            *("--zookeeper", self._zookeeper_connect, "--data", str(self.data)),
            *(f"--{key.replace('_', '-')}={value}" for key, value in self._config.items()),
        ]

    async def _answers(self) -> bool:
        """Whether the broker listens and is registered, by this process or by one that was killed
        just before."""
        try:
            with anyio.fail_after(2):
                async with await anyio.connect_tcp(HOST, self.port):
                    pass
        except OSError:
            return False
        return znodes.broker_path(self.broker_id) in await self._zookeeper.ephemerals()

    def logs(self) -> list[Path]:
        """The event logs of all runs, the oldest first."""
        events = self.data / EVENTS
        return logs_in(events) if events.exists() else []


async def add_brokers(zookeeper: ZooKeeperServer, ids: Iterable[int]) -> None:
    """The command add-brokers."""
    try:
        connect = parse_connect_string(zookeeper.connect)
        async with ZooKeeperClient(connect, _TIMEOUT_MS) as client:
            await administration.add_brokers(client, list(ids))
    except ZooKeeperUnavailable as error:
        raise LabError(f"the brokers cannot be added: {error}") from error
