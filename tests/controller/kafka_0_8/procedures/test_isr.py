"""ISR, CUR and KeepInSyncTime: I-01 to I-03."""

import pytest

from controller.core.commands import WriteAtomically
from controller.core.error_codes import NONE, NOT_LEADER_OR_FOLLOWER
from controller.core.operations import Create, Delete, SetData, WriteOperation
from controller.core.values import ANY_VERSION
from controller.kafka_0_8.events import FetchReceived
from controller.kafka_0_8.state import UNKNOWN_LEO
from controller.kafka_0_8.triggers import IsrChange
from tests.controller.kafka_0_8.clusters import (
    T,
    change_before,
    cluster,
    error_of,
    issued,
    notices,
    partition,
    replicated,
)

ISR = "/brokers/topics/t/0/ISR"


def test_dead_follower_leaves_the_isr_after_keep_in_sync_time() -> None:
    found = replicated(keep_in_sync_time_ms=2000)
    found.stop(3)
    request = found.produce(1, T, ["a"], -1, wait_ms=1500)
    assert found.data(ISR) == "1,2,3;1"
    assert error_of(found, request) is None
    found.run(2500)
    assert found.data(ISR) == "1,2;1"
    assert partition(found, 1).cur == (3,)
    assert error_of(found, request) == NONE


def test_follower_that_fetches_slower_than_producers_write_leaves_the_isr() -> None:
    """Broker 3 fetches every 100 ms, and never has the last record."""
    found = replicated(keep_in_sync_time_ms=1000)
    found.cut = {(1, 3): None}
    for number in range(40):
        found.produce(1, T, ["a"], 1, wait_ms=50)
        fetch = FetchReceived(900 + number, 3, *T, number, 1)
        found.brokers[1].apply(fetch, "replica", found.now_ms, [])
        found.run(50)
    assert partition(found, 1).ar[3].leo == 39
    assert found.data(ISR) == "1,2;1"


def test_follower_without_new_records_stays_in_the_isr() -> None:
    found = replicated(keep_in_sync_time_ms=1000)
    found.stop(3)
    found.run(10_000)
    assert found.data(ISR) == "1,2,3;1"


def test_follower_that_has_caught_up_joins_the_isr() -> None:
    found = replicated()
    found.stop(3)
    found.produce(1, T, ["a", "b"], -1, wait_ms=6000)
    assert found.data(ISR) == "1,2;1"
    found.start(3)
    found.run(2000)
    assert found.data(ISR) == "1,2,3;1"
    assert partition(found, 1).cur == ()


def test_replica_without_the_records_of_earlier_leaders_does_not_join() -> None:
    """The new leader's high watermark is lower than that of the old leader."""
    found = replicated(keep_in_sync_time_ms=60_000)
    leader = partition(found, 1)
    leader.isr = (1, 3)
    leader.local.leo = leader.start_leo = 5
    leader.local.hw = leader.ar[3].leo = 2
    fold = found.brokers[1]
    for offset, is_written in ((4, False), (5, True)):
        fold.apply(FetchReceived(900, 2, *T, offset, 1), "replica", found.now_ms, [])
        assert bool(leader.joining) == is_written
        assert leader.local.hw == 2


def test_joining_replica_counts_for_the_high_watermark_before_the_write_is_done() -> None:
    found = replicated(keep_in_sync_time_ms=60_000)
    leader = partition(found, 1)
    leader.isr, leader.ar[3].leo = (1,), UNKNOWN_LEO
    process = found.brokers[1]
    process.apply(FetchReceived(900, 2, *T, 0, 1), "replica", found.now_ms, [])
    assert leader.joining == (2,)
    assert leader.cur == (2, 3)
    found.cut = {(1, 2): None, (1, 3): None}
    found.silent[1] = None
    found.produce(1, T, ["a"], 1, wait_ms=20)
    assert leader.local.leo == 1
    assert leader.local.hw == 0


def test_replaced_leader_cannot_change_the_isr_and_steps_down() -> None:
    """Another leader has written the ISR, which this one does not know yet."""
    found = replicated(keep_in_sync_time_ms=1000)
    found.cut = {(1, 2): None, (1, 3): None}
    request = found.produce(1, T, ["a"], -1, wait_ms=20)
    found.write(SetData(ISR, b"2,3;9", ANY_VERSION))
    found.run(3000)
    assert found.data(ISR) == "2,3;9"
    assert error_of(found, request) == NOT_LEADER_OR_FOLLOWER
    assert not partition(found, 1).is_leader
    assert notices(found, 1, "stepped_down")[0].text.endswith("another leader has written the ISR")


@pytest.mark.parametrize(
    "others",
    [
        [
            Delete("/brokers/topics/t/0/leader", ANY_VERSION),
            Create("/brokers/topics/t/0/leader", b"2;2"),
        ],
        [
            Delete("/brokers/topics/t/0/replicas", ANY_VERSION),
            Create("/brokers/topics/t/0/replicas", b"1,2,3"),
        ],
    ],
    ids=["leader", "replicas"],
)
def test_leader_of_a_znode_that_was_created_again_does_not_write_the_isr(
    others: list[WriteOperation],
) -> None:
    """The ISR znode is the same, so that its version does not show it."""
    found = replicated()
    found.stop(3)
    found.produce(1, T, ["a"], -1)
    change_before(found, 1, "I-01", SetData("/brokers/epoch", b"2", ANY_VERSION), *others)
    found.run(4000)
    assert found.data("/brokers/topics/t/0/ISR") == "1,2,3;1"
    assert notices(found, 1, "stepped_down")[0].text.endswith("another leader has written the ISR")


def test_expired_leader_cannot_commit_with_acks_all() -> None:
    found = replicated(keep_in_sync_time_ms=1000)
    found.silent[1] = None
    found.end_session(1)
    found.run(1000)
    request = found.produce(1, T, ["lost"], -1, wait_ms=5000)
    assert error_of(found, request) is None
    lost = found.produce(1, T, ["lost too"], 1, wait_ms=10)
    assert error_of(found, lost) == NONE
    found.learn_of_expiry(1)
    found.run(3000)
    assert error_of(found, request) == NOT_LEADER_OR_FOLLOWER
    assert "lost" not in found.brokers[1].logs[T]


def test_assigned_replicas_are_the_isr_and_the_catching_up_ones() -> None:
    found = cluster(1, 2, 3)
    found.create_topic("t", {0: (1, 2, 3)})
    found.start(1)
    leader = partition(found, 1)
    assert (leader.isr, leader.cur) == ((1,), (2, 3))
    found.start(2)
    found.run(1500)
    assert (leader.isr, leader.cur) == ((1, 2), (3,))
    assert tuple(leader.ar) == (1, 2, 3)


def test_isr_of_a_new_leader_has_only_assigned_replicas() -> None:
    found = replicated()
    found.write(SetData(ISR, b"1,2,9;1", ANY_VERSION))
    found.end_session(1)
    found.run(2000)
    leader = partition(found, 1)
    assert (leader.is_leader, leader.isr, leader.cur) == (True, (1, 2, 3), ())
    assert found.data(ISR) == "1,2,3;2"


def test_isr_that_stays_is_not_written() -> None:
    found = replicated()
    since = len(issued(found, 1))
    found.brokers[1].fold.broker.enqueue(IsrChange(*T))
    found.run(5000)
    written = [one for one in issued(found, 1)[since:] if isinstance(one, WriteAtomically)]
    assert written == []


def test_write_of_the_isr_has_the_rule_of_the_change() -> None:
    found = replicated()
    joined = [one for one in issued(found, 1, "I-02") if isinstance(one, WriteAtomically)]
    assert [one.operations[-1].data for one in joined][-1] == b"1,2,3;1"
    found.stop(3)
    found.produce(1, T, ["a"], -1, wait_ms=5000)
    (left,) = [one for one in issued(found, 1, "I-01") if isinstance(one, WriteAtomically)]
    assert left.operations[-1].data == b"1,2;1"


def test_isr_timer_runs_only_on_leaders() -> None:
    found = replicated()
    assert [len(issued(found, one, "I-01")) > 0 for one in (1, 2, 3)] == [True, False, False]


def test_replica_that_lacks_records_of_the_last_leader_does_not_join_after_an_election() -> None:
    """Broker 3 has every record up to the new leader's high watermark, but not all records that the
    new leader had when it was elected: one of them may be committed."""
    found = replicated(keep_in_sync_time_ms=1000)
    found.produce(1, T, ["a"], -1, wait_ms=1000)
    found.cut = {(1, 3): None, (2, 3): None}
    found.produce(1, T, ["b"], 1, wait_ms=100)
    found.stop(1)
    found.run(4000)
    leader = partition(found, 2)
    assert (leader.isr, leader.start_leo) == ((2,), 2)
    # Another member of the ISR keeps the high watermark low.
    leader.isr, leader.ar[1].leo = (2, 1), 1
    leader.local.hw = 1
    fetched = FetchReceived(900, 3, *T, 1, leader.epoch)
    found.brokers[2].apply(fetched, "replica", found.now_ms, [])
    assert leader.joining == ()
    fetched = FetchReceived(901, 3, *T, 2, leader.epoch)
    found.brokers[2].apply(fetched, "replica", found.now_ms, [])
    assert leader.joining == (3,)


def test_only_replica_of_a_partition_commits_its_log_when_it_is_elected() -> None:
    found = cluster(1)
    found.create_topic("t", {0: (1,)})
    found.brokers[1].logs[T] = ["a", "b"]
    found.write(Create("/brokers/topics/t/0/ISR", b"1;1"))
    found.start(1)
    assert partition(found, 1).local.hw == 2
