"""Cancellations that are removed before the controller has read or handled them (KB 14.2)."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.core import znodes
from controller.core.commands import Issued, ReadChildren, ReadZnodes
from controller.core.operations import CreateSequential
from controller.core.znodes import REASSIGN_CANCEL, Entry, write_entries
from tests.controller.core.cluster import Cluster, by_rule, reads, writes
from tests.controller.core.procedures.reassignment.interrupting import (
    KINDS,
    assert_nothing_is_left,
    cancel_all,
    cancel_briefly,
    cancel_quietly,
    entries,
    record,
    remove_cancel,
    remove_cancel_quietly,
    request,
    requests,
    set_minimum,
    submit,
    two_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    ask_for_isr,
    assert_no_failures,
    assignment,
    catch_up,
)

MOVING = "3,4,1,2 adding 3,4 removing 1,2"
ROLLED_BACK = (
    "1 reassignment is to be rolled back, although /admin/reassign_cancel was deleted before the "
    "controller read it"
)


@pytest.mark.parametrize("kind", KINDS)
def test_cancellation_removed_before_it_is_read_rolls_back(kind: type[Cluster]) -> None:
    cluster = two_partitions((1, 2), (1, 2), kind)
    submit(cluster, {T0: [3, 4]})
    seen = cluster.seen()
    cancel_briefly(cluster)
    cluster.run()
    assert assignment(cluster) == "1,2"
    assert seen.texts_of("reassignments_cancelled") == [ROLLED_BACK]
    assert len(seen.texts_of("reassignment_rolled_back")) == 1
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


@pytest.mark.parametrize("kind", KINDS)
def test_entry_written_after_a_removed_cancellation_starts(kind: type[Cluster]) -> None:
    cluster = two_partitions((1, 2), (1, 2), kind)
    submit(cluster, {T0: [3, 4]})
    cancel_briefly(cluster)
    both = {T0: Entry((3, 4), (1, 2)), T1: Entry((4,))}
    cluster.put_quietly(znodes.REASSIGN_PARTITIONS, write_entries(both))
    cluster.run()
    assert assignment(cluster) == "1,2"
    assert assignment(cluster, T1) == "4,1,2 adding 4 removing 1,2"
    assert entries(cluster) == {T1: Entry((4,), (1, 2))}


@pytest.mark.parametrize("kind", KINDS)
def test_entry_not_started_before_a_removed_cancellation_is_dropped(
    kind: type[Cluster],
) -> None:
    cluster = two_partitions((1, 2), (1, 2), kind)
    seen = cluster.seen()
    cluster.once(
        lambda one: any(isinstance(op, CreateSequential) for op in operations(one)),
        lambda: (cancel_quietly(cluster), remove_cancel_quietly(cluster)),
    )
    submit(cluster, {T0: [3, 4]})
    assert assignment(cluster) == "1,2"
    assert record(cluster) is None
    assert_nothing_is_left(cluster)
    assert len(seen.texts_of("reassignments_cancelled")) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_cancellation_removed_while_it_is_read_rolls_back(kind: type[Cluster]) -> None:
    cluster = two_partitions((1, 2), (1, 2), kind)
    submit(cluster, {T0: [3, 4]})
    seen = cluster.seen()
    cluster.once(reads_data(REASSIGN_CANCEL), lambda: remove_cancel_quietly(cluster))
    cancel_all(cluster)
    assert (assignment(cluster), seen.notices()) == ("1,2", [])
    assert seen.texts_of("reassignments_cancelled") == [ROLLED_BACK]
    assert_nothing_is_left(cluster)


def operations(issued: Any) -> Any:
    """The operations of a write."""
    return getattr(issued.command, "operations", ())


@pytest.mark.parametrize("kind", KINDS)
def test_younger_entry_that_was_read_before_the_cancellation_was_handled_starts(
    kind: type[Cluster],
) -> None:
    """The three writes come while the controller reads the entries."""
    cluster = two_partitions((1, 2), (1, 2), kind)
    submit(cluster, {T0: [3, 4]})
    both = {T0: Entry((3, 4), (1, 2)), T1: Entry((4,))}
    cluster.once(
        reads_data(znodes.REASSIGN_PARTITIONS),
        lambda: (
            cancel_briefly(cluster),
            cluster.put_quietly(znodes.REASSIGN_PARTITIONS, write_entries(both)),
        ),
    )
    seen = cluster.seen()
    cluster.put(znodes.REASSIGN_PARTITIONS, write_entries({T0: both[T0]}))
    assert assignment(cluster) == "1,2"
    assert assignment(cluster, T1) == "4,1,2 adding 4 removing 1,2"
    assert seen.texts_of("reassignment_cancelled") == []
    assert seen.notices() == []


@pytest.mark.parametrize("kind", KINDS)
def test_older_entry_that_was_read_before_the_cancellation_was_handled_is_dropped(
    kind: type[Cluster],
) -> None:
    cluster = two_partitions((1, 2), (1, 2), kind)
    submit(cluster, {T0: [3, 4]})
    both = {T0: Entry((3, 4), (1, 2)), T1: Entry((4,))}
    cluster.once(
        reads_data(znodes.REASSIGN_PARTITIONS),
        lambda: (
            cluster.put_quietly(znodes.REASSIGN_PARTITIONS, write_entries(both)),
            cancel_briefly(cluster),
        ),
    )
    seen = cluster.seen()
    cluster.put(znodes.REASSIGN_PARTITIONS, write_entries({T0: both[T0]}))
    assert (assignment(cluster), assignment(cluster, T1)) == ("1,2", "1,2")
    assert len(seen.texts_of("reassignment_cancelled")) == 1
    assert_nothing_is_left(cluster)


@pytest.mark.parametrize("kind", KINDS)
def test_younger_entry_that_started_before_the_cancellation_was_handled_continues(
    kind: type[Cluster],
) -> None:
    """Its request is processed before the cancellation."""
    cluster = two_partitions((1, 2), (1, 2), kind)
    both = {T0: Entry((3, 4), (1, 2)), T1: Entry((4,))}
    cluster.once(
        lambda issued: (
            reads(znodes.REASSIGN_PARTITIONS)(issued)
            and record(cluster) is not None
            and not requests(cluster)
        ),
        lambda: (
            cancel_briefly(cluster),
            cluster.put_quietly(znodes.REASSIGN_PARTITIONS, write_entries(both)),
        ),
    )
    seen = cluster.seen()
    submit(cluster, {T0: [3, 4]})
    assert assignment(cluster) == "1,2"
    assert assignment(cluster, T1) == "4,1,2 adding 4 removing 1,2"
    assert len(seen.texts_of("reassignment_rolled_back")) == 1
    assert len(seen.texts_of("reassignment_begun")) == 2
    assert entries(cluster) == {T1: Entry((4,), (1, 2))}


def reads_data(path: str) -> Callable[[Issued], bool]:
    """Return a predicate for the reads of a znode's content."""
    return lambda issued: isinstance(issued.command, ReadZnodes) and path in issued.command.paths


@pytest.mark.parametrize("kind", KINDS)
def test_removed_cancellation_without_reassignments_cancels_nothing(
    kind: type[Cluster],
) -> None:
    cluster = two_partitions((1, 2), (1, 2), kind)
    request(cluster, {T0: [3, 4]})
    seen = cluster.seen()
    cancel_briefly(cluster)
    cluster.run()
    assert assignment(cluster) == MOVING
    assert seen.texts_of("reassignment_rolled_back") == []
    catch_up(cluster, 3, 4)
    assert assignment(cluster) == "3,4"


def test_rollback_of_a_removed_cancellation_that_would_have_to_wait_is_abandoned() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    set_minimum(cluster, 2)
    submit(cluster, {T0: [3, 4]})
    ask_for_isr(cluster, 1, 3)
    seen = cluster.seen()
    cancel_briefly(cluster)
    cluster.run()
    assert seen.texts_of("reassignment_not_cancelled") == [
        "2 of the original replicas 1,2 must be live and in sync, and only broker 1 is: "
        "/admin/reassign_cancel is already deleted, so the reassignment continues; cancel it "
        "again, and wait for the rollback before you delete the znode"
    ]
    assert seen.texts_of("rollback_waits") == seen.texts_of("rollback_given_up") == []
    catch_up(cluster, 4)
    assert assignment(cluster) == "3,4"
    assert_nothing_is_left(cluster)


def test_request_whose_entry_is_cancelled_is_not_reported_as_waiting() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    cluster.once(by_rule(ReadChildren, "reassignment requests"), lambda: cancel_quietly(cluster))
    seen = cluster.seen()
    submit(cluster, {T0: [3, 4]})
    assert seen.texts_of("reassignment_waits") == []
    assert len(seen.texts_of("reassignment_cancelled")) == 1
    assert assignment(cluster) == "1,2"


def test_cancellation_removed_after_it_is_read_is_carried_out_once() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    submit(cluster, {T0: [3, 4]})
    cluster.once(writes(znodes.state_path(*T0)), lambda: remove_cancel_quietly(cluster))
    seen = cluster.seen()
    cancel_all(cluster)
    assert assignment(cluster) == "1,2"
    assert len(seen.texts_of("reassignments_cancelled")) == 1
    assert len(seen.texts_of("reassignment_rolled_back")) == 1
    assert cluster.fold.controller.context.cancel == 0


GO_ON = "/admin/reassign_cancel was deleted: reassignments continue"


def test_removed_cancellation_is_logged_once_per_removal() -> None:
    cluster = two_partitions()
    seen = cluster.seen()
    for removals in (1, 2):
        cancel_all(cluster)
        assert seen.texts_of("reassignments_go_on") == [GO_ON] * (removals - 1)
        remove_cancel(cluster)
        assert seen.texts_of("reassignments_go_on") == [GO_ON] * removals


def test_cancellation_removed_before_it_is_read_is_logged_as_removed() -> None:
    cluster = two_partitions()
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    cancel_briefly(cluster)
    cluster.run()
    assert seen.texts_of("reassignments_go_on") == [GO_ON]


def with_a_request_that_waited() -> Cluster:
    """The controller has found a cancellation while it read the request for t-0. It is removed
    before the controller handles it."""
    cluster = two_partitions()
    looks = reads(REASSIGN_CANCEL)

    def cancel() -> None:
        cancel_quietly(cluster)
        cluster.once(looks, lambda: cluster.once(looks, lambda: remove_cancel_quietly(cluster)))

    cluster.once(by_rule(ReadChildren, "reassignment requests"), cancel)
    seen = cluster.seen()
    request(cluster, {T0: [3]})
    assert len(seen.texts_of("reassignment_waits")) == 1
    return cluster


def test_request_that_waited_for_a_removed_cancellation_begins() -> None:
    cluster = with_a_request_that_waited()
    assert assignment(cluster) == "3,1 adding 3 removing 1"


def test_request_that_waits_for_the_cancellation_after_a_removed_one_is_reported_again() -> None:
    cluster = with_a_request_that_waited()
    catch_up(cluster, 3)
    assert_nothing_is_left(cluster)
    cancel_all(cluster)
    seen = cluster.seen()
    request(cluster, {T0: [4]})
    assert len(seen.texts_of("reassignment_waits")) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_two_cancellations_before_the_read_are_both_carried_out(kind: type[Cluster]) -> None:
    cluster = two_partitions((1, 2), (1, 2), kind)
    submit(cluster, {T0: [3, 4]})
    cancel_briefly(cluster)
    cancel_quietly(cluster)
    cluster.run()
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)
    submit(cluster, {T1: [3]})
    assert assignment(cluster, T1) == "1,2"
