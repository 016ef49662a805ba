"""Followers that were not in the ISR although their brokers ran."""

from controller.core.values import Assignment
from replay.what_if.causes import BrokerRegistered, BrokerUnregistered, ExternalCause, ReplicaLagged
from replay.what_if.lagging import copying_replicas, replica_lags
from replay.world.inputs import FailLogDirectory
from tests.replay.what_if.histories import history, now


def test_follower_lags_from_the_smaller_isr_to_the_larger_one() -> None:
    found = history((0, now(1, 1, 2)), (5_000, now(1, 1)), (9_000, now(1, 1, 2)))
    assert replica_lags(found, []) == [ExternalCause(5_001, 5_000, ReplicaLagged(2, "t", 0, 9_000))]


def test_follower_of_a_broker_that_is_about_to_be_gone_does_not_lag() -> None:
    found = history((0, now(1, 1, 2)), (5_000, now(1, 1)))
    gone = ExternalCause(8_000, 8_000, BrokerUnregistered(2, 8_000, 8_000))
    assert replica_lags(found, [gone]) == []


def test_new_leader_and_removed_replica_are_no_lag() -> None:
    shrunk = Assignment((1,))
    moved = history((0, now(1, 1, 2)), (5_000, now(2, 2)))
    removed = history((0, now(1, 1, 2)), (5_000, now(1, 1, assignment=shrunk)))
    assert replica_lags(moved, []) == replica_lags(removed, []) == []


def test_deletion_of_a_topic_is_no_lag() -> None:
    found = history((0, now(1, 1, 2)))
    found.note_znode(4_000, 4_000, "/admin/delete_topics/t", b"")
    found.note_partition(5_001, 5_000, ("t", 0), now(1, 1))
    assert replica_lags(found, []) == []


def test_started_broker_copies_until_it_is_in_the_isr() -> None:
    found = history((0, now(1, 1, 2)))
    found.note_broker(1_000, 1_000, 2, is_registered=False)
    found.note_partition(1_001, 1_001, ("t", 0), now(1, 1))
    found.note_broker(6_000, 6_000, 2, is_registered=True)
    found.note_partition(9_500, 9_500, ("t", 0), now(1, 1, 2))
    (one,) = copying_replicas(found, [])
    assert (one.broker, one.from_ms, one.until_ms, one.after) == (2, 6_000, 9_500, 6_000)


def test_added_replica_copies_without_a_start_of_its_broker() -> None:
    adding = Assignment((1, 2, 3), (3,), ())
    found = history((0, now(1, 1, 2)), (5_000, now(1, 1, 2, assignment=adding)))
    (one,) = copying_replicas(found, [])
    assert (one.broker, one.from_ms, one.until_ms, one.after) == (3, 5_000, None, 0)


def test_follower_without_a_leader_does_not_copy() -> None:
    found = history((0, now(1, 1, 2)))
    found.note_broker(1_000, 1_000, 2, is_registered=False)
    found.note_partition(1_001, 1_001, ("t", 0), now(1, 1))
    found.note_broker(2_000, 2_000, 1, is_registered=False)
    found.note_partition(2_001, 2_001, ("t", 0), now(-1, 1))
    found.note_broker(6_000, 6_000, 2, is_registered=True)
    assert copying_replicas(found, []) == []
    found.note_broker(20_000, 20_000, 1, is_registered=True)
    found.note_partition(20_001, 20_001, ("t", 0), now(1, 1))
    found.note_partition(21_000, 21_000, ("t", 0), now(1, 1, 2))
    assert copying_replicas(found, []) == []


def test_follower_whose_leader_ends_soon_is_not_slow() -> None:
    found = history((0, now(1, 1, 2)))
    found.note_broker(1_000, 1_000, 2, is_registered=False)
    found.note_partition(1_001, 1_001, ("t", 0), now(1, 1))
    found.note_broker(6_000, 6_000, 2, is_registered=True)
    found.note_broker(7_000, 7_000, 1, is_registered=False)
    assert copying_replicas(found, []) == []


def test_follower_that_copies_when_its_leader_ends_is_slow() -> None:
    found = history((0, now(1, 1, 2)))
    found.note_broker(1_000, 1_000, 2, is_registered=False)
    found.note_partition(1_001, 1_001, ("t", 0), now(1, 1))
    found.note_broker(6_000, 6_000, 2, is_registered=True)
    found.note_broker(9_000, 9_000, 1, is_registered=False)
    (one,) = copying_replicas(found, [])
    assert (one.broker, one.from_ms, one.until_ms) == (2, 6_000, None)


def test_follower_that_copies_when_the_directory_of_its_leader_fails_is_slow() -> None:
    adding = Assignment((1, 2, 3), (3,), ())
    found = history(
        (0, now(1, 1, 2)),
        (5_000, now(1, 1, 2, assignment=adding)),
        (5_900, now(-1, 1, 2, assignment=adding)),
    )
    (one,) = copying_replicas(found, [])
    assert (one.broker, one.from_ms) == (3, 5_000)


def test_follower_that_copies_when_its_broker_ends_is_slow() -> None:
    adding = Assignment((1, 2, 3), (3,), ())
    found = history((0, now(1, 1, 2)), (5_000, now(1, 1, 2, assignment=adding)))
    found.note_broker(6_500, 6_500, 3, is_registered=False)
    (one,) = copying_replicas(found, [])
    assert (one.broker, one.from_ms) == (3, 5_000)


def test_replica_in_a_failed_log_directory_is_neither_slow_nor_lags_until_it_is_repaired() -> None:
    found = history((0, now(1, 1, 2)), (5_000, now(1, 1)))
    failed = ExternalCause(4_900, 4_900, FailLogDirectory(4_900, 2, (("t", 0),), None))
    assert replica_lags(found, [failed]) == copying_replicas(found, [failed]) == []
    back = ExternalCause(7_000, 7_000, BrokerRegistered(2))
    found.note_broker(7_000, 7_000, 2, is_registered=True)
    (one,) = copying_replicas(found, [failed, back])
    assert (one.broker, one.from_ms) == (2, 7_000)
