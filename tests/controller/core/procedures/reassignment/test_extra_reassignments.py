"""/admin/reassign_partitions_extra: more reassignments while some are under way (KB 14.3)."""

import pytest

from controller.core import znodes
from controller.core.commands import Issued, ReadZnodes, SyncZnodes, WriteAtomically
from controller.core.operations import CreateSequential
from controller.core.procedures.reassignment import reassign_partitions_extra
from controller.core.znodes import REASSIGN_PARTITIONS_EXTRA, Entry, write_entries
from tests.controller.core.cluster import Cluster, writes
from tests.controller.core.procedures.reassignment.interrupting import (
    assert_nothing_is_left,
    cancel_all,
    entries,
    entries_json,
    extra,
    interruptible,
    record,
    remove_cancel,
    request,
    set_minimum,
    submit,
    submit_extra,
    two_partitions,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    ask_for_isr,
    assert_no_failures,
    assignment,
    catch_up,
    reassign,
)
from tests.controller.core.unreliable import Delivery

FOO1, FOO2 = ("foo1", 0), ("foo2", 1)

KIP_236_ENTRIES = b"""
{"version":1,
 "partitions":[{"topic": "foo1",
                "partition": 0,
                "replicas": [1,2,4],
                "original_replicas": [1,2,3]
               },
               {"topic": "foo2",
                "partition": 1,
                "replicas": [7,9,8],
                "original_replicas": [5,6,8]
               }]
}
"""
KIP_236_EXTRA = b"""
{"version":1,
 "partitions":[{"topic": "foo1",
                "partition": 0,
                "replicas": [1,2,5]
               },
               {"topic": "foo2",
                "partition": 1,
                "replicas": [7,9,10]
               }]
}
"""


def moves(issued: object) -> bool:
    """Whether this command moves entries to /admin/reassign_partitions."""
    return isinstance(getattr(issued, "command", None), WriteAtomically) and any(
        one.path == REASSIGN_PARTITIONS_EXTRA
        for one in issued.command.operations  # type: ignore[attr-defined]
    )


def test_two_examples_of_kip_236_are_carried_out_in_sequence() -> None:
    cluster = Cluster(*range(1, 11), kip_236_enable=True).start()
    cluster.create_topic("foo1", {0: [1, 2, 3]})
    cluster.create_topic("foo2", {0: [1, 2, 3], 1: [5, 6, 8]})
    cluster.put(znodes.REASSIGN_PARTITIONS, KIP_236_ENTRIES)
    assert assignment(cluster, FOO1) == "1,2,4,3 adding 4 removing 3"
    assert assignment(cluster, FOO2) == "7,9,8,5,6 adding 7,9 removing 5,6"
    cluster.put(REASSIGN_PARTITIONS_EXTRA, KIP_236_EXTRA)
    assert extra(cluster) is None
    assert entries(cluster) == {
        FOO1: Entry((1, 2, 5), (1, 2, 3)),
        FOO2: Entry((7, 9, 10), (5, 6, 8)),
    }
    assert assignment(cluster, FOO1) == "1,2,5,3 adding 5 removing 3"
    assert assignment(cluster, FOO2) == "7,9,10,5,6,8 adding 7,9,10 removing 5,6,8"
    catch_up(cluster, 5, name=FOO1)
    catch_up(cluster, 7, 9, 10, name=FOO2)
    assert assignment(cluster, FOO1) == "1,2,5"
    assert assignment(cluster, FOO2) == "7,9,10"
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_cancelling_after_both_examples_restores_the_first_originals() -> None:
    cluster = Cluster(*range(1, 11), kip_236_enable=True).start()
    cluster.create_topic("foo1", {0: [1, 2, 3]})
    cluster.create_topic("foo2", {0: [1, 2, 3], 1: [5, 6, 8]})
    cluster.put(znodes.REASSIGN_PARTITIONS, KIP_236_ENTRIES)
    cluster.put(REASSIGN_PARTITIONS_EXTRA, KIP_236_EXTRA)
    cancel_all(cluster)
    assert (assignment(cluster, FOO1), assignment(cluster, FOO2)) == ("1,2,3", "5,6,8")
    assert_nothing_is_left(cluster)


def test_entries_are_added_with_originals_and_removed_in_one_multi() -> None:
    cluster = two_partitions()
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    submit_extra(cluster, {T1: [4]})
    assert extra(cluster) is None
    assert entries(cluster) == {T0: Entry((3,), (1,)), T1: Entry((4,), (2,))}
    [multi] = [one for one in seen.commands if isinstance(one, WriteAtomically) and _moves(one)]
    assert [one.path for one in multi.operations] == [
        "/controller_epoch",
        znodes.REASSIGN_PARTITIONS,
        REASSIGN_PARTITIONS_EXTRA,
    ]
    written = seen.written()
    assert written.index(REASSIGN_PARTITIONS_EXTRA) < written.index(znodes.topic_path("t"))


def _moves(multi: WriteAtomically) -> bool:
    return any(one.path == REASSIGN_PARTITIONS_EXTRA for one in multi.operations)


def test_extra_entries_start_without_a_reassignment_under_way() -> None:
    cluster = two_partitions()
    submit_extra(cluster, {T0: [3]})
    assert entries(cluster) == {T0: Entry((3,), (1,))}
    catch_up(cluster, 3)
    assert assignment(cluster) == "3"
    assert_nothing_is_left(cluster)


def test_blocked_reassignment_does_not_delay_the_completion_of_others() -> None:
    """KIP-236 M-07."""
    cluster = two_partitions()
    cluster.stop_broker(4)
    submit(cluster, {T0: [4]})
    submit_extra(cluster, {T1: [3]})
    catch_up(cluster, 3, name=T1)
    assert assignment(cluster, T1) == "3"
    assert entries(cluster) == {T0: Entry((4,), (1,))}


def test_pending_partition_is_rolled_back_first() -> None:
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    submit_extra(cluster, {T0: [4]})
    assert len(seen.texts_of("rollback")) == 7
    assert assignment(cluster) == "4,1,2 adding 4 removing 1,2"
    assert entries(cluster) == {T0: Entry((4,), (1, 2))}
    assert [id for id, one in cluster.brokers.items() if T0 in one.logs] == [1, 2, 4]


def test_pending_partition_with_a_new_target_that_is_in_sync_starts_and_ends_once() -> None:
    cluster = interruptible(4, 1, 2, 3)
    submit(cluster, {T0: [4, 1, 2]})
    seen = cluster.seen()
    submit_extra(cluster, {T0: [2, 3, 1]})
    assert assignment(cluster) == "2,3,1"
    assert len([one for one in seen.writes() if isinstance(one, CreateSequential)]) == 1
    assert len(seen.texts_of("reassignment_begun")) == 1
    assert len(seen.texts_of("reassignment_completed")) == 1
    assert seen.texts_of("reassignment_refused") == []
    assert_nothing_is_left(cluster)


def test_same_target_again_causes_no_rollback() -> None:
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3]})
    seen = cluster.seen()
    submit_extra(cluster, {T0: [3]})
    assert seen.texts_of("rollback") == []
    assert extra(cluster) is None
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"


def test_new_entry_waits_while_the_rollback_waits() -> None:
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3, 4]})
    catch_up(cluster, 3)
    for broker in (1, 2):
        cluster.stop_broker(broker)
    submit_extra(cluster, {T0: [4]})
    assert extra(cluster) == {T0: Entry((4,))}
    assert entries(cluster) == {T0: Entry((3, 4), (1, 2))}
    assert cluster.leadership("t", 0).leader == 3
    cluster.start_broker(1)
    catch_up(cluster, 1)
    assert extra(cluster) is None
    assert entries(cluster) == {T0: Entry((4,), (1, 2))}
    assert assignment(cluster) == "4,1,2 adding 4 removing 1,2"


def test_entries_wait_while_the_znode_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = two_partitions()
    submit(cluster, {T0: [3]})
    room = len(cluster.data(znodes.REASSIGN_PARTITIONS) or b"") + 60
    monkeypatch.setattr(reassign_partitions_extra, "DATA_BYTES_MAX", room)
    submit_extra(cluster, {T1: [4]})
    assert extra(cluster) == {T1: Entry((4,))}
    assert assignment(cluster, T1) == "2"
    catch_up(cluster, 3)
    assert extra(cluster) is None
    assert assignment(cluster, T1) == "4,2 adding 4 removing 2"


@pytest.mark.parametrize(("room", "is_moved"), [(-1, False), (0, True)])
def test_entries_wait_while_both_znodes_together_are_too_large_for_a_multi(
    monkeypatch: pytest.MonkeyPatch, room: int, is_moved: bool
) -> None:
    cluster = two_partitions()
    submit(cluster, {T0: [3]})
    present = cluster.data(znodes.REASSIGN_PARTITIONS)
    assert present is not None
    # As long as the longer entry would be in the znode alone.
    moved = len(write_entries({T1: Entry((4,), (2,))}))
    monkeypatch.setattr(
        reassign_partitions_extra, "BOTH_ZNODES_BYTES_MAX", len(present) + moved + room
    )
    submit_extra(cluster, {T1: [4]})
    assert (extra(cluster) is None) is is_moved


def test_entry_of_another_client_meanwhile_is_kept() -> None:
    cluster = two_partitions()
    cluster.once(
        moves, lambda: cluster.put_quietly(znodes.REASSIGN_PARTITIONS, entries_json({T1: [4]}))
    )
    seen = cluster.seen()
    submit_extra(cluster, {T0: [3]})
    assert extra(cluster) is None
    assert entries(cluster) == {T0: Entry((3,), (1,)), T1: Entry((4,), (2,))}
    by_client, by_controller = sorted(seen.texts_of("reassignment_begun"), reverse=True)
    assert by_client.endswith("requested by /admin/reassign_partitions")
    assert by_controller.endswith("the entry of /admin/reassign_partitions_extra")


def test_entries_that_cannot_be_moved_stay_and_are_reported() -> None:
    """ZooKeeper refuses to delete a znode with children."""
    cluster = two_partitions()
    child = f"{REASSIGN_PARTITIONS_EXTRA}/child"
    cluster.once(moves, lambda: cluster.put_quietly(child, b""))
    seen = cluster.seen()
    submit_extra(cluster, {T0: [3]})
    assert seen.notices() == [("entries_not_written", REASSIGN_PARTITIONS_EXTRA)]
    assert (extra(cluster), entries(cluster)) == ({T0: Entry((3,))}, None)
    cluster.remove_quietly(child)
    submit_extra(cluster, {T0: [4]})
    assert (extra(cluster), assignment(cluster)) == (None, "4,1 adding 4 removing 1")


def test_entries_that_wait_stay_without_those_that_are_moved() -> None:
    cluster = interruptible(4, 1, 2)
    cluster.create_topic("u", {0: [1]})
    submit(cluster, {T0: [3, 4]})
    catch_up(cluster, 3)
    for broker in (1, 2):
        cluster.stop_broker(broker)
    submit_extra(cluster, {T0: [4], ("u", 0): [4]})
    assert extra(cluster) == {T0: Entry((4,))}
    assert entries(cluster) == {T0: Entry((3, 4), (1, 2)), ("u", 0): Entry((4,), (1,))}


def test_impossible_entry_is_removed_while_another_one_waits() -> None:
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3, 4]})
    catch_up(cluster, 3)
    for broker in (1, 2):
        cluster.stop_broker(broker)
    seen = cluster.seen()
    submit_extra(cluster, {T0: [4], ("no-topic", 0): [4]})
    assert extra(cluster) == {T0: Entry((4,))}
    assert [subject for _, subject in seen.notices()].count("no-topic-0") == 1
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"


def test_later_content_is_processed_and_its_entries_have_priority() -> None:
    cluster = two_partitions()
    cancel_all(cluster)
    submit_extra(cluster, {T0: [3]})
    submit_extra(cluster, {T0: [4], T1: [3]})
    remove_cancel(cluster)
    assert entries(cluster) == {T0: Entry((4,), (1,)), T1: Entry((3,), (2,))}
    submit_extra(cluster, {T1: [4]})
    assert assignment(cluster, T1) == "4,2 adding 4 removing 2"


@pytest.mark.parametrize("delivery", [one for one in Delivery if one is not Delivery.ANSWERED])
def test_moved_entry_is_not_a_duplicate_of_itself(delivery: Delivery) -> None:
    """However the multi is delivered, the entry is not rolled back as already pending."""
    cluster = two_partitions()
    seen = cluster.seen()
    cluster.lose(moves, delivery)
    submit_extra(cluster, {T0: [3]})
    assert seen.texts_of("rollback") == []
    assert extra(cluster) is None
    assert entries(cluster) == {T0: Entry((3,), (1,))}
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    assert_no_failures(cluster)


def test_entry_that_a_client_moves_while_the_multi_is_lost_is_removed() -> None:
    """The multi looks as if it was done in one of the two znodes."""
    cluster = two_partitions()
    moved = write_entries({T0: Entry((3,), (1,))})

    def looks(issued: Issued) -> bool:
        return isinstance(issued.command, SyncZnodes)

    cluster.once(looks, lambda: cluster.put_quietly(znodes.REASSIGN_PARTITIONS, moved))
    cluster.lose(moves, Delivery.REQUEST_LOST)
    submit_extra(cluster, {T0: [3]})
    assert extra(cluster) is None
    assert assignment(cluster) == "3,1 adding 3 removing 1"


def test_znode_written_meanwhile_is_read_again() -> None:
    cluster = two_partitions()
    cluster.once(
        moves, lambda: cluster.put_quietly(REASSIGN_PARTITIONS_EXTRA, entries_json({T0: [4]}))
    )
    submit_extra(cluster, {T0: [3]})
    assert extra(cluster) is None
    assert entries(cluster) == {T0: Entry((4,), (1,))}


def test_partition_of_another_route_is_refused_with_the_name_of_the_route() -> None:
    cluster = two_partitions()
    assert reassign(cluster, 3) == 0
    request(cluster, {T1: [4]})
    seen = cluster.seen()
    submit_extra(cluster, {T0: [4], T1: [3]})
    assert extra(cluster) is None
    assert entries(cluster) is None
    [first, second] = seen.texts_of("reassignment_refused")
    assert "by way of the AlterPartitionReassignments API: that reassignment has to end" in first
    assert "by way of /admin/reassignment_requests: that reassignment has to end" in second
    assert record(cluster, T1).replicas == (4,)  # type: ignore[union-attr]


def test_rejection_names_the_extra_znode_of_an_entry_that_the_controller_moved() -> None:
    cluster = two_partitions()
    cancel_all(cluster)
    submit_extra(cluster, {T0: [4]})
    request(cluster, {T0: [3]})
    seen = cluster.seen()
    remove_cancel(cluster)
    assert record(cluster).replicas == (3,)  # type: ignore[union-attr]
    why = (
        "The partition is being reassigned by way of /admin/reassignment_requests: that "
        "reassignment has to end or be cancelled first."
    )
    assert seen.texts_of("reassignment_refused") == [
        "the entry with replicas 4 is removed from /admin/reassign_partitions, to which the "
        f"controller added the entry of /admin/reassign_partitions_extra: {why}"
    ]
    submit(cluster, {T0: [4]})
    assert seen.texts_of("reassignment_refused")[1:] == [
        f"the entry with replicas 4 is removed from /admin/reassign_partitions: {why}"
    ]


def test_move_that_catches_up_while_its_rollback_waits_completes_without_the_extra_entry() -> None:
    cluster = interruptible(6, 1, 2, 3)
    set_minimum(cluster, 2)
    submit(cluster, {T0: [4, 5]})
    ask_for_isr(cluster, 1, 4)
    submit_extra(cluster, {T0: [6]})
    ask_for_isr(cluster, 1, 4, 5)
    assert assignment(cluster) == "4,5,1,2,3 adding 4,5 removing 1,2,3"
    cluster.remove(REASSIGN_PARTITIONS_EXTRA)
    assert assignment(cluster) == "4,5"


def test_rollback_that_waited_for_an_extra_entry_names_the_entry() -> None:
    cluster = interruptible(6, 1, 2, 3)
    set_minimum(cluster, 2)
    submit(cluster, {T0: [4, 5]})
    ask_for_isr(cluster, 1, 4)
    submit_extra(cluster, {T0: [6]})
    seen = cluster.seen()
    catch_up(cluster, 2)
    assert assignment(cluster) == "6,1,2,3 adding 6 removing 1,2,3"
    [text] = seen.texts_of("reassignment_rolled_back")
    assert "an entry of /admin/reassign_partitions_extra with replicas 6 cancelled" in text


def test_removed_extra_entry_lets_the_move_continue() -> None:
    cluster = interruptible(6, 1, 2, 3)
    set_minimum(cluster, 2)
    submit(cluster, {T0: [4, 5]})
    ask_for_isr(cluster, 1, 4)
    submit_extra(cluster, {T0: [6]})
    cluster.remove(REASSIGN_PARTITIONS_EXTRA)
    catch_up(cluster, 5)
    assert assignment(cluster) == "4,5"


def test_waiting_conflict_is_logged_once_with_what_ends_the_wait() -> None:
    cluster = interruptible(6, 1, 2, 3)
    set_minimum(cluster, 2)
    submit(cluster, {T0: [4, 5, 6]})
    ask_for_isr(cluster, 1, 4, 5)
    seen = cluster.seen()
    submit_extra(cluster, {T0: [6]})
    cluster.stop_broker(6)
    assert seen.texts_of("rollback_waits") == [
        "2 of the original replicas 1,2,3 must be live and in sync, and only broker 1 is: the "
        "rollback and the new reassignment wait, and the other replicas stay; to continue the "
        "reassignment under way, remove the entry from /admin/reassign_partitions_extra"
    ]
    assert seen.texts_of("reassignment_waits") == [
        "1 entry waits for a rollback, or for room in /admin/reassign_partitions"
    ]


def test_waiting_entries_are_counted() -> None:
    cluster = two_partitions((1, 2), (1, 2))
    set_minimum(cluster, 2)
    submit(cluster, {T0: [3], T1: [3]})
    ask_for_isr(cluster, 1)
    ask_for_isr(cluster, 1, name=T1)
    seen = cluster.seen()
    submit_extra(cluster, {T0: [4], T1: [4]})
    assert seen.texts_of("reassignment_waits") == [
        "2 entries wait for a rollback, or for room in /admin/reassign_partitions"
    ]


def test_entry_that_waits_after_another_one_has_moved_is_logged_again() -> None:
    cluster = interruptible(6, 1, 2, 3)
    set_minimum(cluster, 2)
    submit(cluster, {T0: [4]})
    seen = cluster.seen()
    for target in (5, 6):
        ask_for_isr(cluster, 1)
        submit_extra(cluster, {T0: [target]})
        assert extra(cluster) == {T0: Entry((target,))}
        catch_up(cluster, 2)
        assert extra(cluster) is None
    assert len(seen.texts_of("reassignment_waits")) == 2


def test_unreadable_znode_that_is_written_meanwhile_is_read_again() -> None:
    cluster = two_partitions()
    cluster.once(
        writes(REASSIGN_PARTITIONS_EXTRA),
        lambda: cluster.put_quietly(REASSIGN_PARTITIONS_EXTRA, entries_json({T0: [3]})),
    )
    cluster.put(REASSIGN_PARTITIONS_EXTRA, b"no entries")
    assert extra(cluster) is None
    assert entries(cluster) == {T0: Entry((3,), (1,))}


def put_both(cluster: Cluster, entry: list[int], other: list[int]) -> list[str]:
    """A tool writes an entry of t-0 into the extra znode, then another into the main znode, before
    the controller reads them. Returns the reported steps of a rollback."""
    seen = cluster.seen()
    cluster.put_quietly(REASSIGN_PARTITIONS_EXTRA, entries_json({T0: entry}))
    cluster.put_quietly(znodes.REASSIGN_PARTITIONS, entries_json({T0: other}))
    cluster.run()
    assert extra(cluster) is None
    return seen.texts_of("rollback")


def test_move_under_way_is_rolled_back_although_its_entry_has_the_new_target() -> None:
    cluster = two_partitions()
    submit(cluster, {T0: [3]})
    assert len([one for one in put_both(cluster, [4], [4]) if "step 5 of 7" in one]) == 1
    assert assignment(cluster) == "4,1 adding 4 removing 1"
    assert_no_failures(cluster)


def test_entry_that_has_not_begun_with_the_same_target_is_no_conflict() -> None:
    cluster = two_partitions()
    assert put_both(cluster, [3], [3]) == []
    assert assignment(cluster) == "3,1 adding 3 removing 1"
    assert_no_failures(cluster)


def test_znode_that_is_deleted_before_it_is_read_is_ignored() -> None:
    cluster = two_partitions()
    cluster.once(
        lambda issued: (
            isinstance(issued.command, ReadZnodes)
            and REASSIGN_PARTITIONS_EXTRA in issued.command.paths
        ),
        lambda: cluster.remove_quietly(REASSIGN_PARTITIONS_EXTRA),
    )
    seen = cluster.seen()
    submit_extra(cluster, {T0: [3]})
    assert (seen.notices(), entries(cluster), assignment(cluster)) == ([], None, "1")
