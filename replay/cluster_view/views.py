"""A cluster at a moment, as plain values for people and scripts."""

from collections.abc import Iterable
from typing import Literal

from msgspec import Struct, field

from controller.core.values import NO_EPOCH, RECOVERING, Assignment, LeaderAndIsr

NO_BROKER = -1
"""In place of a leader or a broker that there is not."""

PartitionStatus = Literal["new", "online", "offline", "deleting"]
DeletionStatus = Literal["queued", "under way", "waits"]
Course = Literal["on its way", "ending", "rolled back", "replaced"]


class ControllerView(Struct, frozen=True):
    """The controller. `broker` is NO_BROKER and `epoch` 0 where none is known.

    `role` is that of the daemon that wrote a recorded log; of an imported one "observed".
    """

    role: Literal["active", "failing over", "standby", "observed"]
    broker: int
    epoch: int
    session: int


class BrokerView(Struct, frozen=True):
    """A registered broker. `epoch` is the czxid of its registration."""

    id: int
    epoch: int
    endpoints: list[str]
    rack: str | None
    is_shutting_down: bool = False


class PartitionView(Struct, frozen=True):
    """One partition. `leader` is NO_BROKER where there is none; `isr` is empty, and the epochs are
    NO_BROKER, where it never had a state. `in_failed_dirs` are brokers whose log directory with it
    has failed, `rollback_waits` says why its reassignment cannot be rolled back yet; `becoming` are
    the replicas for which its reassignment is ended, rolled back or replaced just now: ZooKeeper
    still has what the view has."""

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

    @property
    def name(self) -> str:
        """As Kafka writes it."""
        return f"{self.topic}-{self.partition}"

    @property
    def origin(self) -> tuple[int, ...]:
        """What it had before its reassignment."""
        return tuple(one for one in self.replicas if one not in self.adding)

    @property
    def target(self) -> tuple[int, ...]:
        """What it shall have."""
        return tuple(one for one in self.replicas if one not in self.removing)

    @property
    def is_being_reassigned(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding or self.removing)

    @property
    def course(self) -> Course:
        """Where its reassignment goes."""
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
    """A partition and its state, None if it never had one. What only a controller knows is left
    out."""
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
    """A topic and its partitions by number; `id` in hex."""

    name: str
    id: str | None
    partitions: list[PartitionView]


class ReassignmentView(Struct, frozen=True):
    """A partition on its way to other replicas; `waits_for` says of each replica that is still
    lacking why. On another course than that it waits for none; `becoming` is what it gets."""

    partition: str
    origin: tuple[int, ...]
    target: tuple[int, ...]
    waits_for: dict[int, str]
    course: Course = "on its way"
    becoming: tuple[int, ...] = ()


class DeletionView(Struct, frozen=True):
    """A topic that is to be deleted. `offline_brokers` hold replicas of it and are not there,
    `waits_for` have not confirmed yet that they deleted theirs, which is known of a recorded log
    only."""

    topic: str
    status: DeletionStatus
    offline_brokers: tuple[int, ...]
    waits_for: tuple[int, ...] = ()


class ProcedureView(Struct, frozen=True):
    """The controller event that is handled, the event that brought it, and the last thing that it
    asked for, under which rule."""

    name: str
    since: int
    rule: str
    asked: str


class Cluster(Struct, frozen=True, kw_only=True):
    """The whole state after event `seq`. `queued` are controller events that wait, `requests` API
    requests whose answer does; both are known of a recorded log only."""

    seq: int
    time: str
    log: Literal["recorded", "world-backed"]
    controller: ControllerView
    brokers: list[BrokerView] = field(default_factory=list)
    topics: list[TopicView] = field(default_factory=list)
    reassignments: list[ReassignmentView] = field(default_factory=list)
    deletions: list[DeletionView] = field(default_factory=list)
    procedure: ProcedureView | None = None
    queued: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def topic(self, name: str) -> TopicView | None:
        """The topic with that name."""
        return next((one for one in self.topics if one.name == name), None)

    def partition(self, topic: str, number: int) -> PartitionView | None:
        """The partition, None if it is not there."""
        found = self.topic(topic)
        parts = found.partitions if found is not None else []
        return next((one for one in parts if one.partition == number), None)

    def broker(self, id: int) -> BrokerView | None:
        """The broker, None if it is not registered."""
        return next((one for one in self.brokers if one.id == id), None)

    def partitions(self) -> list[PartitionView]:
        """Of all topics."""
        return [one for topic in self.topics for one in topic.partitions]


def reassignments_of(topics: list[TopicView], brokers: list[BrokerView]) -> list[ReassignmentView]:
    """Those under way, and what each waits for."""
    live = {one.id: one for one in brokers}
    return [
        ReassignmentView(
            one.name,
            one.origin,
            one.target,
            {} if one.becoming else lacking_replicas(one, live),
            one.course,
            one.becoming,
        )
        for topic in topics
        for one in topic.partitions
        if one.is_being_reassigned
    ]


def lacking_replicas(partition: PartitionView, live: dict[int, BrokerView]) -> dict[int, str]:
    """The target replicas that are not in sync, each with why as far as the controller knows."""
    return {
        one: why_not_in_sync(partition, one, live)
        for one in partition.target
        if one not in partition.isr
    }


def why_not_in_sync(partition: PartitionView, broker: int, live: dict[int, BrokerView]) -> str:
    """What a broker lacks to be in sync."""
    if broker not in live:
        return "not registered"
    if live[broker].is_shutting_down:
        return "shutting down"
    if broker in partition.in_failed_dirs:
        return "its log directory has failed"
    if partition.leader == NO_BROKER:
        return "live, but there is no leader to fetch from"
    return "live, but has not caught up"
