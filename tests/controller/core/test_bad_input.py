"""Znodes with anything in them: told with their path, left out, and the rest goes on."""

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
    """A new topic on the good broker gets its leader, and every record can be written."""
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
def test_a_controller_znode(data: bytes) -> None:
    """Somebody holds the role, whatever the znode says: it is not ours to take."""
    cluster = Cluster(1)
    session = cluster.zookeeper.create_session()
    cluster.zookeeper.apply(session, Create(znodes.CONTROLLER, data, ephemeral=True), 0)
    cluster.start()
    assert not cluster.is_active
    assert not cluster.is_stopped
    cluster.leave_role(session)
    assert_works(cluster)


@pytest.mark.parametrize("data", EPOCHS)
def test_a_controller_epoch_that_is_no_number(data: bytes) -> None:
    """Nobody can become controller then: the operator is told with the path."""
    cluster = Cluster(1)
    cluster.ask(Create(znodes.CONTROLLER_EPOCH, data))
    seen = cluster.seen()
    cluster.start()
    assert not cluster.is_active
    assert cluster.data(znodes.CONTROLLER_EPOCH) == data
    assert any(znodes.CONTROLLER_EPOCH in text for text in seen.texts())
    assert_can_be_logged(cluster)


@corrupt
def test_a_broker_registration(data: bytes) -> None:
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
def test_a_registration_that_makes_no_sense(fields: dict[str, object]) -> None:
    cluster = Cluster(1).start()
    session = cluster.zookeeper.create_session()
    create = Create(znodes.broker_path(2), msgspec.json.encode(fields), ephemeral=True)
    cluster.zookeeper.apply(session, create, 0)
    seen = cluster.seen()
    cluster.run()
    assert seen.notices() == [("unreadable_znode", znodes.broker_path(2))]
    assert_works(cluster)


@corrupt
def test_a_registration_that_is_overwritten(data: bytes) -> None:
    """The broker stays as it is known."""
    cluster = Cluster(1, 2).start()
    seen = cluster.seen()
    cluster.put(znodes.broker_path(2), data)
    assert seen.notices() == [("unreadable_znode", znodes.broker_path(2))]
    assert list(cluster.fold.controller.context.brokers) == [1, 2]
    assert_works(cluster)


@corrupt
def test_a_topic(data: bytes) -> None:
    path = znodes.topic_path("t")
    cluster = Cluster(1)
    cluster.ask(Create(path, data))
    seen = cluster.seen()
    cluster.start()
    assert seen.notices() == [("unreadable_znode", path)]
    assert cluster.data(path) == data
    assert_works(cluster)


@corrupt
def test_a_topic_that_is_overwritten(data: bytes) -> None:
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
def test_a_topic_that_makes_no_sense(content: dict[str, object]) -> None:
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
def test_a_topic_that_lacks_what_it_needs(content: dict[str, list[int]], lacks: str) -> None:
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
def test_a_topic_that_loses_what_it_needs(content: dict[str, list[int]], lacks: str) -> None:
    """What is known goes on."""
    path = znodes.topic_path("t")
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [1]})
    seen = cluster.seen()
    cluster.put(path, msgspec.json.encode({"version": 3, "partitions": content}))
    assert seen.notices() == [(lacks, path)]
    assert cluster.partition("t", 0).replicas == (1,)
    assert_works(cluster)


@corrupt
@pytest.mark.parametrize("when", ["failover", "election"])
def test_a_partition_state(data: bytes, when: str) -> None:
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
    assert ("unreadable_znode", path) in seen.notices()
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
def test_a_partition_state_with_huge_numbers(fields: dict[str, object]) -> None:
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
def test_a_topics_configuration(data: bytes) -> None:
    """The partition waits rather than guess whether an unclean leader is allowed."""
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
        assert "the configuration of its topic cannot be read" in seen.told("no_leader_elected")
        assert cluster.state("t", 0) == "leader -1 e 2 isr [2] v 2 ce 1"
    assert_works(cluster)


# Content that can be read and makes no sense --------------------------------------------------


def test_unknown_brokers_in_an_assignment() -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [7, 1, -3], 1: [7]})
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1] v 0 ce 1"
    assert cluster.state("t", 1) is None
    assert_works(cluster)


def test_an_empty_isr() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [2, 1]})
    cluster.set_isr("t", 0, [])
    seen = cluster.seen()
    cluster.stop_broker(2)
    assert ("no_leader_elected", "t-0") in seen.notices()
    assert_works(cluster)


def test_a_topic_without_partitions() -> None:
    cluster = Cluster(1).start()
    seen = cluster.seen()
    cluster.create_topic("t", {})
    cluster.create_topic("u", {0: []})
    assert seen.requested() == {}
    assert_works(cluster)
    cluster.expire()
    assert cluster.is_active


def test_a_partition_that_loses_its_replicas() -> None:
    cluster = Cluster(1).start()
    cluster.create_topic("t", {0: [1]})
    cluster.create_topic("t", {0: []})
    assert cluster.partition("t", 0).replicas == (1,)
    cluster.expire()
    assert_works(cluster)


def test_duplicate_replicas() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 1, 2]})
    state = cluster.leadership("t", 0)
    assert (state.leader, sorted(set(state.isr))) == (1, [1, 2])
    cluster.stop_broker(1)
    assert cluster.leadership("t", 0).leader == 2
    assert 1 not in cluster.leadership("t", 0).isr
    assert_can_be_logged(cluster)


def test_the_own_id_twice_in_an_assignment() -> None:
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [DAEMON, 1, DAEMON]})
    replicas = cluster.topic("t").assignments[0].replicas
    assert DAEMON not in replicas
    assert len(set(replicas)) == len(replicas)
    assert_works(cluster)


def test_a_broker_under_the_daemons_own_id() -> None:
    cluster = Cluster(1, DAEMON)
    seen = cluster.seen()
    cluster.start()
    assert ("unreadable_znode", znodes.broker_path(DAEMON)) in seen.notices()
    assert seen.channels() == ["open channel to 1"]
    assert_works(cluster)


@pytest.mark.parametrize("child", ["x", "-1", "1.0", "٣", "01", "1e3", "99999999999", DIGITS[:200]])
def test_children_of_the_brokers_that_are_no_numbers(child: str) -> None:
    cluster = Cluster(1).start()
    path = f"{znodes.BROKER_IDS}/{child}"
    seen = cluster.seen()
    cluster.put(path, cluster.data(znodes.broker_path(1)) or b"")
    assert seen.notices() == [("unreadable_znode", path)]
    assert seen.channels() == []
    assert list(cluster.fold.controller.context.brokers) == [1]
    assert_works(cluster)


def test_a_feature_and_a_notification_together_cost_nothing_else() -> None:
    cluster = Cluster(1)
    cluster.ask(Create(znodes.FEATURE, b"{"))
    cluster.ask(Create(f"{znodes.ISR_CHANGES}/isr_change_x", b"{"))
    cluster.ask(Create(znodes.topic_path("t"), topic_json({0: [1]}) + b"}"))
    cluster.start()
    assert_works(cluster)


def test_two_topics_of_which_one_is_corrupt() -> None:
    cluster = Cluster(1).start()
    cluster.ask(Create(znodes.topic_path("bad"), b"{"))
    cluster.ask(Create(znodes.topic_path("good"), topic_json({0: [1]})))
    cluster.run()
    assert cluster.state("good", 0) == "leader 1 e 0 isr [1] v 0 ce 1"
