"""A cluster after an event, as plain values for people and scripts."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Literal

from msgspec import Struct, field
from msgspec.structs import replace

from controller.core.values import NO_EPOCH, RECOVERING, Assignment, LeaderAndIsr
from replay.names import controller_name, partition_name

NO_BROKER = -1
"""The id that means no leader, or no broker."""

PartitionStatus = Literal["new", "online", "offline", "deleting"]
DeletionStatus = Literal["queued", "under way", "waits"]
ReassignmentStatus = Literal["on its way", "ending", "rolled back", "replaced"]


class NotInSync(StrEnum):
    """The reason why a replica is not in the ISR."""

    NOT_REGISTERED = "not registered"
    REGISTRATION_LEFT = "registered, but no process listens at its address"
    SHUTTING_DOWN = "shutting down"
    FAILED_LOG_DIR = "its log directory has failed"
    BEING_REMOVED = "being removed"
    BEING_DELETED = "live, but its replica is being deleted with the topic"
    NO_LEADER = "live, but there is no leader to fetch from"
    LAGGING = "live, but has not caught up"

    @property
    def is_live(self) -> bool:
        """Whether the broker could catch up without being restarted or repaired."""
        return self in (NotInSync.NO_LEADER, NotInSync.LAGGING)


class ControllerView(Struct, frozen=True):
    """The controller. `broker` is NO_BROKER and `epoch` 0 if none is known.

    `role` is the role of the daemon that wrote a recorded log; for an imported log "observed".
    `is_kraft`: a KRaft controller has the role, while the cluster migrates.
    """

    role: Literal["active", "failing over", "standby", "observed"]
    broker: int
    epoch: int
    session: int
    is_kraft: bool = False

    @property
    def name(self) -> str:
        """The process that has the role."""
        return controller_name(self.broker, is_kraft=self.is_kraft)


class BrokerView(Struct, frozen=True):
    """A registered broker. `epoch` is the czxid of its registration. `is_stuck`: the controller has
    reported that no process listens at its address."""

    id: int
    epoch: int
    endpoints: list[str]
    rack: str | None
    is_shutting_down: bool = False
    is_stuck: bool = False


class PartitionView(Struct, frozen=True):
    """One partition. `leader` is NO_BROKER if it has none. If it never had a state, `isr` is empty
    and the epochs are NO_BROKER.

    `in_failed_dirs` are the brokers whose log directory with this partition has failed.
    `rollback_waits` is why its reassignment cannot be rolled back yet. `becoming` are the replicas
    that the controller is about to write, because it ends, rolls back or replaces the reassignment;
    the other fields are what ZooKeeper still has. `originals` are the replicas before the
    reassignment as its record has them; empty without a record.
    """

    topic: str
    partition: int
    status: PartitionStatus
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    partition_epoch: int
    controller_epoch: int
    is_recovering: bool
    offline_replicas: tuple[int, ...]
    in_failed_dirs: tuple[int, ...] = ()
    replica_states: dict[int, str] = {}
    rollback_waits: str = ""
    becoming: tuple[int, ...] = ()
    originals: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The partition in the form of Kafka's tools: "orders-0"."""
        return partition_name(self.topic, self.partition)

    @property
    def assignment(self) -> Assignment:
        """The replicas as the topic's znode has them."""
        return Assignment(self.replicas, self.adding, self.removing)

    @property
    def origin(self) -> tuple[int, ...]:
        """The replicas before the reassignment, in their order if it has a record."""
        origin = self.assignment.origin
        is_same = set(self.originals) == set(origin)
        return self.originals if self.is_being_reassigned and is_same else origin

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas after the reassignment."""
        return self.assignment.target

    @property
    def is_being_reassigned(self) -> bool:
        """Whether replicas are being added or removed."""
        return self.assignment.is_being_reassigned

    @property
    def staying(self) -> tuple[int, ...]:
        """The replicas without those that the controller is about to remove."""
        return tuple(one for one in self.replicas if not self.becoming or one in self.becoming)

    @property
    def reassignment_status(self) -> ReassignmentStatus:
        """Whether the reassignment continues, or is being ended, rolled back or replaced."""
        if not self.becoming:
            return "on its way"
        if set(self.becoming) == set(self.target):
            return "ending"
        return "rolled back" if set(self.becoming) == set(self.origin) else "replaced"


def partition_view(
    topic: str,
    number: int,
    status: PartitionStatus,
    state: LeaderAndIsr | None,
    assignment: Assignment,
    offline_replicas: Iterable[int],
) -> PartitionView:
    """The view of a partition with this state (None: it never had one), without the fields that
    only a controller knows."""
    return PartitionView(
        topic,
        number,
        status,
        NO_BROKER if state is None else state.leader,
        NO_EPOCH if state is None else state.leader_epoch,
        () if state is None else state.isr,
        assignment.replicas,
        assignment.adding,
        assignment.removing,
        NO_EPOCH if state is None else state.partition_epoch,
        NO_EPOCH if state is None else state.controller_epoch,
        state is not None and state.recovery_state == RECOVERING,
        tuple(offline_replicas),
    )


class TopicView(Struct, frozen=True):
    """A topic and its partitions by number; `id` in hex. `min_insync_replicas` is that of its
    dynamic configuration, else the brokers' dynamic default; None if neither is known."""

    name: str
    id: str | None
    partitions: list[PartitionView]
    min_insync_replicas: int | None = None


class ReassignmentView(Struct, frozen=True):
    """A partition that is being reassigned. `waits_for` has the target replicas that are not in
    sync, each with the reason; it is empty if `status` is not "on its
    way". Then `becoming` are the replicas that the partition gets."""

    partition: str
    origin: tuple[int, ...]
    target: tuple[int, ...]
    waits_for: dict[int, NotInSync]
    status: ReassignmentStatus = field(default="on its way", name="course")
    becoming: tuple[int, ...] = ()


class DeletionView(Struct, frozen=True):
    """A topic that is being deleted. `offline_brokers` have replicas of it and are not online.
    `waits_for` have not confirmed the deletion of their replicas yet; only a recorded log has
    them."""

    topic: str
    status: DeletionStatus
    offline_brokers: tuple[int, ...]
    waits_for: tuple[int, ...] = ()


class ReplicaDeletionView(Struct, frozen=True):
    """The replica of a partition that no longer belongs to its broker, which has not confirmed the
    deletion. `is_live`: the broker is registered. `is_reported`: the controller has reported that
    the confirmation is missing; an imported log does not show this."""

    partition: str
    broker: int
    is_live: bool
    is_reported: bool = False

    @property
    def is_late(self) -> bool:
        """Whether the broker does not confirm the deletion as part of the current work."""
        return self.is_reported or not self.is_live


class ProcedureView(Struct, frozen=True):
    """The controller event that is being processed, and the event that caused it (`since`). `asked`
    is the procedure's last command, `rule` the reason for it. It waits for the outcome since event
    `waits_since`."""

    name: str
    since: int
    rule: str
    asked: str
    waits_since: int
    waits_since_time: str = ""


class UnansweredView(Struct, frozen=True):
    """The oldest of the requests (`count`) that a broker has not answered, sent at event
    `since`."""

    broker: int
    request: str
    since: int
    count: int = 1
    since_time: str = ""


class StuckRegistrationView(Struct, frozen=True):
    """A registration that the controller has reported as stuck. `is_registered`: the znode exists,
    and no process listens at the address; otherwise the broker answers, and the znode does not
    exist. `session` is its last owner."""

    broker: int
    znode: str
    is_registered: bool
    session: int
    address: str


class ClusterView(Struct, frozen=True, kw_only=True):
    """The whole state after event `seq`. `queued` are waiting controller events, `requests` are API
    requests without a response; only a recorded log has them, and `stuck_registrations`.
    `unanswered` are requests to brokers, for an imported log only in `refold why`."""

    seq: int
    time: str
    log: Literal["recorded", "world-backed"]
    controller: ControllerView
    brokers: list[BrokerView] = field(default_factory=list)
    topics: list[TopicView] = field(default_factory=list)
    reassignments: list[ReassignmentView] = field(default_factory=list)
    deletions: list[DeletionView] = field(default_factory=list)
    replica_deletions: list[ReplicaDeletionView] = field(default_factory=list)
    procedure: ProcedureView | None = None
    queued: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    unanswered: list[UnansweredView] = field(default_factory=list)
    stuck_registrations: list[StuckRegistrationView] = field(default_factory=list)

    def with_stuck(self, found: list[StuckRegistrationView]) -> "ClusterView":
        """This cluster with registrations that were found to be stuck."""
        left = {one.broker for one in found if one.is_registered}
        brokers = [replace(one, is_stuck=one.id in left) for one in self.brokers]
        reassignments = reassignments_of(self.topics, brokers)
        return replace(
            self, brokers=brokers, reassignments=reassignments, stuck_registrations=found
        )

    def topic(self, name: str) -> TopicView | None:
        """The topic with that name."""
        return next((one for one in self.topics if one.name == name), None)

    def partition(self, topic: str, number: int) -> PartitionView | None:
        """The partition, None if it does not exist."""
        found = self.topic(topic)
        parts = found.partitions if found is not None else []
        return next((one for one in parts if one.partition == number), None)

    def broker(self, id: int) -> BrokerView | None:
        """The broker, None if it is not registered."""
        return next((one for one in self.brokers if one.id == id), None)

    def partitions(self) -> list[PartitionView]:
        """The partitions of all topics."""
        return [one for topic in self.topics for one in topic.partitions]

    def known_brokers(self) -> set[int]:
        """The brokers that are registered, are assigned replicas, or have replicas to delete."""
        assigned = {broker for one in self.partitions() for broker in one.replicas}
        deleting = {one.broker for one in self.replica_deletions}
        return {one.id for one in self.brokers} | assigned | deleting


def reassignments_of(topics: list[TopicView], brokers: list[BrokerView]) -> list[ReassignmentView]:
    """The current reassignments, and what each waits for."""
    live = {one.id: one for one in brokers}
    return [
        ReassignmentView(
            one.name,
            one.origin,
            one.target,
            {} if one.becoming else lacking_replicas(one, live),
            one.reassignment_status,
            one.becoming,
        )
        for topic in topics
        for one in topic.partitions
        if one.is_being_reassigned
    ]


def lacking_replicas(partition: PartitionView, live: dict[int, BrokerView]) -> dict[int, NotInSync]:
    """The target replicas that are not in sync, each with the reason."""
    return {
        one: why_not_in_sync(partition, one, live)
        for one in partition.target
        if one not in partition.isr
    }


def why_not_in_sync(
    partition: PartitionView, broker: int, live: dict[int, BrokerView]
) -> NotInSync:
    """The reason why a replica is not in sync, as far as the controller knows it."""
    if broker not in live:
        return NotInSync.NOT_REGISTERED
    if live[broker].is_stuck:
        return NotInSync.REGISTRATION_LEFT
    if live[broker].is_shutting_down:
        return NotInSync.SHUTTING_DOWN
    if broker in partition.in_failed_dirs:
        return NotInSync.FAILED_LOG_DIR
    if partition.becoming and broker not in partition.becoming:
        return NotInSync.BEING_REMOVED
    if partition.status == "deleting":
        return NotInSync.BEING_DELETED
    return NotInSync.NO_LEADER if partition.leader == NO_BROKER else NotInSync.LAGGING
