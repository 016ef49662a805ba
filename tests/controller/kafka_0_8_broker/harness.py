"""Running brokers with files and TCP connections, on the simulated ZooKeeper."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec

from controller.fingerprint import broker_fingerprint
from controller.kafka_0_8.configuration import BrokerConfiguration
from controller.kafka_0_8.state import Name
from controller.kafka_0_8_broker.broker import RunningBroker
from controller.kafka_0_8_broker.client import BrokerClient
from controller.kafka_0_8_broker.disk import Disk
from controller.kafka_0_8_broker.inbox import BrokerInbox
from controller.operator.zookeeper_client import ExistingZnode
from eventstore.records import Header
from eventstore.writer import LogWriter
from replay.world.kafka_0_8.cluster import Cluster08
from replay.world.requests import GetData
from tests.controller.daemon.peers import Trace, WatchedLog, WorldConnection
from tests.waiting import until_found
from tools.lab.ports import HOST, free_port

WAIT_SECONDS = 10.0
TIMES = {
    "leader_election_wait_time_ms": 200,
    "keep_in_sync_time_ms": 1000,
    "checkpoint_interval_ms": 300,
    "retry_ms": 30,
}
T: Name = ("t", 0)


class Process:
    """One broker over its runs. `runs` has the folder of each event log; `trace` what was stored in
    the logs and sent to ZooKeeper, in order."""

    def __init__(self, world: Cluster08, broker: int, folder: Path, times: dict[str, int]) -> None:
        self.configuration = BrokerConfiguration(
            broker_id=broker, host=HOST, port=free_port(), **times
        )
        self.folder = folder
        self.runs: list[Path] = []
        self.fault: Exception | None = None
        self.trace: Trace = []
        self.log: WatchedLog
        self.disk: Disk
        self.zookeeper: WorldConnection
        self._world = world
        self._broker: RunningBroker
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the broker in this event loop."""
        inbox = BrokerInbox()
        world = self._world.zookeeper
        self.zookeeper = WorldConnection(world, inbox, self.trace)  # type: ignore[arg-type]
        self.disk = Disk(self.folder / "records")
        self.runs.append(self.folder / f"run-{len(self.runs)}")
        self.log = log = WatchedLog.create(self.runs[-1], header_of(self.configuration))
        log.trace = self.trace
        self._broker = RunningBroker(
            self.configuration, inbox, self.zookeeper, log, self.disk, 6000
        )
        self._running = asyncio.create_task(self._run(log))

    async def stop(self) -> None:
        """Stop the broker as SIGTERM does."""
        if self._running is not None:
            self._broker.stop()
            await self.ended()

    async def ended(self) -> None:
        """Wait until the broker has ended."""
        assert self._running is not None
        await asyncio.wait_for(self._running, WAIT_SECONDS)
        self._running = None

    async def _run(self, log: LogWriter) -> None:
        try:
            with log:
                await self._broker.run()
        except* Exception as group:
            self.fault = group.exceptions[0]


class Brokers:
    """Brokers 1 to `count`, and a world of which only ZooKeeper and the administrator are used.
    `times` are other times than TIMES."""

    def __init__(self, count: int, folder: Path, **times: int) -> None:
        ids = range(1, count + 1)
        self.world = Cluster08(*ids)
        settings = {**TIMES, **times}
        self.processes = {one: Process(self.world, one, folder / str(one), settings) for one in ids}
        self.client = BrokerClient(self, WAIT_SECONDS)  # type: ignore[arg-type]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All brokers run during the block."""
        async with AsyncExitStack() as stack:
            watching = asyncio.create_task(self._report_changes())
            stack.callback(watching.cancel)
            for process in self.processes.values():
                process.start()
                stack.push_async_callback(process.stop)
            await stack.enter_async_context(self.client)
            yield

    async def read(self, paths: tuple[str, ...]) -> list[ExistingZnode | None]:
        """As ZooKeeperClient."""
        return [self._read(one) for one in paths]

    def _read(self, path: str) -> ExistingZnode | None:
        session = self.world.zookeeper.create_session()
        found = self.world.zookeeper.apply(session, GetData(path), 0).result
        return None if found.error else ExistingZnode(found.data or b"", 0, 0, 0, 0)

    async def _report_changes(self) -> None:
        while True:
            for process in self.processes.values():
                if process.runs:
                    process.zookeeper.report_changes()
            await anyio.sleep(0.01)  # The brokers run meanwhile.

    async def until(self, reached: Callable[[], Any], what: str) -> None:
        """Wait until `reached` returns true."""
        await until_found(reached, what, WAIT_SECONDS)

    async def until_in_sync(self, topic: str, isr: str) -> None:
        """Wait until the ISR of partition 0 has these brokers."""
        path = f"/brokers/topics/{topic}/0/ISR"
        await self.until(
            lambda: (self.world.data(path) or "").partition(";")[0] == isr, f"ISR {isr} of {topic}"
        )


def header_of(configuration: BrokerConfiguration) -> Header:
    """The header of a broker's log."""
    return Header(
        kind="recorded",
        core_fingerprint=broker_fingerprint(),
        code_version="test",
        configuration=msgspec.to_builtins(configuration),
        cluster_id="simulated",
        created_ns=0,
    )
