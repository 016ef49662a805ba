"""What a failover sends about a topic whose brokers are all live: the replicas on each broker, and
the entries of the requests that inform brokers of a new controller.

A standby prepares topics before its take-over, which then only joins them. The entries of a topic
are one object, so that they can also be encoded before they are needed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from itertools import chain, groupby
from typing import Final, Generic, NamedTuple, TypeVar

from controller.core.commands import LeaderAndIsrPartition, UpdateMetadataPartition
from controller.core.state import NO_REPLICA_STATES, Partition, Topic
from controller.core.state_machines import PartitionState, ReplicaState
from controller.core.values import RECOVERED

_REPLICA_LISTS_MAX: Final = 10_000

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

    `encoded` has their encoded forms, by the name of the form, as far as they were encoded ahead or
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


def prepare(topic: Topic, live: AbstractSet[int] | None = None) -> PreparedTopic | None:
    """Prepare a topic, and bring its partitions and replicas online, as a failover does.

    None if a partition has no leader or no replicas, or if one of its brokers is not `live`.
    """
    partitions = list(topic.partitions.values())
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
    for partition in partitions:
        partition.state = PartitionState.ONLINE
        partition.replica_states = _all_online(partition.assignment.replicas)
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
