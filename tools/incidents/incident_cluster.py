"""A cluster of three stock brokers with refold as controller, and waiting for its states."""

import time
from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from random import Random
from typing import Any, Self, TypeVar
from uuid import UUID

from kafka import KafkaAdminClient
from kafka.errors import KafkaConnectionError

from controller.core import znodes
from controller.core.znodes import REASSIGN_PARTITIONS
from tools.incidents import endpoint
from tools.lab import Lab
from tools.lab.cluster_view import until
from tools.lab.ports import HOST, free_port
from tools.lab.refold import Refold
from tools.recordings.brokers import RecordedBroker
from tools.recordings.recorded_cluster import RecordedCluster
from tools.recordings.setup import Setup
from tools.recordings.znodes import ZnodeClient

DAEMON_ID = 1000
BROKERS = 3
UNREGISTERED = 9
"""A broker that never registers: a reassignment to it never completes."""
_SECONDS_MAX = 90.0
_TRIES = 5

Answer = TypeVar("Answer")
Assignments = Mapping[int, list[int]]
Targets = Mapping[tuple[str, int], Sequence[int]]
"""The wanted replicas by topic and partition."""


class IncidentCluster:
    """An async context manager that runs the cluster and refold. `log_dir` receives refold's logs.
    An incident that is ZooKeeper's log begins at the wall clock `begun_ns`.

    `mirror` is the cluster that the logs are published to, "own" for this cluster; None: no mirror.
    `config` are settings of the brokers and of refold; each broker has `log_dirs` directories.
    """

    daemon_id = DAEMON_ID

    def __init__(
        self,
        folder: Path,
        protocol: str,
        *,
        mirror: str | None = None,
        config: Mapping[str, str] | None = None,
        log_dirs: int = 1,
    ) -> None:
        setup = Setup(
            kafka="3.9.1",
            protocol=protocol,
            brokers=BROKERS,
            chroot="",
            ending="clean",
            zookeeper={"tickTime": "1000"},
            log_dirs=log_dirs,
            config=dict(config or {}),
        )
        self.log_dir = folder / "logs"
        self._mirror = mirror
        self._port = free_port()
        self.begun_ns = 0
        self.refold: Refold
        self._cluster = RecordedCluster(folder / "servers", setup, "production", Random(0))
        self._open = AsyncExitStack()

    async def __aenter__(self) -> Self:
        await self._open.enter_async_context(self._cluster)
        try:
            await self.take_over()
        except BaseException:
            await self._open.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.refold.kill_if_running()
        await self._open.aclose()

    async def take_over(self, *, session_ms: int | None = None) -> None:
        """Start refold, and wait until it is controller."""
        await self.start_refold(session_ms=session_ms)
        await self.until_controller_is(DAEMON_ID)

    async def start_refold(
        self, *, session_ms: int | None = None, role: str = "--take-over"
    ) -> None:
        """Start refold in a separate process, to take over from any controller. Its ZooKeeper
        session timeout is `session_ms`, or that of the brokers."""
        config = self._cluster.brokers[0].folder / "server.properties"
        if session_ms is not None:
            text = config.read_text()
            config = self.log_dir.with_name("server.properties")
            config.write_text(f"{text}\nzookeeper.session.timeout.ms={session_ms}\n")
        self.refold = Refold(
            self._cluster.zookeeper.connect,
            DAEMON_ID,
            self.log_dir,
            *("--config", str(config), role),
            *self._mirroring(),
            listeners=f"PLAINTEXT://{HOST}:{self._port}",
        )
        await self.refold.start()

    def _mirroring(self) -> tuple[str, ...]:
        if self._mirror is None:
            return ()
        return ("--mirror", self.bootstrap if self._mirror == "own" else self._mirror)

    def begin(self) -> None:
        """Begin the incident now: earlier events are no part of it."""
        self.begun_ns = time.time_ns()

    @property
    def lab(self) -> Lab:
        """The lab with the servers."""
        return self._cluster.lab

    @property
    def connect(self) -> str:
        """The connect string of ZooKeeper."""
        return self._cluster.zookeeper.connect

    @property
    def bootstrap(self) -> str:
        """host:port of every broker, for clients."""
        return self._cluster.lab.bootstrap

    async def hand_back(self) -> None:
        """Stop refold cleanly. Raises RuntimeError if it fails."""
        status = await self.refold.stop()
        if status != 0:
            raise RuntimeError(f"refold exited with status {status}: {self.refold.last_output()}")

    def broker(self, number: int) -> RecordedBroker:
        """A broker, running or not."""
        return self._cluster.brokers[number - 1]

    @property
    def znodes(self) -> ZnodeClient:
        """A ZooKeeper session for changes by hand."""
        return self._cluster.znodes

    async def state(self, topic: str, partition: int) -> dict[str, Any]:
        """The state of a partition, with the `version` of its znode."""
        path = znodes.state_path(topic, partition)
        content, version = await self._cluster.znodes.versioned(path)
        return {**content, "version": version}

    async def topic_id(self, topic: str) -> UUID:
        """The id of a topic."""
        path = znodes.topic_path(topic)
        return UUID(bytes=urlsafe_b64decode((await self.znodes.read(path))["topic_id"] + "=="))

    async def broker_epoch(self, broker: int) -> int:
        """The epoch of a registered broker. Raises LookupError."""
        registration = await self._cluster.znodes.registration(broker)
        if registration is None:
            raise LookupError(f"broker {broker} is not registered")
        return registration[1]

    async def send(self, request: Any) -> Any:
        """Send a request to refold's endpoint; returns the response."""
        return await endpoint.ask(self._port, request)

    async def ask(self, question: Callable[[KafkaAdminClient], Answer]) -> Answer:
        """The response to an admin client. Brokers list a killed broker for a while, so a client
        that cannot connect tries again."""
        for _ in range(_TRIES - 1):
            with suppress(KafkaConnectionError):
                return await self._cluster.ask(question)
        return await self._cluster.ask(question)

    async def make(
        self, topic: str, assignments: Assignments, config: Mapping[str, str] | None = None
    ) -> None:
        """Create a topic through its znode, as old tools did."""
        partitions = {str(number): replicas for number, replicas in assignments.items()}
        configs = {"version": 1, "config": dict(config or {})}
        await self._cluster.znodes.create(znodes.topic_config_path(topic), configs)
        content = {"version": 1, "partitions": partitions}
        await self._cluster.znodes.create(znodes.topic_path(topic), content)
        await self.until_partitions(topic, len(assignments))
        await self.until_in_sync(topic)

    async def submit(self, targets: Targets, path: str = REASSIGN_PARTITIONS) -> None:
        """Create a znode that requests other replicas, as old tools do, without a check that the
        brokers exist."""
        entries = [
            {"topic": topic, "partition": partition, "replicas": list(replicas)}
            for (topic, partition), replicas in targets.items()
        ]
        await self._cluster.znodes.create(path, {"version": 1, "partitions": entries})

    async def request(
        self, number: int, topic: str, partition: int, replicas: Sequence[int], *, legacy: bool
    ) -> None:
        """Create a request for other replicas, with the number that ZooKeeper would assign."""
        content: dict[str, Any] = {
            "version": 1,
            "assignments": {topic: {str(partition): list(replicas)}},
        }
        if legacy:
            content["legacy"] = True
        path = f"{znodes.REQUEST_PREFIX}{number:010}"
        await self._cluster.znodes.create(path, content)

    async def cancel(self) -> None:
        """Request a rollback of the reassignments in /admin/reassign_partitions."""
        await self._cluster.znodes.create(znodes.REASSIGN_CANCEL, {"version": 1})

    async def remove_cancel(self) -> None:
        """End the cancellation, after everything is rolled back."""
        await self.until_deleted(REASSIGN_PARTITIONS)
        await self._cluster.znodes.delete(znodes.REASSIGN_CANCEL)
        await self.until_logged("reassignments_go_on")

    # Waiting

    async def until_controller_is(self, broker: int) -> None:
        """Wait until this broker is controller."""

        async def holds() -> bool:
            return await self._cluster.znodes.controller() == broker

        await until(holds, _SECONDS_MAX, f"{broker} is controller")

    async def elect_refold(self) -> None:
        """Delete /controller while the brokers are paused, so that refold wins the election."""
        running = self._cluster.in_state("running")
        for broker in running:
            broker.pause()
        await self._cluster.znodes.delete(znodes.CONTROLLER)
        await self.until_controller_is(DAEMON_ID)
        for broker in running:
            broker.resume()

    async def until_registered(self, broker: int, *, is_registered: bool = True) -> None:
        """Wait until a broker is registered, or is not."""

        async def is_so() -> bool:
            registration = await self._cluster.znodes.registration(broker)
            return (registration is not None) == is_registered

        await until(is_so, _SECONDS_MAX, f"broker {broker} is registered: {is_registered}")

    async def until_controller_is_not(self, broker: int) -> None:
        """Wait until this broker is not controller."""

        async def does_not() -> bool:
            return await self._cluster.znodes.controller() != broker

        await until(does_not, _SECONDS_MAX, f"{broker} is not controller")

    async def until_no_leader_is(self, broker: int) -> None:
        """Wait until a broker leads no partition, and is in no ISR with several members."""

        def is_out(state: Any) -> bool:
            isr: list[int] = state["isr"]
            return state["leader"] != broker and (broker not in isr or len(isr) == 1)

        await self._until_states(is_out, f"broker {broker} leads nothing")

    async def until_logged(self, code: str) -> None:
        """Wait until refold has logged a message with this code."""

        async def logged() -> bool:
            return any(one.get("code") == code for one in self.refold.messages())

        await until(logged, _SECONDS_MAX, f"refold logs {code}")

    async def until_deleted(self, path: str) -> None:
        """Wait until a znode does not exist."""

        async def deleted() -> bool:
            return await self._cluster.znodes.read(path) is None

        await until(deleted, _SECONDS_MAX, f"{path} is deleted")

    async def until_no_request_is_left(self) -> None:
        """Wait until the controller has executed or refused all requests for other replicas."""

        async def none() -> bool:
            return not await self._cluster.znodes.children(znodes.REASSIGNMENT_REQUESTS)

        await until(none, _SECONDS_MAX, "no request is left")

    async def until_isr(self, topic: str, partition: int, isr: set[int]) -> None:
        """Wait until exactly these replicas are in sync."""

        async def reached() -> bool:
            return set((await self._cluster.states(topic))[partition]["isr"]) == isr

        await until(reached, _SECONDS_MAX, f"the ISR of {topic}-{partition} is {sorted(isr)}")

    async def until_in_sync(self, topic: str) -> None:
        """Wait until every replica of a topic is in sync."""

        async def full() -> bool:
            assigned = (await self._cluster.topics()).get(topic, {})
            states = await self._cluster.states(topic)
            return len(states) == len(assigned) and all(
                set(state["isr"]) == set(assigned[str(number)]) and state["leader"] >= 0
                for number, state in states.items()
            )

        await until(full, _SECONDS_MAX, f"all of {topic} is in sync")

    async def until_offline(self, topic: str, partition: int) -> None:
        """Wait until a partition has no leader."""
        await self.until_led(topic, partition, by=-1)

    async def until_led(self, topic: str, partition: int, *, by: int) -> None:
        """Wait until a broker leads a partition."""

        async def led() -> bool:
            leader: int = (await self._cluster.states(topic))[partition]["leader"]
            return leader == by

        await until(led, _SECONDS_MAX, f"{by} leads {topic}-{partition}")

    async def until_assigned(self, topic: str, partition: int, replicas: list[int]) -> None:
        """Wait until a partition has these replicas."""

        async def assigned() -> bool:
            return (await self._cluster.topics())[topic][str(partition)] == replicas

        await until(assigned, _SECONDS_MAX, f"{topic}-{partition} is on {replicas}")

    async def until_none_is_reassigned(self) -> None:
        """Wait until the controller lists no reassignments, so that its log contains the end of
        them."""

        async def none() -> bool:
            return not await self.ask(lambda admin: admin.list_partition_reassignments())

        await until(none, _SECONDS_MAX, "no partition is reassigned any more")

    async def until_partitions(self, topic: str, count: int) -> None:
        """Wait until a topic has this number of partitions with a leader."""

        async def there() -> bool:
            return len(await self._cluster.states(topic)) == count

        await until(there, _SECONDS_MAX, f"{topic} has {count} partitions")

    async def until_gone(self, topic: str) -> None:
        """Wait until a topic is deleted."""

        async def gone() -> bool:
            marked = await self._cluster.znodes.children(znodes.DELETE_TOPICS)
            return topic not in marked and topic not in await self._cluster.topics()

        await until(gone, _SECONDS_MAX, f"{topic} is deleted")

    async def _until_states(self, is_so: Callable[[Any], bool], what: str) -> None:
        async def all_are() -> bool:
            for topic in await self._cluster.topics():
                if not all(map(is_so, (await self._cluster.states(topic)).values())):
                    return False
            return True

        await until(all_are, _SECONDS_MAX, what)
