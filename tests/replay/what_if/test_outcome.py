"""How partitions fared, and where two outcomes differ."""

from controller.core.values import Assignment
from replay.what_if.history import ClusterHistory, PartitionSnapshot
from replay.what_if.outcome import Outcome, OutcomeAspect, differences, outcome_of
from tests.replay.what_if.histories import now


def history(*partitions: tuple[int, PartitionSnapshot | None]) -> ClusterHistory:
    found = ClusterHistory()
    for broker in (1, 2):
        found.note_broker(0, 0, broker, is_registered=True)
    for at_ms, one in partitions:
        found.note_partition(at_ms, at_ms, ("t", 0), one)
    return found


def outcome(found: ClusterHistory, begin_ms: int = 0, end_ms: int = 10_000) -> Outcome:
    return outcome_of(found.changes, begin_ms, end_ms)


def test_partition_is_offline_while_it_has_no_leader() -> None:
    found = history((0, now(1, 1, 2)), (2_000, now(-1, 1)), (5_000, now(1, 1)))
    assert outcome(found)["t", 0].offline_ms == 3_000
    assert outcome(found, begin_ms=4_000)["t", 0].offline_ms == 1_000
    assert outcome(found, end_ms=3_500)["t", 0].offline_ms == 1_500


def test_partition_is_offline_while_its_leader_is_not_registered() -> None:
    found = history((0, now(1, 1, 2)))
    found.note_broker(1, 1_000, 1, is_registered=False)
    found.note_partition(2, 1_400, ("t", 0), now(2, 2))
    one = outcome(found)["t", 0]
    assert (one.offline_ms, one.leader, one.elections, one.unclean) == (400, 2, 1, 0)


def test_unclean_election_is_counted() -> None:
    found = history((0, now(1, 1)), (100, now(-1, 1)), (200, now(2, 2)))
    assert outcome(found)["t", 0].unclean == 1


def test_unfinished_reassignment_has_its_target() -> None:
    moving = Assignment((3, 1, 2), (3,), (2,))
    found = outcome(history((0, now(1, 1, 2, assignment=moving))))
    assert found["t", 0].target == (3, 1)


def test_deleted_partition_is_not_in_the_outcome() -> None:
    assert outcome(history((0, now(1, 1, 2)), (50, None))) == {}


def test_order_of_the_isr_and_short_times_are_no_difference() -> None:
    one = outcome(history((0, now(1, 1, 2)), (100, now(-1, 1, 2)), (900, now(1, 2, 1))))
    other = outcome(history((0, now(1, 1, 2))))
    assert differences(one, other) == []


def test_differences_name_the_partition_and_both_values() -> None:
    one = outcome(history((0, now(1, 1, 2)), (1_000, now(-1, 1))))
    other = outcome(history((0, now(2, 2))))
    found = {each.what: (each.base, each.other) for each in differences(one, other)}
    assert found == {
        OutcomeAspect.LEADER: ("none", "2"),
        OutcomeAspect.ISR: ("1", "2"),
        OutcomeAspect.OFFLINE: ("9.0 s", "0.0 s"),
    }
    (missing,) = differences(one, {})
    assert (missing.partition, missing.what, missing.base) == ("t-0", OutcomeAspect.EXISTS, "yes")


def test_numbers_of_lost_records_differ_only_if_one_of_them_is_zero() -> None:
    changes = history((0, now(1, 1, 2))).changes
    few, many, none = (
        outcome_of(changes, 0, 10, {("t", 0): lost}) for lost in ((3, 1), (9, 4), (0, 1))
    )
    assert differences(few, many) == []
    (lost,) = differences(few, none)
    assert lost.what is OutcomeAspect.LOST
    logged = outcome_of(changes, 0, 10)
    assert differences(logged, few) == []
