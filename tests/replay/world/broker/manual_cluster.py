"""Brokers, producers and consumers over a network, and a controller that the test plays."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from controller.core import znodes
from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.api_requests.alter_partition import (
    AlteredPartition,
    AlterPartitionReceived,
    AlterPartitionResponse,
)
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.commands import (
    BrokerRequest,
    LeaderAndIsrPartition,
    LeaderAndIsrRequest,
    StopReplicaPartition,
    StopReplicaRequest,
    UpdateMetadataPartition,
    UpdateMetadataRequest,
)
from controller.core.operations import Create
from controller.core.protocol_versions import LATEST
from controller.core.values import Assignment, Endpoint, LeaderAndIsr
from controller.core.values import Broker as LiveBroker
from replay.world.broker.broker import Broker
from replay.world.broker.control_requests import Replicas
from replay.world.broker.messages import ALL
from replay.world.broker.partition import Partition
from replay.world.broker.run import BrokerEnvironment
from replay.world.broker.settings import LISTENER, BrokerSettings, settings_of
from replay.world.clients import Consumer, Producer
from replay.world.ensemble.ensemble import Ensemble
from replay.world.messages import (
    ControllerRequest,
    ControllerResponse,
    ControlRequest,
    ControlResponse,
    PartitionError,
)
from replay.world.network import Connection, Message, Network
from replay.world.observer import AcknowledgedRecord, Name, Observer
from replay.world.scenario import BrokerSpec
from replay.world.scheduler import SECOND, Scheduler
from replay.world.simulation import PERSISTENT
from replay.world.zookeeper import ZooKeeper

CONTROLLER = 100
TOPIC_ID = b"1" * 16
T0, T1 = ("t", 0), ("t", 1)


@dataclass
class RecordingObserver(Observer):
    """Everything that brokers and clients reported, in lists."""

    acknowledged_records: list[tuple[int, int, tuple[int, ...]]] = field(default_factory=list)
    """Record, offset, ISR."""
    records_read: dict[Name, list[int]] = field(default_factory=dict)
    truncations: list[tuple[str, int, str]] = field(default_factory=list)
    epochs: dict[str, list[int]] = field(default_factory=dict)
    ends: list[tuple[str, str]] = field(default_factory=list)
    answers: list[tuple[str, int, tuple[PartitionError, ...]]] = field(default_factory=list)
    backs: list[tuple[str, int, int]] = field(default_factory=list)
    proposals: list[tuple[str, tuple[int, ...]]] = field(default_factory=list)
    produced_records: int = 0

    def produced(self, process: str, partition: Name, record: int) -> None:
        self.produced_records += 1

    def acknowledged(self, process: str, one: AcknowledgedRecord) -> None:
        self.acknowledged_records.append((one.record, one.offset, one.isr))

    def read(
        self, process: str, partition: Name, offset: int, leader_epoch: int, records: Sequence[int]
    ) -> None:
        self.records_read.setdefault(partition, []).extend(records)

    def truncated(self, process: str, partition: Name, end: int, cause: str) -> None:
        self.truncations.append((process, end, cause))

    def registered(self, process: str, broker_epoch: int) -> None:
        self.epochs.setdefault(process, []).append(broker_epoch)

    def ended(self, process: str, cause: str) -> None:
        self.ends.append((process, cause))

    def applied_control_request(
        self,
        process: str,
        request: BrokerRequest,
        error: int,
        partition_errors: Sequence[PartitionError],
    ) -> None:
        self.answers.append((process, error, tuple(partition_errors)))

    def went_back(self, process: str, partition: Name, position: int, end: int) -> None:
        self.backs.append((process, position, end))

    def isr_proposed(
        self, process: str, partition: Name, leader_epoch: int, isr: Sequence[int]
    ) -> None:
        self.proposals.append((process, tuple(isr)))


def refuse(error: int) -> Callable[[ApiRequest], ApiResponse]:
    """Answers AlterPartition with an error for each partition."""

    def answer(request: ApiRequest) -> ApiResponse:
        assert isinstance(request, AlterPartitionReceived)
        refused = (
            AlteredPartition("t", TOPIC_ID, one.partition, error) for one in request.partitions
        )
        return AlterPartitionResponse(0, 0, tuple(refused))

    return answer


class ManualCluster:
    """Brokers, and the process "refold 100", whose decisions the test makes.

    It answers AlterPartition requests with success, unless `answer` is replaced.
    """

    def __init__(
        self,
        brokers: int = 3,
        protocol: str = LATEST,
        settings: BrokerSettings | None = None,
        min_isr: int | None = None,
    ) -> None:
        self.scheduler = Scheduler()
        self.network = Network(self.scheduler)
        self.seen = self.seen_by()
        state = ZooKeeper()
        session = state.create_session()
        for path in PERSISTENT:
            state.apply(session, Create(path), 0)
        self.zookeeper = Ensemble(self.scheduler, self.network, state)
        self.settings = settings or settings_of(protocol, {})
        self.protocol = self.settings.protocol
        environment = BrokerEnvironment(
            self.scheduler,
            self.network,
            self.settings,
            self.seen,
            lambda id: f"refold {id}",
            lambda topic: min_isr,
        )
        self.brokers = {id: Broker(BrokerSpec(id), environment) for id in range(1, brokers + 1)}
        self.controller_epoch = 1
        self.topic_id = TOPIC_ID
        self.requests: list[ApiRequest] = []
        self.answer: Callable[[ApiRequest], ApiResponse | None] = self.accept
        self.versions: dict[Name, int] = {}
        self.states: dict[Name, LeaderAndIsr] = {}
        self.responses: list[ControlResponse] = []
        self._connections: dict[int, Connection] = {}
        self._asked: dict[int, tuple[Connection, int]] = {}
        self.network.listen("refold 100", lambda process: self)

    def start(self) -> "ManualCluster":
        """Start the brokers; all are registered and know each other."""
        for broker in self.brokers.values():
            broker.start()
        self.run(5)
        self.update_metadata()
        return self

    def seen_by(self) -> RecordingObserver:
        """The observer."""
        return RecordingObserver()

    def run(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.scheduler.run_until(self.scheduler.now_us + int(seconds * SECOND))

    # The controller's endpoint and channels

    def connected(self, connection: Connection) -> None:
        self._connections[int(connection.remote.split()[1])] = connection

    def received(self, connection: Connection, message: Message) -> None:
        if isinstance(message, ControlResponse):
            self.responses.append(message)
            return
        assert isinstance(message, ControllerRequest)
        self.requests.append(message.request)
        self._asked[int(connection.remote.split()[1])] = connection, message.number
        response = self.answer(message.request)
        if response is not None:
            connection.send(ControllerResponse(message.number, response))

    def disconnected(self, connection: Connection | None) -> None:
        if connection is not None and connection.remote.startswith("broker"):
            self._connections.pop(int(connection.remote.split()[1]), None)

    def accept(self, request: ApiRequest) -> ApiResponse:
        """Accept what a broker asks for."""
        if isinstance(request, ControlledShutdownReceived):
            return ControlledShutdownResponse(0, 0)
        assert isinstance(request, AlterPartitionReceived)
        return AlterPartitionResponse(
            0,
            0,
            tuple(
                AlteredPartition(
                    "t",
                    self.topic_id,
                    one.partition,
                    0,
                    request.broker,
                    one.leader_epoch,
                    one.isr,
                    one.recovery_state,
                    one.partition_epoch + 1,
                )
                for one in request.partitions
            ),
        )

    def answer_late(self, broker: int, response: ApiResponse) -> None:
        """Answer the last request of a broker now."""
        connection, number = self._asked[broker]
        connection.send(ControllerResponse(number, response))

    def close_idle_connection(self, broker: int) -> None:
        """The controller closes the connection on which a broker asked last."""
        connection, _ = self._asked.pop(broker)
        connection.close()

    def send(self, broker: int, request: BrokerRequest) -> ControlResponse:
        """Send a control request; returns the response."""
        if broker not in self._connections or not self._connections[broker].is_open:
            self.network.connect("refold 100", f"broker {broker}", self)
            self.run(0.002)
        self.responses.clear()
        self._connections[broker].send(ControlRequest(1, request))
        self.run(0.002)
        (response,) = self.responses
        return response

    # Decisions

    def update_metadata(self, *brokers: int, live: Sequence[int] | None = None) -> None:
        """Send all partitions, and all brokers as live ones."""
        ids = [*(live or self.brokers), CONTROLLER]
        endpoints = (Endpoint(LISTENER, "PLAINTEXT", "host", 9092),)
        partitions = tuple(
            UpdateMetadataPartition(name[0], self.topic_id, name[1], state, (1, 2, 3), ())
            for name, state in self.states.items()
        )
        for broker in brokers or self.brokers:
            request = UpdateMetadataRequest(
                broker,
                -1,
                8,
                CONTROLLER,
                self.controller_epoch,
                partitions,
                tuple(LiveBroker(id, 1, endpoints) for id in ids),
            )
            self.send(broker, request)

    def lead(
        self,
        leader: int,
        epoch: int,
        isr: Sequence[int] = (1, 2, 3),
        *,
        to: Sequence[int] | None = None,
        name: Name = T0,
        replicas: Sequence[int] = (1, 2, 3),
        version: int | None = None,
    ) -> list[ControlResponse]:
        """Make a broker the leader: LeaderAndIsr to all, then UpdateMetadata."""
        self.versions[name] = version if version is not None else self.versions.get(name, -1) + 1000
        state = LeaderAndIsr(leader, epoch, tuple(isr), self.versions[name], self.controller_epoch)
        self.states[name] = state
        partition = LeaderAndIsrPartition(
            name[0], self.topic_id, name[1], state, Assignment(tuple(replicas)), epoch == 0
        )
        responses = []
        for broker in to if to is not None else self.brokers:
            request = LeaderAndIsrRequest(
                broker, -1, 7, CONTROLLER, self.controller_epoch, (partition,), ()
            )
            responses.append(self.send(broker, request))
        self.update_metadata(*(to if to is not None else ()))
        return responses

    def stop_replica(
        self, broker: int, epoch: int, *, delete: bool = False, name: Name = T0
    ) -> ControlResponse:
        partition = StopReplicaPartition(*name, epoch, delete)
        request = StopReplicaRequest(broker, -1, 4, CONTROLLER, self.controller_epoch, (partition,))
        return self.send(broker, request)

    # Clients

    def producer(
        self, acks: int = ALL, rate: int = 10, names: Sequence[Name] = (T0,), number: int = 0
    ) -> Producer:
        producer = Producer(
            number,
            self.scheduler,
            self.network,
            self.seen,
            tuple(self.brokers),
            names,
            acks,
            rate,
        )
        producer.start()
        return producer

    def consumer(self, names: Sequence[Name] = (T0,), number: int = 0) -> Consumer:
        consumer = Consumer(
            number, self.scheduler, self.network, self.seen, tuple(self.brokers), names
        )
        consumer.start()
        return consumer

    # What brokers have

    def replicas(self, broker: int) -> Replicas:
        found = self.brokers[broker].replicas
        assert found is not None
        return found

    def partition(self, broker: int, name: Name = T0) -> Partition:
        found = self.replicas(broker).find(name)
        assert isinstance(found, Partition), found
        return found

    def records(self, broker: int, name: Name = T0) -> list[int]:
        return self.brokers[broker].disk.logs[name].records

    def state_znode(self, name: Name = T0) -> bytes | None:
        node = self.zookeeper.state.find(znodes.state_path(*name))
        return node.data if node else None
