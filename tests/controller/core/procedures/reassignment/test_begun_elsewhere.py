"""Entries that a stock controller started while /admin/reassign_cancel existed (KB 14.2.3).

Entries older than the cancellation are rolled back. Younger ones wait: they are not rolled back,
and do not complete before the znode is removed (docs/kip-236-design.md).
"""

import pytest

from controller.core import znodes
from controller.core.znodes import REASSIGN_CANCEL, Entry, Reassignment, write_entries
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    assert_nothing_is_left,
    cancel_all,
    cancel_quietly,
    entries,
    interruptible,
    put_isr_quietly,
    record,
    remove_cancel,
    remove_cancel_quietly,
    request_quietly,
    set_minimum,
    submit_quietly,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    assert_no_failures,
    assignment,
    catch_up,
    reassigning,
)

UNDER_WAY = "3,4,1,2 adding 3,4 removing 1,2"
RECORD = Reassignment((3, 4), 2, True, (1, 2))


def begin_elsewhere(cluster: Cluster) -> None:
    """A stock controller starts the move of t-0 from [1,2] to [3,4]."""
    cluster.change_topic_quietly(
        "t", {0: [3, 4, 1, 2]}, adding_replicas={"0": [3, 4]}, removing_replicas={"0": [1, 2]}
    )


def with_a_younger_entry() -> Cluster:
    """The entry of t-0 is younger than the cancellation, and a stock controller started it."""
    cluster = interruptible(4, 1, 2)
    cancel_all(cluster)
    with OtherControllersTerm(cluster):
        submit_quietly(cluster, {T0: [3, 4]})
        begin_elsewhere(cluster)
    return cluster


def test_older_entry_started_by_a_stock_controller_is_rolled_back() -> None:
    cluster = interruptible(4, 1, 2)
    with OtherControllersTerm(cluster):
        submit_quietly(cluster, {T0: [3, 4]})
        cancel_quietly(cluster)
        begin_elsewhere(cluster)
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)


def test_failover_elects_originals_first_if_a_stock_controller_began_a_cancelled_move() -> None:
    """The rollback waits for both originals."""
    cluster = interruptible(4, 1, 2)
    set_minimum(cluster, 2)
    with OtherControllersTerm(cluster):
        submit_quietly(cluster, {T0: [3, 4]})
        cancel_quietly(cluster)
        begin_elsewhere(cluster)
        put_isr_quietly(cluster, 1, 3, 2)
        cluster.unregister(1)
    assert assignment(cluster) == UNDER_WAY
    assert cluster.leadership("t", 0).leader == 2


@pytest.mark.parametrize(
    ("given", "recorded"), [(None, (1, 2)), ((2, 1), (2, 1)), ((1, 4), (1, 2))]
)
def test_originals_of_an_entry_are_recorded_if_they_are_the_replicas_before_the_move(
    given: tuple[int, ...] | None, recorded: tuple[int, ...]
) -> None:
    cluster = interruptible(4, 1, 2)
    with OtherControllersTerm(cluster):
        data = write_entries({T0: Entry((3, 4), given)})
        cluster.put_quietly(znodes.REASSIGN_PARTITIONS, data)
        begin_elsewhere(cluster)
    assert record(cluster) == Reassignment((3, 4), 2, True, recorded)
    assert entries(cluster) == {T0: Entry((3, 4), recorded)}


def test_younger_entry_started_by_a_stock_controller_is_not_rolled_back() -> None:
    cluster = with_a_younger_entry()
    assert assignment(cluster) == UNDER_WAY
    assert entries(cluster) == {T0: Entry((3, 4))}
    assert reassigning(cluster) == [T0]
    assert_no_failures(cluster)


def test_younger_entry_started_by_a_stock_controller_is_logged() -> None:
    cluster = interruptible(4, 1, 2)
    cancel_all(cluster)
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        submit_quietly(cluster, {T0: [3, 4]})
        begin_elsewhere(cluster)
    assert [one for one in seen.notices() if one[0] == "reassignment_waits"] == [
        ("reassignment_waits", znodes.REASSIGN_PARTITIONS),
        ("reassignment_waits", "t-0"),
    ]
    assert seen.texts_of("reassignments_cancelled") == [
        "no reassignment by /admin/reassign_partitions that is older than this znode is under way: "
        "nothing is rolled back"
    ]
    assert seen.texts_of("reassignment_waits")[0] == (
        "the reassignment of t-0 waits until /admin/reassign_cancel is deleted"
    )
    assert seen.texts_of("reassignment_waits")[1] == (
        "another controller began the reassignment by /admin/reassign_partitions after "
        "/admin/reassign_cancel was created: the reassignment is not rolled back, and completes "
        "only after that znode is deleted"
    )


def test_younger_entry_that_no_controller_has_started_is_logged_only_as_waiting() -> None:
    cluster = interruptible(4, 1, 2)
    cancel_all(cluster)
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        submit_quietly(cluster, {T0: [3, 4]})
    assert seen.texts_of("reassignment_waits") == [
        "the reassignment of t-0 waits until /admin/reassign_cancel is deleted"
    ]


def test_younger_move_completes_when_the_cancellation_is_removed() -> None:
    cluster = with_a_younger_entry()
    catch_up(cluster, 3, 4)
    assert assignment(cluster) == UNDER_WAY
    remove_cancel(cluster)
    assert assignment(cluster) == "3,4"
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_younger_move_belongs_to_its_entry_when_the_cancellation_is_removed() -> None:
    cluster = with_a_younger_entry()
    remove_cancel(cluster)
    assert assignment(cluster) == UNDER_WAY
    assert record(cluster) == RECORD
    assert entries(cluster) == {T0: Entry((3, 4), (1, 2))}


def test_younger_move_waits_after_another_failover() -> None:
    cluster = with_a_younger_entry()
    cluster.expire()
    assert assignment(cluster) == UNDER_WAY
    assert record(cluster) is None


def test_younger_move_continues_after_a_failover_without_the_cancellation() -> None:
    cluster = with_a_younger_entry()
    with OtherControllersTerm(cluster):
        remove_cancel_quietly(cluster)
    assert record(cluster) == RECORD
    catch_up(cluster, 3, 4)
    assert assignment(cluster) == "3,4"


def test_next_cancellation_rolls_back_a_younger_move() -> None:
    """The znode is replaced before the controller reads it."""
    cluster = with_a_younger_entry()
    remove_cancel_quietly(cluster)
    cancel_quietly(cluster)
    cluster.run()
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)


def test_entry_whose_request_is_older_than_the_cancellation_is_rolled_back() -> None:
    """A stock controller has written /admin/reassign_partitions again."""
    cluster = interruptible(4, 1, 2)
    with OtherControllersTerm(cluster):
        request_quietly(cluster, {T0: [3, 4]}, legacy=True)
        cluster.put_quietly(REASSIGN_CANCEL, b"")
        submit_quietly(cluster, {T0: [3, 4]})
        begin_elsewhere(cluster)
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)


def test_election_of_a_younger_move_is_not_restricted_to_the_originals() -> None:
    cluster = with_a_younger_entry()
    catch_up(cluster, 3)
    cluster.stop_broker(1)
    cluster.stop_broker(2)
    assert cluster.leadership("t", 0).leader == 3


def test_originals_of_a_younger_move_have_the_order_of_the_topics_znode() -> None:
    """The entry has no originals, and a stock controller puts the target first."""
    cluster = interruptible(4, 1, 2, 3)
    cancel_all(cluster)
    with OtherControllersTerm(cluster):
        submit_quietly(cluster, {T0: [2, 4]})
        cluster.change_topic_quietly(
            "t",
            {0: [2, 4, 1, 3]},
            adding_replicas={"0": [4]},
            removing_replicas={"0": [1, 3]},
        )
    remove_cancel(cluster)
    cancel_all(cluster)
    assert assignment(cluster) == "2,1,3"
