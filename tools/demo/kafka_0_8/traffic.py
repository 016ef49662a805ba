"""Producers with acks -1, and which of their records were acknowledged."""

import asyncio
from collections.abc import Sequence
from typing import Self

from controller.kafka_0_8.state import Name
from controller.kafka_0_8_broker.client import BrokerClient
from controller.kafka_0_8_broker.errors import ClientError
from controller.operator.errors import ZooKeeperUnavailable
from controller.operator.zookeeper_client import ZooKeeperClient
from controller.zookeeper.servers import parse_connect_string

_PAUSE_SECONDS = 0.02
_ZOOKEEPER_MS = 3000
_REQUEST_SECONDS = 3.0


class DemoTraffic:
    """One producer per partition; an async context manager, at whose end they stop.

    `acknowledged`: the acknowledged records of each partition, in order. `failed`: how many had
    another outcome.
    """

    def __init__(self, zookeeper: str, names: Sequence[Name]) -> None:
        self.acknowledged: dict[Name, list[bytes]] = {name: [] for name in names}
        self.failed = 0
        self._connect = parse_connect_string(zookeeper)
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._produce(name)) for name in self.acknowledged]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Stop after the records on their way."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    def counts(self) -> dict[Name, int]:
        """The number of acknowledged records of each partition."""
        return {name: len(records) for name, records in self.acknowledged.items()}

    async def lost(self) -> list[str]:
        """The acknowledged records that a consumer does not read in their order, by partition."""
        lost = []
        async with (
            ZooKeeperClient(self._connect, _ZOOKEEPER_MS) as zookeeper,
            BrokerClient(zookeeper, _REQUEST_SECONDS) as client,
        ):
            for (topic, partition), records in self.acknowledged.items():
                read = iter(await client.consume_all((topic, partition)))
                # `in` continues after the record that was found before.
                gone = [one.decode() for one in records if one not in read]
                lost += [f"{topic}-{partition}: {one}" for one in gone]
        return lost

    async def _produce(self, name: Name) -> None:
        number = 0
        while not self._stopping:
            try:
                async with (
                    ZooKeeperClient(self._connect, _ZOOKEEPER_MS) as zookeeper,
                    BrokerClient(zookeeper, _REQUEST_SECONDS) as client,
                ):
                    while not self._stopping:
                        number += 1
                        record = str(number).encode()
                        await client.produce(name, [record], -1)
                        self.acknowledged[name].append(record)
                        await asyncio.sleep(_PAUSE_SECONDS)
            except (ClientError, ZooKeeperUnavailable):
                self.failed += 1
