"""Replicas whose deletion brokers have not confirmed, in a simulated cluster."""

from collections.abc import Sequence

from controller.core.commands import StopReplicaRequest
from controller.core.operations import CreateSequential
from controller.core.procedures.reassignment.replica_deletion import TIMER
from controller.core.znodes import (
    DELETION_PREFIX,
    REPLICA_DELETIONS,
    ReplicaDeletion,
    deletion_path,
    read_deletion,
    write_deletion,
)
from replay.world.requests import GetChildren
from tests.controller.core.cluster import Cluster, Seen
from tests.controller.core.procedures.elections.electing import runs
from tests.controller.core.procedures.reassignment.interrupting import cancel_all, half_way
from tests.controller.core.procedures.reassignment.reassigning import Name

Deletions = dict[str, ReplicaDeletion]


def deletions(cluster: Cluster) -> Deletions:
    """The children of /admin/replica_deletions."""
    children = cluster.ask(GetChildren(REPLICA_DELETIONS)).children or ()
    return {one: read_deletion(one, cluster.data(deletion_path(one))) for one in children}


def pending(cluster: Cluster) -> list[ReplicaDeletion]:
    """The unconfirmed deletions, in the order of their names."""
    found = deletions(cluster)
    return [found[one] for one in sorted(found)]


def recorded(cluster: Cluster) -> set[tuple[int, Name]]:
    """The same replicas, by broker and partition."""
    return {(one.broker, name) for one in pending(cluster) for name in one.partitions}


def strays(cluster: Cluster, names: Sequence[Name]) -> set[tuple[int, Name]]:
    """Replicas that brokers hold and that are not assigned to them."""
    assigned = {
        (topic, number): cluster.topic(topic).assignments[number] for topic, number in names
    }
    return {
        (id, name)
        for id, broker in cluster.brokers.items()
        for name in names
        if name in broker.logs and id not in assigned[name].replicas
    }


def known_deletions(cluster: Cluster) -> Deletions:
    """The same replicas, as the controller knows them."""
    known = cluster.fold.controller.context.deletions
    return {
        child: ReplicaDeletion(one.broker, tuple(one.names))
        for child, one in known.items()
        if one.names
    }


def stopped(seen: Seen, broker: int) -> list[tuple[str, int]]:
    """The partitions whose replica a broker was asked to delete."""
    return [
        (one.topic, one.partition)
        for request in seen.broker_requests()
        if isinstance(request, StopReplicaRequest) and request.broker == broker
        for one in request.partitions
        if one.delete
    ]


def ask_for_deletion(cluster: Cluster, broker: int, *names: tuple[str, int]) -> str:
    """`refold reassign --delete-strays` requests deletions. Returns the child's name."""
    data = write_deletion(ReplicaDeletion(broker, names))
    path = cluster.ask(CreateSequential(DELETION_PREFIX, data)).path
    assert path is not None
    cluster.run()
    return path.rpartition("/")[2]


def let_time_pass(cluster: Cluster) -> None:
    """Brokers have had their 2 s to confirm, whenever they were asked."""
    for _ in range(2):
        assert runs(cluster, TIMER)
        cluster.fire(TIMER)


def dead_target() -> Cluster:
    """[1,2,3] moves to [4,5,6]; broker 6 dies with its replica, and the move is cancelled."""
    cluster = half_way(4)
    cluster.stop_broker(6)
    cancel_all(cluster)
    return cluster
