"""Topic deletions in a simulated cluster, and what remains of the topics."""

from collections.abc import Callable
from typing import Any

from controller.core import znodes
from controller.core.commands import BrokerRequest, Issued, StopReplicaRequest, WriteZnodes
from controller.core.operations import Create, Delete
from controller.core.state_machines import ReplicaState
from replay.world.requests import GetChildren
from tests.controller.core.cluster import Cluster


def cluster_with_topic(brokers: int = 3, **settings: Any) -> Cluster:
    """Brokers 1 to `brokers`, each with a replica of t-0, which broker 1 leads."""
    ids = range(1, brokers + 1)
    cluster = Cluster(*ids, **settings).start()
    cluster.create_topic("t", {0: list(ids)})
    return cluster


def mark_quietly(cluster: Cluster, *topics: str) -> None:
    """As `mark`, but the controller does not react yet."""
    for topic in topics:
        cluster.ask(Create(znodes.delete_topic_path(topic)))


def mark(cluster: Cluster, *topics: str) -> None:
    """A broker writes markers, as DeleteTopics does (KB 11.8)."""
    mark_quietly(cluster, *topics)
    cluster.run()


def marked(cluster: Cluster) -> tuple[str, ...]:
    """The existing markers."""
    return cluster.ask(GetChildren(znodes.DELETE_TOPICS)).children or ()


def slow_to_delete(cluster: Cluster, *brokers: int) -> None:
    """These brokers delete at once and answer later (`UnreliableSimulation.answer_slow`)."""
    cluster.is_slow = lambda request: request.broker in brokers and deletes(request)


def deletes(request: BrokerRequest) -> bool:
    """Whether the request is a StopReplica that deletes."""
    return isinstance(request, StopReplicaRequest) and any(one.delete for one in request.partitions)


def deletes_znode(path: str) -> Callable[[Issued], bool]:
    """A predicate that matches the write that deletes a znode."""

    def matches(issued: Issued) -> bool:
        command = issued.command
        return isinstance(command, WriteZnodes) and any(
            isinstance(one, Delete) and one.path == path for one in command.operations
        )

    return matches


def states(cluster: Cluster, topic: str, number: int = 0) -> dict[int, ReplicaState]:
    """The states of a partition's replicas."""
    return cluster.partition(topic, number).replica_states


def logs(cluster: Cluster, topic: str) -> dict[int, list[int]]:
    """The partitions of a topic on the disks of brokers. Brokers without any are left out."""
    on_disk = {
        id: sorted(number for name, number in broker.logs if name == topic)
        for id, broker in sorted(cluster.brokers.items())
    }
    return {id: numbers for id, numbers in on_disk.items() if numbers}


def left_of(cluster: Cluster, topic: str) -> list[str]:
    """Everything that remains of a topic, as text. Empty once the topic is deleted."""
    context = cluster.fold.controller.context
    of_brokers = [
        f"in the metadata of broker {id}"
        for id, broker in cluster.brokers.items()
        if cluster.data(znodes.broker_path(id)) is not None
        and any(name == topic for name, _ in broker.metadata)
    ]
    known = {
        "marker": topic in marked(cluster),
        "znode": cluster.data(znodes.topic_path(topic)) is not None,
        "configuration": cluster.data(znodes.topic_config_path(topic)) is not None,
        "logs": bool(logs(cluster, topic)),
        "known": topic in context.topics,
        "queued": topic in context.queued_for_deletion,
        "started": topic in context.deletion_started,
        "waiting": topic in context.ineligible_for_deletion,
        "id known": any(one.name == topic for one in context.topics_by_id.values()),
        "being reassigned": any(one.topic.name == topic for one in context.reassigning),
    }
    return [what for what, holds in known.items() if holds] + of_brokers
