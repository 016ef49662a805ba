"""DeleteTopics (KB 11.8): KafkaApis.handleDeleteTopicsRequest, ZkAdminManager.deleteTopics."""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.topics import DeletedTopic, TopicToDelete
from controller.core.commands import ReadChildren, StopReplicaRequest, WriteZnodes
from tests.controller.core.cluster import Cluster, by_rule, writes
from tests.controller.core.procedures.topics.deleting import (
    cluster_with_topic,
    left_of,
    marked,
    slow_to_delete,
)
from tests.controller.core.procedures.topics.topic_requests import delete, errors
from tests.controller.core.unreliable import Delivery

MARKER = znodes.delete_topic_path("t")
UNKNOWN_ID = bytes(15) + b"n"


def id_of(cluster: Cluster, topic: str) -> bytes:
    topic_id = cluster.topic(topic).topic_id
    assert isinstance(topic_id, bytes)
    return topic_id


def test_topic_is_deleted_by_its_name() -> None:
    cluster = cluster_with_topic()
    assert delete(cluster, "t").topics == (DeletedTopic("t", None),)
    assert left_of(cluster, "t") == []


def test_topic_is_deleted_by_its_id() -> None:
    cluster = cluster_with_topic()
    topic_id = id_of(cluster, "t")
    assert delete(cluster, topic_id).topics == (DeletedTopic("t", topic_id),)
    assert left_of(cluster, "t") == []


def test_answer_does_not_wait_for_replicas() -> None:
    """Kafka's metadata omits the topic once brokers have the UpdateMetadata."""
    cluster = cluster_with_topic()
    cluster.is_slow = lambda request: isinstance(request, StopReplicaRequest)
    assert errors(delete(cluster, "t")) == [codes.NONE]
    assert cluster.data(znodes.topic_path("t")) is not None


def test_each_topic_has_an_answer_in_the_order_of_the_request() -> None:
    cluster = cluster_with_topic()
    cluster.create_topic("u", {0: [1]})
    cluster.create_topic("leaderless", {0: [9]})
    answer = delete(cluster, "missing", "u", UNKNOWN_ID, "t", "leaderless", id_of(cluster, "u"))
    unknown = codes.UNKNOWN_TOPIC_OR_PARTITION
    assert [(one.name, one.error) for one in answer.topics] == [
        ("missing", unknown),
        ("u", codes.NONE),
        (None, codes.UNKNOWN_TOPIC_ID),
        ("t", codes.NONE),
        ("leaderless", unknown),
        ("u", codes.NONE),
    ]
    assert answer.topics[2].topic_id == UNKNOWN_ID
    assert left_of(cluster, "u") + left_of(cluster, "t") == []
    assert cluster.data(znodes.topic_path("leaderless")) is not None


def test_many_topics_need_one_write() -> None:
    cluster = Cluster(1).start()
    names = [f"t{number}" for number in range(20)]
    for name in names:
        cluster.create_topic(name, {0: [1]})
    seen = cluster.seen()
    assert errors(delete(cluster, *names)) == [codes.NONE] * 20
    ours = by_rule(WriteZnodes, "topics deleted by request")
    assert sum(ours(one) for _, issued in seen.history for one in issued) == 1


def test_topic_being_deleted_is_unknown() -> None:
    cluster = cluster_with_topic()
    slow_to_delete(cluster, 1, 2, 3)
    topic_id = id_of(cluster, "t")
    delete(cluster, "t")
    assert errors(delete(cluster, "t", topic_id)) == [codes.UNKNOWN_TOPIC_OR_PARTITION] * 2


def test_existing_marker_is_a_success() -> None:
    """The topic's deletion waits for a broker."""
    cluster = cluster_with_topic()
    cluster.once(writes(MARKER), lambda: cluster.put_quietly(MARKER, b""))
    seen = cluster.seen()
    assert errors(delete(cluster, "t")) == [codes.NONE]
    assert seen.notices() == []
    assert left_of(cluster, "t") == []


def test_topic_deleted_from_zookeeper_is_unknown() -> None:
    cluster = cluster_with_topic()
    path = znodes.topic_path("t")
    listing = by_rule(ReadChildren, "topics deleted by request")
    cluster.once(listing, lambda: cluster.remove_quietly(path))
    assert errors(delete(cluster, "t")) == [codes.UNKNOWN_TOPIC_OR_PARTITION]
    assert marked(cluster) == ()


@pytest.mark.parametrize(
    ("version", "error"), [(2, codes.INVALID_REQUEST), (3, codes.TOPIC_DELETION_DISABLED)]
)
def test_with_deletion_disabled_nothing_is_deleted(version: int, error: int) -> None:
    cluster = cluster_with_topic(delete_topic_enable=False)
    answer = delete(cluster, "t", "missing", version=version)
    assert errors(answer) == [error, error]
    assert cluster.data(znodes.topic_path("t")) is not None


def test_topic_named_by_name_and_id_rejects_the_request() -> None:
    cluster = cluster_with_topic()
    both = TopicToDelete("t", id_of(cluster, "t"))
    answer = delete(cluster, "t", both)
    assert (answer.error, errors(answer)) == (codes.INVALID_REQUEST, [codes.INVALID_REQUEST] * 2)
    assert cluster.data(znodes.topic_path("t")) is not None


def test_topic_without_name_and_id_may_not_be_deleted() -> None:
    cluster = cluster_with_topic()
    answer = delete(cluster, TopicToDelete(None, None))
    assert errors(answer) == [codes.TOPIC_AUTHORIZATION_FAILED]


@pytest.mark.parametrize("delivery", [Delivery.REQUEST_LOST, Delivery.REPLY_LOST])
def test_write_with_a_lost_reply_is_a_success(delivery: Delivery) -> None:
    cluster = cluster_with_topic()
    cluster.lose(writes(MARKER), delivery)
    assert errors(delete(cluster, "t")) == [codes.NONE]
    assert left_of(cluster, "t") == []


def test_write_rejected_by_zookeeper_is_an_error() -> None:
    cluster = cluster_with_topic()
    cluster.once(writes(MARKER), lambda: cluster.remove_quietly(znodes.DELETE_TOPICS))
    seen = cluster.seen()
    assert errors(delete(cluster, "t")) == [codes.UNKNOWN_SERVER_ERROR]
    assert seen.notices() == [("topic_not_marked", MARKER)]


def test_another_controller_fences_the_write() -> None:
    cluster = cluster_with_topic()
    cluster.once(writes(MARKER), lambda: cluster.seize_role(2))
    assert errors(delete(cluster, "t")) == [codes.NOT_CONTROLLER]
    assert marked(cluster) == ()


def test_standby_answers_not_controller() -> None:
    cluster = cluster_with_topic()
    cluster.seize_role(2)
    cluster.run()
    answer = delete(cluster, "t", UNKNOWN_ID)
    assert answer.topics == (
        DeletedTopic("t", None, codes.NOT_CONTROLLER),
        DeletedTopic(None, UNKNOWN_ID, codes.NOT_CONTROLLER),
    )
