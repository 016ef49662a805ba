"""The problems of each partition.

docs/health.md explains the states.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from replay.cluster_view.later_epochs import left_unchanged
from replay.cluster_view.views import (
    NO_BROKER,
    BrokerView,
    ClusterView,
    DeletionView,
    NotInSync,
    PartitionView,
    why_not_in_sync,
)


class State(StrEnum):
    """The ways in which a partition is not well, the worst first."""

    OFFLINE = "offline"
    """The partition has no leader, or its ISR is empty: clients can neither write nor read. As the
    other states of replicas, it is not reported for a topic that is being deleted."""
    UNDER_MIN_ISR = "under-min-isr"
    """Fewer replicas are in sync than min.insync.replicas: producers with acks=all are refused."""
    LATER_EPOCH = "later-epoch"
    """A later controller epoch than that of the controller is in the state, so that the controller
    elects no leader: the partition is offline as soon as its leader is lost."""
    STUCK = "stuck"
    """The reassignment or deletion waits for a broker that is not registered, or whose log
    directory has failed."""
    UNDER_REPLICATED = "under-replicated"
    """The ISR is smaller than the replicas."""
    DELETING = "being-deleted"
    REASSIGNING = "being-reassigned"
    NOT_PREFERRED = "not-preferred"
    """The leader is in sync, but is not the first replica."""


WORST_FIRST: Final = tuple(State)
_NEEDS_REPAIR: Final = (
    NotInSync.NOT_REGISTERED,
    NotInSync.REGISTRATION_LEFT,
    NotInSync.FAILED_LOG_DIR,
)


class PartitionHealth(Struct, frozen=True):
    """A partition and its states, the worst first; none if it is well.

    `leader` is -1 for none; `leader_is_lost`: it is not registered, and no other one is elected
    yet. `missing` has the replicas outside of the ISR, each with the reason. `waits_for`: the
    members of the ISR, with the reasons, if the partition is offline until one of them returns.
    `min_insync_replicas` is None if it is not known.
    """

    topic: str
    partition: int
    states: tuple[State, ...]
    leader: int
    leader_is_lost: bool
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    missing: Mapping[int, NotInSync]
    waits_for: Mapping[int, NotInSync]
    min_insync_replicas: int | None

    @property
    def worst(self) -> State | None:
        """The worst state; None if the partition is well."""
        return self.states[0] if self.states else None


class TopicHealth(Struct, frozen=True):
    """A topic in numbers. `replication_factors`: the numbers of replicas that its partitions
    have."""

    topic: str
    partitions: int
    replication_factors: tuple[int, ...]
    well: int
    counts: Mapping[State, int]


class Health(Struct, frozen=True):
    """The health of a cluster at a moment. `counts` has the partitions in each state; a partition
    can be in several. `partitions` are ordered worst first."""

    counts: Mapping[State, int]
    topics: list[TopicHealth]
    partitions: list[PartitionHealth]

    @property
    def worst(self) -> State | None:
        """The worst state of a partition; None if all are well."""
        return next((one for one in WORST_FIRST if self.counts[one]), None)

    @property
    def well_count(self) -> int:
        """How many partitions are well."""
        return sum(not one.states for one in self.partitions)


def evaluate(
    cluster: ClusterView, min_insync_replicas: int | None = None, *, is_bounded: bool = False
) -> Health:
    """The health of a cluster. `min_insync_replicas` is that of topics which do not set their own,
    if it is known. `is_bounded`: no more than the number of replicas of a partition count, as in
    Kafka 3.7 and later."""
    live = {one.id: one for one in cluster.brokers}
    waiting = {one.topic: one for one in cluster.deletions}
    unchanged = {one.name for one in left_unchanged(cluster)}
    found = [
        _of_partition(
            view,
            live,
            waiting.get(topic.name),
            min_insync_replicas if topic.min_insync_replicas is None else topic.min_insync_replicas,
            is_bounded=is_bounded,
            has_later_epoch=view.name in unchanged,
        )
        for topic in cluster.topics
        for view in topic.partitions
    ]
    by_topic: dict[str, list[PartitionHealth]] = {one.name: [] for one in cluster.topics}
    for one in found:
        by_topic[one.topic].append(one)
    topics = [_of_topic(name, partitions) for name, partitions in by_topic.items()]
    found.sort(key=lambda one: (_severity(one.states), one.topic, one.partition))
    topics.sort(key=lambda one: (_severity(_present(one.counts)), one.topic))
    return Health(_counts(found), topics, found)


def _of_partition(
    view: PartitionView,
    live: dict[int, BrokerView],
    deletion: DeletionView | None,
    least: int | None,
    *,
    is_bounded: bool,
    has_later_epoch: bool,
) -> PartitionHealth:
    if least is not None and is_bounded:
        least = min(least, len(view.replicas))
    missing = {
        one: why_not_in_sync(view, one, live) for one in view.replicas if one not in view.isr
    }
    is_lost = view.leader != NO_BROKER and view.leader not in live
    gone = {one: why_not_in_sync(view, one, live) for one in view.isr}
    waits_for = gone if all(why in _NEEDS_REPAIR for why in gone.values()) else {}
    states = set() if deletion is not None else _of_replicas(view, least, is_lost=is_lost)
    if has_later_epoch:
        states.add(State.LATER_EPOCH)
    if _is_stuck(view, missing, deletion):
        states.add(State.STUCK)
    if deletion is not None:
        states.add(State.DELETING)
    if view.is_being_reassigned:
        states.add(State.REASSIGNING)
    return PartitionHealth(
        view.topic,
        view.partition,
        tuple(one for one in WORST_FIRST if one in states),
        view.leader,
        is_lost,
        view.isr,
        view.replicas,
        missing,
        waits_for,
        least,
    )


def _of_replicas(view: PartitionView, least: int | None, *, is_lost: bool) -> set[State]:
    """The states that the leader and the ISR show. They are expected while a topic is deleted."""
    states = set()
    if least is not None and len(view.isr) < least:
        states.add(State.UNDER_MIN_ISR)
    if not set(view.isr).issuperset(view.replicas):
        states.add(State.UNDER_REPLICATED)
    if view.leader == NO_BROKER or is_lost or not view.isr:
        states.add(State.OFFLINE)
    elif view.leader != view.replicas[0]:
        states.add(State.NOT_PREFERRED)
    return states


def _is_stuck(
    view: PartitionView, missing: Mapping[int, NotInSync], deletion: DeletionView | None
) -> bool:
    if deletion is not None:
        return deletion.status == "waits"
    return view.is_being_reassigned and any(
        missing.get(one) in _NEEDS_REPAIR for one in view.target
    )


def _of_topic(name: str, partitions: list[PartitionHealth]) -> TopicHealth:
    factors = sorted({len(one.replicas) for one in partitions})
    well = sum(not one.states for one in partitions)
    return TopicHealth(name, len(partitions), tuple(factors), well, _counts(partitions))


def _counts(partitions: Iterable[PartitionHealth]) -> dict[State, int]:
    counted = Counter(state for one in partitions for state in one.states)
    return {state: counted[state] for state in WORST_FIRST}


def _present(counts: Mapping[State, int]) -> tuple[State, ...]:
    return tuple(one for one in WORST_FIRST if counts[one])


def _severity(states: tuple[State, ...]) -> tuple[int, ...]:
    """A key that sorts worst first: the well ones come last."""
    return tuple(map(WORST_FIRST.index, states)) if states else (len(WORST_FIRST),)
