"""Moves that another controller has completed are not rolled back (KB 14.5.6)."""

from collections.abc import Callable, Sequence

import pytest

from controller.core import znodes
from controller.core.commands import Issued, Notice
from controller.core.znodes import Entry, Reassignment
from tests.controller.core.cluster import Assignments, Cluster
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    assert_nothing_is_left,
    cancel_all,
    cancel_quietly,
    entries,
    half_way,
    record,
    request,
    submit,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    ask_for_isr,
    assert_no_failures,
    assignment,
    catch_up,
    reassigning,
)
from tests.controller.core.procedures.topics.deleting import mark_quietly

T1, T2 = ("t", 1), ("t", 2)
BY_ENTRY = "requested by /admin/reassign_partitions"


def strays(brokers: str) -> str:
    """The message at the end of a move about the files of former replicas."""
    return (
        f"of brokers {brokers}, those that were not alive then may still have the partition's "
        "files: find them with `refold reassign --list-strays`"
    )


def three_moves() -> Cluster:
    """t-0, t-1 and t-2, each moving from [1,2] to [3,4]."""
    cluster = Cluster(1, 2, 3, 4, kip_236_enable=True).start()
    cluster.create_topic("t", {number: [1, 2] for number in range(3)})
    submit(cluster, {T0: [3, 4], T1: [3, 4], T2: [3, 4]})
    return cluster


def complete_elsewhere(cluster: Cluster, numbers: Sequence[int]) -> None:
    """A stock controller completes moves of t. It cannot read the entries, and keeps them."""
    left = [one for one in range(3) if one not in numbers]
    partitions: Assignments = {one: [3, 4] for one in numbers}
    partitions |= {one: [3, 4, 1, 2] for one in left}
    adding = {str(one): [3, 4] for one in left}
    removing = {str(one): [1, 2] for one in left}
    for number in numbers:
        cluster.set_isr("t", number, (1, 3, 4))
    cluster.change_topic_quietly(
        "t", partitions, adding_replicas=adding, removing_replicas=removing
    )


@pytest.mark.parametrize("cancelled", [True, False])
def test_move_completed_by_a_stock_controller_is_reported_and_not_rolled_back(
    cancelled: bool,
) -> None:
    cluster = three_moves()
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        complete_elsewhere(cluster, [0, 1, 2])
        if cancelled:
            cancel_quietly(cluster)
    for name in (T0, T1, T2):
        assert assignment(cluster, name) == "3,4"
    ended = "reassignment_not_cancelled" if cancelled else "reassignment_ended"
    undone = ", and /admin/reassign_cancel does not undo it" if cancelled else ""
    text = (
        f"the reassignment to 3,4, {BY_ENTRY}, has ended: an earlier controller completed it"
        f"{undone}; {strays('1,2')}"
    )
    other = "reassignment_ended" if cancelled else "reassignment_not_cancelled"
    assert seen.texts_of(ended) == [text] * 3
    assert seen.texts_of(other) == []
    assert seen.texts_of("reassignment_rolled_back") == []
    assert seen.texts_of("rollback") == []
    assert_nothing_is_left(cluster)
    assert reassigning(cluster) == []
    assert_no_failures(cluster)


def test_completed_move_of_two_is_kept_and_the_other_rolled_back() -> None:
    cluster = three_moves()
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        complete_elsewhere(cluster, [1])
        cancel_quietly(cluster)
    assert assignment(cluster, T1) == "3,4"
    assert (assignment(cluster), assignment(cluster, T2)) == ("1,2", "1,2")
    assert len(seen.texts_of("reassignment_not_cancelled")) == 1
    assert len(seen.texts_of("reassignment_rolled_back")) == 2
    assert_nothing_is_left(cluster)


def test_without_a_cancellation_the_move_that_is_not_complete_continues() -> None:
    cluster = three_moves()
    with OtherControllersTerm(cluster):
        complete_elsewhere(cluster, [1])
    assert assignment(cluster, T1) == "3,4"
    assert entries(cluster) == {T0: Entry((3, 4), (1, 2)), T2: Entry((3, 4), (1, 2))}
    assert reassigning(cluster) == [T0, T2]
    catch_up(cluster, 3, 4)
    assert assignment(cluster) == "3,4"


@pytest.mark.parametrize("cancelled", [True, False])
def test_completed_request_is_removed(cancelled: bool) -> None:
    """A cancellation concerns entries only."""
    cluster = Cluster(1, 2, 3, 4, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1, 2]})
    request(cluster, {T0: [3, 4]})
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.change_topic_quietly("t", {0: [3, 4]})
        if cancelled:
            cancel_quietly(cluster)
    assert record(cluster) is None
    assert seen.texts_of("reassignment_not_cancelled") == []
    assert seen.texts_of("reassignment_ended") == [
        "the reassignment to 3,4, requested by /admin/reassignment_requests, has ended: an "
        f"earlier controller completed it; {strays('1,2')}"
    ]


def test_completed_request_that_only_adds_replicas_is_removed() -> None:
    """All originals are still replicas."""
    cluster = Cluster(1, 2, 3, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1, 2]})
    request(cluster, {T0: [1, 2, 3]})
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.change_topic_quietly("t", {0: [1, 2, 3]})
    assert seen.texts_of("reassignment_ended") == [
        "the reassignment to 1,2,3, requested by /admin/reassignment_requests, has ended: an "
        "earlier controller completed it"
    ]
    assert reassigning(cluster) == []
    assert_nothing_is_left(cluster)


def test_move_that_only_removes_replicas_is_under_way_after_a_failover() -> None:
    """Replica 2 is not in sync, so that the move is not complete."""
    cluster = Cluster(1, 2, 3, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    ask_for_isr(cluster, 1, 3)
    request(cluster, {T0: [1, 2]})
    seen = cluster.seen()
    cluster.expire()
    assert assignment(cluster) == "1,2,3 removing 3"
    assert record(cluster) == Reassignment((1, 2), 3, False, (1, 2, 3))
    assert seen.texts_of("reassignment_ended") == []
    catch_up(cluster, 2)
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)


def remove_topic(cluster: Cluster) -> None:
    """Another client deletes t, and u is being deleted."""
    cluster.remove_topic_znodes("t")
    mark_quietly(cluster, "u")


def remove_replicas(cluster: Cluster) -> None:
    """Another client removes all replicas of t-0."""
    cluster.change_topic_quietly("t", {0: []})


@pytest.mark.parametrize("happen", [remove_topic, remove_replicas])
def test_record_of_a_partition_that_does_not_exist_is_removed_and_reported(
    happen: Callable[[Cluster], None],
) -> None:
    cluster = Cluster(1, 2, 3, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1]})
    cluster.create_topic("u", {0: [1]})
    request(cluster, {T0: [3]})
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        happen(cluster)
    [text] = seen.texts_of("record_removed")
    assert text.startswith("the partition t-0 does not exist; the record is deleted; its content ")
    assert seen.texts_of("reassignment_ended") == []
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_failover_removes_the_record_of_a_topic_that_is_being_deleted() -> None:
    """Another controller has also moved the partition on."""
    cluster = Cluster(1, 2, 3, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1]})
    request(cluster, {T0: [3]})
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.change_topic_quietly("t", {0: [2]})
        mark_quietly(cluster, "t")
    assert seen.texts_of("reassignment_ended") == [
        "the reassignment to 3, requested by /admin/reassignment_requests, has ended: its topic is "
        "being deleted"
    ]
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_entry_with_another_target_starts_after_a_completed_move() -> None:
    """An operator wrote it during the term of the other controller."""
    cluster = three_moves()
    with OtherControllersTerm(cluster):
        complete_elsewhere(cluster, [0, 1, 2])
        wanted = znodes.REASSIGN_PARTITIONS
        data = b'{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2]}]}'
        cluster.put_quietly(wanted, data)
    assert record(cluster) == Reassignment((2,), 2, True, (3, 4))
    assert entries(cluster) == {T0: Entry((2,), (3, 4))}


@pytest.mark.parametrize(
    ("replicas", "why", "former"),
    [
        ([3, 5], "another controller left the partition on 3,5", "1,2,4"),
        ([1, 2], "it was rolled back to 1,2", "3,4"),
    ],
)
def test_move_that_ended_in_another_term_is_reported_with_the_present_replicas(
    replicas: list[int], why: str, former: str
) -> None:
    cluster = Cluster(1, 2, 3, 4, 5, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1, 2]})
    submit(cluster, {T0: [3, 4]})
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.change_topic_quietly("t", {0: replicas})
    assert seen.texts_of("reassignment_ended") == [
        f"the reassignment to 3,4, {BY_ENTRY}, has ended: {why}; {strays(former)}"
    ]
    assert_nothing_is_left(cluster)


def test_move_replaced_by_another_controller_continues_to_the_new_target() -> None:
    cluster = Cluster(1, 2, 3, 4, 5, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1, 2]})
    submit(cluster, {T0: [3, 4]})
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.change_topic_quietly(
            "t",
            {0: [5, 1, 2]},
            adding_replicas={"0": [5]},
            removing_replicas={"0": [1, 2]},
        )
    assert seen.texts_of("reassignment_ended") == [
        f"the reassignment to 3,4, {BY_ENTRY}, has ended: another controller replaced it by a "
        f"reassignment to 5; {strays('3,4')}"
    ]
    assert assignment(cluster) == "5,1,2 adding 5 removing 1,2"
    catch_up(cluster, 5)
    assert assignment(cluster) == "5"
    assert_nothing_is_left(cluster)


def begins_step(number: int, issued: Issued) -> bool:
    """Whether this command starts a step of a rollback."""
    command = issued.command
    return isinstance(command, Notice) and command.text.startswith(f"step {number} of")


def test_move_that_another_controller_began_again_from_other_replicas_is_not_rolled_back() -> None:
    """The stock controller completed the move, moved the partition on, and moves it back."""
    cluster = Cluster(1, 2, 3, 4, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1, 2]})
    submit(cluster, {T0: [3, 2]})
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cancel_quietly(cluster)
        cluster.change_topic_quietly(
            "t", {0: [3, 2, 4]}, adding_replicas={"0": [3]}, removing_replicas={"0": [4]}
        )
        cluster.set_isr("t", 0, (2, 4))
    assert assignment(cluster) == "3,2,4 adding 3 removing 4"
    assert seen.texts_of("reassignment_ended") == [
        f"the reassignment to 3,2, {BY_ENTRY}, has ended: another controller ended it, and began "
        f"one to 3,2 again; {strays('1')}"
    ]
    assert seen.texts_of("rollback_waits") == []
    assert record(cluster) is None


def test_rollback_interrupted_before_step_6_is_reported_as_a_rollback() -> None:
    """The topic has its originals again. Its entry and record still exist (step 6)."""
    cluster = half_way(4)
    sessions: list[int] = []
    cluster.once(
        lambda issued: begins_step(6, issued), lambda: sessions.append(cluster.seize_role(9))
    )
    cancel_all(cluster)
    seen = cluster.seen()
    assert not cluster.is_active
    assert record(cluster) is not None
    cluster.leave_role(sessions[0])
    assert assignment(cluster) == "1,2,3"
    assert seen.texts_of("reassignment_ended") == [
        f"the reassignment to 4,5,6, {BY_ENTRY}, has ended: it was rolled back to 1,2,3; "
        f"{strays('4,5,6')}"
    ]
    assert_nothing_is_left(cluster)
