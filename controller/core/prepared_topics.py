"""The content of the requests of a failover or a broker's start about a topic whose brokers are all
live: the replicas on each broker, and the entries of the requests.

A standby prepares topics before its take-over, and an idle controller before a broker starts; then
they are only joined. The entries of a topic are one object, so that they can also be encoded before
they are needed.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import chain, groupby
from typing import Final, Generic, NamedTuple, TypeVar

from controller.core.commands import LeaderAndIsrPartition, UpdateMetadataPartition
from controller.core.state import NO_REPLICA_STATES, Partition, Topic, sorted_partitions
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.values import RECOVERED

_REPLICA_LISTS_MAX: Final = 10_000
_BEFORE_START: Final = (
    ReplicaState.ONLINE,
    ReplicaState.OFFLINE,
    ReplicaState.DELETION_INELIGIBLE,
)

Entry = TypeVar("Entry", bound=LeaderAndIsrPartition | UpdateMetadataPartition)


class PreparedPartitions:
    """All partitions of a prepared topic. Requests differ only in which of them they have.

    `is_plain`: no partition is being reassigned, and no leader is recovering. `encoded` has the
    encoded form of each partition, by the name of the form, for all requests. It affects no
    decision.
    """

    __slots__ = ("encoded", "entries", "is_plain")

    def __init__(self, entries: tuple[LeaderAndIsrPartition, ...], *, is_plain: bool) -> None:
        self.entries = entries
        self.is_plain = is_plain
        self.encoded: dict[str, list[bytes]] = {}


class TopicEntries(tuple[Entry, ...], Generic[Entry]):
    """The entries of one topic in a request, by partition number.

    `encoded` has their encoded forms, by the name of the form, if they were encoded ahead or
    are needed several times. It affects no decision. `whole`: the prepared partitions of the topic,
    of which these entries are those at `places`; None if the entries were not prepared.
    """

    encoded: dict[str, bytes]
    whole: PreparedPartitions | None
    places: Sequence[int]

    def __new__(
        cls,
        entries: Iterable[Entry],
        whole: PreparedPartitions | None = None,
        places: Sequence[int] = (),
    ) -> "TopicEntries[Entry]":
        made = super().__new__(cls, entries)
        made.encoded, made.whole, made.places = {}, whole, places
        return made


class RequestEntries(tuple[Entry, ...], Generic[Entry]):
    """The entries of a request, or of several: a plain tuple for all that encodes or compares it.
    `canonical`: all entries as the log's digest has them, once they are encoded."""

    canonical: bytes | None = None


class JoinedEntries(RequestEntries[Entry]):
    """The entries of a request, of which those of prepared topics are `parts`."""

    parts: tuple[TopicEntries[Entry], ...]

    def __new__(cls, parts: Iterable[TopicEntries[Entry]]) -> "JoinedEntries[Entry]":
        all_parts = tuple(parts)
        made = super().__new__(cls, chain.from_iterable(all_parts))
        made.parts = all_parts
        return made


def join(
    entries: Iterable[Entry], prepared: Mapping[str, TopicEntries[Entry]]
) -> tuple[Entry, ...]:
    """All entries of a request by topic and partition: those in `entries`, which are in this order,
    and those of prepared topics, by topic."""
    if not prepared:
        return RequestEntries(entries)
    parts = dict(prepared)
    for name, of_topic in groupby(entries, key=lambda one: one.topic):
        parts[name] = TopicEntries((*parts.get(name, ()), *of_topic))
    return JoinedEntries(parts[name] for name in sorted(parts))


class PreparedTopic(NamedTuple):
    """A topic whose partitions all have a leader. It can be used if all `brokers` are live: those
    with a replica or a leader.

    By broker: `online`, the partitions with a replica on it, `leader_and_isr`, their entries, and
    `leaders`, the leaders in these.
    """

    topic: Topic
    brokers: frozenset[int]
    online: dict[int, list[Partition]]
    leader_and_isr: dict[int, TopicEntries[LeaderAndIsrPartition]]
    leaders: dict[int, frozenset[int]]
    update_metadata: TopicEntries[UpdateMetadataPartition]

    def restricted_to(self, brokers: Iterable[int]) -> "PreparedTopic":
        """The prepared topic restricted to these brokers: the partitions that have a replica on one
        of them, and the requests about these partitions."""
        here = [one for one in brokers if one in self.online]
        parts = {one: self.leader_and_isr[one] for one in here}
        all_metadata = self.update_metadata
        places = sorted(set(chain.from_iterable(one.places for one in parts.values())))
        return PreparedTopic(
            self.topic,
            self.brokers,
            {one: self.online[one] for one in here},
            parts,
            {one: self.leaders[one] for one in here},
            TopicEntries([all_metadata[one] for one in places], all_metadata.whole, places),
        )

    def bring_online(self) -> None:
        """Bring the replicas online."""
        for broker, partitions in self.online.items():
            for partition in partitions:
                partition.set_replica_state(broker, ReplicaState.ONLINE)


def prepare(topic: Topic, live: AbstractSet[int] | None = None) -> PreparedTopic | None:
    """Prepare a topic, and bring its partitions and replicas online, as a failover does.

    None if a partition has no leader or no replicas, or if one of its brokers is not `live`.
    """
    partitions = list(topic.partitions.values())
    prepared = _prepared_topic(topic, partitions, live)
    if prepared is not None:
        for partition in partitions:
            partition.state = PartitionState.ONLINE
            partition.replica_states = _all_online(partition.assignment.replicas)
    return prepared


def prepare_ahead(topic: Topic, ahead: dict[str, PreparedTopic]) -> PreparedTopic | None:
    """Prepare a topic, whose states do not change, for the start of any broker, and note that in
    `ahead`, by name. None if it is prepared, or as in `prepare`."""
    if _is_current(ahead.get(topic.name), topic):
        return None
    prepared = _prepared_topic(topic, sorted_partitions(topic.partitions.values()), None)
    if prepared is not None:
        ahead[topic.name] = prepared
    return prepared


def _is_current(prepared: PreparedTopic | None, topic: Topic) -> bool:
    """Whether a topic is as it was prepared: each change of a partition makes another value."""
    whole = prepared and prepared.update_metadata.whole
    if prepared is None or whole is None or prepared.topic is not topic:
        return False
    partitions, entries = topic.partitions, whole.entries
    if len(partitions) != len(entries) or topic.id != entries[0].topic_id:
        return False
    for entry in entries:
        partition = partitions.get(entry.partition)
        if (
            partition is None
            or partition.leadership is not entry.leadership
            or partition.assignment is not entry.assignment
        ):
            return False
    return True


def prepare_start(
    topic: Topic,
    live: AbstractSet[int],
    started: Collection[int],
    ahead: Mapping[str, PreparedTopic],
) -> PreparedTopic | None:
    """A topic, whose states do not change, prepared now or `ahead` for the start of brokers.

    None as in `prepare`, and if a replica on one of the `started` brokers is new or being deleted.
    """
    prepared = ahead.get(topic.name)
    if not _is_current(prepared, topic):
        prepared = _prepared_topic(topic, sorted_partitions(topic.partitions.values()), live)
    if prepared is None or not prepared.brokers <= live:
        return None
    for broker in started:
        for partition in prepared.online.get(broker, ()):
            if partition.replica_states.get(broker) not in _BEFORE_START:
                return None
    return prepared


def _prepared_topic(
    topic: Topic, partitions: list[Partition], live: AbstractSet[int] | None
) -> PreparedTopic | None:
    leaders: list[int] = []
    places: dict[int, list[int]] = defaultdict(list)
    is_plain = True
    for place, partition in enumerate(partitions):
        assignment, leadership = partition.assignment, partition.leadership
        if leadership is None or not assignment.replicas:
            return None
        leaders.append(leadership.leader)
        for broker in assignment.replicas:
            places[broker].append(place)
        if assignment.adding or assignment.removing or leadership.recovery_state != RECOVERED:
            is_plain = False
    brokers = frozenset(places).union(leaders)
    if not partitions or (live is not None and not brokers <= live):
        return None
    entries = _entries(topic, partitions)
    whole = PreparedPartitions(entries, is_plain=is_plain)
    return PreparedTopic(
        topic,
        brokers,
        {broker: [partitions[one] for one in of_broker] for broker, of_broker in places.items()},
        {
            broker: TopicEntries([entries[one] for one in of_broker], whole, of_broker)
            for broker, of_broker in places.items()
        },
        {
            broker: frozenset([leaders[one] for one in of_broker])
            for broker, of_broker in places.items()
        },
        TopicEntries(_metadata(topic, partitions), whole, range(len(partitions))),
    )


@lru_cache(_REPLICA_LISTS_MAX)
def _all_online(replicas: tuple[int, ...]) -> Mapping[int, ReplicaState]:
    return dict.fromkeys(replicas, ReplicaState.ONLINE)


def _entries(topic: Topic, partitions: Iterable[Partition]) -> tuple[LeaderAndIsrPartition, ...]:
    name, topic_id = topic.name, topic.id
    return tuple(
        [
            LeaderAndIsrPartition(
                name, topic_id, one.number, leadership, one.assignment, is_new=False
            )
            for one in partitions
            if (leadership := one.leadership) is not None
        ]
    )


def _metadata(topic: Topic, partitions: Iterable[Partition]) -> list[UpdateMetadataPartition]:
    name, topic_id = topic.name, topic.id
    return [
        UpdateMetadataPartition(name, topic_id, one.number, leadership, one.assignment.replicas, ())
        for one in partitions
        if (leadership := one.leadership) is not None
    ]


def unprepare(topic: Topic) -> None:
    """Undo the changes of `prepare`."""
    for partition in topic.partitions.values():
        partition.state = PartitionState.NON_EXISTENT
        partition.replica_states = NO_REPLICA_STATES
