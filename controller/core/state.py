"""What the controller knows (Kafka's ControllerContext, KB 2).

Every partition is one object that holds all that is known of it, so that the work of a hundred
thousand partitions needs no look-up by name. Collections are dicts used as ordered sets: their
order is the order of insertion, never that of a hash.
"""

from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet

from msgspec import Struct

from controller.core.announcement import Announcement
from controller.core.commands import CommandId, LeaderAndIsrRequest, StopReplicaRequest
from controller.core.errors import ProcedureError
from controller.core.partition_states import PartitionState
from controller.core.reassignment_znodes import Reassignment
from controller.core.releases import LATEST, Release
from controller.core.replica_states import ReplicaState
from controller.core.topic_requests import WaitingRequest
from controller.core.values import (
    EPOCH_DURING_DELETE,
    NO_ASSIGNMENT,
    NO_EPOCH,
    NO_LEADER,
    Assignment,
    Broker,
    LeaderAndIsr,
)


class Partition:
    """A partition: its assignment, its leadership (None: none yet) and its states.

    `replica_states` maps a broker to the state of the replica on it. `is_listed`: its topic's znode
    names it, and that counts even without replicas, as with a stock controller; the daemon leaves a
    partition without replicas alone.
    """

    __slots__ = (
        "assignment",
        "is_listed",
        "leadership",
        "number",
        "replica_states",
        "state",
        "topic",
    )

    def __init__(self, topic: "Topic", number: int) -> None:
        self.topic = topic
        self.number = number
        self.assignment: Assignment = NO_ASSIGNMENT
        self.is_listed = False
        self.leadership: LeaderAndIsr | None = None
        self.state = PartitionState.NON_EXISTENT
        self.replica_states: dict[int, ReplicaState] = {}

    @property
    def key(self) -> tuple[str, int]:
        """What partitions are sorted by."""
        return (self.topic.name, self.number)

    @property
    def replicas(self) -> tuple[int, ...]:
        """RS: every replica, those being added and removed too."""
        return self.assignment.replicas

    @property
    def leader(self) -> int:
        """The broker that leads it, as far as it is known; NO_LEADER: none does."""
        return self.leadership.leader if self.leadership is not None else NO_LEADER

    @property
    def is_assigned(self) -> bool:
        """Whether it is a partition of its topic: by its replicas, or as it is listed."""
        return self.is_listed or bool(self.replicas)

    @property
    def preferred_replica(self) -> int:
        """The first of its replicas. Raises ProcedureError where a listed one has none: what a
        stock controller is at fails then."""
        if not self.replicas:
            raise ProcedureError(f"{self} has no replicas, and so no preferred one")
        return self.replicas[0]

    def check_balance(self) -> None:
        """Kafka asks whether the preferred replica leads whenever it takes note of a partition that
        has a leader (ControllerContext.hasPreferredLeader). Raises ProcedureError."""
        if self.is_listed and self.leadership is not None:
            _ = self.preferred_replica

    def __repr__(self) -> str:
        return f"{self.topic.name}-{self.number}"


class Topic:
    """A topic: its id (None: none yet) and its partitions by number.

    A topic that went away keeps the partitions that still have states, as Kafka's maps of states
    do (KB 2.2.9); `is_known` tells whether it is in the cluster.
    """

    __slots__ = ("id", "is_known", "name", "partitions")

    def __init__(self, name: str) -> None:
        self.name = name
        self.id: bytes | None = None
        self.is_known = False
        self.partitions: dict[int, Partition] = {}

    def partition(self, number: int) -> Partition:
        """The partition with that number, made if it is not there."""
        found = self.partitions.get(number)
        if found is None:
            found = self.partitions[number] = Partition(self, number)
        return found

    def assigned(self) -> list[Partition]:
        """The partitions that have replicas, and those that are listed without."""
        return [one for one in self.partitions.values() if one.is_assigned]


class PendingDeletion(Struct, array_like=True):
    """Replicas on one broker whose deletion it has not confirmed.

    `is_stored`: a child of /admin/replica_deletions says so; `is_due`: the broker has had time to
    confirm; `is_reported`: the log names it.
    """

    broker: int
    names: list[tuple[str, int]]
    is_stored: bool = False
    is_due: bool = False
    is_reported: bool = False


class EntrySeen(Struct, array_like=True, frozen=True):
    """An entry of /admin/reassign_partitions, and the transaction that had written it when it was
    first read."""

    replicas: tuple[int, ...]
    mzxid: int


class ControllerContext:
    """The whole knowledge of one term; empty while another broker is controller.

    - `is_loaded`: the failover has begun.
    - `channels`: each broker that has one, with the broker epoch that it was opened for.
    - `releases`: the release of Kafka of each of them that has told what it offers.
    - `own_broker`: the daemon in the live brokers that others are told of, if it is among them.
    - `deletion_started`, `ineligible_for_deletion`: among the topics queued for deletion those
      whose replicas are being deleted, and those that have to wait (KB 8.1).
    - `awaiting_brokers`: by topic the partitions whose assignment names the daemon alone, while no
      broker lives that could take its place.
    - `unclean_default`: whether a topic that says nothing may get an unclean leader.
    - `config_change`: the last notification of /config/changes that was looked at.
    - `leaderless`: what the operator was told of each partition that could get no leader.
    - `waiting`: by number the requests of admin tools whose answer waits for what they began.
    - `announcing`: those for which it is done, and brokers have not all said that they know.
    - `unheard`: of each broker with a channel its last UpdateMetadata, until it has answered.
    - `silent`: brokers that had not answered a while after another one; no answer waits for them.
    - `reassignments`: of those that are reassigned by way of ZooKeeper what /admin/reassignments
      says (KIP-236); one that is in `reassigning` alone was asked for by admin tools.
    - `cancel`: the czxid of /admin/reassign_cancel, 0: it does not stand; while it does no
      reassignment goes on.
    - `cancel_forced`: that znode asks to go back without enough originals in sync.
    - `entries_seen`: the entries of /admin/reassign_partitions, by partition, as they were read.
    - `told_by_failover`: of those that a failover finds under way the ones whose brokers learn all
      that they must know by its requests.
    - `requests_done`: requests below /admin/reassignment_requests that were carried out and could
      be neither deleted nor emptied.
    - `deletions`: by child of /admin/replica_deletions the deletions that are not confirmed;
      `deletion_count` numbers those of this term, `is_deletion_timed`: their timer is running.
    - `rollback_waiting`: partitions that cannot go back yet to what they had, and why.
    - `waiting_told`: znodes whose content waits, by path, and what was logged of that.
    - `extra_waits`: entries stand in /admin/reassign_partitions_extra that could not go on.
    - `in_flight`: the requests without an answer, of those whose answer may say something: all
      LeaderAndIsr, and StopReplica that deletes.
    """

    def __init__(self, inter_broker_listener: str, own_broker: Broker | None = None) -> None:
        self.inter_broker_listener = inter_broker_listener
        self.own_broker = own_broker
        self.epoch = 0
        self.epoch_version = 0
        self.is_loaded = False
        self.brokers: dict[int, Broker] = {}
        self.shutting_down: dict[int, None] = {}
        self.channels: dict[int, int] = {}
        self.releases: dict[int, Release] = {}
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self.in_flight: dict[CommandId, LeaderAndIsrRequest | StopReplicaRequest] = {}
        self.offline_dirs: dict[int, dict[Partition, None]] = {}
        self.reassigning: dict[Partition, None] = {}
        self.reassignments: dict[Partition, Reassignment] = {}
        self.cancel = 0
        self.cancel_forced = False
        self.entries_seen: dict[tuple[str, int], EntrySeen] = {}
        self.told_by_failover: dict[Partition, None] = {}
        self.requests_done: dict[str, None] = {}
        self.deletions: dict[str, PendingDeletion] = {}
        self.deletion_count = 0
        self.is_deletion_timed = False
        self.rollback_waiting: dict[Partition, str] = {}
        self.waiting_told: dict[str, str] = {}
        self.extra_waits = False
        self.queued_for_deletion: dict[str, None] = {}
        self.deletion_started: dict[str, None] = {}
        self.ineligible_for_deletion: dict[str, None] = {}
        self.awaiting_brokers: dict[str, dict[int, Assignment]] = {}
        self.unclean_default = False
        self.config_change = ""
        self.leaderless: dict[Partition, str] = {}
        self.waiting: dict[int, WaitingRequest] = {}
        self.announcing: dict[int, Announcement] = {}
        self.unheard: dict[int, CommandId] = {}
        self.silent: dict[int, None] = {}

    # Brokers

    @property
    def live_brokers(self) -> dict[int, Broker]:
        """Registered and not shutting down."""
        if not self.shutting_down:
            return self.brokers
        return {id: one for id, one in self.brokers.items() if id not in self.shutting_down}

    def sorted_live_brokers(self) -> list[Broker]:
        """Those that get the replicas of new partitions, by id; never the daemon."""
        live = self.live_brokers
        return [live[id] for id in sorted(live)]

    def oldest_release(self) -> Release:
        """The oldest release of Kafka that a live broker has told; the latest where none has."""
        return min(self.releases.values(), default=LATEST)

    def is_online(self, broker: int, partition: Partition) -> bool:
        """Whether the broker is live and the partition in none of its offline log directories."""
        return (
            broker in self.brokers
            and broker not in self.shutting_down
            and not self._in_offline_dir(broker, partition)
        )

    def is_online_or_shutting_down(self, broker: int, partition: Partition) -> bool:
        """As `is_online`, but a broker in controlled shutdown counts."""
        return broker in self.brokers and not self._in_offline_dir(broker, partition)

    def _in_offline_dir(self, broker: int, partition: Partition) -> bool:
        return bool(self.offline_dirs) and partition in self.offline_dirs.get(broker, ())

    # Topics and partitions

    def is_in_metadata(self, name: str) -> bool:
        """Whether brokers know of a topic: were told, and not yet that it goes."""
        topic = self.topics.get(name)
        return (
            topic is not None
            and topic.is_known
            and name not in self.deletion_started
            and any(one.leadership is not None for one in topic.partitions.values())
        )

    def is_led(self, topic: str, number: int) -> bool:
        """Whether a partition has a leader that brokers were told of."""
        partition = self.find(topic, number)
        state = partition.leadership if partition is not None else None
        return state is not None and state.leader != NO_LEADER

    def topic(self, name: str) -> Topic:
        """The topic with that name, made (but not yet known) if it is not there."""
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = Topic(name)
        return found

    def know_topic(self, name: str, topic_id: bytes | None) -> Topic:
        """A topic is in the cluster, with this id (None: it has none yet)."""
        topic = self.topic(name)
        topic.is_known = True
        topic.id = topic_id
        if topic_id is not None:
            self.topics_by_id[topic_id] = topic
        return topic

    def forget_leaders(self, topics: Iterable[Topic], existing: AbstractSet[str]) -> None:
        """Topics that were kept are there again, or gone; their leaders are to be read anew."""
        for topic in topics:
            if topic.name not in existing:
                del self.topics[topic.name]
            for partition in topic.partitions.values():
                partition.leadership = None

    def known_topics(self) -> list[str]:
        """The names of the topics of the cluster (Kafka's allTopics)."""
        return [name for name, topic in self.topics.items() if topic.is_known]

    def find(self, topic: str, number: int) -> Partition | None:
        """The partition, or None if it is not known."""
        found = self.topics.get(topic)
        return found.partitions.get(number) if found else None

    def partitions(self) -> Iterator[Partition]:
        """Every partition that is assigned, by topic in the order of discovery."""
        for topic in self.topics.values():
            yield from topic.assigned()

    def replicas_of(self, topic: str) -> Iterator[tuple[int, Partition]]:
        """Every replica of a topic: its broker and its partition (replicasForTopic, KB 2.2.7)."""
        for partition in self.topics[topic].assigned():
            for broker in partition.assignment.replicas:
                yield broker, partition

    def is_queued(self, partition: Partition) -> bool:
        """Whether its topic is queued for deletion."""
        return bool(self.queued_for_deletion) and (partition.topic.name in self.queued_for_deletion)

    def has_offline_leader(self, partition: Partition) -> bool:
        """Whether a leader was chosen once and is not online now (KB 2.2.5)."""
        state = partition.leadership
        if state is None or self.is_queued(partition):
            return False
        return not self.is_online(state.leader, partition)

    def replicas_on(self, brokers: Iterable[int]) -> dict[int, list[Partition]]:
        """For each of these brokers the partitions that have a replica on it (KB 2.2.7)."""
        on: dict[int, list[Partition]] = {broker: [] for broker in brokers}
        for partition in self.partitions():
            for broker in partition.assignment.replicas:
                if broker in on:
                    on[broker].append(partition)
        return on

    def stop_replica_epoch(self, partition: Partition) -> int:
        """The leader epoch that a StopReplica carries (KB 2.2.3)."""
        if self.is_queued(partition):
            return EPOCH_DURING_DELETE
        return partition.leadership.leader_epoch if partition.leadership else NO_EPOCH

    def remove_topic(self, name: str) -> None:
        """Forget a topic that is gone.

        What else is known of its partitions stays, as in Kafka (KB 2.2.9): their states, whether
        they were being reassigned, their failed log directories.
        """
        self.queued_for_deletion.pop(name, None)
        self.deletion_started.pop(name, None)
        self.awaiting_brokers.pop(name, None)
        topic = self.topics.get(name)
        if topic is None:
            return
        topic.is_known = False
        if topic.id is not None:
            self.topics_by_id.pop(topic.id, None)
            topic.id = None
        for partition in topic.partitions.values():
            partition.assignment = NO_ASSIGNMENT
            partition.is_listed = False
            partition.leadership = None
            self.leaderless.pop(partition, None)
            self.reassignments.pop(partition, None)
            self.rollback_waiting.pop(partition, None)
        if not any(map(self._is_remembered, topic.partitions.values())):
            del self.topics[name]

    def _is_remembered(self, partition: Partition) -> bool:
        return (
            partition.state is not PartitionState.NON_EXISTENT
            or bool(partition.replica_states)
            or partition in self.reassigning
            or any(partition in of_broker for of_broker in self.offline_dirs.values())
        )


def sorted_partitions(partitions: Iterable[Partition]) -> list[Partition]:
    """Partitions by topic and number: the order of everything that leaves the core."""
    return sorted(partitions, key=lambda one: one.key)
