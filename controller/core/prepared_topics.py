"""What a failover sends about a topic whose brokers are all live: the replicas on each broker, and
the entries of the requests that inform brokers of a new controller.

A standby prepares topics before its take-over, which then only joins them. The entries of a topic
are one object, so that they can also be encoded before they are needed.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from itertools import chain, groupby
from typing import Generic, NamedTuple, TypeVar

from controller.core.commands import LeaderAndIsrPartition, UpdateMetadataPartition
from controller.core.state import Partition, Topic
from controller.core.state_machines import PartitionState, ReplicaState

Entry = TypeVar("Entry", bound=LeaderAndIsrPartition | UpdateMetadataPartition)


class TopicEntries(tuple[Entry, ...], Generic[Entry]):
    """The entries of one topic in a request, by partition number.

    `encoded` has their encoded forms, by the name of the form, as far as they were encoded ahead or
    are needed several times. It affects no decision.
    """

    encoded: dict[str, bytes]

    def __new__(cls, entries: Iterable[Entry]) -> "TopicEntries[Entry]":
        made = super().__new__(cls, entries)
        made.encoded = {}
        return made


class JoinedEntries(tuple[Entry, ...], Generic[Entry]):
    """The entries of a request, of which those of prepared topics are `parts`: a plain tuple for
    all that encodes or compares it."""

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
        return tuple(entries)
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
    for partition in topic.partitions.values():
        replicas, state = partition.assignment.replicas, partition.leadership
        if state is None or not replicas:
            return None
        if live is not None and not (state.leader in live and live >= set(replicas)):
            return None
    return _prepared(topic) if topic.partitions else None


def _prepared(topic: Topic) -> PreparedTopic:
    online: dict[int, list[Partition]] = {}
    entries: dict[int, list[LeaderAndIsrPartition]] = {}
    metadata: list[UpdateMetadataPartition] = []
    for partition in topic.partitions.values():
        leadership, assignment = partition.leadership, partition.assignment
        assert leadership is not None, f"{partition} has no leadership to send"
        entry = LeaderAndIsrPartition(
            topic.name, topic.id, partition.number, leadership, assignment, is_new=False
        )
        for broker in assignment.replicas:
            online.setdefault(broker, []).append(partition)
            entries.setdefault(broker, []).append(entry)
        metadata.append(
            UpdateMetadataPartition(
                topic.name, topic.id, partition.number, leadership, assignment.replicas, ()
            )
        )
    for partition in topic.partitions.values():
        partition.state = PartitionState.ONLINE
        replicas = partition.assignment.replicas
        partition.replica_states = dict.fromkeys(replicas, ReplicaState.ONLINE)
    leaders = {
        broker: frozenset([one.leadership.leader for one in of_broker])
        for broker, of_broker in entries.items()
    }
    return PreparedTopic(
        topic,
        frozenset(online).union(*leaders.values()),
        online,
        {broker: TopicEntries(of_broker) for broker, of_broker in entries.items()},
        leaders,
        TopicEntries(metadata),
    )


def unprepare(topic: Topic) -> None:
    """Undo the changes of `prepare`."""
    for partition in topic.partitions.values():
        partition.state = PartitionState.NON_EXISTENT
        partition.replica_states = {}
