"""The gauges of Kafka's controller (KafkaController.updateMetrics), computed when they are read.

Kafka updates its two counts of partitions step by step; here they are computed. While another
broker is controller the context is empty, and every count is 0.
"""

from collections.abc import Callable, Iterable, Iterator

from controller.core.state import ControllerContext, Partition
from controller.core.state_machines import PartitionState, ReplicaState


def gauges(context: ControllerContext) -> dict[str, int]:
    """Every gauge that follows from the context, by Kafka's name."""
    other = _other_than_normal(context)
    normal = sum(len(topic.partitions) for topic in context.topics.values()) - len(other)
    assigned = [one for one in other if one.is_assigned]
    return {
        "OfflinePartitionsCount": _offline_partitions(context, assigned),
        "PreferredReplicaImbalanceCount": _preferred_replica_imbalance(context, assigned),
        "GlobalTopicCount": len(context.known_topics()),
        "GlobalPartitionCount": normal + sum(one.leadership is not None for one in assigned),
        "TopicsToDeleteCount": len(context.queued_for_deletion),
        "ReplicasToDeleteCount": _replicas_to_delete(
            context, lambda state: state is not ReplicaState.DELETION_SUCCESSFUL
        ),
        "TopicsIneligibleToDeleteCount": len(context.ineligible_for_deletion),
        "ReplicasIneligibleToDeleteCount": _replicas_to_delete(
            context, lambda state: state is ReplicaState.DELETION_INELIGIBLE
        ),
        "ActiveBrokerCount": len(context.brokers),
        # Kafka's controller always reports 0 in ZooKeeper mode.
        "FencedBrokerCount": 0,
    }


def _offline_partitions(context: ControllerContext, among: Iterable[Partition]) -> int:
    """Partitions in OFFLINE, without the topics whose deletion has started (KB 2.2.12).

    Partitions of a topic that is no longer in the cluster do not count.
    """
    return sum(
        one.state is PartitionState.OFFLINE and one.topic.name not in context.deletion_started
        for one in among
    )


def _preferred_replica_imbalance(context: ControllerContext, among: Iterable[Partition]) -> int:
    """Partitions that their preferred replica does not lead, without queued topics (KB 2.2.13)."""
    staying = (one for one in among if not context.is_queued(one))
    return sum(not _has_preferred_leader(one) for one in staying if one.replicas)


def _other_than_normal(context: ControllerContext) -> list[Partition]:
    """The partitions that are not ONLINE under their preferred replica, or to which replicas are
    being added.

    One comprehension without a call for each partition: a scrape of 100,000 partitions has to be
    shorter than one slice of the event loop.
    """
    online = PartitionState.ONLINE
    return [
        one
        for topic in context.topics.values()
        for one in topic.partitions.values()
        if one.state is not online
        or (leadership := one.leadership) is None
        or (assignment := one.assignment).adding
        or not (replicas := assignment.replicas)
        or leadership.leader != replicas[0]
    ]


def _has_preferred_leader(partition: Partition) -> bool:
    """A preferred replica that is being added counts as leader until it is in sync."""
    leadership, preferred = partition.leadership, partition.preferred_replica
    if leadership is None:
        return True
    if preferred in partition.assignment.adding:
        return preferred not in leadership.isr
    return leadership.leader == preferred


def _replicas_to_delete(
    context: ControllerContext, counts: Callable[[ReplicaState | None], bool]
) -> int:
    """The replicas of queued topics whose state counts."""
    return sum(counts(state) for state in _states_of_queued(context))


def _states_of_queued(context: ControllerContext) -> Iterator[ReplicaState | None]:
    for name in context.queued_for_deletion:
        if name in context.topics:
            for broker, partition in context.replicas_of(name):
                yield partition.replica_states.get(broker)
