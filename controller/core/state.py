"""The state of the controller (Kafka's ControllerContext, KB 2).

Every partition is one object with its whole state, so that work on 100,000 partitions needs no
look-up by name. Collections are dicts used as ordered sets, because the order of a dict does not
depend on hashes.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import Final

from msgspec import Struct

from controller.core.api_requests.elections import ElectLeadersResponse
from controller.core.api_requests.topics import WaitingRequest, WaitingResponse
from controller.core.authorization import AclIndex
from controller.core.commands import CommandId, LeaderAndIsrRequest, StopReplicaRequest
from controller.core.errors import ProcedureError
from controller.core.mutation_quotas import MutationQuotas
from controller.core.releases import LATEST, Release
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.values import (
    ANY_VERSION,
    EPOCH_DURING_DELETE,
    NO_ASSIGNMENT,
    NO_EPOCH,
    NO_LEADER,
    Assignment,
    Broker,
    Endpoint,
    LeaderAndIsr,
)
from controller.core.znodes import Reassignment
from controller.core.znodes.acls import ACL_CHANGES

UNKNOWN_ZXID: Final = -1
_BY_NAME: Final = attrgetter("topic.name", "number")

NO_REPLICA_STATES: Final[Mapping[int, ReplicaState]] = {}


class Partition(Struct, eq=False):
    """A partition: its assignment, its leadership (None: none yet) and its states.

    `replica_states` maps a broker to the state of its replica; partitions share these mappings.
    `is_listed`: the topic's znode names the partition, which counts even without replicas, as for a
    stock controller. The daemon ignores a partition without replicas.
    """

    topic: "Topic"
    number: int
    assignment: Assignment = NO_ASSIGNMENT
    is_listed: bool = False
    leadership: LeaderAndIsr | None = None
    state: PartitionState = PartitionState.NON_EXISTENT
    replica_states: Mapping[int, ReplicaState] = NO_REPLICA_STATES

    @property
    def key(self) -> tuple[str, int]:
        """The sort key of partitions."""
        return (self.topic.name, self.number)

    @property
    def replicas(self) -> tuple[int, ...]:
        """RS: every replica, those being added and removed included."""
        return self.assignment.replicas

    @property
    def leader(self) -> int:
        """The broker that leads the partition, as far as known; NO_LEADER: none."""
        return self.leadership.leader if self.leadership is not None else NO_LEADER

    @property
    def is_assigned(self) -> bool:
        """Whether the partition belongs to its topic: it has replicas, or is listed."""
        return self.is_listed or bool(self.replicas)

    @property
    def preferred_replica(self) -> int:
        """The first of the replicas. Raises ProcedureError for a listed partition without replicas:
        a stock controller's event fails then."""
        if not self.replicas:
            raise ProcedureError(f"{self} has no replicas, and so no preferred one")
        return self.replicas[0]

    def set_replica_state(self, broker: int, state: ReplicaState) -> None:
        """Change the state of the replica on a broker."""
        if self.replica_states.get(broker) is not state:
            self.replica_states = {**self.replica_states, broker: state}

    def check_balance(self) -> None:
        """Kafka checks whether the preferred replica leads whenever it notes a partition that has a
        leader (ControllerContext.hasPreferredLeader). Raises ProcedureError."""
        if self.is_listed and self.leadership is not None:
            _ = self.preferred_replica

    def __repr__(self) -> str:
        return f"{self.topic.name}-{self.number}"


class Topic:
    """A topic: its id (None: none yet) and its partitions by number.

    A deleted topic keeps the partitions that still have states, as Kafka's maps of states do (KB
    2.2.9); `is_known`: the topic is in the cluster. `version`: the version of the topic's znode up
    to which its partitions are known; ANY_VERSION: the znode was not read.
    """

    __slots__ = ("id", "is_known", "name", "partitions", "version")

    def __init__(self, name: str) -> None:
        self.name = name
        self.id: bytes | None = None
        self.is_known = False
        self.version = ANY_VERSION
        self.partitions: dict[int, Partition] = {}

    def partition(self, number: int) -> Partition:
        """The partition with that number, created if it does not exist."""
        found = self.partitions.get(number)
        if found is None:
            found = self.partitions[number] = Partition(self, number)
        return found

    def release(self) -> None:
        """Free the partitions of a topic that is no longer used. It refers to them and they refer
        to it, so that otherwise only the garbage collector would find them."""
        self.partitions.clear()

    def assigned(self) -> list[Partition]:
        """The partitions that have replicas, and the listed ones without."""
        # As `is_assigned`, without a call for each partition: every failover walks all of them.
        return [one for one in self.partitions.values() if one.assignment.replicas or one.is_listed]


class PendingDeletion(Struct, array_like=True):
    """Replicas on one broker whose deletion the broker has not confirmed.

    `is_stored`: a child of /admin/replica_deletions records it; `is_due`: the broker has had time
    to confirm; `is_reported`: it was logged.

    Of replicas that are assigned again, the broker has `accepted` LeaderAndIsr, or `refused` it
    because the log is that of an earlier topic of the same name. `replaced`: the deletion of such a
    log was requested.
    """

    broker: int
    names: list[tuple[str, int]]
    is_stored: bool = False
    is_due: bool = False
    is_reported: bool = False
    accepted: list[tuple[str, int]] = []
    refused: list[tuple[str, int]] = []
    replaced: list[tuple[str, int]] = []


class SuspectRegistration(Struct, array_like=True):
    """A registration that may be stuck (procedures/brokers/registration_checks.py).

    `is_registered`: the znode exists, and the broker is unreachable; otherwise the znode was
    deleted. `session`: its last owner. `since_ms`: when the controller learned of it; `due_ms`: the
    next probe, `pause_ms`: the pause after that. `times`: the number of probes in a row that have
    shown that it is stuck; `is_reported`: it was logged.
    """

    broker: int
    broker_epoch: int
    endpoint: Endpoint
    session: int
    is_registered: bool
    since_ms: int
    due_ms: int
    pause_ms: int
    times: int = 0
    is_reported: bool = False


class WaitReport(Struct, array_like=True, frozen=True):
    """The last report about a znode whose content waits, so that it is not logged again.
    `while_cancelled`: the report holds until the cancellation is over."""

    text: str
    while_cancelled: bool


class EntrySeen(Struct, array_like=True, frozen=True):
    """An entry of /admin/reassign_partitions, and the transaction that had written the znode when
    the entry was first read.

    `is_requested`: a legacy request below /admin/reassignment_requests waits that asks for it.
    """

    replicas: tuple[int, ...]
    mzxid: int
    is_requested: bool = False


class PropagatingResponse(Struct, array_like=True):
    """A response to an admin tool that waits until the brokers know its outcome.

    Kafka's response waits until the metadata cache of the controller's broker has the outcome
    (DelayedCreatePartitions, DelayedDeleteTopics, DelayedElectLeader). The daemon is no broker.
    `awaited`: the brokers that have not responded, each with the last UpdateMetadata that it was
    sent by then. `has_response`: a broker has responded.
    """

    response: WaitingResponse | ElectLeadersResponse
    awaited: dict[int, CommandId]
    has_response: bool = False


class ControllerContext:
    """Everything that the controller knows in one term; empty while another broker is controller.

    - `is_loaded`: the failover has begun.
    - `channels`: the brokers that have a channel, with the broker epoch for which it was opened.
    - `sessions`: for each broker the session that owned its registration when it was last read.
    - `suspects`: by broker the registrations that may be stuck.
    - `releases`: for each of these that has sent its API versions, its release of Kafka.
    - `daemon_broker`: the daemon's entry in the list of live brokers that is sent; None: no entry.
    - `deletion_started`, `ineligible_for_deletion`: of the topics queued for deletion those whose
      replicas are being deleted, and those that have to wait (KB 8.1).
    - `awaiting_brokers`: by topic the partitions whose assignment names only the daemon, while no
      live broker can take its place.
    - `unclean_default`: whether a topic without this setting may get an unclean leader.
    - `config_change`: the last notification of /config/changes that was processed.
    - `acls`: Kafka's ACLs, if requests are authorized. `acl_changes`: the last notification of each
      kind that was processed. `mutation_quotas`: those of clients, if they are followed.
    - `leaderless`: for each partition that could not get a leader, the text that was logged.
    - `waiting`: by number the requests of admin tools whose response waits for their outcome.
    - `propagating`: by number the requests whose outcome not all brokers have acknowledged.
    - `unacked_metadata`: for each broker with a channel its last UpdateMetadata, until it responds.
    - `unresponsive`: brokers that respond long after others; no response waits for them.
    - `reassignments`: for partitions that are reassigned by way of ZooKeeper the record in
      /admin/reassignments (KIP-236). A partition that is only in `reassigning` was requested by
      admin tools.
    - `cancel`: the czxid of /admin/reassign_cancel, 0 if it does not exist. While it exists, no
      reassignment makes progress.
    - `cancel_forced`: that znode asks for rollbacks without enough originals in sync.
    - `entries_seen`: the entries of /admin/reassign_partitions, by partition, as they were read.
    - `entries_mzxid`: the transaction that had written that znode when its watch was set, 0: it did
      not exist; UNKNOWN_ZXID: the watch has fired since, or is not set yet.
    - `informed_by_failover`: of the reassignments that a failover finds under way, those whose
      brokers learn everything from the failover's own requests.
    - `held`: reassignments under way that could not be resumed or completed, because
      /admin/reassign_cancel existed. They are resumed when it is deleted.
    - `requests_done`: /admin/reassignment_requests that were carried out and could not be removed.
    - `deletions`: by child of /admin/replica_deletions the deletions that are not confirmed.
      `deletion_count` numbers those of this term; `is_deletion_timed`: their timer is running.
    - `rollback_waiting`: partitions that cannot be rolled back yet, and why.
    - `waiting_reported`: znodes whose content waits, by path, and what was logged about them.
    - `extra_waits`: /admin/reassign_partitions_extra has entries that could not be moved yet.
    - `entries_moved`: the entries of /admin/reassign_partitions that this controller moved there
      from /admin/reassign_partitions_extra.
    - `in_flight`: the requests without a response, of those whose response may matter: every
      LeaderAndIsr, and StopReplica with a deletion.
    """

    def __init__(self, inter_broker_listener: str, daemon_broker: Broker | None = None) -> None:
        self.inter_broker_listener = inter_broker_listener
        self.daemon_broker = daemon_broker
        self.epoch = 0
        self.epoch_version = 0
        self.is_loaded = False
        self.brokers: dict[int, Broker] = {}
        self.shutting_down: dict[int, None] = {}
        self.channels: dict[int, int] = {}
        self.sessions: dict[int, int] = {}
        self.suspects: dict[int, SuspectRegistration] = {}
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
        self.entries_mzxid = UNKNOWN_ZXID
        self.informed_by_failover: dict[Partition, None] = {}
        self.held: dict[Partition, None] = {}
        self.requests_done: dict[str, None] = {}
        self.deletions: dict[str, PendingDeletion] = {}
        self.deletion_count = 0
        self.is_deletion_timed = False
        self.rollback_waiting: dict[Partition, str] = {}
        self.waiting_reported: dict[str, WaitReport] = {}
        self.extra_waits = False
        self.entries_moved: dict[tuple[str, int], tuple[int, ...]] = {}
        self.queued_for_deletion: dict[str, None] = {}
        self.deletion_started: dict[str, None] = {}
        self.ineligible_for_deletion: dict[str, None] = {}
        self.awaiting_brokers: dict[str, dict[int, Assignment]] = {}
        self.unclean_default = False
        self.config_change = ""
        self.acls = AclIndex()
        self.acl_changes = ["" for _ in ACL_CHANGES]
        self.mutation_quotas = MutationQuotas()
        self.leaderless: dict[Partition, str] = {}
        self.waiting: dict[int, WaitingRequest] = {}
        self.propagating: dict[int, PropagatingResponse] = {}
        self.unacked_metadata: dict[int, CommandId] = {}
        self.unresponsive: dict[int, None] = {}

    # Brokers

    @property
    def live_brokers(self) -> dict[int, Broker]:
        """Registered and not shutting down."""
        if not self.shutting_down:
            return self.brokers
        return {id: one for id, one in self.brokers.items() if id not in self.shutting_down}

    def sorted_live_brokers(self) -> list[Broker]:
        """The brokers for the replicas of new partitions, by id, without the daemon."""
        live = self.live_brokers
        return [live[id] for id in sorted(live)]

    def oldest_release(self) -> Release:
        """The oldest release of Kafka among the brokers with known API versions; the latest if
        there is none."""
        return min(self.releases.values(), default=LATEST)

    def is_online(self, broker: int, partition: Partition) -> bool:
        """Whether the broker is live and the partition in none of its offline log directories."""
        return (
            broker in self.brokers
            and broker not in self.shutting_down
            and not self._in_offline_dir(broker, partition)
        )

    def is_online_or_shutting_down(self, broker: int, partition: Partition) -> bool:
        """Whether the broker is live or shutting down, and its log directory is not offline."""
        return broker in self.brokers and not self._in_offline_dir(broker, partition)

    def _in_offline_dir(self, broker: int, partition: Partition) -> bool:
        return bool(self.offline_dirs) and partition in self.offline_dirs.get(broker, ())

    # Topics and partitions

    def is_in_metadata(self, name: str) -> bool:
        """Whether brokers know a topic: they were sent it, and not yet its deletion."""
        topic = self.topics.get(name)
        return (
            topic is not None
            and topic.is_known
            and name not in self.deletion_started
            and any(one.leadership is not None for one in topic.partitions.values())
        )

    def is_led(self, topic: str, number: int) -> bool:
        """Whether a partition has a leader that brokers were informed of."""
        partition = self.find(topic, number)
        state = partition.leadership if partition is not None else None
        return state is not None and state.leader != NO_LEADER

    def topic(self, name: str) -> Topic:
        """The topic with that name, created (but not known) if it does not exist."""
        found = self.topics.get(name)
        if found is None:
            found = self.topics[name] = Topic(name)
        return found

    def add_known_topic(self, name: str, topic_id: bytes | None) -> Topic:
        """Note that a topic is in the cluster, with this id (None: it has none yet)."""
        topic = self.topic(name)
        topic.is_known = True
        topic.id = topic_id
        if topic_id is not None:
            self.topics_by_id[topic_id] = topic
        return topic

    def forget_leaders(self, topics: Iterable[Topic], existing: AbstractSet[str]) -> None:
        """Forget the leaders of kept topics, which are read again, and topics that are gone."""
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

    def count_assigned(self) -> int:
        """The number of partitions that are assigned."""
        return sum(len(topic.assigned()) for topic in self.topics.values())

    def assigned_without(self, topics: Container[str]) -> list[Partition]:
        """The partitions that are assigned, except for those of these topics."""
        others = [topic for name, topic in self.topics.items() if name not in topics]
        return [one for topic in others for one in topic.assigned()]

    def replicas_of(self, topic: str) -> Iterator[tuple[int, Partition]]:
        """Every replica of a topic: its broker and its partition (replicasForTopic, KB 2.2.7)."""
        for partition in self.topics[topic].assigned():
            for broker in partition.assignment.replicas:
                yield broker, partition

    def is_queued(self, partition: Partition) -> bool:
        """Whether its topic is queued for deletion."""
        return bool(self.queued_for_deletion) and (partition.topic.name in self.queued_for_deletion)

    def unrecorded_entry(self, partition: Partition) -> EntrySeen | None:
        """The entry of /admin/reassign_partitions with the partition's target, if there is no
        record: a stock controller has begun the reassignment."""
        entry = self.entries_seen.get(partition.key)
        is_same = entry is not None and entry.replicas == partition.assignment.target
        return entry if is_same and partition not in self.reassignments else None

    def originals(self, partition: Partition) -> tuple[int, ...]:
        """The original replicas of a partition that is reassigned: as recorded, else its replicas
        without the adding ones."""
        record = self.reassignments.get(partition)
        return record.original_replicas if record is not None else partition.assignment.origin

    def preferred_replica(self, partition: Partition) -> int:
        """The first replica, or while a rollback waits the first original: otherwise, each check
        would elect the same leader again, and raise its epoch
        (docs/kip-236-design.md#who-can-be-elected-meanwhile). Raises ProcedureError, as there."""
        waits = self.cancel and partition in self.rollback_waiting
        originals = self.originals(partition) if waits else ()
        return originals[0] if originals else partition.preferred_replica

    def has_offline_leader(self, partition: Partition) -> bool:
        """Whether a leader was chosen once and is not online now (KB 2.2.5)."""
        state = partition.leadership
        if state is None or self.is_queued(partition):
            return False
        return not self.is_online(state.leader, partition)

    def replicas_on(
        self, brokers: Iterable[int], without: Container[str] = ()
    ) -> dict[int, list[Partition]]:
        """For each of these brokers the partitions that have a replica on it (KB 2.2.7), without
        those of some topics."""
        on: dict[int, list[Partition]] = {broker: [] for broker in brokers}
        for partition in self.assigned_without(without):
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
        """Forget a deleted topic.

        Its partitions keep their states, the mark of a reassignment and their failed log
        directories, as in Kafka (KB 2.2.9).
        """
        self.queued_for_deletion.pop(name, None)
        self.deletion_started.pop(name, None)
        self.awaiting_brokers.pop(name, None)
        topic = self.topics.get(name)
        if topic is None:
            return
        topic.is_known = False
        topic.version = ANY_VERSION
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
    """Partitions by topic and number: the order of all output of the core."""
    return sorted(partitions, key=_BY_NAME)
