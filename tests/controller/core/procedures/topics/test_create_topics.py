"""CreateTopics (KB 11.8): ZkAdminManager.createTopics, AdminZkClient.validateTopicCreate."""

from typing import Any

import msgspec
import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.topics import CreatedTopic, CreateTopicsReceived, NewTopic
from controller.core.commands import DrawNumbers, ReadChildren, WriteZnodes
from controller.core.operations import Create
from tests.controller.core.cluster import DAEMON, Cluster, by_rule, writes
from tests.controller.core.procedures.reassignment.interrupting import WriteRejectingCluster
from tests.controller.core.procedures.topics.deleting import mark
from tests.controller.core.procedures.topics.topic_requests import (
    create,
    errors,
    new_topic,
    refused,
)
from tests.controller.core.unreliable import Delivery

LONG = "x" * 249
ILLEGAL = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"


def config_of(cluster: Cluster, topic: str) -> Any:
    return msgspec.json.decode(cluster.data(znodes.topic_config_path(topic)) or b"null")


def replicas_of(cluster: Cluster, topic: str) -> dict[int, tuple[int, ...]]:
    return {number: one.replicas for number, one in cluster.topic(topic).assignments.items()}


# Accepted ---------------------------------------------------------------------------------------


def test_topic_is_created_and_answered_with_a_leader() -> None:
    cluster = Cluster(1, 2, 3).start()
    seen = cluster.seen()
    answer = create(cluster, new_topic("t", 2, 3, configs={"retention.ms": "1000"}))
    [one] = answer.topics
    assert one == CreatedTopic(
        "t",
        topic_id=cluster.topic("t").topic_id,
        partitions=2,
        replication_factor=3,
        configs=(("retention.ms", "1000"),),
    )
    assert one.topic_id is not None
    assert config_of(cluster, "t") == {"version": 1, "config": {"retention.ms": "1000"}}
    assert all(sorted(one) == [1, 2, 3] for one in replicas_of(cluster, "t").values())
    assert cluster.state("t", 0) is not None
    assert cluster.state("t", 1) is not None
    assert seen.notices() == []


def test_configuration_is_written_before_the_topic() -> None:
    """AdminZkClient.createTopicWithAssignment: a topic that the controller reads has its
    configuration."""
    cluster = Cluster(1).start()
    seen = cluster.seen()
    create(cluster, new_topic("t", 1, 1))
    assert seen.written()[:2] == [znodes.topic_config_path("t"), znodes.topic_path("t")]
    assert config_of(cluster, "t") == {"version": 1, "config": {}}


def test_configuration_of_an_earlier_topic_is_overwritten() -> None:
    cluster = Cluster(1).start()
    cluster.put(znodes.topic_config_path("t"), b'{"version":1,"config":{"retention.ms":"1"}}')
    assert errors(create(cluster, new_topic("t", 1, 1))) == [codes.NONE]
    assert config_of(cluster, "t") == {"version": 1, "config": {}}


def test_start_and_shift_are_drawn_for_each_topic() -> None:
    """The simulated dice count up."""
    cluster = Cluster(1, 2, 3).start()
    create(cluster, new_topic("a", 2, 2), new_topic("b", 2, 2), new_topic("c", given={0: [3]}))
    firsts = {name: replicas_of(cluster, name) for name in "abc"}
    drawn = [[*one.event.numbers] for one, _ in cluster.history if "numbers" in dir(one.event)]
    assert [len(one) for one in drawn] == [4]
    starts = drawn[0][::2]
    assert [firsts[name][0][0] for name in "ab"] == [[1, 2, 3][start] for start in starts]
    assert firsts["c"] == {0: (3,)}


def test_replicas_are_spread_over_racks() -> None:
    cluster = Cluster()
    for broker, rack in {1: "a", 2: "a", 3: "b", 4: "b"}.items():
        cluster.register(broker, rack)
    cluster.start()
    create(cluster, new_topic("t", 8, 2))
    for replicas in replicas_of(cluster, "t").values():
        assert {one > 2 for one in replicas} == {True, False}


def test_missing_values_are_the_configured_defaults() -> None:
    cluster = Cluster(1, 2, 3, num_partitions=4, default_replication_factor=2).start()
    answer = create(
        cluster, new_topic("t"), new_topic("u", 1), new_topic("v", replication_factor=3)
    )
    assert [(one.partitions, one.replication_factor) for one in answer.topics] == [
        (4, 2),
        (1, 2),
        (4, 3),
    ]


def test_given_assignment_is_used_with_unknown_brokers() -> None:
    cluster = Cluster(1, 2).start()
    answer = create(cluster, new_topic("t", given={1: [2, 9], 0: [1, 9]}))
    assert replicas_of(cluster, "t") == {0: (1, 9), 1: (2, 9)}
    assert [(one.partitions, one.replication_factor) for one in answer.topics] == [(2, 2)]


def test_without_topic_ids_a_topic_gets_none() -> None:
    cluster = Cluster(1, inter_broker_protocol_version="2.6-IV0").start()
    [one] = create(cluster, new_topic("t", 1, 1)).topics
    assert (one.error, one.topic_id) == (codes.NONE, None)
    assert cluster.topic("t").topic_id is None


def test_validate_only_creates_nothing() -> None:
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    answer = create(
        cluster,
        new_topic("t.a", 3, 2, configs={"retention.ms": "7"}),
        new_topic("t_a", 1, 1),
        new_topic("bad", 1, 3),
        validate_only=True,
    )
    good, alike, bad = answer.topics
    assert good == CreatedTopic(
        "t.a", partitions=3, replication_factor=2, configs=(("retention.ms", "7"),)
    )
    assert alike.error == codes.NONE
    assert bad.error == codes.INVALID_REPLICATION_FACTOR
    assert seen.writes() == []


def test_many_topics_need_few_reads_and_writes() -> None:
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    answer = create(cluster, *(new_topic(f"t{number}", 1, 2) for number in range(50)))
    assert errors(answer) == [codes.NONE] * 50
    ours = by_rule(WriteZnodes, "topics created by request")
    assert sum(ours(one) for _, issued in seen.history for one in issued) == 2
    reads = by_rule(ReadChildren, "topics created by request")
    assert sum(reads(one) for _, issued in seen.history for one in issued) == 2


# Rejected ---------------------------------------------------------------------------------------

REFUSED: list[tuple[NewTopic, int, str | None]] = [
    (
        new_topic("__cluster_metadata", 1, 1),
        codes.INVALID_REQUEST,
        "Creation of internal topic __cluster_metadata is prohibited.",
    ),
    (new_topic("old", 0, 0), codes.TOPIC_ALREADY_EXISTS, "Topic 'old' already exists."),
    (
        new_topic("", 0, 1, given={0: [1]}, configs={"b": None, "x": "1", "a": None}),
        codes.INVALID_CONFIG,
        "Null value not supported for topic configs: b,a",
    ),
    (
        new_topic("", 1, given={0: [1]}),
        codes.INVALID_REQUEST,
        "Both numPartitions or replicationFactor and replicasAssignments were set. "
        "Both cannot be used at the same time.",
    ),
    (
        new_topic("", replication_factor=1, given={0: [1]}),
        codes.INVALID_REQUEST,
        "Both numPartitions or replicationFactor and replicasAssignments were set. "
        "Both cannot be used at the same time.",
    ),
    (
        new_topic("", 0, 0),
        codes.INVALID_PARTITIONS,
        "Number of partitions must be larger than 0.",
    ),
    (
        new_topic("", 1, 0),
        codes.INVALID_REPLICATION_FACTOR,
        "Replication factor must be larger than 0.",
    ),
    (
        new_topic("", 1, 4),
        codes.INVALID_REPLICATION_FACTOR,
        "Replication factor: 4 larger than available brokers: 3.",
    ),
    (
        new_topic("", 1, 1),
        codes.INVALID_TOPIC_EXCEPTION,
        "Topic name is invalid: the empty string is not allowed",
    ),
    (
        new_topic(".", 1, 1),
        codes.INVALID_TOPIC_EXCEPTION,
        "Topic name is invalid: '.' is not allowed",
    ),
    (
        new_topic("..", 1, 1),
        codes.INVALID_TOPIC_EXCEPTION,
        "Topic name is invalid: '..' is not allowed",
    ),
    (
        new_topic(LONG + "x", 1, 1),
        codes.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: the length of '{LONG}x' is longer than the max allowed length 249",
    ),
    (
        new_topic("a/b", 1, 1),
        codes.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: 'a/b' {ILLEGAL}",
    ),
    (
        new_topic("zoë", 1, 1),
        codes.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: 'zoë' {ILLEGAL}",
    ),
    (
        new_topic("n\n", 1, 1),
        codes.INVALID_TOPIC_EXCEPTION,
        f"Topic name is invalid: 'n\n' {ILLEGAL}",
    ),
    (
        new_topic("going", given={0: [1, 1]}),
        codes.TOPIC_ALREADY_EXISTS,
        "Topic 'going' is marked for deletion.",
    ),
    (
        new_topic("unseen", given={0: [1, 1]}),
        codes.TOPIC_ALREADY_EXISTS,
        "Topic 'unseen' already exists.",
    ),
    (
        new_topic("a.b_c", given={0: [1, 1]}),
        codes.INVALID_TOPIC_EXCEPTION,
        "Topic 'a.b_c' collides with existing topics: a.b.c, a_b_c",
    ),
    (
        new_topic("n", given={0: [1, 1], 1: [1]}),
        codes.INVALID_REPLICA_ASSIGNMENT,
        "All partitions should have the same number of replicas",
    ),
    (
        new_topic("n", given={2: [3, 2], 0: [1, 1]}),
        codes.INVALID_REPLICA_ASSIGNMENT,
        "Duplicate replica assignment found: "
        "HashMap(0 -> ArrayBuffer(1, 1), 2 -> ArrayBuffer(3, 2))",
    ),
    (
        new_topic("n", given={1: [DAEMON]}),
        codes.INVALID_REPLICA_ASSIGNMENT,
        "partitions should be a consecutive 0-based integer sequence",
    ),
    (
        new_topic("n", given={-1: [1], 0: [1], 3: [1]}),
        codes.INVALID_REPLICA_ASSIGNMENT,
        "partitions should be a consecutive 0-based integer sequence",
    ),
    (
        new_topic("n", given={0: [1], 1: [DAEMON]}, configs={"bad": "1"}),
        codes.INVALID_REPLICA_ASSIGNMENT,
        "Broker 1000 is the controller, which holds no replicas.",
    ),
    (
        new_topic("n", 1, 1, configs={"bad": "1"}),
        codes.INVALID_CONFIG,
        "Unknown topic config name: bad",
    ),
    (
        new_topic("n", 2**31 - 1, 4),
        codes.INVALID_REPLICATION_FACTOR,
        "Replication factor: 4 larger than available brokers: 3.",
    ),
]


@pytest.mark.parametrize("rules", ["refold", "kafka"])
@pytest.mark.parametrize(
    ("asked", "error", "message"), REFUSED, ids=[str(place) for place in range(len(REFUSED))]
)
def test_topics_are_validated_in_kafkas_order(
    asked: NewTopic, error: int, message: str | None, rules: str
) -> None:
    cluster = Cluster(1, 2, 3, rules=rules).start()
    for name in ("old", "a.b.c", "a_b_c"):
        cluster.create_topic(name, {0: [1]})
    cluster.create_topic("going", {0: [9]})
    mark(cluster, "going")
    cluster.once(
        by_rule(ReadChildren, "topics created by request"),
        lambda: cluster.change_topic_quietly("unseen", {0: [1]}),
    )
    seen = cluster.seen()
    assert refused(create(cluster, asked)) == (error, message)
    assert not any("/config/topics" in path for path in seen.written())


def test_rejected_topic_does_not_affect_the_others() -> None:
    cluster = Cluster(1).start()
    answer = create(
        cluster, new_topic("a", 1, 1), new_topic("!", 1, 1), new_topic("b", 1, 2), new_topic("c", 1)
    )
    assert [(one.name, one.error) for one in answer.topics] == [
        ("a", codes.NONE),
        ("!", codes.INVALID_TOPIC_EXCEPTION),
        ("b", codes.INVALID_REPLICATION_FACTOR),
        ("c", codes.NONE),
    ]


def test_topic_named_twice_is_not_created() -> None:
    cluster = Cluster(1).start()
    answer = create(cluster, new_topic("t", 1, 1), new_topic("u", 1, 1), new_topic("t", 1, 1))
    text = "Found multiple entries for this topic."
    assert [(one.name, one.error, one.message) for one in answer.topics] == [
        ("t", codes.INVALID_REQUEST, text),
        ("u", codes.NONE, None),
        ("t", codes.INVALID_REQUEST, text),
    ]
    assert cluster.data(znodes.topic_path("t")) is None


def test_topics_of_one_request_can_collide() -> None:
    """Kafka creates them one after the other."""
    cluster = Cluster(1).start()
    answer = create(cluster, new_topic("a.b", 1, 1), new_topic("a_b", 1, 1))
    assert [one.message for one in answer.topics] == [
        None,
        "Topic 'a_b' collides with existing topics: a.b",
    ]


def test_broker_without_a_rack_among_others_fails_automatic_assignments() -> None:
    cluster = Cluster(1)
    cluster.register(2, "a")
    cluster.start()
    answer = create(cluster, new_topic("t", 1, 1), new_topic("u", given={0: [1]}))
    assert errors(answer) == [codes.UNKNOWN_SERVER_ERROR, codes.NONE]
    assert answer.topics[0].message is None


def test_daemon_and_brokers_in_shutdown_get_no_replicas() -> None:
    cluster = Cluster(1, 2).start()
    assert refused(create(cluster, new_topic("t", 1, 3)))[1] == (
        "Replication factor: 3 larger than available brokers: 2."
    )


@pytest.mark.parametrize("given", [None, {number: [1] for number in range(90_000)}])
def test_topic_too_large_for_a_znode_is_not_sent(given: dict[int, list[int]] | None) -> None:
    """A server would close the connection, at every attempt."""
    cluster = Cluster(1).start()
    counts = () if given else (2**31 - 1, 1)
    seen = cluster.seen()
    answer = create(cluster, new_topic("t", *counts, given=given))
    assert refused(answer) == (
        codes.INVALID_REQUEST,
        "Topic 't' would need more than the 1000000 bytes of a znode.",
    )
    assert seen.written() == []


@pytest.mark.parametrize(("partitions", "replicas"), [(111_112, 1), (66_667, 4)])
def test_replicas_that_cannot_fit_into_a_znode_are_not_chosen(
    partitions: int, replicas: int
) -> None:
    """Each needs two bytes at least, and each partition seven."""
    cluster = Cluster(1, 2, 3, 4).start()
    seen = cluster.seen()
    answer = create(cluster, new_topic("t", partitions, replicas))
    assert errors(answer) == [codes.INVALID_REQUEST]
    assert [one for one in seen.commands if isinstance(one, DrawNumbers)] == []


THROTTLED = "leader.replication.throttled.replicas"


def config_of_size(size: int) -> dict[str, str | None]:
    """A configuration whose znode has `size` bytes."""
    left = size - len(znodes.write_config({THROTTLED: ""}))
    return {THROTTLED: "1:1," * (left // 4 - 1) + "1" * (left % 4 + 2) + ":1"}


@pytest.mark.parametrize(
    ("size", "error"), [(1_000_000, codes.NONE), (1_000_001, codes.INVALID_REQUEST)]
)
def test_configuration_too_large_for_a_znode_is_not_sent(size: int, error: int) -> None:
    cluster = Cluster(1).start()
    large = config_of_size(size)
    assert errors(create(cluster, new_topic("t", 1, 1, configs=large))) == [error]
    assert len(cluster.data(znodes.topic_config_path("t")) or b"") == (0 if error else size)


def test_large_configuration_with_an_unknown_name_is_answered_as_in_kafka() -> None:
    cluster = Cluster(1).start()
    configs = {"bad": "1", **config_of_size(1_000_001)}
    assert errors(create(cluster, new_topic("t", 1, 1, configs=configs))) == [codes.INVALID_CONFIG]


# ZooKeeper --------------------------------------------------------------------------------------


def test_topic_created_by_a_broker_meanwhile_exists() -> None:
    cluster = Cluster(1, 2).start()
    cluster.once(
        writes(znodes.topic_path("t")), lambda: cluster.change_topic_quietly("t", {0: [2]})
    )
    answer = create(cluster, new_topic("t", 1, 2), new_topic("u", 1, 1))
    assert [(one.error, one.message) for one in answer.topics] == [
        (codes.TOPIC_ALREADY_EXISTS, "Topic 't' already exists."),
        (codes.NONE, None),
    ]
    assert replicas_of(cluster, "t") == {0: (2,)}


@pytest.mark.parametrize("delivery", [Delivery.REQUEST_LOST, Delivery.REPLY_LOST])
@pytest.mark.parametrize("path", [znodes.topic_config_path("t"), znodes.topic_path("t")])
def test_write_with_a_lost_reply_is_a_success(path: str, delivery: Delivery) -> None:
    cluster = Cluster(1).start()
    cluster.lose(writes(path), delivery)
    assert errors(create(cluster, new_topic("t", 1, 1))) == [codes.NONE]
    assert cluster.version(znodes.topic_path("t")) == 0


def test_write_rejected_by_zookeeper_is_an_error() -> None:
    cluster = Cluster(1).start()
    cluster.remove_quietly(znodes.TOPIC_CONFIGS)
    seen = cluster.seen()
    assert refused(create(cluster, new_topic("t", 1, 1))) == (codes.UNKNOWN_SERVER_ERROR, None)
    assert seen.notices() == [("topic_not_created", znodes.topic_config_path("t"))]
    assert cluster.data(znodes.topic_path("t")) is None
    cluster.ask(Create(znodes.TOPIC_CONFIGS))


def test_another_controller_fences_the_creation() -> None:
    cluster = Cluster(1, 2).start()
    cluster.once(writes(znodes.topic_config_path("t")), lambda: cluster.seize_role(2))
    assert errors(create(cluster, new_topic("t", 1, 1))) == [codes.NOT_CONTROLLER]
    assert cluster.data(znodes.topic_path("t")) is None
    assert cluster.data(znodes.topic_config_path("t")) is None


def test_standby_answers_not_controller() -> None:
    cluster = Cluster(1, 2).start()
    cluster.seize_role(2)
    cluster.run()
    answer = create(cluster, new_topic("t", 1, 1), new_topic("t", 1, 1))
    assert [(one.error, one.message) for one in answer.topics] == [(codes.NOT_CONTROLLER, "")] * 2


# empty-assignment-refused -----------------------------------------------------------------------


@pytest.mark.parametrize("rules", ["refold", "kafka"])
@pytest.mark.deviates("empty-assignment-refused")
def test_assignment_without_brokers_is_rejected_by_refolds_rule(rules: str) -> None:
    cluster = Cluster(1, rules=rules).start()
    answer = create(cluster, new_topic("t", given={0: []}), timeout_ms=0)
    if rules == "kafka":
        assert errors(answer) == [codes.REQUEST_TIMED_OUT]
        assert replicas_of(cluster, "t") == {0: ()}
    else:
        assert refused(answer) == (
            codes.INVALID_REPLICA_ASSIGNMENT,
            "The manual partition assignment includes an empty replica list.",
        )


# Writes that ZooKeeper refuses ------------------------------------------------------------------


def test_topic_whose_znode_cannot_be_written_is_answered_with_an_error() -> None:
    cluster = WriteRejectingCluster(1)
    cluster.start()
    path = znodes.topic_path("t")
    cluster.refuses = writes(path)
    seen = cluster.seen()
    answer = create(cluster, new_topic("t", 1, 1), new_topic("u", 1, 1))
    assert [one.error for one in answer.topics] == [codes.UNKNOWN_SERVER_ERROR] * 2
    assert ("topic_not_created", path) in seen.notices()
    assert (cluster.data(path), cluster.state("u", 0)) == (None, None)
    cluster.refuses = lambda issued: False
    answer = create(cluster, new_topic("t", 1, 1), new_topic("u", 1, 1))
    assert [one.error for one in answer.topics] == [codes.NONE] * 2


def test_refusal_has_an_empty_message_only_if_the_controller_is_another_one() -> None:
    asked = CreateTopicsReceived(1, 7, 1_000, False, [new_topic("t", 1, 1)])
    for error, message in ((codes.NOT_CONTROLLER, ""), (codes.REQUEST_TIMED_OUT, None)):
        assert asked.refusal(error).topics == (CreatedTopic("t", error, message),)
