"""KIP-236's znodes at a failover, also after a stock controller (KB 14.5.5)."""

import pytest

from controller.core import znodes
from controller.core.commands import WriteZnodes
from controller.core.znodes import REASSIGN_CANCEL, Entry, Reassignment, write_entries
from tests.controller.core.cluster import Cluster, by_rule
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    WriteRejectingCluster,
    assert_nothing_is_left,
    cancel_all,
    entries,
    entries_json,
    extra,
    interruptible,
    record,
    records,
    remove_cancel_quietly,
    request,
    request_quietly,
    requests,
    submit,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    ask_for_isr,
    assert_no_failures,
    assignment,
    catch_up,
    reassign,
    reassigning,
)

T1, U0 = ("t", 1), ("u", 0)


def three_partitions() -> Cluster:
    """t-0 on [1,2], t-1 on 2, u-0 on 3."""
    cluster = Cluster(1, 2, 3, 4, 5, kip_236_enable=True).start()
    cluster.create_topic("t", {0: [1, 2], 1: [2]})
    cluster.create_topic("u", {0: [3]})
    return cluster


# The three cases --------------------------------------------------------------------------------


def test_case_1_entries_written_without_a_controller_start() -> None:
    cluster = three_partitions()
    with OtherControllersTerm(cluster):
        cluster.put_quietly(znodes.REASSIGN_PARTITIONS, entries_json({T0: [3]}))
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"
    assert entries(cluster) == {T0: Entry((3,), (1, 2))}
    assert record(cluster) == Reassignment((3,), 2, True, (1, 2))


def test_case_2_requests_created_without_a_controller_start() -> None:
    cluster = three_partitions()
    with OtherControllersTerm(cluster):
        request_quietly(cluster, {T0: [3]})
        request_quietly(cluster, {U0: [4]})
    assert record(cluster) == Reassignment((3,), 2, False, (1, 2))
    assert record(cluster, U0) == Reassignment((4,), 1, False, (3,))
    assert requests(cluster) == []


def test_case_3_reassignments_under_way_continue() -> None:
    cluster = three_partitions()
    request(cluster, {T0: [3]})
    submit(cluster, {U0: [4]})
    with OtherControllersTerm(cluster):
        cluster.set_isr("t", 0, (1, 2, 3))
    assert assignment(cluster) == "3"
    assert records(cluster) == [U0]
    assert reassigning(cluster) == [U0]
    catch_up(cluster, 4, name=U0)
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


# Order of restoring -----------------------------------------------------------------------------


def test_request_changes_the_target_of_a_record_of_a_request() -> None:
    cluster = three_partitions()
    request(cluster, {T0: [3]})
    with OtherControllersTerm(cluster):
        request_quietly(cluster, {T0: [4]})
    assert record(cluster) == Reassignment((4,), 2, False, (1, 2))


def test_entry_changes_the_target_of_a_legacy_record() -> None:
    cluster = three_partitions()
    submit(cluster, {T0: [3]})
    with OtherControllersTerm(cluster):
        cluster.put_quietly(znodes.REASSIGN_PARTITIONS, entries_json({T0: [4]}))
    assert record(cluster) == Reassignment((4,), 2, True, (1, 2))
    assert entries(cluster) == {T0: Entry((4,), (1, 2))}


def test_request_does_not_change_a_legacy_record() -> None:
    cluster = three_partitions()
    submit(cluster, {T0: [3]})
    with OtherControllersTerm(cluster):
        request_quietly(cluster, {T0: [4]})
    assert record(cluster) == Reassignment((3,), 2, True, (1, 2))
    assert requests(cluster) == []


def test_entry_does_not_change_the_target_of_a_request() -> None:
    """Both are new, and requests have priority. The refused entry is removed."""
    cluster = three_partitions()
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.put_quietly(znodes.REASSIGN_PARTITIONS, entries_json({T0: [4]}))
        request_quietly(cluster, {T0: [3]})
    assert record(cluster) == Reassignment((3,), 2, False, (1, 2))
    assert entries(cluster) is None
    [text] = seen.texts_of("reassignment_refused")
    assert text == (
        "the reassignment to 4, requested by /admin/reassign_partitions, is rejected: "
        "/admin/reassignment_requests/request_0000000000 requested a reassignment of the "
        "partition earlier"
    )


def test_remaining_legacy_request_starts_once() -> None:
    cluster = three_partitions()
    with OtherControllersTerm(cluster):
        cluster.put_quietly(znodes.REASSIGN_PARTITIONS, write_entries({T0: Entry((3,), (1, 2))}))
        request_quietly(cluster, {T0: [3]}, legacy=True)
    assert record(cluster) == Reassignment((3,), 2, True, (1, 2))
    assert requests(cluster) == []


# Cancellations ----------------------------------------------------------------------------------


def test_cancellation_found_by_a_failover_is_carried_out_first() -> None:
    cluster = three_partitions()
    submit(cluster, {T0: [3]})
    with OtherControllersTerm(cluster):
        cluster.put_quietly(REASSIGN_CANCEL, b"")
        request_quietly(cluster, {U0: [4]})
    assert assignment(cluster) == "1,2"
    assert entries(cluster) is None
    assert assignment(cluster, U0) == "3"
    assert len(requests(cluster)) == 1


def test_cancellation_removed_meanwhile_lets_reassignments_continue() -> None:
    cluster = three_partitions()
    cancel_all(cluster)
    submit(cluster, {T0: [3]})
    with OtherControllersTerm(cluster):
        remove_cancel_quietly(cluster)
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"


def test_entries_younger_than_the_cancellation_wait_through_a_failover() -> None:
    cluster = three_partitions()
    cancel_all(cluster)
    submit(cluster, {T0: [3]})
    cluster.expire()
    assert assignment(cluster) == "1,2"
    assert entries(cluster) == {T0: Entry((3,))}


def test_extra_entries_are_processed_after_a_failover() -> None:
    cluster = three_partitions()
    with OtherControllersTerm(cluster):
        cluster.put_quietly("/admin/reassign_partitions_extra", entries_json({T0: [3]}))
    assert extra(cluster) is None
    assert record(cluster) == Reassignment((3,), 2, True, (1, 2))


# Stock controllers ------------------------------------------------------------------------------


def test_hand_back_removes_content_that_stock_brokers_cannot_read() -> None:
    cluster = three_partitions()
    submit(cluster, {T0: [3]})
    cluster.shut_down()
    assert entries(cluster) == {T0: Entry((3,))}
    assert cluster.controller() is None
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"


def test_entries_deleted_by_a_stock_controller_are_restored_and_can_be_cancelled() -> None:
    """The stock controller could not read the entries because of their originals."""
    cluster = three_partitions()
    submit(cluster, {T0: [3, 4]})
    with OtherControllersTerm(cluster):
        cluster.remove_quietly(znodes.REASSIGN_PARTITIONS)
    assert entries(cluster) == {T0: Entry((3, 4), (1, 2))}
    cancel_all(cluster)
    assert assignment(cluster) == "1,2"


def test_reassignment_completed_by_a_stock_controller_is_removed() -> None:
    cluster = three_partitions()
    submit(cluster, {T0: [3]})
    with OtherControllersTerm(cluster):
        cluster.set_isr("t", 0, (3,))
        cluster.change_topic_quietly("t", {0: [3], 1: [2]})
        cluster.put_quietly(znodes.REASSIGN_PARTITIONS, entries_json({T0: [3]}))
    assert assignment(cluster) == "3"
    assert_nothing_is_left(cluster)
    assert reassigning(cluster) == []


def test_reassignment_cancelled_under_a_stock_controller_is_removed_and_reported() -> None:
    cluster = three_partitions()
    request(cluster, {T0: [3]})
    seen = cluster.seen()
    with OtherControllersTerm(cluster):
        cluster.change_topic_quietly("t", {0: [1, 2], 1: [2]})
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)
    [text] = seen.texts_of("reassignment_ended")
    assert text.startswith(
        "the reassignment to 3, requested by /admin/reassignment_requests, has ended: it was "
        "rolled back to 1,2; of brokers 3, those"
    )


def test_entry_started_by_a_stock_controller_can_be_cancelled() -> None:
    cluster = three_partitions()
    with OtherControllersTerm(cluster):
        cluster.put_quietly(znodes.REASSIGN_PARTITIONS, entries_json({T0: [3, 4]}))
        cluster.change_topic_quietly(
            "t",
            {0: [3, 4, 1, 2], 1: [2]},
            adding_replicas={"0": [3, 4]},
            removing_replicas={"0": [1, 2]},
        )
    assert entries(cluster) == {T0: Entry((3, 4), (1, 2))}
    cancel_all(cluster)
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)


def test_reassignment_by_the_api_continues_and_keeps_its_route() -> None:
    cluster = three_partitions()
    assert reassign(cluster, 3) == 0
    cluster.expire()
    assert record(cluster) == Reassignment((3,), 2, False, (1, 2), api=True)
    assert reassigning(cluster) == [T0]
    catch_up(cluster, 3)
    assert assignment(cluster) == "3"


def test_records_are_not_changed_after_the_setting_was_turned_off() -> None:
    """Reassignments continue from the topic's znode, as in Kafka."""
    cluster = interruptible(3, 1, 2)
    request(cluster, {T0: [3]})
    other = Cluster(zookeeper=cluster.zookeeper)
    for id, broker in cluster.brokers.items():
        other.brokers[id] = broker
    cluster.shut_down()
    other.start()
    assert reassigning(other) == [T0]
    assert record(other) is not None


# Leader epochs ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "raised"), [({}, 0), ({"inter_broker_protocol_version": "2.7-IV1"}, 1)]
)
def test_failover_raises_the_leader_epoch_only_if_brokers_may_not_know_the_move(
    settings: dict[str, str], raised: int
) -> None:
    """Below IBP 2.7-IV2 the controller resumes every move, to watch its state."""
    cluster = interruptible(4, 1, 2, **settings)
    submit(cluster, {T0: [3, 4]})
    before = cluster.leadership("t", 0).leader_epoch
    cluster.expire()
    assert cluster.leadership("t", 0).leader_epoch == before + raised
    assert reassigning(cluster) == [T0]
    assert {one for one, broker in cluster.brokers.items() if T0 in broker.logs} == {1, 2, 3, 4}


def test_leader_epoch_not_raised_by_a_controller_that_ended_is_raised_by_the_next() -> None:
    cluster = interruptible(4, 1, 2)
    sessions: list[int] = []
    raises = by_rule(WriteZnodes, "reassignment: raise the leader epoch")
    cluster.once(raises, lambda: sessions.append(cluster.seize_role(9)))
    submit(cluster, {T0: [3, 4]})
    before = cluster.leadership("t", 0).leader_epoch
    cluster.leave_role(sessions[0])
    assert cluster.leadership("t", 0).leader_epoch == before + 1
    catch_up(cluster, 3, 4)
    assert assignment(cluster) == "3,4"


def test_caught_up_move_is_completed_by_a_failover() -> None:
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3, 4]})
    with OtherControllersTerm(cluster):
        cluster.set_isr("t", 0, (1, 2, 3, 4))
    assert assignment(cluster) == "3,4"
    assert_nothing_is_left(cluster)


def test_leader_epoch_that_could_not_be_raised_is_raised_by_the_next_controller() -> None:
    """The leader does not know the new replicas, although its state was written after the
    record."""
    cluster = WriteRejectingCluster(1, 2, 3, 4, kip_236_enable=True)
    cluster.start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.refuses = by_rule(WriteZnodes, "reassignment: raise the leader epoch")
    submit(cluster, {T0: [3, 4]})
    cluster.refuses = lambda issued: False
    ask_for_isr(cluster, 1)
    before = cluster.leadership("t", 0).leader_epoch
    cluster.expire()
    assert cluster.leadership("t", 0).leader_epoch == before + 1
