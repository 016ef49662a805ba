"""A cluster on this machine: its folder, its ZooKeeper and its brokers."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Self

import anyio.to_thread

from tools.lab import zookeeper
from tools.lab.broker import MAIN_CLASS, KafkaBroker
from tools.lab.broker_0_8 import Broker08, add_brokers
from tools.lab.class_archives import Recording
from tools.lab.kraft import KraftController
from tools.lab.server import LabError, Server
from tools.lab.zookeeper import ZooKeeperServer
from tools.setup.jars import Report, fetch, pyspark_jars

LATEST_KAFKA = "3.9.1"


class Lab:
    """Servers that run as long as the `async with` block, each with a separate part of `folder`.
    Folders with data and logs are kept when the lab ends."""

    def __init__(
        self, folder: Path, *, kafka: str = LATEST_KAFKA, report: Report = lambda line: None
    ) -> None:
        self.folder = folder.resolve()
        self.kafka = kafka
        self.zookeepers: list[ZooKeeperServer] = []
        self.brokers: list[KafkaBroker] = []
        self.brokers_0_8: list[Broker08] = []
        self.is_of_design_0_8 = False
        self.kraft_controllers: list[KraftController] = []
        self.report = report

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Kill all running servers."""
        for server in self.servers:
            server.close()

    @property
    def servers(self) -> Iterator[Server]:
        """All servers that were created, brokers first."""
        return chain(self.brokers, self.brokers_0_8, self.kraft_controllers, self.zookeepers)

    def server(self, name: str) -> Server:
        """The server with this name. Raises LabError if there is none."""
        for server in self.servers:
            if server.name == name:
                return server
        names = ", ".join(server.name for server in self.servers)
        raise LabError(f"no server {name} in this lab; use one of {names}")

    @property
    def bootstrap(self) -> str:
        """host:port of every broker, for clients."""
        return ",".join(broker.connect for broker in (*self.brokers, *self.brokers_0_8))

    async def start_zookeeper(
        self,
        version: str = zookeeper.LATEST,
        *,
        config: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
    ) -> ZooKeeperServer:
        """Start another ZooKeeper server; it is ready on return. `config` is added to zoo.cfg."""
        if version == zookeeper.LATEST:
            jars = pyspark_jars()
        else:
            jars = await self._jars(f"zookeeper-{version}")
        name = f"zookeeper-{len(self.zookeepers) + 1}"
        server = ZooKeeperServer(
            self.folder / name, jars, name=name, config=config, java_options=java_options
        )
        self.zookeepers.append(server)
        self.report(f"starting {name} {version}")
        await server.start()
        return server

    async def start_brokers(
        self,
        count: int,
        *,
        chroot: str = "",
        inter_broker_protocol: str | None = None,
        racks: Sequence[str] = (),
        listeners: Sequence[str] = ("PLAINTEXT",),
        config: Mapping[str, str] | None = None,
        java_options: Sequence[str] = ("-Xmx384m",),
        quick_start: bool = True,
    ) -> list[KafkaBroker]:
        """Start brokers in parallel, with the next free ids from 1; all are ready on return.

        `racks` are assigned in turn. `chroot` is a path such as /kafka; Kafka creates it.
        """
        if not self.zookeepers:
            raise LabError("this lab has no ZooKeeper yet: call start_zookeeper first")
        jars = await self._jars(f"kafka-{self.kafka}")
        first = len(self.brokers) + 1
        replication = str(min(3, first + count - 1))
        started = [
            KafkaBroker(
                broker_id,
                self.folder / f"broker-{broker_id}",
                jars,
                zookeeper=self.zookeepers[0],
                chroot=chroot,
                inter_broker_protocol=inter_broker_protocol,
                rack=racks[broker_id % len(racks)] if racks else None,
                listeners=listeners,
                config={
                    "offsets.topic.replication.factor": replication,
                    "transaction.state.log.replication.factor": replication,
                    **(config or {}),
                },
                java_options=java_options,
                quick_start=quick_start,
            )
            for broker_id in range(first, first + count)
        ]
        self.brokers += started
        for one in started:
            self.report(f"starting {one.name}, Kafka {self.kafka}")
            await one.start(wait=False)
        for one in started:
            await one.ready()
        return started

    async def archive_classes(self) -> None:
        """Start a ZooKeeper and a broker once, and archive the classes that they load. Raises
        LabError."""
        jars = await self._jars(f"kafka-{self.kafka}")
        of_zookeeper = Recording(pyspark_jars(), zookeeper.MAIN_CLASS)
        of_broker = Recording(jars, MAIN_CLASS)
        await self.start_zookeeper(java_options=(of_zookeeper.option,))
        await self.start_brokers(1, java_options=("-Xmx384m", of_broker.option))
        for server, recording in zip(self.servers, (of_broker, of_zookeeper), strict=True):
            self.report(f"archiving the classes of {server.name}")
            await server.stop()
            try:
                recording.keep()
            except FileNotFoundError:
                raise LabError(f"{server.name} wrote no archive: {server.log}") from None

    async def start_brokers_0_8(
        self, count: int, *, config: Mapping[str, str] | None = None, connect: str | None = None
    ) -> list[Broker08]:
        """Add brokers of Kafka's 0.8 design, with the next free ids from 1, and start them; all are
        registered on return.

        `config` has options of `python -m tools.kafka_0_8 broker`, without the dashes. `connect`:
        where the brokers connect to ZooKeeper, if not at the server's address.
        """
        if not self.zookeepers:
            raise LabError("this lab has no ZooKeeper yet: call start_zookeeper first")
        self.is_of_design_0_8 = True
        first = len(self.brokers_0_8) + 1
        ids = range(first, first + count)
        zookeeper = self.zookeepers[0]
        await add_brokers(zookeeper, ids)
        started = [
            Broker08(one, self.folder / f"broker-{one}", zookeeper, config or {}, connect)
            for one in ids
        ]
        self.brokers_0_8 += started
        for broker in started:
            self.report(f"starting {broker.name}, the 0.8 design")
            await broker.start(wait=False)
        for broker in started:
            await broker.ready()
        return started

    async def kraft_controller(self, chroot: str = "") -> KraftController:
        """A KRaft controller for the migration of the cluster in this chroot, not yet started."""
        controller = KraftController(
            self.folder / "kraft-controller",
            await self._jars(f"kafka-{self.kafka}"),
            kafka=self.kafka,
            zookeeper=self.zookeepers[0].connect + chroot,
        )
        self.kraft_controllers.append(controller)
        return controller

    async def _jars(self, jar_set: str) -> Path:
        return await anyio.to_thread.run_sync(fetch, jar_set, self.report)
