"""A rollback waits for a cancellation and for an entry of the extra znode: each decision is logged
once, and no line contradicts another."""

import pytest

from controller.core.znodes import REASSIGN_PARTITIONS_EXTRA, Entry
from tests.controller.core.cluster import Cluster
from tests.controller.core.procedures.reassignment.interrupting import (
    cancel_all,
    cancel_briefly,
    extra,
    interruptible,
    remove_cancel,
    set_minimum,
    submit,
    submit_extra,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    ask_for_isr,
    assignment,
    catch_up,
)

UNDER_WAY = "4,5,6,1,2,3 adding 4,5,6 removing 1,2,3"
TOO_FEW = "2 of the original replicas 1,2,3 must be live and in sync, and only broker 1 is: "
FOR_ENTRY = (
    f"{TOO_FEW}the rollback and the new reassignment wait, and the other replicas stay; to "
    "continue the reassignment under way, remove the entry from /admin/reassign_partitions_extra"
)
FOR_CANCELLATION = (
    f"{TOO_FEW}the rollback waits, and the other replicas stay; "
    "`refold reassign --cancel --force` needs only one"
)

CANCELLATION_DELETED = "/admin/reassign_cancel was deleted before the partition was on its"
ENTRY_WAITS = "1 entry waits for a rollback, or for room in /admin/reassign_partitions"


def one_original_in_sync() -> Cluster:
    """t-0 moves from [1,2,3] to [4,5,6]; of the originals only 1 is in sync, and 2 are needed."""
    cluster = interruptible(6, 1, 2, 3)
    set_minimum(cluster, 2)
    submit(cluster, {T0: [4, 5, 6]})
    ask_for_isr(cluster, 1, 4, 5)
    return cluster


@pytest.mark.parametrize("entry_is_first", [True, False])
def test_rollback_for_an_extra_entry_is_not_given_up_when_the_cancellation_is_removed(
    entry_is_first: bool,
) -> None:
    cluster = one_original_in_sync()
    if entry_is_first:
        submit_extra(cluster, {T0: [6]})
    cancel_all(cluster)
    if not entry_is_first:
        submit_extra(cluster, {T0: [6]})
    seen = cluster.seen()
    remove_cancel(cluster)
    assert seen.texts_of("rollback_given_up") == []
    assert seen.texts_of("rollback_waits") == [FOR_ENTRY]
    # An entry that came first was reported before the cancellation.
    assert seen.texts_of("reassignment_waits") == ([] if entry_is_first else [ENTRY_WAITS])
    assert assignment(cluster) == UNDER_WAY
    ask_for_isr(cluster, 1, 2, 4, 5)
    assert assignment(cluster) == "6,1,2,3 adding 6 removing 1,2,3"
    assert extra(cluster) is None


def test_rollback_that_waits_for_both_is_given_up_once_when_both_are_removed() -> None:
    cluster = one_original_in_sync()
    seen = cluster.seen()
    cancel_all(cluster)
    submit_extra(cluster, {T0: [6]})
    remove_cancel(cluster)
    cluster.remove(REASSIGN_PARTITIONS_EXTRA)
    assert seen.texts_of("rollback_waits") == [FOR_CANCELLATION, FOR_ENTRY]
    assert seen.texts_of("rollback_given_up") == [
        "the entry was removed from /admin/reassign_partitions_extra before the partition was on "
        "its original replicas 1,2,3 again: the rollback ends, and the reassignment to 4,5,6 "
        "continues"
    ]
    catch_up(cluster, 6)
    assert assignment(cluster) == "4,5,6"


def test_move_that_has_caught_up_does_not_complete_before_the_extra_entry_is_handled() -> None:
    cluster = one_original_in_sync()
    cancel_all(cluster)
    submit_extra(cluster, {T0: [6]})
    ask_for_isr(cluster, 1, 4, 5, 6)
    seen = cluster.seen()
    remove_cancel(cluster)
    assert seen.texts_of("reassignment_completed") == []
    assert assignment(cluster) == UNDER_WAY
    assert extra(cluster) == {T0: Entry((6,))}


def test_brief_cancellation_does_not_end_the_rollback_for_an_extra_entry() -> None:
    cluster = one_original_in_sync()
    submit_extra(cluster, {T0: [6]})
    seen = cluster.seen()
    cancel_briefly(cluster)
    cluster.run()
    assert seen.texts_of("reassignment_not_cancelled") == [
        f"{TOO_FEW}the rollback still waits for the entry of /admin/reassign_partitions_extra; "
        "/admin/reassign_cancel is already deleted"
    ]
    assert seen.texts_of("rollback_given_up") == seen.texts_of("rollback_waits") == []
    # The entry was reported as waiting before the cancellation.
    assert seen.texts_of("reassignment_waits") == []
    ask_for_isr(cluster, 1, 2, 4, 5)
    assert assignment(cluster) == "6,1,2,3 adding 6 removing 1,2,3"


@pytest.mark.parametrize("content", [b"no entries", None])
def test_extra_entry_that_does_not_replace_the_target_lets_the_move_continue(
    content: bytes | None,
) -> None:
    cluster = one_original_in_sync()
    cancel_all(cluster)
    if content is None:
        submit_extra(cluster, {T0: [4, 5, 6]})
    else:
        cluster.put(REASSIGN_PARTITIONS_EXTRA, content)
    seen = cluster.seen()
    remove_cancel(cluster)
    [text] = seen.texts_of("rollback_given_up")
    assert text.startswith(CANCELLATION_DELETED)
    assert seen.texts_of("rollback_waits") == []
    catch_up(cluster, 6)
    assert assignment(cluster) == "4,5,6"


def test_only_the_partition_of_the_extra_entry_waits_when_the_cancellation_is_removed() -> None:
    cluster = interruptible(6, 1, 2, 3)
    cluster.create_topic("u", {0: [1, 2, 3]})
    u0 = ("u", 0)
    for topic in ("t", "u"):
        set_minimum(cluster, 2, topic)
    submit(cluster, {T0: [4, 5, 6], u0: [4, 5, 6]})
    for name in (T0, u0):
        ask_for_isr(cluster, 1, 4, 5, name=name)
    cancel_all(cluster)
    submit_extra(cluster, {u0: [6]})
    seen = cluster.seen()
    remove_cancel(cluster)
    assert [one for one in seen.notices() if one[0].startswith("rollback")] == [
        ("rollback_given_up", "t-0"),
        ("rollback_waits", "u-0"),
    ]
    assert seen.texts_of("rollback_given_up")[0].startswith(CANCELLATION_DELETED)
