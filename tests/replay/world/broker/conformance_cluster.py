"""The acts of a conformance test's schedule on brokers, real or simulated.

The test plays the controller, with id 100. A schedule is an async function that takes a
`ConformanceCluster`. It calls the same steps on both clusters, and compares what it sees.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from controller.core import error_codes as codes
from controller.core.api_requests.alter_partition import (
    AlteredPartition,
    AlterPartitionReceived,
    AlterPartitionResponse,
    ProposedState,
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
from controller.core.protocol_versions import ProtocolVersion
from controller.core.values import Assignment, Broker, Endpoint, LeaderAndIsr

CONTROLLER = 100
LISTENER = "PLAINTEXT"
FIRST_BY_TOPIC_ID = 2
"""The first version of AlterPartition with topic ids instead of names."""

Name = tuple[str, int]


class Answer(NamedTuple):
    """The response to a control request: its error, and the sorted partition errors."""

    error: int
    partition_errors: tuple[tuple[str, int, int], ...] = ()


class Replica(NamedTuple):
    """A replica on a broker: its records, each with its leader epoch, and its high watermark."""

    records: tuple[tuple[int, int], ...]
    high_watermark: int


class Sent(NamedTuple):
    """The response to a produce request."""

    error: int
    offset: int


@dataclass
class State:
    """The visible state of a cluster. The order of an ISR is not compared.

    `replicas`: by broker and partition, only of brokers that run; an error code if the broker does
    not have the partition. `produced`: by the label of the request; None without a response.
    `proposals`: all that leaders have proposed, without repetitions. `reported`: the partitions in
    /isr_change_notification.
    """

    isrs: dict[Name, tuple[int, tuple[int, ...]]] = field(default_factory=dict)
    replicas: dict[tuple[int, Name], Replica | int] = field(default_factory=dict)
    produced: dict[str, Sent | None] = field(default_factory=dict)
    proposals: set[tuple[Name, int, tuple[int, ...]]] = field(default_factory=set)
    reported: set[Name] = field(default_factory=set)


def lines_of(seen: object) -> list[str]:
    """The observations, one line for each item."""
    if not isinstance(seen, State):
        return [repr(seen)]
    return [
        *(f"state of {name}: {one}" for name, one in seen.isrs.items()),
        *(f"replica of {name}: {one}" for name, one in seen.replicas.items()),
        *(f"produce {label}: {one}" for label, one in seen.produced.items()),
        *(f"proposed {one}" for one in sorted(seen.proposals)),
        *(f"reported {one}" for one in sorted(seen.reported)),
    ]


def topic_id_of(topic: str) -> bytes:
    """The topic id that a schedule uses, unless it says otherwise."""
    return topic.encode().rjust(16, b"-")[-16:]


class ConformanceCluster(ABC):
    """A cluster with brokers 1 to `count`."""

    def __init__(self, protocol: str, count: int) -> None:
        self.protocol = ProtocolVersion(protocol)
        self.ids = tuple(range(1, count + 1))
        self.down: set[int] = set()
        """Brokers that are paused or killed."""
        self.controller_epoch = 1
        self.states: dict[Name, LeaderAndIsr] = {}
        self.assignments: dict[Name, tuple[int, ...]] = {}
        self.produced: dict[str, Sent | None] = {}
        self.proposals: set[tuple[Name, int, tuple[int, ...]]] = set()
        self.proposed_at: dict[tuple[Name, int, tuple[int, ...]], float] = {}
        """The first time of each proposal, in seconds."""
        self.keeps_proposals = True
        """Set this to False if it is not determined in which order followers join an ISR, or
        whether a broker starts again before it leaves the ISR."""
        self.alter_errors: dict[Name, int] = {}
        """The error of a partition in responses to AlterPartition."""
        self.alter_error = codes.NONE
        """The error of the whole response to AlterPartition."""
        self.seen: list[object] = []
        """The observations of `note` and `observe`."""

    # What differs

    @abstractmethod
    def epoch_of(self, broker: int) -> int:
        """The broker epoch of a broker."""

    @abstractmethod
    def endpoint_of(self, broker: int) -> Endpoint:
        """Where a broker, or the controller, listens."""

    @abstractmethod
    async def send(self, broker: int, request: BrokerRequest) -> Answer:
        """Send a control request and wait for the response."""

    @abstractmethod
    async def produce(
        self, label: str, broker: int, name: Name, acks: int, records: Sequence[int]
    ) -> None:
        """Send records, without waiting for the response."""

    @abstractmethod
    async def replica(self, broker: int, name: Name) -> Replica | int:
        """The replica on a broker, or the error of a read."""

    @abstractmethod
    async def consume(self, broker: int, name: Name) -> tuple[int, int]:
        """The error of a consumer's fetch at offset 0, and how many records it gets."""

    @abstractmethod
    async def leader_in_metadata(self, broker: int, name: Name) -> tuple[int, int] | None:
        """The leader and its epoch in the response to a Metadata request; None if the broker does
        not know the partition."""

    @abstractmethod
    def has_log(self, broker: int, name: Name) -> bool:
        """Whether the broker has a log of the partition."""

    @abstractmethod
    def pause(self, broker: int) -> None:
        """SIGSTOP."""

    @abstractmethod
    def resume(self, broker: int) -> None:
        """SIGCONT."""

    @abstractmethod
    async def restart(self, broker: int) -> None:
        """SIGKILL; start again with a new broker epoch and the same logs."""

    @abstractmethod
    def read_state(self, name: Name) -> LeaderAndIsr:
        """The state znode."""

    @abstractmethod
    def write_state(self, name: Name, state: LeaderAndIsr) -> int:
        """Write the state znode unconditionally; returns its version."""

    @abstractmethod
    def reported(self) -> set[Name]:
        """The partitions in /isr_change_notification."""

    @abstractmethod
    def now(self) -> float:
        """The time in seconds."""

    @abstractmethod
    async def observe(self) -> None:
        """Note the state of the cluster that it reaches if nothing else happens."""

    # The controller

    def note(self, what: object) -> None:
        """Note what the schedule has seen."""
        self.seen.append(what)

    async def lead(
        self,
        name: Name,
        leader: int,
        epoch: int,
        isr: Sequence[int],
        *,
        to: Sequence[int] | None = None,
        replicas: Sequence[int] | None = None,
        metadata: bool = True,
    ) -> None:
        """Decide a leader: write the state, send LeaderAndIsr, then UpdateMetadata. Notes the
        responses."""
        targets = self.ids if to is None else tuple(to)
        self.assignments[name] = tuple(replicas or self.assignments.get(name, self.ids))
        known = self.states.get(name)
        state = LeaderAndIsr(
            leader,
            epoch,
            tuple(isr),
            0 if known is None else known.partition_epoch + 1,
            self.controller_epoch,
        )
        if not self.protocol.has_alter_partition:
            version = self.write_state(name, state)
            state = LeaderAndIsr(leader, epoch, tuple(isr), version, self.controller_epoch)
        self.states[name] = state
        for broker in targets:
            request = self.leader_and_isr(broker, name, state, self.assignments[name])
            self.note(await self.send(broker, request))
        if metadata:
            await self.update_metadata(*targets)

    def leader_and_isr(
        self, broker: int, name: Name, state: LeaderAndIsr, replicas: Sequence[int]
    ) -> LeaderAndIsrRequest:
        """A request for one partition."""
        topic_id = topic_id_of(name[0]) if self.protocol.has_topic_ids else None
        partition = LeaderAndIsrPartition(
            name[0], topic_id, name[1], state, Assignment(tuple(replicas)), state.leader_epoch == 0
        )
        return LeaderAndIsrRequest(
            broker,
            self.epoch_of(broker),
            self.protocol.leader_and_isr,
            CONTROLLER,
            self.controller_epoch,
            (partition,),
            (),
        )

    async def update_metadata(self, *brokers: int, has_partitions: bool = True) -> None:
        """Send all partitions, or none, and all brokers as live ones."""
        partitions = tuple(
            UpdateMetadataPartition(
                topic,
                topic_id_of(topic) if self.protocol.has_topic_ids else None,
                number,
                state,
                self.assignments[topic, number],
                (),
            )
            for (topic, number), state in sorted(self.states.items())
            if has_partitions
        )
        for broker in brokers or self.ids:
            request = UpdateMetadataRequest(
                broker,
                self.epoch_of(broker),
                self.protocol.update_metadata,
                CONTROLLER,
                self.controller_epoch,
                partitions,
                self.live(self.ids),
            )
            self.note(await self.send(broker, request))

    def live(self, brokers: Sequence[int]) -> tuple[Broker, ...]:
        """The live brokers of an UpdateMetadata request; the controller is one of them."""
        return tuple(Broker(one, 1, (self.endpoint_of(one),)) for one in (*brokers, CONTROLLER))

    async def introduce(self, broker: int) -> None:
        """Send a broker that has started all that a controller sends it. Notes the responses."""
        await self.update_metadata(broker)
        for name, state in sorted(self.states.items()):
            if broker in self.assignments[name]:
                request = self.leader_and_isr(broker, name, state, self.assignments[name])
                self.note(await self.send(broker, request))

    async def stop_replica(
        self, broker: int, name: Name, epoch: int, *, delete: bool = False
    ) -> None:
        """Send StopReplica; notes the response."""
        request = StopReplicaRequest(
            broker,
            self.epoch_of(broker),
            self.protocol.stop_replica,
            CONTROLLER,
            self.controller_epoch,
            (StopReplicaPartition(*name, epoch, delete),),
        )
        self.note(await self.send(broker, request))

    def answer(self, request: AlterPartitionReceived) -> AlterPartitionResponse:
        """Accept what a leader proposes, unless there is an error to answer."""
        if self.alter_error:
            for one in request.partitions:
                self._proposed(request.broker, one)
            return AlterPartitionResponse(0, self.alter_error)
        altered = [self._altered(request, one) for one in request.partitions]
        return AlterPartitionResponse(0, codes.NONE, tuple(sorted(altered, key=_name_of)))

    def _proposed(self, broker: int, one: ProposedState) -> Name:
        by_id = {topic_id_of(topic).hex(): topic for topic, _ in self.states}
        name = (by_id.get(one.topic, one.topic), one.partition)
        proposal = (name, broker, tuple(sorted(one.isr)))
        self.proposed_at.setdefault(proposal, self.now())
        if self.keeps_proposals:
            self.proposals.add(proposal)
        return name

    def _altered(self, request: AlterPartitionReceived, one: ProposedState) -> AlteredPartition:
        broker, name = request.broker, self._proposed(request.broker, one)
        by_id = request.version >= FIRST_BY_TOPIC_ID
        topic_id = bytes.fromhex(one.topic) if by_id else None
        known = self.states.get(name)
        error = self.alter_errors.get(name, codes.NONE)
        if known is None:
            error = codes.UNKNOWN_TOPIC_OR_PARTITION
        elif not error and (known.leader, known.leader_epoch) != (broker, one.leader_epoch):
            error = codes.FENCED_LEADER_EPOCH
        if error:
            return AlteredPartition(name[0], topic_id, name[1], error)
        version = one.partition_epoch + 1
        self.states[name] = LeaderAndIsr(
            broker, one.leader_epoch, one.isr, version, self.controller_epoch
        )
        return AlteredPartition(
            name[0], topic_id, name[1], 0, broker, one.leader_epoch, one.isr, 0, version
        )

    # What can be seen

    async def state(self) -> State:
        """The state now."""
        state = State(produced=dict(self.produced), proposals=set(self.proposals))
        for name in self.states:
            known = self.states[name]
            if not self.protocol.has_alter_partition:
                known = self.read_state(name)
            state.isrs[name] = known.leader, tuple(sorted(known.isr))
            for broker in self.assignments[name]:
                if broker not in self.down:
                    state.replicas[broker, name] = await self.replica(broker, name)
        if not self.protocol.has_alter_partition:
            state.reported = self.reported()
        return state


def _name_of(one: AlteredPartition) -> Name:
    return one.topic, one.partition
