"""Znodes with any content: the controller logs the path, skips the znode and continues."""

import msgspec
import pytest

from controller.core import znodes
from controller.core.canonical import encode_command, encode_event
from controller.core.operations import Create
from tests.controller.core.cluster import DAEMON, Cluster, topic_json

CORRUPT = {
    "nothing": b"",
    "cut off": b'{"version":1,',
    "no object": b"[]",
    "a number": b"7",
    "null": b"null",
    "not utf-8": b"\xff\xfe\x00",
    "deep": b"[" * 2000,
    "long": b'{"' + b"x" * 100_000,
}
HUGE = 10**30
DIGITS = "9" * 5000
EPOCHS = [b"", b"seven", b"-1", b"1.5", b"\xff", DIGITS.encode(), b"9" * 12]

corrupt = pytest.mark.parametrize("data", list(CORRUPT.values()), ids=list(CORRUPT))


def assert_works(cluster: Cluster) -> None:
    """The controller elects a leader for a new topic on broker 1, and every record can be
    written."""
    cluster.create_topic("works", {0: [1]})
    assert cluster.is_active
    assert cluster.state("works", 0) == "leader 1 e 0 isr [1] v 0 ce " + str(cluster.epoch())
    assert_can_be_logged(cluster)


def assert_can_be_logged(cluster: Cluster) -> None:
    for recorded, issued in cluster.history:
        encode_event(recorded.event)
        for one in issued:
            encode_command(one.command)


# Corrupt content, znode by znode --------------------------------------------------------------


@corrupt
def test_unreadable_controller_znode_is_a_held_role(data: bytes) -> None:
    """Another session holds the role, whatever the content is. The daemon does not take it."""
    cluster = Cluster(1)
    session = cluster.zookeeper.create_session()
    cluster.zookeeper.apply(session, Create(znodes.CONTROLLER, data, ephemeral=True), 0)
    cluster.start()
    assert not cluster.is_active
    assert not cluster.is_stopped
    cluster.leave_role(session)
    assert_works(cluster)


@pytest.mark.parametrize("data", EPOCHS)
def test_controller_epoch_that_is_not_a_number_prevents_the_election(data: bytes) -> None:
    """The notice names the path."""
    cluster = Cluster(1)
    cluster.ask(Create(znodes.CONTROLLER_EPOCH, data))
    seen = cluster.seen()
    cluster.start()
    assert not cluster.is_active
    assert cluster.data(znodes.CONTROLLER_EPOCH) == data
    assert any(znodes.CONTROLLER_EPOCH in text for text in seen.texts())
    assert_can_be_logged(cluster)


@corrupt
def test_unreadable_registration_is_reported_and_skipped(data: bytes) -> None:
    cluster = Cluster(1)
    session = cluster.zookeeper.create_session()
    cluster.zookeeper.apply(session, Create(znodes.broker_path(2), data, ephemeral=True), 0)
    seen = cluster.seen()
    cluster.start()
    assert seen.notices() == [("unreadable_znode", znodes.broker_path(2))]
    assert list(cluster.fold.controller.context.brokers) == [1]
    assert_works(cluster)


@pytest.mark.parametrize(
    "fields",
    [
        {"version": 0},
        {"version": 5},
        {"version": 5, "endpoints": ["nonsense"]},
        {"version": 5, "endpoints": ["PLAINTEXT://h:port"]},
        {"version": 5, "endpoints": ["PLAINTEXT://h:-1"]},
        {"version": 5, "endpoints": ["PLAINTEXT://h:99999"]},
        {"version": 5, "endpoints": [f"PLAINTEXT://h:{DIGITS}"]},
        {"version": 5, "endpoints": [7]},
        {"version": "five"},
        {"version": 1, "host": "h", "port": -5},
    ],
)
def test_registration_with_invalid_fields_is_reported_and_skipped(
    fields: dict[str, object],
) -> None:
    cluster = Cluster(1).start()
    session = cluster.zookeeper.create_session()
    create = Create(znodes.broker_path(2), msgspec.json.encode(fields), ephemeral=True)
    cluster.zookeeper.apply(session, create, 0)
    seen = cluster.seen()
    cluster.run()
    assert seen.notices() == [("unreadable_znode", znodes.broker_path(2))]
    assert_works(cluster)


@corrupt
def test_registration_overwritten_with_unreadable_content_is_ignored(data: bytes) -> None:
    """The controller keeps the broker as it was registered."""
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    cluster.put(znodes.broker_path(2), data)
    assert seen.notices() == [("unreadable_znode", znodes.broker_path(2))]
    assert list(cluster.fold.controller.context.brokers) == [1, 2]
    assert_works(cluster)


@corrupt
def test_unreadable_topic_is_reported_and_skipped(data: bytes) -> None:
    path = znodes.topic_path("t")
    cluster = Cluster(1)
    cluster.ask(Create(path, data))
    seen = cluster.seen()
    cluster.start()
    assert seen.notices() == [("unreadable_znode", path)]
    assert cluster.data(path) == data
    assert_works(cluster)


@corrupt
def test_topic_overwritten_with_unreadable_content_keeps_its_partitions(data: bytes) -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [1]})
    seen = cluster.seen()
    cluster.put(znodes.topic_path("t"), data)
    assert seen.notices() == [("unreadable_znode", znodes.topic_path("t"))]
    assert cluster.partition("t", 0).replicas == (1,)
    assert_works(cluster)


@pytest.mark.parametrize(
    "content",
    [
        {"partitions": {"0": [1, HUGE]}},
        {"partitions": {"0": [1, 2**31]}},
        {"partitions": {"zero": [1]}},
        {"partitions": {"-1": [1]}},
        {"partitions": {str(2**31): [1]}},
        {"partitions": {DIGITS: [1]}},
        {"partitions": {"0": ["1"]}},
        {"partitions": {"0": 1}},
        {"partitions": {"0": [1]}, "adding_replicas": {"0": [HUGE]}},
        {"partitions": {"0": [1]}, "topic_id": "short"},
        {"partitions": {"0": [1]}, "topic_id": "é" * 22},
        {"partitions": {"0": [1]}, "topic_id": "+/" + "a" * 20},
        {"partitions": {"0": [1]}, "topic_id": 7},
    ],
)
def test_topic_with_invalid_fields_is_reported_and_skipped(content: dict[str, object]) -> None:
    path = znodes.topic_path("t")
    cluster = Cluster(1).start()
    seen = cluster.seen()
    cluster.put(path, msgspec.json.encode({"version": 3} | content))
    assert seen.notices() == [("unreadable_znode", path)]
    assert_works(cluster)


@pytest.mark.parametrize(
    ("content", "lacks"),
    [({"0": [1], "1": []}, "no_replicas"), ({}, "no_partitions")],
)
def test_topic_without_partitions_or_replicas_is_reported(
    content: dict[str, list[int]], lacks: str
) -> None:
    path = znodes.topic_path("t")
    cluster = Cluster(1).start()
    seen = cluster.seen()
    cluster.put(path, msgspec.json.encode({"version": 3, "partitions": content}))
    assert (lacks, path) in seen.notices()
    assert_works(cluster)
    seen = cluster.seen()
    cluster.expire()
    assert (lacks, path) in seen.notices()


@pytest.mark.parametrize(
    ("content", "lacks"),
    [
        ({"0": [1], "1": []}, "no_replicas"),
        ({}, "partitions_missing"),
        ({"0": []}, "partitions_missing"),
    ],
)
def test_known_topic_keeps_partitions_and_replicas_that_are_removed(
    content: dict[str, list[int]], lacks: str
) -> None:
    path = znodes.topic_path("t")
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [1]})
    seen = cluster.seen()
    before = msgspec.json.decode(cluster.data(path) or b"")
    cluster.put(path, msgspec.json.encode(before | {"partitions": content}))
    assert seen.notices() == [(lacks, path)]
    assert cluster.partition("t", 0).replicas == (1,)
    assert_works(cluster)


@corrupt
@pytest.mark.parametrize("when", ["failover", "election"])
def test_unreadable_partition_state_is_reported_and_kept(data: bytes, when: str) -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [2, 1], 1: [2, 1]})
    path = znodes.state_path("t", 0)
    cluster.put(path, data)
    seen = cluster.seen()
    if when == "failover":
        cluster.expire()
    else:
        cluster.stop_broker(2)
        assert cluster.state("t", 1) == "leader 1 e 1 isr [1] v 1 ce 1"
    texts = seen.texts_of("unreadable_znode")
    assert texts
    assert all(one.startswith(f"{path} cannot be read as a partition state: ") for one in texts)
    assert cluster.data(path) == data
    assert_works(cluster)


@pytest.mark.parametrize(
    "fields",
    [
        {"leader": HUGE},
        {"leader": 2**31},
        {"leader_epoch": HUGE},
        {"leader_epoch": 2**31 - 1},
        {"isr": [HUGE]},
        {"controller_epoch": -HUGE},
        {"leader_recovery_state": HUGE},
    ],
)
def test_partition_state_with_huge_numbers_is_kept(fields: dict[str, object]) -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [2, 1]})
    path = znodes.state_path("t", 0)
    whole = {"version": 1, "leader": 2, "leader_epoch": 0, "controller_epoch": 1, "isr": [2, 1]}
    data = msgspec.json.encode(whole | fields)
    cluster.put(path, data)
    cluster.stop_broker(2)
    assert cluster.data(path) == data
    cluster.expire()
    assert_works(cluster)


@corrupt
def test_unreadable_topic_configuration_allows_no_unclean_leader(data: bytes) -> None:
    """The partition stays without a leader: an unclean leader might not be allowed."""
    cluster = Cluster(1, 2, unclean_leader_election_enable=True).start()
    cluster.create_topic("t", {0: [2, 1]})
    cluster.stop_broker(1)
    cluster.start_broker(1)
    path = znodes.topic_config_path("t")
    cluster.put(path, data)
    seen = cluster.seen()
    cluster.stop_broker(2)
    if data:
        assert ("unreadable_znode", path) in seen.notices()
        assert "the configuration of its topic cannot be read" in seen.texts_of("no_leader_elected")
        assert cluster.state("t", 0) == "leader -1 e 2 isr [2] v 2 ce 1"
    assert_works(cluster)


# Content that can be read and is not valid ----------------------------------------------------


def test_unregistered_brokers_in_an_assignment_are_offline_replicas() -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [7, 1, -3], 1: [7]})
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1] v 0 ce 1"
    assert cluster.state("t", 1) is None
    assert_works(cluster)


def test_partition_with_an_empty_isr_gets_no_leader() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [2, 1]})
    cluster.set_isr("t", 0, [])
    seen = cluster.seen()
    cluster.stop_broker(2)
    assert ("no_leader_elected", "t-0") in seen.notices()
    assert_works(cluster)


def test_topic_without_partitions_or_replicas_causes_no_request() -> None:
    cluster = Cluster(1).start()
    seen = cluster.seen()
    cluster.create_topic("t", {})
    cluster.create_topic("u", {0: []})
    assert seen.requested() == {}
    assert_works(cluster)
    cluster.expire()
    assert cluster.is_active


def test_partition_without_replicas_keeps_the_known_ones() -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [1]})
    cluster.create_topic("t", {0: []})
    assert cluster.partition("t", 0).replicas == (1,)
    cluster.expire()
    assert_works(cluster)


def test_duplicate_replicas_elect_another_leader_when_the_broker_dies() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 1, 2]})
    state = cluster.leadership("t", 0)
    assert (state.leader, sorted(set(state.isr))) == (1, [1, 2])
    cluster.stop_broker(1)
    assert cluster.leadership("t", 0).leader == 2
    assert 1 not in cluster.leadership("t", 0).isr
    assert_can_be_logged(cluster)


def test_daemon_named_twice_in_an_assignment_is_replaced() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [DAEMON, 1, DAEMON]})
    replicas = cluster.topic("t").assignments[0].replicas
    assert DAEMON not in replicas
    assert len(set(replicas)) == len(replicas)
    assert_works(cluster)


def test_broker_registered_with_the_daemons_id_is_reported_and_skipped() -> None:
    cluster = Cluster(1, DAEMON)
    seen = cluster.seen()
    cluster.start()
    assert ("unreadable_znode", znodes.broker_path(DAEMON)) in seen.notices()
    assert seen.channels() == ["open channel to 1"]
    assert_works(cluster)


@pytest.mark.parametrize("child", ["x", "-1", "1.0", "٣", "01", "1e3", "99999999999", DIGITS[:200]])
def test_children_of_brokers_ids_that_are_not_broker_ids_are_skipped(child: str) -> None:
    cluster = Cluster(1).start()
    path = f"{znodes.BROKER_IDS}/{child}"
    seen = cluster.seen()
    cluster.put(path, cluster.data(znodes.broker_path(1)) or b"")
    assert seen.notices() == [("unreadable_znode", path)]
    assert seen.channels() == []
    assert list(cluster.fold.controller.context.brokers) == [1]
    assert_works(cluster)


def test_unreadable_feature_notification_and_topic_affect_nothing_else() -> None:
    cluster = Cluster(1)
    cluster.ask(Create(znodes.FEATURE, b"{"))
    cluster.ask(Create(f"{znodes.ISR_CHANGES}/isr_change_x", b"{"))
    cluster.ask(Create(znodes.topic_path("t"), topic_json({0: [1]}) + b"}"))
    cluster.start()
    assert_works(cluster)


def test_one_unreadable_topic_of_two_does_not_affect_the_other() -> None:
    cluster = Cluster(1).start()
    cluster.ask(Create(znodes.topic_path("bad"), b"{"))
    cluster.ask(Create(znodes.topic_path("good"), topic_json({0: [1]})))
    cluster.run()
    assert cluster.state("good", 0) == "leader 1 e 0 isr [1] v 0 ce 1"
