"""What Kafka's controller shows as gauges (KafkaController.updateMetrics), counted when asked for.

Kafka keeps the two counts of partitions step by step; what they mean at any moment is here. While
another broker is controller the context is empty, and every count 0.
"""

from collections.abc import Callable, Iterator

from controller.core.state import ControllerContext, Partition
from controller.core.state_machines import PartitionState, ReplicaState


def gauges(context: ControllerContext) -> dict[str, int]:
    """Every count that follows from what the controller knows, by the name of Kafka's gauge."""
    return {
        "OfflinePartitionsCount": offline_partitions(context),
        "PreferredReplicaImbalanceCount": preferred_replica_imbalance(context),
        "GlobalTopicCount": len(context.known_topics()),
        "GlobalPartitionCount": sum(one.leadership is not None for one in context.partitions()),
        "TopicsToDeleteCount": len(context.queued_for_deletion),
        "ReplicasToDeleteCount": _replicas_to_delete(
            context, lambda state: state is not ReplicaState.DELETION_SUCCESSFUL
        ),
        "TopicsIneligibleToDeleteCount": len(context.ineligible_for_deletion),
        "ReplicasIneligibleToDeleteCount": _replicas_to_delete(
            context, lambda state: state is ReplicaState.DELETION_INELIGIBLE
        ),
        "ActiveBrokerCount": len(context.brokers),
        # Kafka's controller has no other value for it in ZooKeeper mode.
        "FencedBrokerCount": 0,
    }


def offline_partitions(context: ControllerContext) -> int:
    """Partitions in OFFLINE, but for topics whose deletion has started (KB 2.2.12).

    What a topic that is gone from the cluster leaves behind does not count.
    """
    return sum(
        one.state is PartitionState.OFFLINE and one.topic.name not in context.deletion_started
        for one in context.partitions()
    )


def preferred_replica_imbalance(context: ControllerContext) -> int:
    """Partitions that the preferred replica does not lead, but for queued topics (KB 2.2.13)."""
    staying = (one for one in context.partitions() if not context.is_queued(one))
    return sum(not _has_preferred_leader(one) for one in staying if one.replicas)


def _has_preferred_leader(partition: Partition) -> bool:
    """A preferred replica that is being added has not lost its place before it is in sync."""
    leadership, preferred = partition.leadership, partition.preferred_replica
    if leadership is None:
        return True
    if preferred in partition.assignment.adding:
        return preferred not in leadership.isr
    return leadership.leader == preferred


def _replicas_to_delete(
    context: ControllerContext, counts: Callable[[ReplicaState | None], bool]
) -> int:
    """The replicas of queued topics that are in a state that counts."""
    return sum(counts(state) for state in _states_of_queued(context))


def _states_of_queued(context: ControllerContext) -> Iterator[ReplicaState | None]:
    for name in context.queued_for_deletion:
        if name in context.topics:
            for broker, partition in context.replicas_of(name):
                yield partition.replica_states.get(broker)
