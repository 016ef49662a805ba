"""CreatePartitions (KB 11.8): ZkAdminManager.createPartitions, AdminZkClient."""

from collections.abc import Sequence

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreatePartitionsResponse,
    NewPartitions,
    TopicResult,
)
from tests.controller.core.cluster import DAEMON, Cluster, writes
from tests.controller.core.endpoint import call
from tests.controller.core.procedures.reassignment.interrupting import WriteRejectingCluster
from tests.controller.core.procedures.reassignment.reassigning import reassign
from tests.controller.core.procedures.topics.deleting import mark
from tests.controller.core.procedures.topics.topic_requests import TIMEOUT_MS, errors, grow, refused
from tests.controller.core.unreliable import Delivery

REFUSED = codes.INVALID_REPLICA_ASSIGNMENT
T = znodes.topic_path("t")


def cluster_of(brokers: int, partitions: dict[int, list[int]]) -> Cluster:
    cluster = Cluster(*range(1, brokers + 1)).start()
    cluster.create_topic("t", partitions)
    return cluster


def replicas(cluster: Cluster) -> dict[int, tuple[int, ...]]:
    return {number: one.replicas for number, one in cluster.topic("t").assignments.items()}


# Accepted ---------------------------------------------------------------------------------------


def test_partitions_are_added_and_answered_with_leaders() -> None:
    cluster = cluster_of(3, {0: [2, 3]})
    topic_id = cluster.topic("t").topic_id
    answer = grow(cluster, "t", 4)
    assert answer.topics == (TopicResult("t"),)
    # As in Kafka: the first broker not below the first replica is both start index and shift.
    assert replicas(cluster) == {0: (2, 3), 1: (3, 2), 2: (1, 3), 3: (2, 3)}
    assert cluster.topic("t").topic_id == topic_id
    assert all(cluster.state("t", number) for number in range(4))


def test_first_broker_starts_if_no_broker_follows_the_first_replica() -> None:
    cluster = cluster_of(2, {0: [9]})
    cluster.start_broker(9)
    cluster.stop_broker(9)
    assert errors(grow(cluster, "t", 3, timeout_ms=0)) == [codes.REQUEST_TIMED_OUT]
    assert replicas(cluster) == {0: (9,), 1: (2,), 2: (1,)}


def test_given_assignment_is_used() -> None:
    cluster = cluster_of(3, {0: [1, 2]})
    assert errors(grow(cluster, "t", 3, [3, 1], [2, 3])) == [codes.NONE]
    assert replicas(cluster) == {0: (1, 2), 1: (3, 1), 2: (2, 3)}


def test_validate_only_adds_nothing() -> None:
    cluster = cluster_of(3, {0: [1, 2]})
    seen = cluster.seen()
    assert errors(grow(cluster, "t", 3, validate_only=True)) == [codes.NONE]
    assert errors(grow(cluster, "t", 1, validate_only=True)) == [codes.INVALID_PARTITIONS]
    assert seen.writes() == []


# Rejected ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "count", "given", "error", "message"),
    [
        (
            "missing",
            0,
            [[9]],
            codes.UNKNOWN_TOPIC_OR_PARTITION,
            "The topic 'missing' does not exist.",
        ),
        (
            "t",
            1,
            [[9]],
            codes.INVALID_PARTITIONS,
            "Topic currently has 2 partitions, which is higher than the requested 1.",
        ),
        ("t", 2, [[9]], codes.INVALID_PARTITIONS, "Topic already has 2 partitions."),
        ("t", 5, [[9, 1], [8]], REFUSED, "Unknown broker(s) in replica assignment: 8, 9."),
        (
            "t",
            5,
            [[DAEMON, 9]],
            REFUSED,
            "Broker 1000 is the controller, which holds no replicas.",
        ),
        (
            "t",
            5,
            [[1, 1], []],
            REFUSED,
            "Increasing the number of partitions by 3 but 2 assignments provided.",
        ),
        ("t", 4, [[], [1, 1]], REFUSED, "Cannot have replication factor of 0 for partition id 2."),
        (
            "t",
            4,
            [[1], [2, 2]],
            REFUSED,
            "Duplicate brokers not allowed in replica assignment: 2, 2 for partition id 3.",
        ),
        (
            "t",
            5,
            [[1], [1, 2], [1, 2, 3]],
            REFUSED,
            "Inconsistent replication factor between partitions, partition 0 has 2 while "
            "partitions [2, 4] have replication factors [1, 3], respectively.",
        ),
        (
            "wide",
            2,
            [],
            codes.INVALID_REPLICATION_FACTOR,
            "Replication factor: 4 larger than available brokers: 3.",
        ),
        ("gap", 5, [], codes.UNKNOWN_SERVER_ERROR, None),
        ("gap", 3, [[1]], codes.UNKNOWN_SERVER_ERROR, None),
        (
            "t",
            2**31 - 1,
            [],
            codes.INVALID_REQUEST,
            "Topic 't' would need more than the 1000000 bytes of a znode.",
        ),
    ],
)
def test_topics_are_validated_in_kafkas_order(
    topic: str, count: int, given: Sequence[Sequence[int]], error: int, message: str | None
) -> None:
    cluster = cluster_of(3, {0: [1, 2], 1: [2, 3]})
    cluster.create_topic("wide", {0: [1, 2, 3, 4]})
    cluster.create_topic("gap", {0: [1], 2: [1]})
    seen = cluster.seen()
    assert refused(grow(cluster, topic, count, *given)) == (error, message)
    assert seen.writes() == []


def test_partitions_are_not_added_during_a_reassignment() -> None:
    cluster = cluster_of(3, {0: [1, 2]})
    reassign(cluster, 3, 1)
    assert refused(grow(cluster, "t", 1)) == (
        codes.REASSIGNMENT_IN_PROGRESS,
        "A partition reassignment is in progress for the topic 't'.",
    )


def test_partitions_are_not_added_to_a_topic_being_deleted() -> None:
    cluster = cluster_of(3, {0: [1, 2]})
    cluster.stop_broker(1)
    mark(cluster, "t")
    assert refused(grow(cluster, "t", 2)) == (
        codes.INVALID_TOPIC_EXCEPTION,
        "The topic is queued for deletion.",
    )


def test_each_topic_has_one_answer() -> None:
    cluster = cluster_of(2, {0: [1, 2]})
    cluster.create_topic("u", {0: [1]})
    asked = [NewPartitions(name, 2, None) for name in ("u", "missing", "t", "u")]
    answer = call(cluster, CreatePartitionsReceived(1, 3, TIMEOUT_MS, False, asked))
    assert isinstance(answer, CreatePartitionsResponse)
    assert [(one.name, one.error, one.message) for one in answer.topics] == [
        ("u", codes.INVALID_REQUEST, "Duplicate topic in request."),
        ("missing", codes.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'missing' does not exist."),
        ("t", codes.NONE, None),
    ]
    assert len(cluster.topic("u").assignments) == 1


def test_broker_without_a_rack_among_others_fails_all_topics() -> None:
    """AdminZkClient.getBrokerMetadatas, before any topic is validated."""
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [1]})
    cluster.start_broker(2, "a")
    assert refused(grow(cluster, "t", 2, [1])) == (codes.UNKNOWN_SERVER_ERROR, None)


def test_unreadable_topic_znode_is_reported() -> None:
    cluster = cluster_of(2, {0: [1]})
    cluster.put_quietly(T, b'{"partitions":{"x":[1]}}')
    seen = cluster.seen()
    assert refused(grow(cluster, "t", 2)) == (codes.UNKNOWN_SERVER_ERROR, None)
    assert ("unreadable_znode", T) in seen.notices()
    by_request = [one for one in seen.texts() if not one.endswith("; skipped")]
    assert len(by_request) == 1


# ZooKeeper --------------------------------------------------------------------------------------


def test_concurrent_write_is_kept() -> None:
    cluster = cluster_of(2, {0: [1]})
    cluster.once(writes(T), lambda: cluster.change_topic_quietly("t", {0: [1], 1: [2]}))
    assert refused(grow(cluster, "t", 2)) == (
        codes.INVALID_PARTITIONS,
        "Topic already has 2 partitions.",
    )
    assert replicas(cluster) == {0: (1,), 1: (2,)}


def test_topic_deleted_meanwhile_is_unknown() -> None:
    cluster = cluster_of(2, {0: [1]})
    cluster.once(writes(T), lambda: cluster.remove_quietly(T))
    assert refused(grow(cluster, "t", 2)) == (
        codes.UNKNOWN_TOPIC_OR_PARTITION,
        "The topic 't' does not exist.",
    )


def test_znode_that_changes_repeatedly_ends_the_attempts() -> None:
    cluster = cluster_of(2, {0: [1]})
    is_write, data = writes(T), cluster.data(T) or b""
    cluster.before = lambda issued: cluster.put_quietly(T, data) if is_write(issued) else None
    seen = cluster.seen()
    assert refused(grow(cluster, "t", 2)) == (codes.UNKNOWN_SERVER_ERROR, None)
    assert ("partitions_not_added", T) in seen.notices()
    assert seen.written().count(T) == 5


@pytest.mark.parametrize("delivery", [Delivery.REQUEST_LOST, Delivery.REPLY_LOST])
def test_write_with_a_lost_reply_is_a_success(delivery: Delivery) -> None:
    cluster = cluster_of(2, {0: [1]})
    cluster.lose(writes(T), delivery)
    assert errors(grow(cluster, "t", 2)) == [codes.NONE]
    assert replicas(cluster) == {0: (1,), 1: (2,)}


def test_another_controller_fences_the_write() -> None:
    cluster = cluster_of(2, {0: [1]})
    cluster.once(writes(T), lambda: cluster.seize_role(2))
    assert errors(grow(cluster, "t", 2)) == [codes.NOT_CONTROLLER]
    assert replicas(cluster) == {0: (1,)}


def test_standby_answers_not_controller() -> None:
    cluster = cluster_of(2, {0: [1]})
    cluster.seize_role(2)
    cluster.run()
    assert refused(grow(cluster, "t", 2)) == (codes.NOT_CONTROLLER, None)


def test_refused_write_is_answered_at_once_and_reported() -> None:
    cluster = WriteRejectingCluster(1, 2)
    cluster.start()
    cluster.create_topic("t", {0: [1]})
    cluster.refuses = writes(T)
    seen = cluster.seen()
    assert refused(grow(cluster, "t", 2)) == (codes.UNKNOWN_SERVER_ERROR, None)
    assert seen.notices() == [("partitions_not_added", T)]
    assert replicas(cluster) == {0: (1,)}


def test_assignments_that_do_not_fit_into_the_znode_are_refused() -> None:
    cluster = cluster_of(1, {0: [1]})
    count = 90_000
    error, text = refused(grow(cluster, "t", count + 1, *[[1]] * count))
    assert error == codes.INVALID_REQUEST
    assert "bytes of a znode" in (text or "")
    assert replicas(cluster) == {0: (1,)}


def test_request_that_breaks_both_limits_is_answered_with_the_missing_brokers() -> None:
    """A million partitions would not fit into a znode either."""
    cluster = cluster_of(2, {0: [1, 2]})
    cluster.stop_broker(2)
    assert errors(grow(cluster, "t", 1_000_000)) == [codes.INVALID_REPLICATION_FACTOR]
