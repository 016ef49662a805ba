"""The scenarios whose transcripts are in tests/transcripts, one function per file.

Each function returns the events of its scenario.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from controller.core import znodes
from controller.core.api_requests.features import FeatureUpdate, UpdateFeaturesReceived
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    NewPartitions,
    TopicToDelete,
)
from controller.core.commands import Issued
from controller.core.events import Recorded
from tests.controller.core.cluster import DAEMON, Cluster, reads, writes_state
from tests.controller.core.procedures.reassignment.reassigning import example, play_example
from tests.controller.core.procedures.topics.topic_requests import new_topic
from tests.controller.core.unreliable import Delivery

FOLDER = Path(__file__).parents[2] / "transcripts"

History = Sequence[tuple[Recorded, Sequence[Issued]]]


def first_failover() -> History:
    """No controller was elected before. Two brokers and a topic that a tool has created wait."""
    cluster = Cluster(1, 2)
    cluster.change_topic_quietly("t", {0: [1, 2]})
    seen = cluster.seen()
    cluster.start()
    return seen.history


def failover_with_dead_leader() -> History:
    """The epoch rises by two: the replica leaves the ISR, then a leader is elected (KB 6.3)."""
    before = Cluster(1, 2).start()
    before.create_topic("t", {0: [1, 2]})
    before.shut_down()
    before.unregister(1)
    cluster = Cluster(zookeeper=before.zookeeper)
    seen = cluster.seen()
    cluster.start()
    return seen.history


def topic_creation() -> History:
    """A topic without id, one partition of it on a dead broker alone."""
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1, 2], 1: [9]})
    return seen.history


def broker_failure() -> History:
    """A broker dies that is a leader, a follower, and the last member of an ISR (KB 9.3, OB-08)."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("lead", {0: [1, 2, 3]})
    cluster.create_topic("foll", {0: [2, 1, 3]})
    cluster.create_topic("one", {0: [1]})
    seen = cluster.seen()
    cluster.stop_broker(1)
    return seen.history


def bounce() -> History:
    """A follower restarts between two reads of the registrations (KB 9.4)."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    seen = cluster.seen()
    cluster.bounce(2)
    return seen.history


def unclean_election() -> History:
    """The leader dies; its topic allows a replica that is not in sync."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.stop_broker(2)
    cluster.start_broker(2)
    override = b'{"version":1,"config":{"unclean.leader.election.enable":"true"}}'
    cluster.put(znodes.topic_config_path("t"), override)
    seen = cluster.seen()
    cluster.stop_broker(1)
    return seen.history


def fencing() -> History:
    """A stock broker takes the role while a broker's failure is handled."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.once(writes_state("t", 0), lambda: cluster.seize_role(2))
    seen = cluster.seen()
    cluster.stop_broker(1)
    return seen.history


def session_expiry_in_a_failover() -> History:
    """The session ends while partition states are read; the next session repeats the failover."""
    cluster = Cluster(1)
    cluster.change_topic_quietly("t", {0: [1]})
    cluster.lose(reads(znodes.state_path("t", 0)), Delivery.SESSION_OVER)
    seen = cluster.seen()
    cluster.start()
    return seen.history


def daemon_replaced_as_replica() -> History:
    """A broker that created a topic for a client chose the daemon as a replica."""
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    cluster.create_topic("t", {0: [DAEMON, 1]})
    return seen.history


def reassignment() -> History:
    """The example {1,2,3} to {4,5,6}: leader epochs 6 to 10, versions 8 to 15 (KB 7.10)."""
    cluster = example()
    seen = cluster.seen()
    play_example(cluster)
    return seen.history


def topic_deletion() -> History:
    """A broker is down when a topic is marked. The others delete it at once, the broker at its
    start."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    cluster.put(znodes.topic_config_path("t"), b'{"version":1,"config":{"retention.ms":"1"}}')
    cluster.stop_broker(3)
    seen = cluster.seen()
    cluster.put(znodes.delete_topic_path("t"), b"")
    cluster.start_broker(3)
    return seen.history


def topics_by_request() -> History:
    """CreateTopics with dice and ids: one topic is refused, one has no live leader and times
    out. DeleteTopics by name and by an unknown id."""
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    good = new_topic("t", 2, 2, configs={"retention.ms": "1000"})
    dead = new_topic("dead", given={0: [9]})
    topics = [good, new_topic("a/b", 1), dead]
    cluster.happen(CreateTopicsReceived(1, 7, 5000, False, topics), "api:1")
    cluster.fire("request:1")
    doomed = [TopicToDelete("t", None), TopicToDelete(None, bytes(15) + b"n")]
    cluster.happen(DeleteTopicsReceived(2, 6, 5000, doomed), "api:1")
    return seen.history


def partitions_and_features_by_request() -> History:
    """CreatePartitions, chosen and given. UpdateFeatures removes a feature that was stored
    before."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [2, 1]})
    features = b'{"version":2,"status":1,"features":{"f":{"max_version_level":2}}}'
    cluster.put(znodes.FEATURE, features)
    seen = cluster.seen()
    grown = [NewPartitions("t", 3, None), NewPartitions("u", 2, [(1,)])]
    cluster.happen(CreatePartitionsReceived(1, 3, 5000, False, grown), "api:1")
    given = [NewPartitions("t", 4, [(2, 1)])]
    cluster.happen(CreatePartitionsReceived(2, 3, 5000, True, given), "api:1")
    updates = [FeatureUpdate("f", 0, 2), FeatureUpdate("metadata.version", 1, 1)]
    cluster.happen(UpdateFeaturesReceived(3, 1, 5000, False, updates), "api:1")
    return seen.history


SCENARIOS: tuple[Callable[[], History], ...] = (
    first_failover,
    failover_with_dead_leader,
    topic_creation,
    broker_failure,
    bounce,
    unclean_election,
    fencing,
    session_expiry_in_a_failover,
    daemon_replaced_as_replica,
    reassignment,
    topic_deletion,
    topics_by_request,
    partitions_and_features_by_request,
)
