"""The invariants of the 0.8 design that the controller's design does not have, and the list of all
that a search of the 0.8 design checks."""

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Final

from controller.core.values import NO_LEADER
from controller.core.znodes import Name
from controller.kafka_0_8.commands import RespondProduce
from controller.kafka_0_8.events import ProduceReceived
from controller.kafka_0_8.records import ACKS_NONE
from controller.kafka_0_8.state import Partition
from replay.explore.invariants.cluster_view import SimulationView
from replay.explore.invariants.invariant import Invariant, Report
from replay.explore.invariants.leadership import (
    LeaderEpochsForward,
    LeaderInIsr,
    OneLeaderPerEpoch,
)
from replay.explore.invariants.records import AcknowledgedRecordsKept, ReadRecordsStable
from replay.explore.invariants.recovery import IsrsFull, Missing, PartitionsLed, Recovery
from replay.explore.invariants.replicas import AssignedReplicasKept, IsrWithinAssignment
from replay.explore.kafka_0_8.known_cluster import KnownCluster08
from replay.names import broker_name, partition_name
from replay.world.kafka_0_8.broker_process import Step
from replay.world.scheduler import SECOND

_WAITS_US_MAX: Final = 5 * SECOND

LogOf = Callable[[int, Name], Sequence[int]]
"""Takes a broker and a partition; returns the records in the log, by id."""


class LeaderInvariant(Invariant):
    """Looks at what a leader knows, after each event that it has folded."""

    def leader_folded(self, broker: int, run: int, partition: Partition) -> None:
        """A broker that leads a partition, in its run with this number, has folded an event."""


class AssignedInSyncOrCatchingUp(LeaderInvariant):
    """Source: the page, AR = ISR + CUR."""

    NAME: ClassVar[str] = "ar-is-isr-and-cur"
    STATEMENT: ClassVar[str] = (
        "Each assigned replica that a leader knows is either in the ISR or in the CUR, and no "
        "other is in one of them. The leader is in the ISR, and a replica that joins in the CUR."
    )

    def leader_folded(self, broker: int, run: int, partition: Partition) -> None:
        ar, isr, cur = set(partition.ar), set(partition.isr), set(partition.cur)
        is_divided = ar == isr | cur and not isr & cur
        if not is_divided or broker not in isr or not set(partition.joining) <= cur:
            self.violated(
                partition_name(*partition.name),
                f"broker {broker}: AR {list(partition.ar)}, ISR {list(partition.isr)}, CUR "
                f"{list(partition.cur)}, joining {list(partition.joining)}",
            )


class OneLeadershipInAnEpoch(LeaderInvariant):
    """Source: E-04: /brokers/epoch is increased by each new leader of the cluster."""

    NAME: ClassVar[str] = "one-leadership-in-an-epoch"
    STATEMENT: ClassVar[str] = (
        "A leader epoch is that of one leadership of one partition in the whole cluster."
    )

    def __init__(self, known: KnownCluster08, report: Report) -> None:
        super().__init__(known, report)
        self._leaders: dict[int, tuple[int, int, Name]] = {}

    def leader_folded(self, broker: int, run: int, partition: Partition) -> None:
        leader = broker, run, partition.name
        other = self._leaders.setdefault(partition.epoch, leader)
        if other != leader:
            self.violated(
                partition_name(*partition.name),
                f"broker {broker} leads in leader epoch {partition.epoch}, which is that of broker "
                f"{other[0]} for {partition_name(*other[2])}",
            )


class HighWatermarkRises(LeaderInvariant):
    """Source: D-03."""

    NAME: ClassVar[str] = "high-watermark-rises"
    STATEMENT: ClassVar[str] = (
        "The high watermark of a leader never goes back in one leadership, and rises only to an "
        "offset that all members of the ISR, as far as the leader knows, have reached."
    )

    def __init__(self, known: KnownCluster08, report: Report) -> None:
        super().__init__(known, report)
        self._hws: dict[tuple[int, int, Name, int], int] = {}

    def leader_folded(self, broker: int, run: int, partition: Partition) -> None:
        key = broker, run, partition.name, partition.epoch
        hw, before = partition.local.hw, self._hws.get(key)
        if hw == before:
            return
        self._hws[key] = hw
        if before is None:
            # A leader keeps the high watermark that it had as a follower (L-02).
            return
        members = (*partition.isr, *partition.joining)
        leos = {one: partition.ar[one].leo for one in members if one in partition.ar}
        if hw < before or hw > min(leos.values()):
            self.violated(
                partition_name(*partition.name),
                f"the high watermark of broker {broker} changed from {before} to {hw}; the log end "
                f"offsets in the ISR are {leos}",
            )


class IsrHasCommittedRecords(LeaderInvariant):
    """Source: D-03 and D-05. A leader learns a follower's log end offset from the follower's
    fetches; a follower that truncates its log afterwards is a known flaw (F-01)."""

    NAME: ClassVar[str] = "isr-has-committed-records"
    STATEMENT: ClassVar[str] = (
        "When the high watermark of a leader rises, the log of each member of the ISR reaches it, "
        "unless the member has truncated its log because it begins to follow."
    )
    known: KnownCluster08

    def __init__(self, known: KnownCluster08, report: Report) -> None:
        super().__init__(known, report)
        self._hws: dict[tuple[int, int, Name, int], int] = {}
        self.log_of: LogOf = lambda broker, name: []

    def leader_folded(self, broker: int, run: int, partition: Partition) -> None:
        name, hw = partition.name, partition.local.hw
        key = broker, run, name, partition.epoch
        if hw <= self._hws.get(key, 0):
            return
        self._hws[key] = hw
        state = self.known.states.get(name)
        if state is None or state.leader_epoch != partition.epoch:
            return
        for one in state.isr:
            end = len(self.log_of(one, name))
            if end < hw and not self.known.losses.is_cut(name, one):
                self.violated(
                    partition_name(*name),
                    f"the high watermark of broker {broker} rises to {hw}; the log of broker {one},"
                    f" in the ISR, ends at {end}",
                )


class CommittedRecordsKept(AcknowledgedRecordsKept):
    """Source: D-02 and E-01. A record is committed when a leader's high watermark passes it, or a
    producer gets its acknowledgement with acks=all. The log of a replica is compared when it begins
    to lead, and at the end."""

    NAME: ClassVar[str] = "committed-records-kept"
    STATEMENT: ClassVar[str] = (
        "Every leader in the newest leader epoch has each committed record, unless the topic was "
        "deleted."
    )


class QueuesDrained(Recovery):
    """Source: Q-02."""

    NAME: ClassVar[str] = "queues-are-drained"
    STATEMENT: ClassVar[str] = "The queue of each broker that runs is empty."
    WITHIN_MS: ClassVar[int] = 60_000
    known: KnownCluster08

    def missing(self) -> Iterator[Missing]:
        for broker in self.view.running_brokers():
            queue = self.known.queues.get(broker)
            if queue:
                yield broker_name(broker), f"has {len(queue)} requests, first {next(iter(queue))}"


class MovesEnded(Recovery):
    """Source: A-02. An administrator may name a broker that has no queue (A-04)."""

    NAME: ClassVar[str] = "moves-ended"
    STATEMENT: ClassVar[str] = (
        "No partition is left below /brokers/partitions_reassigned whose replicas, old and new, "
        "are all live and whose new replicas have queues."
    )
    WITHIN_MS: ClassVar[int] = 60_000
    known: KnownCluster08

    def missing(self) -> Iterator[Missing]:
        known = self.known
        for name, rar in known.moves.items():
            has_queues = all(one in known.queues for one in rar)
            is_live = all(self.view.is_live(one, name) for one in rar) and self._replicas_live(name)
            if (has_queues and is_live) or known.assignment(name) is None:
                yield partition_name(*name), f"the reassignment to {list(rar)} has not ended"


class ReplicasClosed(Recovery):
    """Source: Q-06, C-04 and A-02. A broker that is removed while it is down never closes its
    replicas, even if it comes back (docs/design-0.8.md#flaws)."""

    NAME: ClassVar[str] = "replicas-closed"
    STATEMENT: ClassVar[str] = (
        "No live broker has the log of a replica that is not assigned to it, unless remove-brokers "
        "has deleted the request to close that replica."
    )
    WITHIN_MS: ClassVar[int] = 60_000
    known: KnownCluster08

    def missing(self) -> Iterator[Missing]:
        for broker, name, _ in self.view.replicas():
            assignment = self.known.assignment(name)
            is_assigned = assignment is not None and broker in assignment.replicas
            is_discarded = (broker, name) in self.known.discarded
            if not is_assigned and not is_discarded and self.view.is_live(broker, name):
                yield broker_name(broker), f"has a log of {partition_name(*name)}, which is not its"


class ReplicasEqual(Recovery):
    """Source: F-01."""

    NAME: ClassVar[str] = "replicas-are-equal"
    STATEMENT: ClassVar[str] = (
        "The live members of an ISR have the records of their leader, up to the end of the shorter "
        "log."
    )
    WITHIN_MS: ClassVar[int] = 60_000

    def __init__(self, known: KnownCluster08, report: Report, view: SimulationView) -> None:
        super().__init__(known, report, view)
        self.log_of: LogOf = lambda broker, name: []

    def missing(self) -> Iterator[Missing]:
        for name, state in self.known.states.items():
            if state.leader == NO_LEADER:
                continue
            leader = self.log_of(state.leader, name)
            for one in state.isr:
                log = self.log_of(one, name)
                if not self.view.is_live(one, name) or log == leader[: len(log)]:
                    continue
                pairs = enumerate(zip(log, leader, strict=False))
                offset = next((at for at, (mine, its) in pairs if mine != its), None)
                if offset is not None:
                    yield (
                        partition_name(*name),
                        f"brokers {one} and {state.leader}, the leader, have records {log[offset]} "
                        f"and {leader[offset]} at offset {offset}",
                    )


class ProducersAnswered(Recovery):
    """Source: D-02 and L-06: a producer must not wait for a leader that is none any more."""

    NAME: ClassVar[str] = "producers-are-answered"
    STATEMENT: ClassVar[str] = (
        "A broker that runs has responded to each produce request with acks 1 or all that it "
        "received more than 5 s ago."
    )
    WITHIN_MS: ClassVar[int] = 60_000

    def __init__(self, known: KnownCluster08, report: Report, view: SimulationView) -> None:
        super().__init__(known, report, view)
        self.now_us: Callable[[], int] = lambda: 0
        self._open: dict[tuple[int, int], int] = {}
        """When the requests were received, by broker and number."""

    def folded(self, broker: int, step: Step) -> None:
        """A broker has folded an event."""
        recorded, issued = step
        event = recorded.event
        if isinstance(event, ProduceReceived) and event.acks != ACKS_NONE:
            self._open[broker, event.request] = self.now_us()
        for one in issued:
            if isinstance(one.command, RespondProduce):
                self._open.pop((broker, one.command.request), None)

    def ended(self, broker: int) -> None:
        """The process of a broker has ended."""
        for key in [one for one in self._open if one[0] == broker]:
            del self._open[key]

    def missing(self) -> Iterator[Missing]:
        for (broker, request), since_us in self._open.items():
            if self.now_us() - since_us > _WAITS_US_MAX:
                at_s = since_us / SECOND
                text = f"has not responded to produce request {request}, received at {at_s:.3f} s"
                yield broker_name(broker), text


ALWAYS: Final[tuple[type[Invariant], ...]] = (
    AssignedInSyncOrCatchingUp,
    OneLeadershipInAnEpoch,
    HighWatermarkRises,
    IsrHasCommittedRecords,
    OneLeaderPerEpoch,
    LeaderEpochsForward,
    LeaderInIsr,
    IsrWithinAssignment,
    AssignedReplicasKept,
    CommittedRecordsKept,
    ReadRecordsStable,
)
"""Hold after every step of a run."""

RECOVERY: Final[tuple[type[Recovery], ...]] = (
    PartitionsLed,
    IsrsFull,
    MovesEnded,
    QueuesDrained,
    ReplicasClosed,
    ReplicasEqual,
    ProducersAnswered,
)
"""Hold within a stated time after the last fault."""
