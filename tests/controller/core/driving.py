"""Runs one procedure, and answers its commands with the simulated ZooKeeper.

The controller has epoch 50, as in Kafka's own tests. A test creates brokers, partitions and znodes,
runs a procedure and compares the commands.
"""

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from controller.core import znodes
from controller.core.commands import (
    BrokerRequest,
    CommandId,
    Issued,
    LeaderAndIsrRequest,
    Notice,
    StopReplicaRequest,
    UpdateMetadataRequest,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.configuration import Configuration
from controller.core.controller import Controller
from controller.core.errors import TermEnded
from controller.core.events import ChildrenRead, ZnodesRead, ZnodesWritten
from controller.core.operations import NO_AUTH, Create, Delete, SetData
from controller.core.outcomes import CONNECTED, PAUSE, SLICE, TERM_END
from controller.core.state import Partition
from controller.core.state_machines import PartitionState
from controller.core.values import ANY_VERSION, Assignment, Broker, Endpoint, LeaderAndIsr
from replay.world.outcomes import ZooKeeperOutcome, carry_out
from replay.world.requests import GetData, OperationResult, Write
from replay.world.zookeeper import ZooKeeper

EPOCH = 50
CONTROLLER_ID = 1000

T = TypeVar("T")
R = TypeVar("R", LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)

Reply = Callable[[ZooKeeperCommand], list[ZooKeeperOutcome] | None]
"""Answers a command in place of the simulated ZooKeeper, or returns None."""


def broker(id: int, epoch: int = 1) -> Broker:
    """A registered broker with one listener."""
    return Broker(id, epoch, (Endpoint("PLAINTEXT", "PLAINTEXT", f"host{id}", 9092),))


class ControllerHarness:
    """An active controller and the ZooKeeper that it works with.

    `issued` holds every command. `reply` may answer a ZooKeeper command otherwise. An outcome of
    CONNECTION_LOSS closes the connection; there is a new one when the procedure waits for it.
    """

    def __init__(self, *live: int, **settings: Any) -> None:
        self.controller = Controller(Configuration(broker_id=CONTROLLER_ID, **settings))
        self.zookeeper = ZooKeeper()
        self.session = self.zookeeper.create_session()
        self.issued: list[Issued] = []
        self.reply: Reply = lambda command: None
        self._others = self.zookeeper.create_session()
        self.put(znodes.CONTROLLER_EPOCH, str(EPOCH).encode())
        self.controller.begin(1, 0)
        self.controller.is_active = self.controller.is_connected = True
        self.controller.session_id = self.session
        self.context = self.controller.context
        self.context.epoch, self.context.epoch_version = EPOCH, 0
        for id in live:
            self.register(id)

    # State of ZooKeeper and the controller

    def put(self, path: str, data: bytes) -> OperationResult:
        """Another client sets a znode, or creates it with its parents."""
        parent = path.rpartition("/")[0]
        if parent and self.version(parent) < 0:
            self.put(parent, b"")
        if self.version(path) >= 0:
            return self._ask(SetData(path, data, ANY_VERSION))
        return self._ask(Create(path, data))

    def remove(self, path: str) -> None:
        """Another client deletes a znode."""
        self._ask(Delete(path, ANY_VERSION))

    def version(self, path: str) -> int:
        """The version of a znode; -1 if it does not exist."""
        stat = self.zookeeper.apply(self._others, GetData(path), 0).result.stat
        return stat.version if stat else -1

    def data(self, path: str) -> bytes | None:
        """The content of a znode; None if it does not exist."""
        return self.zookeeper.apply(self._others, GetData(path), 0).result.data

    def _ask(self, operation: Write) -> OperationResult:
        return self.zookeeper.apply(self._others, operation, 0).result

    def partition(
        self,
        replicas: tuple[int, ...] = (5,),
        state: PartitionState = PartitionState.NON_EXISTENT,
        *,
        topic: str = "t",
        number: int = 0,
    ) -> Partition:
        """A partition of a known topic, without leadership."""
        known = self.context.topic(topic)
        known.is_known = True
        partition = known.partition(number)
        partition.assignment = Assignment(replicas)
        partition.state = state
        return partition

    def lead(
        self, partition: Partition, leader: int, isr: tuple[int, ...], epoch: int = 0
    ) -> LeaderAndIsr:
        """Set the leadership of a partition, in the controller's state and in the znode."""
        path = state_path(partition)
        data = znodes.write_state(LeaderAndIsr(leader, epoch, isr, 0, EPOCH))
        self.put(path, data)
        partition.leadership = znodes.read_state(path, data, self.version(path))
        return partition.leadership

    def register(self, id: int, epoch: int = 1) -> None:
        """A broker is live."""
        self.context.brokers[id] = broker(id, epoch)

    def unregister(self, id: int) -> None:
        """A broker is not live any more."""
        self.context.brokers.pop(id, None)

    def shut_down(self, id: int) -> None:
        """A broker is in controlled shutdown."""
        self.context.shutting_down[id] = None

    def fail_log_dir(self, id: int, partition: Partition) -> None:
        """A partition is in a failed log directory of a broker."""
        self.context.offline_dirs.setdefault(id, {})[partition] = None

    def reassign(self, *partitions: Partition) -> None:
        """Partitions are being reassigned."""
        self.context.reassigning |= dict.fromkeys(partitions)

    def queue_deletion(self, topic: str) -> None:
        """The deletion of a topic is queued, and has not started."""
        self.context.queued_for_deletion[topic] = None

    def start_deletion(self, topic: str) -> None:
        """The deletion of a topic has started."""
        self.queue_deletion(topic)
        self.context.deletion_started[topic] = None

    def halt_deletion(self, topic: str) -> None:
        """The deletion of a topic is queued, and waits."""
        self.queue_deletion(topic)
        self.context.ineligible_for_deletion[topic] = None

    def lose_role(self) -> None:
        """The controller has lost the role, and keeps what it knows."""
        self.controller.is_active = False

    def disconnect(self) -> None:
        """There is no connection to ZooKeeper."""
        self.controller.is_connected = False

    def reconnect(self) -> None:
        """There is a new connection to ZooKeeper."""
        self.controller.is_connected = True
        self.controller.connections += 1

    # Run procedures

    def run(self, procedure: Coroutine[Any, Any, T]) -> T:
        """Run a procedure to its end and return its result. Raises TermEnded if the procedure waits
        for the end of the term."""
        result: Any = None
        try:
            while True:
                wait = procedure.send(result)
                issued = self.controller.take_issued()
                self.issued += issued
                outcomes = [outcome for one in issued for outcome in self._answer(one)]
                result = None
                if wait is CONNECTED:
                    self.reconnect()
                elif wait is TERM_END:
                    procedure.throw(TermEnded())
                elif wait not in (SLICE, PAUSE):
                    complete = [
                        wait.result.add(one) for one in outcomes if wait.awaits(one.command)
                    ]
                    assert complete[-1:] == [True], f"nothing completes {wait.id}"
                    assert not any(complete[:-1]), f"{wait.id} is complete too early"
                    result = wait.result
        except StopIteration as end:
            self.issued += self.controller.take_issued()
            return end.value  # type: ignore[no-any-return]

    def _answer(self, issued: Issued) -> list[ZooKeeperOutcome]:
        command = issued.command
        if not isinstance(command, ZooKeeperCommand):
            return []
        replied = self.reply(command)
        if replied is None:
            return carry_out(self.zookeeper, self.session, issued.id, command, 0)
        return [_named(one, issued) for one in replied]

    # Issued commands

    def requests(self) -> list[BrokerRequest]:
        """The broker requests."""
        kinds = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest
        return [one.command for one in self.issued if isinstance(one.command, kinds)]

    def leader_and_isr(self) -> dict[int, LeaderAndIsrRequest]:
        """The LeaderAndIsr requests by broker, at most one each."""
        return self._by_broker(LeaderAndIsrRequest)

    def update_metadata(self) -> dict[int, UpdateMetadataRequest]:
        """The UpdateMetadata requests by broker, at most one each."""
        return self._by_broker(UpdateMetadataRequest)

    def stop_replica(self) -> dict[int, StopReplicaRequest]:
        """The StopReplica requests by broker, at most one each."""
        return self._by_broker(StopReplicaRequest)

    def _by_broker(self, kind: type[R]) -> dict[int, R]:
        found = self.of_kind(kind)
        by_broker = {one.broker: one for one in found}
        assert len(by_broker) == len(found), "two requests of a kind to one broker"
        return by_broker

    def of_kind(self, kind: type[T]) -> list[T]:
        """The commands of a kind."""
        return [one.command for one in self.issued if isinstance(one.command, kind)]

    def notices(self) -> list[str]:
        """The codes of the reported notices."""
        return [one.code for one in self.of_kind(Notice)]


def _named(outcome: ZooKeeperOutcome, issued: Issued) -> ZooKeeperOutcome:
    match outcome:
        case ZnodesRead():
            columns = (
                outcome.errors,
                outcome.data,
                outcome.versions,
                outcome.czxids,
                outcome.mzxids,
                outcome.owners,
            )
            return ZnodesRead(issued.id, outcome.offset, *columns)
        case ZnodesWritten():
            return ZnodesWritten(issued.id, outcome.offset, outcome.errors, outcome.versions)
        case ChildrenRead():
            return ChildrenRead(issued.id, outcome.error, outcome.children)


def refuse_writes(command: ZooKeeperCommand) -> list[ZooKeeperOutcome] | None:
    """Every write ends in an error that does not concern the znode."""
    if not isinstance(command, WriteZnodes):
        return None
    count = len(command.operations)
    return [ZnodesWritten(CommandId(0, 0), 0, [NO_AUTH] * count, [-1] * count)]


def state_path(partition: Partition) -> str:
    """The path of a partition's state znode."""
    return znodes.state_path(partition.topic.name, partition.number)


def state_of(driven: ControllerHarness, partition: Partition) -> LeaderAndIsr:
    """The content of a partition's state znode."""
    path = state_path(partition)
    return znodes.read_state(path, driven.data(path), driven.version(path))
