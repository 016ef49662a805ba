"""Changes by tools to the znodes of a topic that is being deleted (KB 3.6.2, 8.5)."""

from controller.core import znodes
from controller.core.commands import Issued, WriteZnodes
from controller.core.operations import Create
from controller.core.state_machines import ReplicaState
from replay.world.requests import GetChildren
from tests.controller.core.cluster import DAEMON, Assignments, Cluster, by_rule
from tests.controller.core.procedures.topics.deleting import (
    cluster_with_topic,
    deletes_znode,
    left_of,
    logs,
    mark,
    mark_quietly,
    marked,
    slow_to_delete,
    states,
)

# Added partitions -------------------------------------------------------------------------------


def test_SU_17_partitions_added_before_the_marker_are_deleted() -> None:
    cluster = cluster_with_topic()
    cluster.change_topic_quietly("t", {0: [1, 2, 3], 1: [3, 2, 1]})
    mark_quietly(cluster, "t")
    cluster.run()
    assert left_of(cluster, "t") == []


def test_SU_17_partitions_added_after_the_marker_are_not_added() -> None:
    cluster = cluster_with_topic()
    topic_id = cluster.topic("t").topic_id
    slow_to_delete(cluster, 1)
    mark_quietly(cluster, "t")
    added: Assignments = {0: [1, 2, 3], 1: [3, 2, 1]}
    cluster.change_topic_quietly("t", added, topic_id=znodes.write_topic_id(topic_id))
    seen = cluster.seen()
    cluster.run()
    assert logs(cluster, "t") == {}
    assert {number: one.replicas for number, one in cluster.topic("t").assignments.items()} == {
        0: (1, 2, 3)
    }
    assert cluster.topic("t").topic_id == topic_id
    assert seen.texts_of("partitions_refused") == [
        "topic t is being deleted and gains no partitions: t-1"
    ]
    cluster.answer_slow()
    assert left_of(cluster, "t") == []


def test_partitions_that_wait_for_a_replacement_of_the_daemon_are_not_created() -> None:
    """No live broker could replace the daemon in t-0. One that could registers before the broker
    of t-1."""
    cluster = Cluster().start()
    cluster.create_topic("t", {0: [DAEMON], 1: [9]})
    mark(cluster, "t")
    cluster.start_broker(1)
    assert cluster.state("t", 0) is None
    cluster.start_broker(9)
    assert left_of(cluster, "t") == []
    cluster.create_topic("t", {0: [1], 1: [9]})
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1] v 0 ce 1"


def test_change_that_adds_nothing_to_a_topic_being_deleted_is_ignored() -> None:
    """KB 3.6.2: for example the controller's own writes."""
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 1)
    mark(cluster, "t")
    seen = cluster.seen()
    cluster.create_topic("t", {0: [2, 3, 1]})
    assert seen.writes() == []
    assert cluster.topic("t").assignments[0].replicas == (2, 3, 1)


def test_partitions_with_existing_znodes_are_kept_in_the_restored_topic() -> None:
    """KB 3.6.2: partitions whose znode exists keep the known assignment."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2], 1: [2, 1], 2: [9]})
    slow_to_delete(cluster, 1, 2)
    mark(cluster, "t")
    cluster.create_topic("t", {0: [2, 1], 2: [9], 3: [1]})
    assert {number: one.replicas for number, one in cluster.topic("t").assignments.items()} == {
        0: (1, 2)
    }


def test_partition_of_a_topic_being_deleted_is_refused_each_time() -> None:
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 1)
    mark(cluster, "t")
    seen = cluster.seen()
    for _ in range(2):
        cluster.create_topic("t", {0: [1, 2, 3], 1: [1]})
        assert set(cluster.topic("t").assignments) == {0}
    assert len(seen.texts_of("partitions_refused")) == 2
    cluster.answer_slow()
    assert left_of(cluster, "t") == []


def test_partition_of_a_topic_being_deleted_is_refused_although_its_znode_exists() -> None:
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 1)
    mark(cluster, "t")
    cluster.put_quietly(znodes.partition_path("t", 1), b"")
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1, 2, 3], 1: [1]})
    assert set(cluster.topic("t").assignments) == {0}
    assert seen.notices() == [("partitions_refused", znodes.topic_path("t"))]


def test_topic_that_cannot_be_restored_is_reported() -> None:
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 1)
    mark(cluster, "t")
    rule = "partitions added to a topic that is being deleted"
    cluster.once(by_rule(WriteZnodes, rule), lambda: cluster.remove_quietly(znodes.topic_path("t")))
    seen = cluster.seen()
    cluster.create_topic("t", {0: [1, 2, 3], 1: [1]})
    assert ("procedure_failed", "PartitionModifications") in seen.notices()
    assert cluster.is_active


def test_SU_16_partitions_added_while_a_broker_is_down_have_no_effect() -> None:
    cluster = cluster_with_topic()
    cluster.stop_broker(3)
    mark(cluster, "t")
    assert states(cluster, "t") == {
        1: ReplicaState.DELETION_SUCCESSFUL,
        2: ReplicaState.DELETION_SUCCESSFUL,
        3: ReplicaState.OFFLINE,
    }
    cluster.create_topic("t", {0: [1, 2, 3], 1: [1, 2, 3]})
    assert list(cluster.topic("t").assignments) == [0]
    cluster.expire()
    cluster.start_broker(3)
    assert left_of(cluster, "t") == []


def test_SU_16_partitions_added_without_a_controller_are_deleted_with_the_rest() -> None:
    cluster = cluster_with_topic()
    cluster.stop_broker(3)
    mark(cluster, "t")
    session = cluster.seize_role(9)
    cluster.create_topic("t", {0: [1, 2, 3], 1: [1, 2, 3]})
    cluster.leave_role(session)
    assert marked(cluster) == ("t",)
    cluster.start_broker(3)
    assert left_of(cluster, "t") == []


# Other znodes below the topic -------------------------------------------------------------------


def test_unknown_znodes_below_the_topic_are_deleted() -> None:
    cluster = cluster_with_topic()
    for path in ("partitions/0/state/below", "partitions/0/mine", "mine", "mine/deeper"):
        cluster.ask(Create(f"{znodes.topic_path('t')}/{path}", b"somebody's"))
    seen = cluster.seen()
    mark(cluster, "t")
    assert left_of(cluster, "t") == []
    assert seen.notices() == []


def plant_below(cluster: Cluster, topic: str) -> None:
    """Before every deletion of the topic's znode, a client creates a child."""
    deletes = deletes_znode(znodes.topic_path(topic))
    made = 0

    def before(issued: Issued) -> None:
        nonlocal made
        if deletes(issued):
            cluster.ask(Create(f"{znodes.topic_path(topic)}/{made}", b""))
            made += 1

    cluster.before = before


def test_topic_that_cannot_be_deleted_keeps_its_marker_and_is_retried() -> None:
    cluster = cluster_with_topic()
    cluster.create_topic("u", {0: [1]})
    plant_below(cluster, "t")
    seen = cluster.seen()
    mark(cluster, "t", "u")
    assert ("topic_not_deleted", znodes.topic_path("t")) in seen.notices()
    assert marked(cluster) == ("t",)
    assert left_of(cluster, "u") == []
    assert seen.texts_of("topic_deleted") == ["topic u is deleted"]
    assert cluster.ask(GetChildren(znodes.topic_path("t"))).children
    cluster.create_topic("w", {0: [2]})
    seen = cluster.seen()
    mark(cluster, "w")
    assert left_of(cluster, "w") == []
    assert [one for one in seen.requests(1) if "w-0" not in one] == []
    cluster.before = lambda issued: None
    cluster.create_topic("v", {0: [1]})
    mark(cluster, "v")
    assert left_of(cluster, "t") + left_of(cluster, "v") == []


def test_topic_that_cannot_be_deleted_fails_no_failover() -> None:
    cluster = cluster_with_topic()
    plant_below(cluster, "t")
    mark(cluster, "t")
    seen = cluster.seen()
    cluster.expire()
    assert cluster.is_active
    assert ("topic_not_deleted", znodes.topic_path("t")) in seen.notices()
    cluster.before = lambda issued: None
    cluster.expire()
    assert left_of(cluster, "t") == []


def test_topic_deleted_by_a_tool_meanwhile_is_complete() -> None:
    cluster = cluster_with_topic()
    cluster.stop_broker(3)
    mark(cluster, "t")
    cluster.remove_topic_znodes("t")
    assert cluster.fold.controller.context.queued_for_deletion == {}
    mark(cluster, "unknown")
    assert marked(cluster) == ()
