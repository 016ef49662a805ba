"""The daemon as a live broker: announced, replaced in assignments, and removed at the end."""

from controller.core.commands import StartTimer, UpdateMetadataRequest
from controller.core.values import Endpoint
from replay.world.simulation import Simulation
from tests.controller.core.cluster import DAEMON, Cluster

ENDPOINT = Endpoint("PLAINTEXT", "PLAINTEXT", "refold", 9092)


def cluster_with_endpoint(*brokers: int, **settings: object) -> Cluster:
    return Cluster(*brokers, endpoints=(ENDPOINT,), rack="r1", **settings)


def last_live_brokers(cluster: Cluster) -> list[int]:
    """The live brokers of the last UpdateMetadata."""
    requests = [one.command for one in cluster.commands()]
    last = [one for one in requests if isinstance(one, UpdateMetadataRequest)][-1]
    return [one.id for one in last.live_brokers]


def fire_started(cluster: Simulation) -> None:
    """Fire every timer that was started."""
    for issued in cluster.commands():
        if isinstance(issued.command, StartTimer) and not cluster.is_stopped:
            cluster.fire(issued.command.timer)


def test_brokers_learn_the_daemons_endpoint_with_its_rack() -> None:
    cluster = cluster_with_endpoint(1, 2).start()
    assert last_live_brokers(cluster) == [1, 2, DAEMON]
    [own] = {
        broker
        for issued in cluster.commands()
        if isinstance(issued.command, UpdateMetadataRequest)
        for broker in issued.command.live_brokers
        if broker.id == DAEMON
    }
    assert (own.endpoints, own.rack) == ((ENDPOINT,), "r1")


def test_partition_assigned_to_the_daemon_is_elected_again_after_the_repair() -> None:
    """The leader applies the repaired assignment only with a new leader epoch."""
    stock = Cluster(1, 2, 3).start()
    stock.create_topic("t", {0: [1, 2, 3]})
    stock.change_topic_quietly("t", {0: [1, DAEMON, 3]})
    cluster = cluster_with_endpoint(zookeeper=stock.zookeeper, take_over=True)
    seen = cluster.seen()
    cluster.connect()
    assert cluster.topic("t").assignments[0].replicas == (1, 2, 3)
    assert cluster.leadership("t", 0).leader_epoch == 1
    announced = [one.partitions[0] for one in seen.leader_and_isr(1)]
    assert [(one.leadership.leader_epoch, one.assignment.replicas) for one in announced][-1] == (
        1,
        (1, 2, 3),
    )


def test_hand_back_removes_the_daemon_from_the_live_brokers_and_reads_topics_again() -> None:
    cluster = cluster_with_endpoint(1, 2).start()
    cluster.shut_down()
    assert last_live_brokers(cluster) == [1, 2]
    assert not cluster.is_stopped, (
        "brokers may be creating topics whose assignments name the daemon"
    )
    cluster.change_topic_quietly("late", {0: [DAEMON, 1]})
    fire_started(cluster)
    assert cluster.is_stopped
    assert cluster.topic("late").assignments[0].replicas == (2, 1)
    assert cluster.controller() is None
