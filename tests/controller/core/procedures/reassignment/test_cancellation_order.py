"""A cancellation covers the entries that are older, even if it was removed meanwhile (KB 14.2).

The transactions decide which entries are older, not the order in which the controller reads the
znodes.
"""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import Notice
from controller.core.znodes import REASSIGN_CANCEL, Entry, Reassignment, write_entries
from tests.controller.core.cluster import Cluster, Seen, reads, writes
from tests.controller.core.procedures.reassignment.interrupting import (
    KINDS,
    OtherControllersTerm,
    assert_nothing_is_left,
    cancel_all,
    cancel_quietly,
    entries,
    entries_json,
    force_all,
    record,
    records,
    remove_cancel,
    remove_cancel_quietly,
    request,
    request_quietly,
    requests,
    set_minimum,
    submit,
    submit_extra,
    submit_quietly,
    two_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    ask_for_isr,
    assignment,
    reassign,
    reassigning,
)

MOVING = "3,4,1,2 adding 3,4 removing 1,2"


# Older and younger entries ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_younger_entries_wait_and_start_when_the_cancellation_is_removed(
    kind: type[Cluster],
) -> None:
    """All three writes precede the read."""
    cluster = two_partitions((1, 2), (1, 2), kind)
    submit(cluster, {T0: [3, 4]})
    seen = cluster.seen()
    cancel_quietly(cluster)
    both = {T0: Entry((3, 4), (1, 2)), T1: Entry((4,))}
    cluster.put_quietly(znodes.REASSIGN_PARTITIONS, write_entries(both))
    cluster.run()
    assert assignment(cluster) == "1,2"
    assert assignment(cluster, T1) == "1,2"
    assert entries(cluster) == {T1: Entry((4,))}
    assert seen.texts_of("reassignment_waits")
    remove_cancel(cluster)
    assert assignment(cluster, T1) == "4,1,2 adding 4 removing 1,2"


@pytest.mark.parametrize("kind", KINDS)
def test_older_entries_that_have_not_started_are_dropped(kind: type[Cluster]) -> None:
    """The controller reads both znodes at once."""
    cluster = two_partitions((1, 2), (1, 2), kind)
    seen = cluster.seen()
    submit_quietly(cluster, {T0: [3, 4]})
    cancel_quietly(cluster)
    cluster.run()
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)
    assert seen.texts_of("reassignments_cancelled") == ["1 entry that had not begun is removed"]
    remove_cancel(cluster)
    assert assignment(cluster) == "1,2"
    assert records(cluster) == []


def test_entries_rewritten_by_the_controller_are_still_cancelled() -> None:
    """The controller added their originals after the cancellation was created."""
    cluster = two_partitions((1, 2), (1, 2))
    cluster.once(writes(znodes.REASSIGN_PARTITIONS), lambda: cancel_quietly(cluster))
    submit(cluster, {T0: [3, 4]})
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)
    remove_cancel(cluster)
    assert records(cluster) == []


def test_failover_cancels_older_entries_and_keeps_younger_ones_waiting() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    submit(cluster, {T0: [3, 4]})
    with OtherControllersTerm(cluster):
        cancel_quietly(cluster)
        both = {T0: Entry((3, 4), (1, 2)), T1: Entry((4,))}
        cluster.put_quietly(znodes.REASSIGN_PARTITIONS, write_entries(both))
    assert assignment(cluster) == "1,2"
    assert assignment(cluster, T1) == "1,2"
    assert entries(cluster) == {T1: Entry((4,))}
    remove_cancel(cluster)
    assert assignment(cluster, T1) == "4,1,2 adding 4 removing 1,2"


def test_failover_drops_older_entries_that_have_not_started() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    with OtherControllersTerm(cluster):
        submit_quietly(cluster, {T0: [3, 4], T1: [4]})
        cancel_quietly(cluster)
    assert_nothing_is_left(cluster)
    assert reassigning(cluster) == []
    remove_cancel(cluster)
    assert reassigning(cluster) == []


@pytest.mark.parametrize("read", [znodes.REASSIGN_PARTITIONS, REASSIGN_CANCEL])
def test_failover_drops_entries_that_are_written_and_cancelled_while_it_reads(read: str) -> None:
    """Found by `refold explore`: a cancellation covers entries that are read after it."""
    cluster = two_partitions((1, 2), (1, 2))

    def write() -> None:
        submit_quietly(cluster, {T0: [3, 4]})
        cancel_quietly(cluster)

    with OtherControllersTerm(cluster):
        cluster.once(reads(read), write)
    assert_nothing_is_left(cluster)
    assert reassigning(cluster) == []
    remove_cancel(cluster)
    assert reassigning(cluster) == []


def test_age_of_a_rewritten_entry_is_that_of_its_request() -> None:
    """The controller exited after it had created the request and added the originals. The
    cancellation was created in between."""
    cluster = two_partitions((1, 2), (1, 2))
    with OtherControllersTerm(cluster):
        request_quietly(cluster, {T0: [3, 4]}, legacy=True)
        cancel_quietly(cluster)
        cluster.put_quietly(znodes.REASSIGN_PARTITIONS, write_entries({T0: Entry((3, 4), (1, 2))}))
    assert_nothing_is_left(cluster)
    remove_cancel(cluster)
    assert reassigning(cluster) == []


def test_younger_target_of_a_partition_in_rollback_waits() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    submit(cluster, {T0: [3, 4]})
    cancel_all(cluster)
    submit(cluster, {T0: [4]})
    assert assignment(cluster) == "1,2"
    assert entries(cluster) == {T0: Entry((4,))}
    remove_cancel(cluster)
    assert assignment(cluster) == "4,1,2 adding 4 removing 1,2"


def test_second_cancellation_drops_the_entries_that_waited_for_the_first() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    cancel_all(cluster)
    submit(cluster, {T0: [4]})
    remove_cancel_quietly(cluster)
    cancel_quietly(cluster)
    cluster.run()
    assert entries(cluster) is None
    remove_cancel(cluster)
    assert assignment(cluster) == "1,2"


def test_requests_of_younger_entries_are_kept_and_of_older_ones_dropped() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    with OtherControllersTerm(cluster):
        request_quietly(cluster, {T0: [3, 4]}, legacy=True)
        submit_quietly(cluster, {T0: [3, 4]})
        cancel_quietly(cluster)
        cluster.put_quietly(znodes.REASSIGN_PARTITIONS, entries_json({T0: [3, 4], T1: [4]}))
        request_quietly(cluster, {T1: [4]}, legacy=True)
    assert entries(cluster) == {T1: Entry((4,))}
    assert len(requests(cluster)) == 1
    remove_cancel(cluster)
    assert reassigning(cluster) == [T1]
    assert requests(cluster) == []


# Other requests ---------------------------------------------------------------------------------


def test_cancellation_created_while_a_request_starts_does_not_lose_the_request() -> None:
    """The cancellation is read twice: before the request is validated, and before it is written."""
    cluster = two_partitions((1, 2), (1, 2))
    cluster.once(
        lambda one: znodes.topic_config_path("t") in getattr(one.command, "paths", ()),
        lambda: cancel_quietly(cluster),
    )
    seen = cluster.seen()
    request(cluster, {T0: [3, 4]})
    assert assignment(cluster) == "1,2"
    assert len(requests(cluster)) == 1
    assert seen.texts_of("reassignment_begun") == []
    remove_cancel(cluster)
    assert assignment(cluster) == MOVING


def test_cancellation_created_while_an_api_request_changes_a_target_is_answered() -> None:
    """The cancellation is read before the request is validated, and again before it is carried
    out."""
    cluster = two_partitions((1, 2), (1, 2))
    assert reassign(cluster, 3) == 0
    cluster.once(reads(znodes.state_path(*T0)), lambda: cancel_quietly(cluster))
    seen = cluster.seen()
    assert reassign(cluster, 4) == codes.REASSIGNMENT_IN_PROGRESS
    assert record(cluster) == Reassignment((3,), 2, False, (1, 2), api=True)
    assert seen.texts_of("reassignment_replaced") == []


def test_without_kip_236_a_removed_cancellation_has_no_effect() -> None:
    cluster = Cluster(1, 2, 3, 4, kip_236_enable=False).start()
    cluster.create_topic("t", {0: [1, 2]})
    submit(cluster, {T0: [3, 4]})
    cluster.put_quietly(REASSIGN_CANCEL, b"{}")
    remove_cancel_quietly(cluster)
    cluster.run()
    assert assignment(cluster) == MOVING


# Dropped entries --------------------------------------------------------------------------------


def test_entries_dropped_before_they_start_are_logged_and_do_not_wait() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    seen = cluster.seen()
    submit_quietly(cluster, {T0: [3, 4], T1: [4]})
    cancel_quietly(cluster)
    cluster.run()
    assert_dropped(seen)
    assert_nothing_is_left(cluster)


def test_entries_dropped_by_a_failover_are_logged_and_do_not_wait() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        submit_quietly(cluster, {T0: [3, 4], T1: [4]})
        cancel_quietly(cluster)
    assert_dropped(seen)
    assert_nothing_is_left(cluster)


def test_rolled_back_and_dropped_entries_are_counted() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    submit(cluster, {T0: [3, 4]})
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        submit_quietly(cluster, {T0: [3, 4], T1: [4]})
        cancel_quietly(cluster)
    assert seen.texts_of("reassignments_cancelled") == [
        "1 reassignment is to be rolled back, and 1 entry that had not begun is removed"
    ]


def test_several_rolled_back_reassignments_are_counted() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    submit(cluster, {T0: [3, 4], T1: [4]})
    seen = cluster.seen()
    cancel_all(cluster)
    assert seen.texts_of("reassignments_cancelled") == ["2 reassignments are to be rolled back"]


def assert_dropped(seen: Seen) -> None:
    """Each of the two dropped entries is logged."""
    cancelled = [one for one in seen.commands if isinstance(one, Notice)]
    cancelled = [one for one in cancelled if one.code == "reassignment_cancelled"]
    assert [(one.level, one.subject) for one in cancelled] == [("info", "t-0"), ("info", "t-1")]
    assert seen.texts_of("reassignment_cancelled") == [
        f"the entry with replicas {target} is removed from /admin/reassign_partitions, and its "
        "reassignment does not begin: /admin/reassign_cancel was created after the entry"
        for target in ("3,4", "4")
    ]
    assert seen.texts_of("reassignments_cancelled") == ["2 entries that had not begun are removed"]
    assert seen.texts_of("reassignment_waits") == []


def test_waiting_younger_entries_are_named_once_while_they_stay_the_same() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    cancel_all(cluster)
    seen = cluster.seen()
    submit(cluster, {T0: [3, 4]})
    submit(cluster, {T0: [3, 4], T1: [4]})
    cluster.stop_broker(4)
    assert seen.texts_of("reassignment_waits") == [
        "the reassignment of t-0 waits until /admin/reassign_cancel is deleted",
        "the reassignments of t-0, t-1 wait until /admin/reassign_cancel is deleted",
    ]
    assert seen.texts_of("reassignment_cancelled") == []


def test_wait_is_logged_once_while_a_rollback_waits() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    set_minimum(cluster, 2)
    submit(cluster, {T0: [3, 4]})
    ask_for_isr(cluster, 1, 3)
    cancel_all(cluster)
    seen = cluster.seen()
    submit(cluster, {T0: [3, 4], T1: [4]})
    cluster.stop_broker(4)
    submit(cluster, {T0: [3, 4], T1: [4]})
    assert assignment(cluster) == MOVING
    assert seen.texts_of("reassignment_waits") == [
        "the reassignment of t-1 waits until /admin/reassign_cancel is deleted"
    ]


def test_waiting_entries_are_named_without_those_that_are_being_rolled_back() -> None:
    """After the failover the entry of t-0 looks younger than the cancellation."""
    cluster = two_partitions((1, 2), (1, 2))
    set_minimum(cluster, 2)
    submit(cluster, {T0: [3, 4]})
    ask_for_isr(cluster, 1, 3)
    cancel_all(cluster)
    submit(cluster, {T0: [3, 4], T1: [4]})
    seen = cluster.seen()
    cluster.expire()
    submit(cluster, {T0: [3, 4], T1: [4]})
    assert set(seen.texts_of("reassignment_waits")) == {
        "the reassignment of t-1 waits until /admin/reassign_cancel is deleted"
    }


def test_extra_znode_without_entries_is_logged_as_waiting_without_names() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    cancel_all(cluster)
    seen = cluster.seen()
    submit_extra(cluster, {})
    assert seen.texts_of("reassignment_waits") == [
        "the reassignments that this znode requests wait until /admin/reassign_cancel is deleted"
    ]


def test_forced_cancellation_is_logged_for_the_moves_that_it_rolls_back() -> None:
    """The move of t-1 was requested by another route."""
    cluster = two_partitions((1, 2), (1, 2))
    submit(cluster, {T0: [3, 4]})
    request(cluster, {T1: [3]})
    seen = cluster.seen()
    force_all(cluster)
    assert seen.notices() == [("rollback_forced", "t-0")]


def test_forced_cancellation_is_logged_once_while_its_rollback_waits() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    submit(cluster, {T0: [3, 4]})
    ask_for_isr(cluster, 1, 3)
    cluster.stop_broker(1)
    cluster.start_broker(1)
    seen = cluster.seen()
    force_all(cluster)
    cluster.stop_broker(4)
    assert assignment(cluster) == MOVING
    assert len(seen.texts_of("rollback_forced")) == 1


def test_wait_is_logged_again_for_another_cancellation() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    cancel_all(cluster)
    seen = cluster.seen()
    for target in (3, 4):
        submit(cluster, {T0: [target]})
        remove_cancel(cluster)
        cancel_all(cluster)
    assert len(seen.texts_of("reassignment_waits")) == 2


def test_entry_under_way_that_is_rewritten_after_its_cancellation_is_rolled_back() -> None:
    """The entry with the new target waits. The move was not begun by another controller."""
    cluster = two_partitions((1, 2), (1, 2))
    submit(cluster, {T0: [3]})
    cancel_quietly(cluster)
    submit_quietly(cluster, {T0: [4]})
    seen = cluster.seen()
    cluster.run()
    assert assignment(cluster) == "1,2"
    assert seen.texts_of("reassignment_waits") == [
        "the reassignment of t-0 waits until /admin/reassign_cancel is deleted"
    ]
