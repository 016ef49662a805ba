"""The brokers of the demonstration, and what a scene sees of them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, Self

from controller.kafka_0_8.state import Name
from controller.kafka_0_8_broker.client import BrokerClient
from controller.kafka_0_8_broker.disk import files_of
from controller.kafka_0_8_broker.startup import RECORDS
from controller.kafka_0_8_broker.status import ClusterStatus, PartitionStatus, status
from controller.operator.errors import ZooKeeperUnavailable
from controller.operator.zookeeper_client import ZooKeeperClient
from controller.zookeeper.servers import parse_connect_string
from tools.demo.kafka_0_8.traffic import DemoTraffic
from tools.demo.stage import DemoFailed, Stage
from tools.lab.broker_0_8 import Broker08

CONFIG: Final = {
    "session-timeout-ms": "3000",
    "leader-election-wait-time-ms": "500",
    "keep-in-sync-time-ms": "3000",
    "checkpoint-interval-ms": "1000",
    "retry-ms": "50",
}
SESSION_SECONDS: Final = 3.0
_ZOOKEEPER_MS: Final = 10_000
_REQUEST_SECONDS: Final = 20.0
_MORE: Final = 20
"""Acknowledged records in each partition that show that writes continue."""


class Brokers:
    """The cluster of a stage. Use `started`."""

    def __init__(self, stage: Stage, zookeeper: ZooKeeperClient, client: BrokerClient) -> None:
        self.stage = stage
        self.zookeeper = zookeeper
        self.client = client

    @classmethod
    @asynccontextmanager
    async def connected(cls, stage: Stage) -> AsyncIterator[Self]:
        """The brokers that the lab of this stage has started."""
        connect = parse_connect_string(stage.lab.zookeepers[0].connect)
        async with (
            ZooKeeperClient(connect, _ZOOKEEPER_MS) as zookeeper,
            BrokerClient(zookeeper, _REQUEST_SECONDS) as client,
        ):
            yield cls(stage, zookeeper, client)

    def new_client(self) -> BrokerClient:
        """A client that knows no leader yet."""
        return BrokerClient(self.zookeeper, _REQUEST_SECONDS)

    def broker(self, broker: int) -> Broker08:
        """A broker by its id."""
        return self.stage.lab.brokers_0_8[broker - 1]

    def traffic(self, *names: Name) -> DemoTraffic:
        """Producers for these partitions."""
        return DemoTraffic(self.stage.lab.zookeepers[0].connect, names)

    def logs(self) -> dict[str, Path]:
        """The event logs of all runs of all brokers, by a name."""
        return {
            f"{broker.name} run {run}": log
            for broker in self.stage.lab.brokers_0_8
            for run, log in enumerate(broker.logs(), 1)
        }

    def has_records(self, broker: int, name: Name) -> bool:
        """Whether a broker has a file with the records of a replica."""
        return bool(files_of(self.broker(broker).data / RECORDS, name))

    async def status(self) -> ClusterStatus:
        """The content of ZooKeeper."""
        return await status(self.zookeeper)

    async def partition(self, name: Name) -> PartitionStatus:
        """The znodes of a partition. Raises DemoFailed if it does not exist."""
        for one in (await self.status()).partitions:
            if (one.topic, one.partition) == name:
                return one
        raise DemoFailed(f"{name} does not exist")

    async def leader(self, name: Name) -> int | None:
        """The broker that leads a partition."""
        leader = (await self.partition(name)).leader
        return int(leader.partition(";")[0]) if leader else None

    async def queue(self, broker: int) -> int:
        """How many requests wait in the queue of a broker."""
        return (await self.status()).queues[str(broker)] or 0

    async def until(self, reached: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait until `reached` is true. Raises TimeoutError with `what`."""

        async def answered() -> bool:
            try:
                return await reached()
            except ZooKeeperUnavailable:
                return False

        await self.stage.until(answered, what)

    async def until_in_sync(self, name: Name, isr: set[int]) -> None:
        """Wait until a partition has a leader, and this ISR."""

        async def reached() -> bool:
            found = await self.partition(name)
            return bool(found.leader) and _ids(found.isr.partition(";")[0]) == isr

        await self.until(reached, f"ISR {sorted(isr)} of {name[0]}-{name[1]}")

    async def until_all_in_sync(self, *names: Name) -> None:
        """Wait until each partition has a leader, and all its replicas in the ISR."""

        async def reached() -> bool:
            found = [await self.partition(name) for name in names]
            return all(
                one.leader and _ids(one.isr.partition(";")[0]) == _ids(one.replicas)
                for one in found
            )

        await self.until(reached, f"all replicas of {names} in the ISR")

    async def until_drained(self, broker: int) -> None:
        """Wait until the queue of a broker is empty."""

        async def reached() -> bool:
            return await self.queue(broker) == 0

        await self.until(reached, f"the queue of broker {broker} is empty")

    async def until_more(self, traffic: DemoTraffic, what: str) -> None:
        """Wait until records were acknowledged in each partition."""
        before = traffic.counts()

        async def reached() -> bool:
            return all(now >= before[name] + _MORE for name, now in traffic.counts().items())

        await self.until(reached, what)

    async def until_deleted(self, broker: int, name: Name) -> None:
        """Wait until a broker has deleted the records of a replica."""

        async def reached() -> bool:
            return not self.has_records(broker, name)

        await self.until(reached, f"broker {broker} deletes {name[0]}-{name[1]}")

    def check(self, holds: bool, what: str) -> None:
        """Print a check that holds. Raises DemoFailed if it does not."""
        if not holds:
            raise DemoFailed(f"not true: {what}")
        self.stage.say(f"[green]checked[/green]: {what}")


def _ids(text: str) -> set[int]:
    return {int(one) for one in text.split(",") if one}
