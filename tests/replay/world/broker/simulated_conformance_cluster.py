"""Simulated brokers as a cluster of conformance tests."""

from collections.abc import Sequence

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.api_requests.alter_partition import AlterPartitionReceived
from controller.core.commands import BrokerRequest
from controller.core.operations import NODE_EXISTS, Create, Delete, SetData
from controller.core.values import ANY_VERSION, Endpoint, LeaderAndIsr
from replay.world.broker.messages import (
    CONSUMER,
    Fetch,
    FetchPartition,
    FetchResponse,
    Metadata,
    MetadataResponse,
    Produce,
    ProduceResponse,
)
from replay.world.broker.partition import Partition
from replay.world.broker.settings import settings_of
from replay.world.network import Connection, Message
from replay.world.scheduler import SECOND
from tests.replay.world.broker.conformance_cluster import (
    LISTENER,
    Answer,
    ConformanceCluster,
    Name,
    Replica,
    Sent,
)
from tests.replay.world.broker.manual_cluster import ManualCluster

SETTLE_SECONDS = 60.0
"""All ISRs, high watermarks and notifications are settled after this time."""
ANSWER_SECONDS = 0.01


class SimulatedConformanceCluster(ConformanceCluster):
    """Virtual time passes only in `observe`, and a little for each request."""

    def __init__(self, protocol: str, count: int, settings: dict[str, str]) -> None:
        super().__init__(protocol, count)
        self.cluster = ManualCluster(count, settings=settings_of(protocol, settings))
        self.cluster.answer = self._answer
        for broker in self.cluster.brokers.values():
            broker.start()
        self.cluster.run(5)
        self._session = self.cluster.zookeeper.state.create_session()

    def _answer(self, request: ApiRequest) -> ApiResponse:
        assert isinstance(request, AlterPartitionReceived)
        return self.answer(request)

    def epoch_of(self, broker: int) -> int:
        return self.cluster.brokers[broker].broker_epoch

    def endpoint_of(self, broker: int) -> Endpoint:
        return Endpoint(LISTENER, "PLAINTEXT", "host", 9092)

    async def send(self, broker: int, request: BrokerRequest) -> Answer:
        response = self.cluster.send(broker, request)
        return Answer(response.error, tuple(sorted(response.partition_errors)))

    async def produce(
        self, label: str, broker: int, name: Name, acks: int, records: Sequence[int]
    ) -> None:
        self.produced[label] = None

        def answered(message: Message) -> None:
            assert isinstance(message, ProduceResponse)
            self.produced[label] = Sent(message.error, message.offset)

        _Client(self.cluster, broker, Produce(1, name, acks, tuple(records)), answered)

    async def replica(self, broker: int, name: Name) -> Replica | int:
        if await self.leader_in_metadata(broker, name) is None:
            return codes.UNKNOWN_TOPIC_OR_PARTITION
        found = self.cluster.replicas(broker).find(name)
        if not isinstance(found, Partition):
            return found
        log = found.log
        records = tuple(
            (batch.leader_epoch, one) for batch in log.read(0, log.end) for one in batch.records
        )
        return Replica(records, log.high_watermark)

    async def consume(self, broker: int, name: Name) -> tuple[int, int]:
        asked = FetchPartition(name, None, 0, -1, -1)
        response = self._ask(broker, Fetch(1, CONSUMER, (asked,)))
        assert isinstance(response, FetchResponse)
        (found,) = response.partitions
        return found.error, sum(len(batch.records) for batch in found.batches)

    async def leader_in_metadata(self, broker: int, name: Name) -> tuple[int, int] | None:
        response = self._ask(broker, Metadata(1, (name,)))
        assert isinstance(response, MetadataResponse)
        if not response.leaders:
            return None
        (found,) = response.leaders
        return found.leader, found.leader_epoch

    def _ask(self, broker: int, message: Message) -> Message:
        answers: list[Message] = []
        client = _Client(self.cluster, broker, message, answers.append)
        while not answers:
            self.cluster.run(ANSWER_SECONDS)
        client.close()
        return answers[0]

    def has_log(self, broker: int, name: Name) -> bool:
        return name in self.cluster.brokers[broker].disk.logs

    def pause(self, broker: int) -> None:
        self.down.add(broker)
        self.cluster.brokers[broker].pause()

    def resume(self, broker: int) -> None:
        self.down.discard(broker)
        self.cluster.brokers[broker].resume()

    async def restart(self, broker: int) -> None:
        self.cluster.brokers[broker].crash()
        self._apply(Delete(znodes.broker_path(broker), ANY_VERSION))
        self.cluster.brokers[broker].start()
        self.cluster.run(5)

    def read_state(self, name: Name) -> LeaderAndIsr:
        path = znodes.state_path(*name)
        node = self.cluster.zookeeper.state.find(path)
        assert node is not None
        return znodes.read_state(path, node.data, node.version)

    def write_state(self, name: Name, state: LeaderAndIsr) -> int:
        path = znodes.state_path(*name)
        for parent in parents_of(path):
            self._apply(Create(parent))
        if self._apply(Create(path, znodes.write_state(state))) == NODE_EXISTS:
            self._apply(SetData(path, znodes.write_state(state), ANY_VERSION))
        return self.read_state(name).partition_epoch

    def _apply(self, operation: Create | SetData | Delete) -> int:
        return self.cluster.zookeeper.state.apply(self._session, operation, 0).result.error

    def reported(self) -> set[Name]:
        tree = self.cluster.zookeeper.state.dump()
        prefix = znodes.ISR_CHANGES + "/"
        found = (path for path in tree if path.startswith(prefix))
        return {name for path in found for name in self._names_in(path)}

    def _names_in(self, path: str) -> list[Name]:
        node = self.cluster.zookeeper.state.find(path)
        assert node is not None
        return znodes.read_isr_change(path, node.data)

    def now(self) -> float:
        return self.cluster.scheduler.now_us / SECOND

    async def observe(self) -> None:
        self.cluster.run(SETTLE_SECONDS)
        self.note(await self.state())


def parents_of(path: str) -> list[str]:
    """The paths above a path, except for the root."""
    parts = path.split("/")
    return ["/".join(parts[:end]) for end in range(2, len(parts))]


class _Client:
    """Sends one request on a separate connection."""

    def __init__(
        self, cluster: ManualCluster, broker: int, message: Message, on_answer: object
    ) -> None:
        self._message = message
        self._on_answer = on_answer
        self._connection: Connection | None = None
        cluster.network.connect("client", f"broker {broker}", self)
        cluster.run(ANSWER_SECONDS)

    def connected(self, connection: Connection) -> None:
        self._connection = connection
        connection.send(self._message)

    def received(self, connection: Connection, message: Message) -> None:
        assert callable(self._on_answer)
        self._on_answer(message)

    def disconnected(self, connection: Connection | None) -> None:
        """The broker was killed: there is no response."""

    def close(self) -> None:
        assert self._connection is not None
        self._connection.close()
