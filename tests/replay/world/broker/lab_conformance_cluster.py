"""Real brokers as a cluster of conformance tests."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from difflib import ndiff
from pathlib import Path

from controller.brokers.connection import BrokerConnection
from controller.core import znodes
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.commands import BrokerRequest
from controller.core.operations import NODE_EXISTS, OK, Create, Delete, SetData
from controller.core.values import ANY_VERSION, Endpoint, LeaderAndIsr
from controller.wire.apis import api_of
from controller.wire.client_requests import RequestHead
from controller.wire.controller_requests import (
    ALTER_PARTITION,
    decode_controller_request,
    encode_controller_response,
)
from controller.wire.encoding import BatchEncoder
from replay.world.requests import Exists, GetChildren, GetData
from tests.replay.world.broker import kafka_requests
from tests.replay.world.broker.conformance_cluster import (
    CONTROLLER,
    LISTENER,
    Answer,
    ConformanceCluster,
    Name,
    Replica,
    State,
    lines_of,
)
from tests.replay.world.broker.simulated_conformance_cluster import parents_of
from tests.replay.world.real_zookeeper import RealSession
from tests.scripted_broker import Received, ScriptedBroker
from tests.waiting import WAIT_SECONDS, block_until_found
from tools.lab import KafkaBroker, Lab
from tools.lab.cluster_view import until
from tools.lab.ports import HOST, free_port

POLL_SECONDS = 0.1
OBSERVE_SECONDS_MAX = 60.0
REQUEST_MS_MAX = 60_000
DIFFERENCES_MAX = 10
SESSION_MS = 600_000
"""The test's session sends no pings."""


class LabConformanceCluster(ConformanceCluster):
    """Brokers of a lab. `expected` is what the simulation has seen in the same schedule: `note`
    compares with it, and `observe` waits until the real state is equal."""

    def __init__(self, protocol: str, lab: Lab, session: RealSession, expected: list[object]):
        super().__init__(protocol, len(lab.brokers))
        self._lab = lab
        self._session = session
        self._expected = expected
        self._connections: dict[int, BrokerConnection] = {}
        self._producing: set[asyncio.Task[None]] = set()
        self._differences: list[str] = []
        self._count = 0
        self._unused_port = free_port()
        """Of brokers that do not exist."""
        self.endpoint = ScriptedBroker(self._respond)
        self.endpoint.offered[ALTER_PARTITION.key] = (ALTER_PARTITION.first, ALTER_PARTITION.last)

    def note(self, what: object) -> None:
        """Compare with the simulation. A schedule ends at the first state that is different, or
        after some different responses."""
        expected = self._expected[len(self.seen)]
        if what != expected:
            compared = ndiff(lines_of(expected), lines_of(what))
            self._differences += [f"step {len(self.seen)}: - world, + real", *compared]
            self._count += 1
            if isinstance(what, State) or self._count == DIFFERENCES_MAX:
                self.check()
        super().note(what)

    def check(self) -> None:
        """Raise if there was a difference."""
        if self._differences:
            before = [line for one in self.seen for line in lines_of(one)]
            raise AssertionError("\n".join([*self._differences, "", "all steps:", *before]))

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections.values():
            connection.close()
        for task in self._producing:
            task.cancel()

    async def _respond(self, received: Received) -> bytes | None:
        if received.api_key != ALTER_PARTITION.key:
            return None
        head = RequestHead(received.api_key, received.version, received.correlation_id)
        request = decode_controller_request(head, received.frame, 0)
        assert isinstance(request, AlterPartitionReceived)
        return encode_controller_response(head, self.answer(request))[4:]

    def _broker(self, broker: int) -> KafkaBroker:
        return self._lab.brokers[broker - 1]

    def _port(self, broker: int) -> int:
        return self._broker(broker).port

    def epoch_of(self, broker: int) -> int:
        stat = self._session.apply(Exists(znodes.broker_path(broker))).result.stat
        assert stat is not None
        return stat.czxid

    def endpoint_of(self, broker: int) -> Endpoint:
        if broker == CONTROLLER:
            port = self.endpoint.port
        elif broker in self.ids:
            port = self._port(broker)
        else:
            port = self._unused_port
        return Endpoint(LISTENER, "PLAINTEXT", HOST, port)

    async def send(self, broker: int, request: BrokerRequest) -> Answer:
        connection = self._connections.get(broker)
        if connection is None:
            connection = self._connections[broker] = await BrokerConnection.open(
                self.endpoint_of(broker), str(CONTROLLER), REQUEST_MS_MAX
            )
        version = connection.version_for(api_of(request), request.version)
        assert version == request.version
        (encoded,) = BatchEncoder().encode(request, version)
        response = await connection.exchange(encoded)
        return Answer(response.error, tuple(sorted(response.partition_errors)))

    async def produce(
        self, label: str, broker: int, name: Name, acks: int, records: Sequence[int]
    ) -> None:
        self.produced[label] = None

        async def send() -> None:
            # A broker that was killed does not respond.
            with suppress(asyncio.IncompleteReadError, ConnectionError):
                self.produced[label] = await kafka_requests.produce(
                    self._port(broker), name, acks, records
                )

        task = asyncio.create_task(send())
        self._producing.add(task)
        task.add_done_callback(self._producing.discard)

        async def has_arrived() -> bool:
            return task.done() or await self._has_record(broker, name, records[-1])

        await until(has_arrived, WAIT_SECONDS, f"the records {label} are at broker {broker}")

    async def _has_record(self, broker: int, name: Name, record: int) -> bool:
        found = await self.replica(broker, name)
        return isinstance(found, Replica) and record in (one for _, one in found.records)

    async def replica(self, broker: int, name: Name) -> Replica | int:
        return await kafka_requests.replica(self._port(broker), name)

    async def consume(self, broker: int, name: Name) -> tuple[int, int]:
        return await kafka_requests.consume(self._port(broker), name)

    async def leader_in_metadata(self, broker: int, name: Name) -> tuple[int, int] | None:
        return await kafka_requests.leader_in_metadata(self._port(broker), name)

    def has_log(self, broker: int, name: Name) -> bool:
        return (self._broker(broker).folder / "data" / f"{name[0]}-{name[1]}").exists()

    def pause(self, broker: int) -> None:
        self.down.add(broker)
        self._broker(broker).pause()
        # SIGSTOP does not stop all threads at once.
        tasks = Path(f"/proc/{self._broker(broker).pid}/task")
        block_until_found(
            lambda: not any(_is_running(one) for one in tasks.iterdir()),
            f"every thread of broker {broker} is stopped",
        )

    def resume(self, broker: int) -> None:
        self.down.discard(broker)
        self._broker(broker).resume()

    async def restart(self, broker: int) -> None:
        self._broker(broker).kill()
        self._connections.pop(broker).close()
        self._session.apply(Delete(znodes.broker_path(broker), ANY_VERSION))
        await self._broker(broker).start()

    def read_state(self, name: Name) -> LeaderAndIsr:
        path = znodes.state_path(*name)
        result = self._session.apply(GetData(path)).result
        assert result.stat is not None
        return znodes.read_state(path, result.data, result.stat.version)

    def write_state(self, name: Name, state: LeaderAndIsr) -> int:
        path, data = znodes.state_path(*name), znodes.write_state(state)
        for parent in parents_of(path):
            self._session.apply(Create(parent))
        error = self._session.apply(Create(path, data)).result.error
        if error == NODE_EXISTS:
            error = self._session.apply(SetData(path, data, ANY_VERSION)).result.error
        assert error == OK
        return self.read_state(name).partition_epoch

    def reported(self) -> set[Name]:
        children = self._session.apply(GetChildren(znodes.ISR_CHANGES)).result.children
        paths = [f"{znodes.ISR_CHANGES}/{one}" for one in children or ()]
        return {
            name
            for path in paths
            for name in znodes.read_isr_change(path, self._session.apply(GetData(path)).result.data)
        }

    def now(self) -> float:
        return time.monotonic()

    async def observe(self) -> None:
        """Wait until two states in a row are those of the simulation."""
        expected = self._expected[len(self.seen)]
        deadline = time.monotonic() + OBSERVE_SECONDS_MAX
        equal = 0
        state = await self.state()
        while equal < 2 and time.monotonic() < deadline:
            await asyncio.sleep(POLL_SECONDS)  # The last state is noted, whatever it is.
            state = await self.state()
            equal = equal + 1 if state == expected else 0
        self.note(state)


def _is_running(task: Path) -> bool:
    """Whether a thread is not stopped."""
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0] not in "TtXZ"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def as_controller(lab: Lab) -> RealSession:
    """Start ZooKeeper, and become the controller before any broker starts."""
    server = await lab.start_zookeeper(config={"maxSessionTimeout": str(SESSION_MS)})
    session = RealSession(server.port, SESSION_MS)
    for create in (
        Create(znodes.CONTROLLER_EPOCH, b"1"),
        Create(znodes.CONTROLLER, znodes.write_controller(CONTROLLER, 0), ephemeral=True),
    ):
        assert session.apply(create).result.error == OK
    return session
