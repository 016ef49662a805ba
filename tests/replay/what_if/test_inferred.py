"""Requests to a stock controller, inferred from what it wrote."""

from controller.core.values import Assignment
from replay.what_if.causes import BrokerUnregistered, ExternalCause
from replay.what_if.inferred import (
    inferred_requests,
    rejected_partitions,
    with_shutdown_requests,
    without_rejected_deletions,
    without_rejected_requests,
)
from replay.world.inputs import (
    CancelReassignment,
    DeleteTopic,
    ElectLeaders,
    Reassign,
    Target,
)
from tests.replay.what_if.histories import NAME, history, now

MOVING = Assignment((3, 1, 2), (3,), (2,))


def test_unclean_election_was_requested_unless_a_configuration_allows_it() -> None:
    found = history((0, now(1, 1)), (10, now(-1, 1)), (20, now(2, 2)))
    assert inferred_requests(found, [], []) == [
        ExternalCause(21, 20, ElectLeaders(20, (NAME,), "unclean"))
    ]
    assert inferred_requests(found, [], ["t"]) == []


def test_election_of_the_preferred_replica_happens_in_each_future() -> None:
    found = history((0, now(2, 1, 2)), (10, now(1, 1, 2)))
    (one,) = inferred_requests(found, [], [])
    assert one.what == ElectLeaders(10, (NAME,))
    assert one.is_certain


def test_election_after_a_failure_was_not_requested() -> None:
    found = history((0, now(2, 1, 2)))
    found.note_broker(5, 5, 2, is_registered=False)
    found.note_partition(11, 10, NAME, now(1, 1))
    assert inferred_requests(found, [], []) == []


def test_reassignment_and_its_cancellation_were_requested() -> None:
    moving = now(1, 1, 2, assignment=MOVING)
    found = history((0, now(1, 1, 2)), (10, moving), (20, now(1, 1, 2)))
    assert [one.what for one in inferred_requests(found, [], [])] == [
        Reassign(10, (Target("t", 0, (3, 1)),)),
        CancelReassignment(20, (NAME,)),
    ]


def test_request_that_the_log_has_is_not_inferred() -> None:
    found = history((0, now(1, 1, 2)), (10, now(1, 1, 2, assignment=MOVING)))
    known = ExternalCause(5, 4, Reassign(4, (Target("t", 0, (3, 1)),), "znode"))
    assert inferred_requests(found, [known], []) == []


def test_shutdown_begins_when_the_broker_leaves_the_isrs() -> None:
    found = history((0, now(1, 1, 2)), (900, now(2, 2)))
    gone = ExternalCause(2_000, 2_000, BrokerUnregistered(1, 2_000, 2_000, is_controlled=True))
    (one,) = with_shutdown_requests(found, [gone])
    assert (one.seq, one.at_ms, one.last_seq) == (901, 900, 2_000)
    assert with_shutdown_requests(history((0, now(1, 1, 2))), [gone]) == [gone]


def test_shutdown_does_not_begin_before_the_broker_registered() -> None:
    found = history((0, now(1, 1, 2)), (900, now(2, 2)))
    found.note_broker(910, 910, 1, is_registered=False)
    found.note_broker(1_500, 1_500, 1, is_registered=True)
    gone = ExternalCause(2_000, 2_000, BrokerUnregistered(1, 2_000, 2_000, is_controlled=True))
    assert with_shutdown_requests(found, [gone]) == [gone]


def test_shutdown_does_not_begin_with_the_deletion_of_a_topic() -> None:
    found = history((0, now(1, 1, 2)))
    found.note_znode(800, 800, "/admin/delete_topics/t", b"")
    found.note_partition(901, 900, NAME, now(2, 2))
    gone = ExternalCause(2_000, 2_000, BrokerUnregistered(1, 2_000, 2_000, is_controlled=True))
    assert with_shutdown_requests(found, [gone]) == [gone]


def test_partition_without_replicas_has_no_preferred_leader() -> None:
    empty = Assignment(())
    found = history((0, now(2, 2, assignment=empty)), (10, now(1, 1, 2, assignment=empty)))
    assert [type(one.what) for one in inferred_requests(found, [], [])] == [ElectLeaders]


def test_deletion_that_no_controller_began_was_rejected() -> None:
    found = history((0, now(1, 1, 2)))
    found.note_znode(800, 800, "/admin/delete_topics/t", b"")
    accepted = ExternalCause(700, 700, DeleteTopic(700, "t"))
    rejected = [
        ExternalCause(700, 700, DeleteTopic(700, "u")),
        ExternalCause(900, 900, DeleteTopic(900, "t")),
    ]
    assert without_rejected_deletions(found, [accepted, *rejected]) == [accepted]


def test_partitions_that_the_controller_rejected_are_not_repeated() -> None:
    one, other = ("t", 0), ("t", 1)
    causes = [
        ExternalCause(5, 4, Reassign(4, (Target("t", 0, (3, 1)), Target("t", 1, (2,))))),
        ExternalCause(6, 5, CancelReassignment(5, (one, other))),
        ExternalCause(7, 6, ElectLeaders(6, (one,), "unclean")),
        ExternalCause(8, 7, ElectLeaders(7)),
        ExternalCause(9, 8, ElectLeaders(8, (one,))),
    ]
    rejected = {5: frozenset({other}), 6: frozenset({one}), 7: frozenset({one}), 9: None}
    assert [cause.what for cause in without_rejected_requests(causes, rejected)] == [
        Reassign(4, (Target("t", 0, (3, 1)),)),
        CancelReassignment(5, (other,)),
        ElectLeaders(7),
    ]


def test_election_that_depends_on_live_brokers_was_not_rejected() -> None:
    """The election was not needed, or found no live leader: with a change, it may succeed."""
    errors = {("t", 0): 0, ("t", 1): 84, ("t", 2): 85, ("t", 3): 3, ("t", 4): 80, ("t", 5): 83}
    assert rejected_partitions(0, errors) == {("t", 2)}
    assert rejected_partitions(31, errors) is None


def test_shutdown_that_the_log_shows_keeps_its_time() -> None:
    found = history((0, now(1, 1, 2)), (900, now(2, 2)))
    gone = ExternalCause(950, 940, BrokerUnregistered(1, 1_000, 1_000, is_controlled=True), 1_000)
    assert with_shutdown_requests(found, [gone]) == [gone]
