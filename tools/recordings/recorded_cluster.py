"""The cluster under recording: its servers, its clients, and the content of its ZooKeeper."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any, Self, TypeVar

import anyio.to_thread
from kafka import KafkaAdminClient

from controller.core import znodes
from tools.lab import Lab, LabError, ZooKeeperServer
from tools.lab.kafka_tools import KafkaTools
from tools.recordings.brokers import Logging, RecordedBroker
from tools.recordings.clients import Writer, ask
from tools.recordings.journal import Action, Journal
from tools.recordings.setup import Setup
from tools.recordings.znodes import ZnodeClient
from tools.setup.jars import fetch

Answer = TypeVar("Answer")

Topics = dict[str, dict[str, list[int]]]
"""Topic -> partition -> replicas, as in the topic's znode."""

_BACKGROUND_SECONDS_MAX = 40.0


class RecordedCluster:
    """An async context manager that runs the cluster, and kills it at the end."""

    def __init__(self, folder: Path, setup: Setup, logging: Logging, rng: Random) -> None:
        self.lab = Lab(folder, kafka=setup.kafka)
        self.setup = setup
        self.rng = rng
        self.journal = Journal()
        self.tools = KafkaTools(setup.kafka)
        self.brokers: list[RecordedBroker] = []
        self.logging = logging
        self._starting: set[int] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(self.lab)
        try:
            await self._start()
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._open.aclose()

    async def _start(self) -> None:
        with self.journal.action("zookeeper_start"):
            self.zookeeper: ZooKeeperServer = await self.lab.start_zookeeper(
                config=self.setup.zookeeper
            )
        self.znodes = ZnodeClient(self.zookeeper.connect, self.setup.chroot)
        await self._open.enter_async_context(self.znodes)
        jars = await anyio.to_thread.run_sync(fetch, f"kafka-{self.setup.kafka}")
        for number in range(1, self.setup.brokers + 1):
            folder = self.lab.folder / f"broker-{number}"
            self.brokers.append(self._broker(number, folder, jars))
        self.lab.brokers += self.brokers
        order = self.rng.sample(self.brokers, len(self.brokers))
        with self.journal.action("start_cluster", brokers=[one.broker_id for one in order]) as one:
            for broker in order:
                await broker.start(wait=False)
            for broker in order:
                await broker.ready()
            one["sessions"] = {}
            for broker in order:
                one["sessions"][str(broker.broker_id)] = await self._session(broker)
        self.writer = await self._open.enter_async_context(Writer(self.lab.bootstrap))

    def _broker(self, number: int, folder: Path, jars: Path) -> RecordedBroker:
        config = self.setup.broker_config(str(folder))
        return RecordedBroker(
            number,
            folder,
            jars,
            zookeeper=self.zookeeper,
            chroot=self.setup.chroot,
            config=config,
            logging=self.logging,
        )

    # State ----------------------------------------------------------------------------------------

    @property
    def ids(self) -> list[int]:
        """The ids of all brokers, running or not."""
        return [broker.broker_id for broker in self.brokers]

    def replicas(self, rng: Random, count: int) -> list[int]:
        """Random brokers, running or not."""
        return rng.sample(self.ids, count)

    def in_state(self, state: str) -> list[RecordedBroker]:
        """The brokers that are running, paused or down."""
        return [broker for broker in self.brokers if broker.state == state]

    async def controller(self) -> RecordedBroker | None:
        """The broker in /controller, if its process is running and not paused."""
        number = await self.znodes.controller()
        found = [broker for broker in self.in_state("running") if broker.broker_id == number]
        return found[0] if found else None

    async def topics(self) -> Topics:
        """All topics with their assignment, without internal ones."""
        found: Topics = {}
        for topic in await self.znodes.children(znodes.TOPICS):
            znode = await self.znodes.read(znodes.topic_path(topic))
            if znode is not None and not topic.startswith("__"):
                found[topic] = znode["partitions"]
        return found

    async def states(self, topic: str) -> dict[int, dict[str, Any]]:
        """The state of each partition of a topic that has one."""
        found = {}
        for name in await self.znodes.children(znodes.partitions_path(topic)):
            state = await self.znodes.read(znodes.state_path(topic, name))
            if state is not None:
                found[int(name)] = state
        return found

    # Actions --------------------------------------------------------------------------------------

    async def start(self, broker: RecordedBroker) -> None:
        """Start a broker, and note its session and its broker epoch."""
        self._starting.add(broker.broker_id)
        try:
            with self.journal.action("broker_start", broker=broker.broker_id) as action:
                await broker.start()
                action |= await self._session(broker)
        finally:
            self._starting.discard(broker.broker_id)

    async def _session(self, broker: RecordedBroker) -> Action:
        registration = await self.znodes.registration(broker.broker_id)
        if registration is None:
            return {}
        session, epoch = registration
        return {"session": session, "broker_epoch": epoch}

    async def ask(self, question: Callable[[KafkaAdminClient], Answer]) -> Answer:
        """The response to an admin client. Raises KafkaError, LabError."""
        serving = ",".join(
            broker.connect
            for broker in self.in_state("running")
            if broker.broker_id not in self._starting
        )
        if not serving:
            raise LabError("no broker is running for an admin client")
        return await ask(serving, question)

    async def follow_topics(self) -> None:
        """Write to the topics that exist now."""
        self.writer.follow(set(await self.topics()))

    def in_background(self, operation: Coroutine[Any, Any, None]) -> None:
        """Run something in parallel with the following operations."""
        task = asyncio.create_task(operation)
        self._background.add(task)
        task.add_done_callback(self._background.discard)

    async def all_done(self) -> None:
        """Wait for operations in the background, up to a limit."""
        if self._background:
            await asyncio.wait(self._background, timeout=_BACKGROUND_SECONDS_MAX)
