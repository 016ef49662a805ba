"""Scenarios of small clusters: what their brokers do is in the golden transcripts
(tests/transcripts/kafka_0_8)."""

from collections.abc import Callable
from typing import Final, NamedTuple

from replay.world.kafka_0_8.cluster import Cluster08

T: Final = ("t", 0)
"""The partition of the scenarios."""


class ScenarioEnd(NamedTuple):
    """A cluster at the end of a scenario, and the broker that the scenario is about."""

    cluster: Cluster08
    broker: int


def _cluster(*brokers: int) -> Cluster08:
    """Timers are far apart, so that they do not fire in between."""
    return Cluster08(*brokers, checkpoint_interval_ms=60_000, keep_in_sync_time_ms=4000)


def _with_topic() -> Cluster08:
    """Broker 1 leads t-0, brokers 2 and 3 follow, and two records are committed."""
    cluster = _cluster(1, 2, 3)
    cluster.create_topic("t", {0: (1, 2, 3)})
    cluster.start(1, 2, 3)
    cluster.run(2000)
    cluster.produce(1, T, ["a", "b"], -1, wait_ms=1500)
    return cluster


def startup() -> ScenarioEnd:
    """Broker 1 starts again. It is the preferred replica of t-0, which has no leader, and a replica
    of u-0, which broker 2 leads."""
    cluster = _cluster(1, 2)
    cluster.create_topic("t", {0: (1, 2)})
    cluster.create_topic("u", {0: (2, 1)})
    cluster.start(1, 2)
    cluster.run(2000)
    cluster.stop(1)
    cluster.stop(2)
    cluster.start(2)
    cluster.start(1)
    return ScenarioEnd(cluster, 1)


def leader_failure() -> ScenarioEnd:
    """The leader dies. The replicas of the ISR wait for LeaderElectionWaitTime, because they are
    not preferred; broker 2 creates the leader znode first and removes the dead one from the
    ISR."""
    cluster = _with_topic()
    cluster.stop(1)
    cluster.run(1500)
    cluster.produce(2, T, ["c"], -1, wait_ms=7000)
    return ScenarioEnd(cluster, 2)


def bounce() -> ScenarioEnd:
    """While broker 3 is bounced, a topic is created with a replica on it, and another topic is
    deleted. The requests wait in its queue and are drained before the assigned replicas are
    read."""
    cluster = _with_topic()
    cluster.stop(3)
    cluster.create_topic("u", {0: (1, 3)})
    cluster.delete_topic("t")
    cluster.run(1500)
    cluster.start(3)
    cluster.run(500)
    return ScenarioEnd(cluster, 3)


def reassignment() -> ScenarioEnd:
    """t-0 moves from brokers 1, 2 and 3 to brokers 2 and 4. The leader adds broker 4 and waits
    until it is in the ISR. Then it gives up leadership, because it is not a new replica."""
    cluster = _with_topic()
    cluster.add_brokers(4)
    cluster.add(4)
    cluster.start(4)
    cluster.reassign(T, (2, 4))
    cluster.run(4000)
    return ScenarioEnd(cluster, 1)


def deletion() -> ScenarioEnd:
    """Broker 3 is down when topic t is deleted and created again. It deletes the old log, which it
    must not use for the new topic."""
    cluster = _with_topic()
    cluster.stop(3)
    cluster.run(1500)
    cluster.delete_topic("t")
    cluster.run(1500)
    cluster.create_topic("t", {0: (1, 2, 3)})
    cluster.run(1500)
    cluster.start(3)
    cluster.run(500)
    return ScenarioEnd(cluster, 3)


def expired_leader() -> ScenarioEnd:
    """The session of the leader expires, but the leader does not learn of it. It continues writing:
    acks 1 succeeds, and the record is lost; acks -1 is not committed. When it learns of the end of
    its session, it truncates its log and follows."""
    cluster = _with_topic()
    cluster.silent[1] = None
    cluster.end_session(1)
    cluster.run(1500)
    cluster.produce(1, T, ["lost"], 1, wait_ms=100)
    cluster.produce(1, T, ["uncommitted"], -1, wait_ms=100)
    cluster.produce(2, T, ["c"], 1, wait_ms=500)
    cluster.learn_of_expiry(1)
    cluster.run(1500)
    return ScenarioEnd(cluster, 1)


SCENARIOS: Final[tuple[Callable[[], ScenarioEnd], ...]] = (
    startup,
    leader_failure,
    bounce,
    reassignment,
    deletion,
    expired_leader,
)
