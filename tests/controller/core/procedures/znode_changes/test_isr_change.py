"""ISR changes that leaders write themselves and announce, below IBP 2.7-IV2 (KB 3.12, 11.3)."""

import pytest

from controller.core import znodes
from controller.core.operations import Create, Delete
from controller.core.values import ANY_VERSION
from tests.controller.core.cluster import Cluster, reads
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    assignment,
    cluster_of,
    reassign,
)
from tests.controller.core.unreliable import Delivery

NOTIFICATION = f"{znodes.ISR_CHANGES}/isr_change_0000000000"


def started() -> Cluster:
    """Two partitions on two brokers, at a protocol version whose leaders write the ISR."""
    cluster = Cluster(1, 2, inter_broker_protocol_version="2.6").start()
    cluster.create_topic("t", {0: [1, 2], 1: [2, 1]})
    return cluster


def test_announced_isr_is_sent_to_all_brokers() -> None:
    cluster = started()
    cluster.set_isr("t", 0, [1])
    seen = cluster.seen()
    cluster.announce_isr(("t", 0))
    update = (
        "UpdateMetadata v6; live [1,2]; t-0 leader 1 e 0 isr [1] v 1 ce 1 replicas [1,2] offline []"
    )
    assert seen.requested() == {1: [update], 2: [update]}
    assert seen.writes() == [Delete(NOTIFICATION, ANY_VERSION)]
    assert cluster.data(NOTIFICATION) is None


def test_announced_state_is_known_from_then_on() -> None:
    cluster = started()
    cluster.set_isr("t", 0, [1])
    cluster.announce_isr(("t", 0))
    assert cluster.partition("t", 0).leadership == cluster.leadership("t", 0)
    cluster.stop_broker(2)
    assert cluster.state("t", 0) == "leader 1 e 0 isr [1] v 1 ce 1"


def test_several_notifications_are_one_batch() -> None:
    cluster = started()
    for number in (1, 0):
        cluster.set_isr("t", number, [1])
        data = b'{"version":1,"partitions":[{"topic":"t","partition":%d}]}' % number
        cluster.ask(Create(f"{znodes.ISR_CHANGES}/isr_change_000000000{number}", data))
    seen = cluster.seen()
    cluster.run()
    assert seen.requests(1) == [
        "UpdateMetadata v6; live [1,2]; "
        "t-0 leader 1 e 0 isr [1] v 1 ce 1 replicas [1,2] offline []; "
        "t-1 leader 2 e 0 isr [1] v 1 ce 1 replicas [2,1] offline []"
    ]


def test_notification_of_unknown_partitions_sends_only_the_live_brokers() -> None:
    """For example of a topic that was deleted meanwhile."""
    cluster = started()
    seen = cluster.seen()
    cluster.announce_isr(("t", 7), ("missing", 0))
    update = "UpdateMetadata v6; live [1,2]"
    assert seen.requested() == {1: [update], 2: [update]}
    assert cluster.data(NOTIFICATION) is None


@pytest.mark.parametrize("data", [b"{", b'{"partitions":[7]}', b"\xff", b'{"partitions":null}'])
def test_unreadable_notification_is_reported_and_deleted(data: bytes) -> None:
    cluster = started()
    seen = cluster.seen()
    cluster.announce_isr(data=data)
    assert seen.notices() == [("unreadable_znode", NOTIFICATION)]
    assert seen.requested() == {}
    assert cluster.data(NOTIFICATION) is None


def test_children_with_other_names_are_ignored() -> None:
    cluster = started()
    other = f"{znodes.ISR_CHANGES}/something"
    cluster.put(other, b"")
    assert cluster.data(other) is not None


def test_unreadable_state_keeps_the_known_state() -> None:
    cluster = started()
    path = znodes.state_path("t", 0)
    cluster.put(path, b"{")
    known = cluster.partition("t", 0).leadership
    seen = cluster.seen()
    cluster.announce_isr(("t", 0))
    assert ("unreadable_znode", path) in seen.notices()
    assert cluster.partition("t", 0).leadership == known
    assert cluster.data(NOTIFICATION) is None


def test_missing_state_is_reported() -> None:
    cluster = started()
    cluster.remove(znodes.state_path("t", 0))
    seen = cluster.seen()
    cluster.announce_isr(("t", 0), ("t", 1))
    assert seen.notices() == [("isr_change_not_read", "t-0")]
    assert cluster.data(NOTIFICATION) is None


def test_notification_of_a_deleted_topic_sends_only_the_live_brokers() -> None:
    cluster = started()
    cluster.remove_topic_znodes("t")
    seen = cluster.seen()
    cluster.announce_isr(("t", 0))
    update = "UpdateMetadata v6; live [1,2]"
    assert seen.requested() == {1: [update], 2: [update]}
    assert seen.notices() == []


@pytest.mark.parametrize("delivery", [Delivery.REPLY_LOST, Delivery.REQUEST_LOST])
def test_lost_connection_loses_no_notification(delivery: Delivery) -> None:
    cluster = started()
    cluster.set_isr("t", 0, [1])
    cluster.lose(reads(znodes.ISR_CHANGES), delivery)
    seen = cluster.seen()
    cluster.announce_isr(("t", 0))
    assert seen.kinds(1) == ["UpdateMetadata"]
    assert cluster.data(NOTIFICATION) is None


def test_processed_notifications_cause_no_request_or_write() -> None:
    """The deletion fires the watch again, and the list is empty."""
    cluster = started()
    cluster.announce_isr(("t", 0))
    seen = cluster.seen()
    cluster.run()
    assert seen.commands == []


@pytest.mark.parametrize("rules", ["refold", "kafka"])
def test_reassignment_is_completed_after_the_announced_isr_is_sent(rules: str) -> None:
    """The notification is deleted before that (LONG_WORK_INTERRUPTED). Kafka deletes it last."""
    cluster = cluster_of(2, 1, rules=rules)
    reassign(cluster, 2)
    cluster.set_isr("t", 0, [1, 2])
    seen = cluster.seen()
    cluster.announce_isr(T0)
    assert assignment(cluster) == "2"
    announced = "t-0 leader 1 e 1 isr [1,2] v 2 ce 1 replicas [2,1] offline []"
    assert seen.requests(1)[0] == f"UpdateMetadata v8; live [1,2]; {announced}"
    written = seen.written()
    is_deleted_first = written.index(NOTIFICATION) < written.index(znodes.topic_path("t"))
    assert is_deleted_first is (rules == "refold")


def test_notification_that_is_deleted_before_it_is_read_is_not_reported() -> None:
    cluster = started()
    cluster.once(reads(NOTIFICATION), lambda: cluster.ask(Delete(NOTIFICATION, ANY_VERSION)))
    seen = cluster.seen()
    cluster.announce_isr(("t", 0))
    assert seen.notices() == []
    assert seen.requested() == {}
