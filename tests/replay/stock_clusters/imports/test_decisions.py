"""The writes that count as a controller's decisions: the rules of docs/imported-logs.md."""

from typing import Any

import pytest

from replay.stock_clusters.imported_log.events import DecisionObserved
from replay.stock_clusters.imports.decisions import KINDS
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.transactions import Check, Delete, Error, SetData
from tests.replay.stock_clusters.imports.cluster import (
    EPOCH,
    FENCED,
    REASSIGN,
    STATE,
    Cluster,
    T,
    create,
    kind,
    led,
    served,
    state,
    topic,
)

PRODUCER_IDS = "/latest_producer_id_block"


def block(broker: int) -> bytes:
    return b'{"version":1,"broker":%d,"block_start":"0","block_end":"999"}' % broker


@pytest.mark.parametrize("chroot", ["", "/prod/k1"])
def test_election_begins_a_term(chroot: str) -> None:
    cluster = Cluster(chroot)
    cluster.start(2)
    assert kind(cluster.does(2, create(EPOCH, b"0"))) == "controller_epoch"
    found = cluster.elect(2, epoch=1)
    assert (found.what, found.broker, found.epoch, found.error) == ("election", 2, 1, 0)
    assert cluster.terms.current is not None
    assert cluster.terms.current.broker == 2


def test_broker_of_an_election_is_that_of_its_registration() -> None:
    """The content of /controller is a decision, and names the broker if it has no registration."""
    cluster = Cluster()
    cluster.start(2)
    content = create("/controller", b'{"version":2,"brokerid":3}', ephemeral=True)
    found = cluster.does(2, content, SetData(EPOCH, b"1", 1))
    assert (found.what, found.broker) == ("election", 2)
    assert cluster.guarded(2, Delete(STATE)).broker == 2
    unregistered = Cluster()
    assert unregistered.does(2, content, SetData(EPOCH, b"1", 1)).broker == 3


def test_decisions_of_a_kraft_controller_are_marked() -> None:
    """Refused ones, too."""
    cluster = Cluster()
    cluster.elect(1)
    assert not cluster.guarded(1, Delete(STATE)).is_kraft
    cluster.does(1, Delete("/controller"))
    assert cluster.elect(3000, 2, kraft_epoch=5).is_kraft
    found = cluster.guarded(3000, Delete(STATE))
    assert (found.who, found.epoch) == ("KRaft controller 3000", 2)
    assert cluster.does(3000, *FENCED).is_kraft


def test_term_of_a_kraft_controller_lasts_beyond_its_session() -> None:
    """Its /controller is persistent."""
    cluster = Cluster()
    cluster.elect(3000, kraft_epoch=5)
    cluster.end_session(3000)
    assert cluster.terms.current is not None
    assert cluster.terms.current.name == "KRaft controller 3000"
    cluster.does(0, Delete("/controller"))
    assert cluster.terms.current is None


def test_registration_is_not_an_election() -> None:
    cluster = Cluster()
    path = "/brokers/ids/1"
    assert cluster.does(1, create(path, ephemeral=True), SetData(path, b"{}", 1)) is None
    assert cluster.terms.current is None


@pytest.mark.parametrize(
    ("operation", "what"),
    [
        (create(f"{T}/partitions"), "partition_znode"),
        (create(f"{T}/partitions/1"), "partition_znode"),
        (create(STATE, state(1, 0, 1)), "partition_state"),
        (SetData(STATE, state(2, 1, 2, 3), 1), "partition_state"),
        (SetData(T, topic([1, 2, 3]), 2), "assignment"),
        (Delete(STATE), "topic_deletion"),
        (Delete(f"{T}/partitions/0"), "topic_deletion"),
        (Delete(T), "topic_deletion"),
        (Delete("/config/topics/t"), "topic_deletion"),
        (Delete("/admin/delete_topics/t"), "topic_deletion"),
        (SetData(REASSIGN, b"{}", 1), "reassign_partitions"),
        (Delete(REASSIGN), "reassign_partitions"),
        (Delete("/admin/preferred_replica_election"), "preferred_election"),
        (Delete("/isr_change_notification/isr_change_0000000001"), "notification"),
        (Delete("/log_dir_event_notification/log_dir_event_0000000001"), "notification"),
        (create("/feature", b"{}"), "feature"),
        (Delete("/controller"), "resignation"),
        (SetData("/controller", b"{}", 1), "other"),
        (Delete("/somewhere/else"), "other"),
    ],
)
@pytest.mark.parametrize("chroot", ["", "/prod/k1"])
def test_guarded_write_is_a_decision(operation: Any, what: str, chroot: str) -> None:
    cluster = led(chroot=chroot)
    found = cluster.guarded(1, operation)
    assert (found.what, found.broker, found.epoch, found.error) == (what, 1, 1, 0)
    assert what in KINDS


def test_guarded_write_of_another_session_is_a_decision() -> None:
    cluster = led(1)
    cluster.does(0, Delete("/controller"))
    assert kind(cluster.guarded(1, SetData(STATE, state(2, 1, 2, 3), 1))) == "partition_state"
    assert kind(cluster.guarded(3, SetData(STATE, state(3, 2, 3), 2))) == "partition_state"


def test_unguarded_writes_of_brokers_and_clients_are_input() -> None:
    cluster = led(1)
    plain = [
        create("/config/topics/u", b"{}"),
        create("/brokers/topics/u", topic([1])),
        create("/admin/delete_topics/t"),
        SetData(STATE, state(1, 0, 1, 2), 1),
        SetData("/brokers/topics/u", topic([1]), 1),
        create(REASSIGN, b"{}"),
    ]
    assert [cluster.does(1, one) for one in plain] == [None] * len(plain)
    config = (Check("/controller", 1), SetData("/config/topics/u", b"{}", 1))
    assert cluster.does(1, *config) is None
    assert cluster.does(1, Check("/controller", 1), Error(-101)) is None


def test_resignation_is_a_decision_only_of_the_controllers_session() -> None:
    cluster = led(1)
    assert cluster.does(0, Delete("/controller")) is None
    assert cluster.terms.current is None
    cluster.elect(2, epoch=2)
    found = cluster.does(2, Delete("/controller"))
    assert (found.what, found.broker, found.epoch) == ("resignation", 2, 2)
    assert cluster.terms.current is None


def test_term_ends_with_its_session() -> None:
    cluster = led(1)
    cluster.end_session(2)
    assert cluster.terms.current is not None
    cluster.end_session(1)
    assert cluster.terms.current is None


def test_feature_is_a_decision_of_the_controller_only() -> None:
    cluster = led(1)
    assert cluster.does(2, create("/feature", b"{}")) is None
    assert kind(cluster.does(1, SetData("/feature", b"{}", 1))) == "feature"
    cluster.does(0, Delete("/controller"))
    assert cluster.does(1, SetData("/feature", b"{}", 2)) is None


def test_producer_ids_that_a_controller_allocates_are_decisions() -> None:
    cluster = led(1)
    assert cluster.does(1, SetData(PRODUCER_IDS, block(1), 1)) is None
    assert cluster.does(2, SetData(PRODUCER_IDS, block(2), 2)) is None
    assert kind(cluster.does(1, SetData(PRODUCER_IDS, block(2), 3))) == "producer_ids"
    # From here on it is known that controllers allocate blocks, also to the same broker.
    assert kind(cluster.does(1, SetData(PRODUCER_IDS, block(1), 4))) == "producer_ids"


def test_request_for_producer_ids_shows_that_controllers_allocate_them() -> None:
    cluster = led(1, served(10, "ALLOCATE_PRODUCER_IDS", {"brokerId": 2, "brokerEpoch": 5}))
    assert kind(cluster.does(1, SetData(PRODUCER_IDS, block(1), 1))) == "producer_ids"


def test_refused_guarded_writes_are_decisions() -> None:
    cluster = led(1)
    cluster.elect(2, epoch=2)
    found = cluster.guarded(2, Error(-101))
    assert (found.what, found.error, found.epoch) == ("refused", -101, 2)
    found = cluster.does(1, *FENCED)
    assert (found.what, found.error, found.broker, found.epoch) == ("fenced", -103, 1, 1)
    # A client's multi, of another application.
    assert cluster.does(0, *FENCED) is None


def test_lost_elections_are_decisions() -> None:
    cluster = led(1)
    lost = (Error(-110), Error(-2))
    found = cluster.does(2, *lost)
    assert (found.what, found.error, found.broker) == ("election", -110, 2)
    # A broker that registers while its last registration still exists is not registered.
    assert cluster.does(9, *lost) is None
    assert cluster.does(2, *lost, Error(-2)) is None
    # The configuration or registration of such a broker, refused for another reason.
    assert cluster.does(2, Error(-101), Error(-2)) is None
    stale = (create("/controller", b"{}", ephemeral=True), Error(-103))
    assert kind(cluster.does(3, *stale)) == "election"
    cluster.does(0, Delete("/controller"))
    assert cluster.does(2, *lost) is None
    assert cluster.terms.current is None


def test_decisions_from_an_empty_zookeeper_are_not_warm() -> None:
    cluster = Cluster()
    cluster.start(1)
    assert not cluster.does(1, create(EPOCH, b"0")).warm
    assert not cluster.elect(1).warm


def test_decisions_before_the_first_election_are_warm() -> None:
    begun = led(1).state
    cluster = Cluster(after=later(begun))
    assert cluster.terms.seen == 1
    assert cluster.terms.current is not None
    assert (cluster.terms.current.broker, cluster.terms.current.epoch) == (1, 1)
    found = cluster.does(1, Check(EPOCH, 2), SetData(STATE, state(2, 1, 2, 3), 1))
    assert isinstance(found, DecisionObserved)
    assert (found.warm, found.broker, found.epoch) == (True, 1, 1)
    assert cluster.does(2, Error(-110), Error(-2)).warm
    cluster.end_session(1)
    assert not cluster.elect(2, epoch=2).warm
    assert not cluster.guarded(2, SetData(STATE, state(3, 2, 3), 2)).warm
    assert cluster.terms.seen == 2


def later(state: ZooKeeperState) -> ZooKeeperState:
    """A copy of the state, for the beginning of a log."""
    copy = ZooKeeperState()
    copy.zxid = state.zxid
    copy.tree = state.tree.copy()
    return copy
