"""The content of a log as one pass over it finds it: the input of a report."""

from msgspec import Struct, field

from controller.core.deviations import Deviation
from replay.cluster_view.views import ClusterView
from replay.listing.values import ListedDecision, ListedEvent
from replay.why.facts import Cause
from replay.why.history import FactHistory
from replay.why.move import Move


class TimedEvent(Struct, frozen=True):
    """An event of the log with its time. `lost` is how many reads and writes got no reply. `begun`
    are the earlier events that caused the procedures that begin at this one."""

    wall_ns: int
    listed: ListedEvent
    lost: int = 0
    begun: tuple[int, ...] = ()

    @property
    def causes(self) -> list[int]:
        """The events that caused this one."""
        found = {*self.begun, *filter(None, [self.listed.cause])}
        return sorted(found - {self.listed.seq})


class TimedDecision(Struct, frozen=True):
    """A decision with its time, its cause, and the events with its outcomes."""

    wall_ns: int
    listed: ListedDecision
    because: Cause | None = None
    outcomes: tuple[int, ...] = ()


class ObservedDeviation(Struct, frozen=True):
    """One of refold's deviations changed what was done at an event, about a partition, a topic, a
    broker or a znode; `subject` is "" if it was about several partitions."""

    seq: int
    wall_ns: int
    deviation: Deviation
    subject: str


class ProcedureStep(Struct):
    """One step of a procedure: the command that it issued last, and until when it waited."""

    text: str
    rule: str
    seq: int
    begin_ns: int
    end_ns: int = 0
    commands: int = 1


class Procedure(Struct):
    """A controller event that was processed. `because` is the event that caused it. `is_failover`:
    it took the controller role."""

    name: str
    because: Cause | None
    seq: int
    begin_ns: int
    epoch: int
    is_failover: bool = False
    end_seq: int = 0
    end_ns: int = 0
    steps: list[ProcedureStep] = field(default_factory=list)


class RegisteredBrokers(Struct, frozen=True):
    """The registered brokers from event `seq` on; None while the log does not show them.
    `reported`: for a broker that changed, the watch event that led the controller to read this."""

    seq: int
    wall_ns: int
    brokers: frozenset[int] | None
    reported: dict[int, int] = {}


class SessionLifetime(Struct):
    """A ZooKeeper session. `end_ns` is 0 if the log does not show its end, `begin_seq` is 0 if the
    session began before the log."""

    id: int
    owner: str
    begin_seq: int
    begin_ns: int
    end_seq: int = 0
    end_ns: int = 0
    how: str = ""


class LogExtent(Struct, kw_only=True):
    """Which log it is, who wrote it, and its first and last event."""

    path: str
    is_recorded: bool
    recorded_by: str
    first_seq: int
    begin_ns: int
    last_seq: int
    end_ns: int


class Reading(LogExtent, kw_only=True):
    """All that a report needs of a log. `initial` is the cluster before the first event."""

    events: list[TimedEvent]
    decisions: list[TimedDecision]
    procedures: list[Procedure]
    live: list[RegisteredBrokers]
    sessions: list[SessionLifetime]
    initial: ClusterView
    history: FactHistory
    moves: dict[str, list[Move]] = field(default_factory=dict)
    """The reassignments of each partition that had one."""
    deviations: list[ObservedDeviation] = field(default_factory=list)
    """Where the daemon that wrote the log decided differently from Kafka, in order."""
