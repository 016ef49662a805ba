"""Steps of a topic deletion for replicas in unusual states (KB 8.2 to 8.4)."""

import pytest

from controller.core import znodes
from controller.core.commands import WriteZnodes
from controller.core.procedures.reassignment.leader_epochs import RAISE
from tests.controller.core.cluster import Cluster, by_rule
from tests.controller.core.procedures.reassignment.interrupting import (
    WriteRejectingCluster,
    cancel_all,
    half_way,
    submit,
)
from tests.controller.core.procedures.reassignment.reassigning import T0
from tests.controller.core.procedures.topics.deleting import (
    cluster_with_topic,
    deletes,
    deletes_znode,
    left_of,
    mark,
    marked,
    slow_to_delete,
)


@pytest.mark.deviates("deletion-needs-no-state")
def test_replica_that_a_failed_reassignment_left_without_a_state_is_deleted() -> None:
    cluster = WriteRejectingCluster(1, 2)
    cluster.start()
    cluster.create_topic("t", {0: [1]})
    cluster.refuses = by_rule(WriteZnodes, RAISE)
    submit(cluster, {T0: [2]})
    cluster.refuses = lambda issued: False
    assert 2 not in cluster.partition(*T0).replica_states
    seen = cluster.seen()
    mark(cluster, "t")
    assert left_of(cluster, "t") == []
    assert [one.broker for one in seen.broker_requests() if deletes(one)] == [1, 2]


def test_brokers_that_die_together_make_the_topic_of_one_of_them_wait() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.create_topic("u", {0: [1, 3]})
    slow_to_delete(cluster, 1, 2)
    mark(cluster, "t")
    seen = cluster.seen()
    cluster.unregister(2)
    cluster.unregister(3)
    cluster.run()
    assert seen.texts_of("topic_deletion_waits") == [
        "the deletion of t waits: some of its replicas could not be deleted"
    ]
    cluster.is_slow = lambda request: False
    cluster.answer_slow()
    cluster.start_broker(2)
    assert left_of(cluster, "t") == []


def test_waiting_topic_is_reported_once_and_its_deletion_begins_once() -> None:
    cluster = cluster_with_topic(3)
    cluster.create_topic("u", {0: [1, 2]})
    cluster.stop_broker(3)
    seen = cluster.seen()
    mark(cluster, "t")
    mark(cluster, "u")
    assert seen.texts_of("topic_deletion_waits") == [
        "the deletion of t waits: some of its replicas are offline"
    ]
    cluster.start_broker(3)
    assert left_of(cluster, "t") + left_of(cluster, "u") == []
    assert len(seen.texts_of("topic_deletion_started")) == 2
    assert seen.notices() == []


def test_rollback_that_waits_ends_with_its_topic() -> None:
    cluster = half_way(4)
    cluster.stop_broker(1)
    cluster.stop_broker(2)
    cluster.stop_broker(3)
    cancel_all(cluster)
    context = cluster.fold.controller.context
    assert context.rollback_waiting
    cluster.create_topic("u", {0: [4]})
    mark(cluster, "t")
    assert marked(cluster) == ("t",)
    assert not context.rollback_waiting
    for broker in (1, 2, 3):
        cluster.start_broker(broker)
    assert left_of(cluster, "t") == []


def test_under_kafka_rules_a_restarted_broker_ends_the_wait_of_marked_topics_only() -> None:
    """The mark that an earlier topic of the name has left stays (KB 8.2.5)."""
    cluster = cluster_with_topic(2, rules="kafka")
    slow_to_delete(cluster, 2)
    mark(cluster, "t")
    cluster.stop_broker(1)
    cluster.answer_slow()
    cluster.start_broker(1)
    cluster.start_broker(3)
    cluster.is_slow = lambda request: False
    cluster.create_topic("t", {0: [1, 2, 3]})
    cluster.stop_broker(3)
    cluster.bounce(1)
    cluster.start_broker(3)
    mark(cluster, "t")
    assert marked(cluster) == ("t",)


def test_brokers_are_sent_the_deletion_before_they_delete() -> None:
    """KB 8.4: clients that ask them for metadata must not find the topic."""
    cluster = cluster_with_topic(2)
    seen = cluster.seen()
    mark(cluster, "t")
    kinds = seen.kinds(2)
    assert kinds.index("UpdateMetadata") < kinds.index("StopReplica")


def test_under_kafka_rules_a_reassignment_that_ends_resumes_the_deletion() -> None:
    """A second marker made the topic wait for it (KB 8.2.1)."""
    cluster = Cluster(1, 2, 3, rules="kafka", inter_broker_protocol_version="2.6").start()
    cluster.create_topic("t", {0: [1, 2]})
    submit(cluster, {T0: [2, 3]})
    slow_to_delete(cluster, 1, 2, 3)
    mark(cluster, "t")
    mark(cluster, "unknown")
    waiting = cluster.fold.controller.context.ineligible_for_deletion
    assert list(waiting) == ["t"]
    cluster.set_isr("t", 0, [1, 2, 3])
    cluster.run()
    assert list(waiting) == []


def test_topic_that_a_broker_change_deletes_between_two_others_is_deleted_once() -> None:
    """Broker 1 has deleted the replicas of both topics, and restarts while the first topic is
    removed from ZooKeeper."""
    cluster = Cluster(1, 2).start()
    for topic in ("t", "u"):
        cluster.create_topic(topic, {0: [1]})
    slow_to_delete(cluster, 1)
    mark(cluster, "t", "u")

    def restart() -> None:
        cluster.unregister(1)
        cluster.register(1)

    cluster.once(deletes_znode(znodes.topic_path("t")), restart)
    seen = cluster.seen()
    cluster.is_slow = lambda request: False
    cluster.answer_slow()
    assert left_of(cluster, "t") + left_of(cluster, "u") == []
    assert seen.written().count(znodes.topic_path("u")) == 1
