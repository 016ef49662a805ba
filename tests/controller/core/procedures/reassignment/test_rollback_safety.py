"""Rollbacks wait for originals in sync, so that producers with acks=all continue and no record is
lost (KB 14.2).

In most scenarios t-0 moves from [1,2,3] to [4,5,6], and its min.insync.replicas is 2.
"""

from typing import Any

import pytest

from controller.core import znodes
from controller.core.commands import Issued, WriteZnodes
from controller.core.snapshot import load_snapshot, take_snapshot
from controller.core.znodes import CANCEL_CONTENT, FORCED_CANCEL_CONTENT, REASSIGN_CANCEL, Entry
from tests.controller.core.cluster import Cluster, Seen, by_rule, writes, writes_state
from tests.controller.core.procedures.elections.electing import configure
from tests.controller.core.procedures.reassignment.interrupting import (
    WriteRejectingCluster,
    assert_nothing_is_left,
    cancel_all,
    entries,
    force_all,
    half_way,
    interruptible,
    remove_cancel,
    remove_cancel_quietly,
    set_minimum,
    submit,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    as_text,
    ask,
    ask_for_isr,
    assert_no_failures,
    assignment,
    catch_up,
)
from tests.controller.core.unreliable import Delivery

UNDER_WAY = "4,5,6,1,2,3 adding 4,5,6 removing 1,2,3"
BEFORE_2_7 = "2.6"
ELECTS = by_rule(WriteZnodes, "rollback: leader among the originals")
TOO_FEW = (
    "2 of the original replicas 1,2,3 must be live and in sync, and only broker 1 is: the "
    "rollback waits, and the other replicas stay; `refold reassign --cancel --force` needs only "
    "one"
)


def moving(least: int = 2, **settings: Any) -> Cluster:
    """t-0 moves from [1,2,3] to [4,5,6]."""
    cluster = interruptible(6, 1, 2, 3, **settings)
    set_minimum(cluster, least)
    submit(cluster, {T0: [4, 5, 6]})
    return cluster


def one_original_in_sync(least: int = 2) -> Cluster:
    """The ISR is [1,4,5]. Brokers 2 and 3 are alive and have left it."""
    cluster = moving(least)
    ask_for_isr(cluster, 1, 4, 5)
    return cluster


# Required originals -----------------------------------------------------------------------------


def test_rollback_waits_with_fewer_originals_in_sync_than_min_insync_replicas() -> None:
    cluster = one_original_in_sync()
    before = cluster.state("t", 0)
    seen = cluster.seen()
    cancel_all(cluster)
    assert seen.texts_of("rollback_waits") == [TOO_FEW]
    assert seen.texts_of("rollback") == []
    assert cluster.state("t", 0) == before
    assert assignment(cluster) == UNDER_WAY
    assert entries(cluster) == {T0: Entry((4, 5, 6), (1, 2, 3))}
    assert_no_failures(cluster)


def test_waiting_rollback_elects_and_stops_no_replica() -> None:
    cluster = one_original_in_sync()
    seen = cluster.seen()
    cancel_all(cluster)
    assert seen.broker_requests() == []
    assert seen.written() == []


@pytest.mark.parametrize(
    ("least", "in_sync", "waits"),
    [
        (1, (1, 4), False),
        (2, (1, 4), True),
        (2, (1, 2, 4), False),
        (3, (1, 2, 4), True),
        (3, (1, 2, 3, 4), False),
        (4, (1, 2, 4), True),
        (4, (1, 2, 3, 4), False),
    ],
)
def test_rollback_needs_min_insync_replicas_of_the_originals_or_all_of_them(
    least: int, in_sync: tuple[int, ...], waits: bool
) -> None:
    cluster = moving(least)
    ask_for_isr(cluster, *in_sync)
    cancel_all(cluster)
    assert (assignment(cluster) == UNDER_WAY) is waits
    assert set(cluster.leadership("t", 0).isr) == set(in_sync) - (set() if waits else {4, 5, 6})


def test_original_that_died_just_before_does_not_count() -> None:
    cluster = moving()
    ask_for_isr(cluster, 1, 2, 4)
    cluster.unregister(2)
    cancel_all(cluster)
    assert assignment(cluster) == UNDER_WAY
    assert cluster.leadership("t", 0).isr == (1, 4)


def too_few_originals_alone() -> Cluster:
    """The ISR is [1], and 2 are required. Brokers 4, 5 and 6 are alive and catching up."""
    cluster = moving()
    ask_for_isr(cluster, 1)
    return cluster


def test_waiting_rollback_does_not_remove_live_targets_out_of_sync() -> None:
    """Targets may be in sync before enough originals are."""
    cluster = too_few_originals_alone()
    seen = cluster.seen()
    cancel_all(cluster)
    assert assignment(cluster) == UNDER_WAY
    assert seen.texts_of("rollback_waits") == [TOO_FEW]
    catch_up(cluster, 4)
    assert cluster.leadership("t", 0).isr == (1, 4)
    catch_up(cluster, 2)
    assert assignment(cluster) == "1,2,3"
    assert cluster.leadership("t", 0).isr == (1, 2)
    assert_nothing_is_left(cluster)


def test_waiting_rollback_does_not_remove_dead_targets_out_of_sync() -> None:
    cluster = too_few_originals_alone()
    cancel_all(cluster)
    for broker in (4, 5, 6):
        cluster.stop_broker(broker)
    assert assignment(cluster) == UNDER_WAY
    catch_up(cluster, 2)
    assert assignment(cluster) == "1,2,3"
    assert cluster.leadership("t", 0).isr == (1, 2)
    assert_nothing_is_left(cluster)


def test_rollback_that_removes_no_replica_does_not_wait() -> None:
    cluster = interruptible(3, 1, 2, 3)
    set_minimum(cluster, 3)
    ask_for_isr(cluster, 1, 2)
    submit(cluster, {T0: [3]})
    assert assignment(cluster) == "3,1,2 removing 1,2"
    cancel_all(cluster)
    assert assignment(cluster) == "1,2,3"


def test_reason_of_a_wait_is_logged_once() -> None:
    cluster = one_original_in_sync()
    seen = cluster.seen()
    cancel_all(cluster)
    cluster.stop_broker(6)
    ask_for_isr(cluster, 1, 4)
    assert seen.texts_of("rollback_waits") == [TOO_FEW]


# The end of the wait ----------------------------------------------------------------------------


def test_original_that_catches_up_ends_the_wait() -> None:
    cluster = one_original_in_sync()
    cancel_all(cluster)
    catch_up(cluster, 3)
    assert assignment(cluster) == "1,2,3"
    assert set(cluster.leadership("t", 0).isr) == {1, 3}
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_below_2_7_IV2_original_written_into_the_isr_by_its_leader_ends_the_wait() -> None:
    cluster = moving(inter_broker_protocol_version=BEFORE_2_7)
    cluster.set_isr("t", 0, (1, 4, 5))
    cluster.run()
    cancel_all(cluster)
    assert assignment(cluster) == UNDER_WAY
    cluster.set_isr("t", 0, (1, 4, 5, 2))
    cluster.run()
    assert assignment(cluster) == "1,2,3"
    assert set(cluster.leadership("t", 0).isr) == {1, 2}
    assert_nothing_is_left(cluster)


def test_removed_cancellation_ends_the_wait_at_the_target() -> None:
    cluster = one_original_in_sync()
    cancel_all(cluster)
    remove_cancel(cluster)
    catch_up(cluster, 6)
    assert assignment(cluster) == "4,5,6"
    assert_nothing_is_left(cluster)


def test_wait_continues_after_a_failover() -> None:
    cluster = one_original_in_sync()
    cancel_all(cluster)
    cluster.expire()
    assert assignment(cluster) == UNDER_WAY
    catch_up(cluster, 2)
    assert assignment(cluster) == "1,2,3"
    assert_nothing_is_left(cluster)


# --force ----------------------------------------------------------------------------------------


def test_forced_cancellation_needs_only_one_original() -> None:
    cluster = one_original_in_sync()
    force_all(cluster)
    assert assignment(cluster) == "1,2,3"
    assert cluster.leadership("t", 0).isr == (1,)
    assert_nothing_is_left(cluster)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b'{"version":2,"force":true}', "has version 2, and only 1 is known"),
        (b'{"version":1,"force":"yes"}', "cannot be read as a cancellation"),
        (b"rubbish", "cannot be read as a cancellation"),
    ],
)
def test_cancellation_that_cannot_be_read_forces_nothing(content: bytes, why: str) -> None:
    cluster = one_original_in_sync()
    seen = cluster.seen()
    cluster.put(REASSIGN_CANCEL, content)
    cluster.start_broker(6)
    assert assignment(cluster) == UNDER_WAY
    [text] = seen.texts_of("unreadable_znode")
    assert why in text
    assert seen.texts_of("rollback_forced") == []


def test_cancellation_forced_later_ends_the_wait() -> None:
    cluster = one_original_in_sync()
    cancel_all(cluster)
    assert assignment(cluster) == UNDER_WAY
    force_all(cluster)
    assert assignment(cluster) == "1,2,3"
    assert_nothing_is_left(cluster)


def test_forced_cancellation_is_forced_after_a_failover_as_well() -> None:
    cluster = one_original_in_sync()
    session = cluster.seize_role(9)
    cluster.run()
    cluster.put_quietly(REASSIGN_CANCEL, FORCED_CANCEL_CONTENT)
    cluster.leave_role(session)
    assert assignment(cluster) == "1,2,3"


@pytest.mark.parametrize("content", [b"", b"garbage", b'{"version":1,"force":false}'])
def test_cancellation_with_unknown_content_does_not_force(content: bytes) -> None:
    cluster = one_original_in_sync()
    cluster.put(REASSIGN_CANCEL, content)
    assert assignment(cluster) == UNDER_WAY


def only_5_in_sync() -> Cluster:
    """The ISR is [5]. The live originals have left the ISR."""
    cluster = moving()
    ask_for_isr(cluster, 1, 5)
    cluster.stop_broker(1)
    cluster.start_broker(1)
    assert cluster.leadership("t", 0).isr == (5,)
    return cluster


def test_content_that_no_longer_forces_makes_the_next_rollback_wait() -> None:
    """Both data changes precede the catching up of an original."""
    cluster = only_5_in_sync()
    force_all(cluster)
    cluster.put(REASSIGN_CANCEL, CANCEL_CONTENT)
    catch_up(cluster, 1)
    assert assignment(cluster) == UNDER_WAY
    catch_up(cluster, 2)
    assert assignment(cluster) == "1,2,3"


def test_forced_cancellation_elects_no_unclean_leader() -> None:
    cluster = only_5_in_sync()
    seen = cluster.seen()
    force_all(cluster)
    assert assignment(cluster) == UNDER_WAY
    assert cluster.leadership("t", 0).leader == 5
    assert seen.texts_of("unclean_leader") == []
    catch_up(cluster, 3)
    assert assignment(cluster) == "1,2,3"
    assert cluster.leadership("t", 0).leader == 3


def test_forced_cancellation_elects_no_unclean_leader_without_a_live_isr_member() -> None:
    cluster = only_5_in_sync()
    cluster.stop_broker(5)
    seen = cluster.seen()
    force_all(cluster)
    assert cluster.leadership("t", 0).leader == -1
    assert assignment(cluster) == UNDER_WAY
    assert seen.texts_of("unclean_leader") == []


def test_waiting_rollback_logs_no_step_when_its_leader_dies() -> None:
    """No original may be elected, so that no step is taken."""
    cluster = only_5_in_sync()
    cancel_all(cluster)
    seen = cluster.seen()
    cluster.stop_broker(5)
    assert cluster.leadership("t", 0).leader == -1
    assert seen.texts_of("rollback") == []
    assert assignment(cluster) == UNDER_WAY


def test_unclean_topic_elects_an_unclean_leader_only_without_a_live_isr_member() -> None:
    cluster = only_5_in_sync()
    configure(cluster, "topics/t", "true")
    seen = cluster.seen()
    force_all(cluster)
    assert assignment(cluster) == UNDER_WAY
    assert seen.texts_of("unclean_leader") == []
    cluster.stop_broker(5)
    assert assignment(cluster) == "1,2,3"
    assert seen.texts_of("unclean_leader") == [
        "offline partition leader election: the new leader of t-0 was not in sync: records may be "
        "lost (passed over: 1 not in sync, 2 not in sync, 3 not in sync, 5 not online, 4 not an "
        "original replica of the cancelled reassignment, 6 not an original replica of the "
        "cancelled reassignment)"
    ]


# Writes -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("remaining", "waits"), [((1, 4), True), ((1, 2), False)])
def test_below_2_7_IV2_the_written_state_is_checked(
    remaining: tuple[int, ...], waits: bool
) -> None:
    """The leader writes another ISR between the check and the write."""
    cluster = moving(inter_broker_protocol_version=BEFORE_2_7)
    cluster.set_isr("t", 0, (1, 2, 4))
    cluster.run()
    cluster.once(ELECTS, lambda: cluster.set_isr("t", 0, remaining))
    seen = cluster.seen()
    cancel_all(cluster)
    assert cluster.leadership("t", 0).isr == remaining
    assert (assignment(cluster) == UNDER_WAY) is waits
    assert seen.texts_of("rollback_waits") == ([TOO_FEW] if waits else [])
    if waits:
        assert as_text(cluster.partition("t", 0).assignment) == UNDER_WAY
        cluster.set_isr("t", 0, (1, 4, 3))
        cluster.run()
    assert assignment(cluster) == "1,2,3"
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_partition_with_a_waiting_rollback_is_not_reported_as_leaderless() -> None:
    cluster = moving(inter_broker_protocol_version=BEFORE_2_7)
    cluster.set_isr("t", 0, (1, 2, 4))
    cluster.run()
    cluster.once(ELECTS, lambda: cluster.set_isr("t", 0, (1, 4)))
    seen = cluster.seen()
    cancel_all(cluster)
    assert seen.texts_of("no_leader_elected") == []


def test_failed_write_of_the_state_makes_the_rollback_wait() -> None:
    cluster = WriteRejectingCluster(1, 2, 3, 4, kip_236_enable=True)
    cluster.start()
    cluster.create_topic("t", {0: [1, 2]})
    submit(cluster, {T0: [3, 4]})
    ask_for_isr(cluster, 1, 2, 3)
    cluster.refuses = writes(znodes.state_path(*T0))
    seen = cluster.seen()
    cancel_all(cluster)
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"
    assert len(seen.texts_of("rollback_waits")) == 1


def interrupt_rollback(cluster: Cluster) -> None:
    """The next rollback ends before step 5: the session ends, and the cancellation is withdrawn
    before the next controller looks."""
    cluster.once(writes(znodes.topic_path("t")), lambda: remove_cancel_quietly(cluster))
    cluster.lose(writes(znodes.topic_path("t")), Delivery.SESSION_OVER)


def assert_leader_knows_the_move(seen: Seen) -> None:
    """Brokers ignore another assignment with the leader epoch that they have."""
    sent = [
        (one.leadership.leader_epoch, one.assignment.replicas)
        for request in seen.leader_and_isr(1)
        for one in request.partitions
    ]
    of_rollback = max(epoch for epoch, replicas in sent if replicas == (1, 2, 3))
    assert max(epoch for epoch, replicas in sent if replicas == (4, 5, 6, 1, 2, 3)) > of_rollback


def test_move_that_goes_on_after_an_interrupted_rollback_is_sent_with_a_new_leader_epoch() -> None:
    """The rollback has deleted the targets, and the leader knows only the originals."""
    cluster = half_way(4)
    seen = cluster.seen()
    interrupt_rollback(cluster)
    cancel_all(cluster)
    assert assignment(cluster) == UNDER_WAY
    assert_leader_knows_the_move(seen)


def test_move_that_was_stored_but_not_begun_is_sent_with_a_new_leader_epoch() -> None:
    """The first controller fails before it increases the leader epoch, the second one during the
    rollback. The rollback was the first to increase it."""
    cluster = interruptible(6, 1, 2, 3)
    seen = cluster.seen()

    def end_at_once(issued: Issued) -> Delivery:
        if not writes_state("t", 0)(issued):
            return Delivery.ANSWERED
        cluster.put_quietly(REASSIGN_CANCEL, CANCEL_CONTENT)
        interrupt_rollback(cluster)
        return Delivery.SESSION_OVER

    cluster.delivery = end_at_once
    submit(cluster, {T0: [4, 5, 6]})
    assert assignment(cluster) == UNDER_WAY
    assert_leader_knows_the_move(seen)


@pytest.mark.parametrize("is_restored", [False, True], ids=["", "from-a-snapshot"])
def test_api_move_that_waits_for_a_cancellation_at_failover_is_sent_with_a_new_leader_epoch(
    is_restored: bool,
) -> None:
    """The first controller fails before it increases the leader epoch. The second one finds the
    cancellation, which does not concern the move. Found by refold explore."""
    cluster = interruptible(6, 1, 2, 3)

    def end_at_once(issued: Issued) -> Delivery:
        if not writes_state("t", 0)(issued):
            return Delivery.ANSWERED
        cluster.put_quietly(REASSIGN_CANCEL, CANCEL_CONTENT)
        cluster.delivery = lambda issued: Delivery.ANSWERED
        return Delivery.SESSION_OVER

    cluster.delivery = end_at_once
    seen = cluster.seen()
    ask(cluster, (T0, [4, 5, 6]))
    assert assignment(cluster) == UNDER_WAY
    assert _last_sent(seen, 1) == (1, (4, 5, 6, 1, 2, 3))
    if is_restored:
        configuration = cluster.fold.controller.configuration
        cluster.fold = load_snapshot(take_snapshot(cluster.fold), configuration)
    seen = cluster.seen()
    remove_cancel(cluster)
    assert _last_sent(seen, 1) == (2, (4, 5, 6, 1, 2, 3))
    catch_up(cluster, 4, 5, 6)
    assert assignment(cluster) == "4,5,6"


def test_leader_that_was_sent_only_the_target_is_sent_the_originals_at_a_failover() -> None:
    """The first controller fails when it has elected a leader among the target: that leader knows
    only the target, and the ISR is the target. Found by refold explore."""
    cluster = moving()
    elects = by_rule(WriteZnodes, "reassignment leader election")

    def end_after_election(issued: Issued) -> Delivery:
        if not elects(issued):
            return Delivery.ANSWERED
        cluster.put_quietly(REASSIGN_CANCEL, CANCEL_CONTENT)
        cluster.delivery = lambda issued: Delivery.ANSWERED
        return Delivery.SESSION_OVER_AFTER

    cluster.delivery = end_after_election
    seen = cluster.seen()
    ask_for_isr(cluster, 1, 4, 5, 6)
    state = cluster.leadership("t", 0)
    assert (state.leader, state.isr) == (4, (4, 5, 6))
    assert _last_sent(seen, 4) == (3, (4, 5, 6, 1, 2, 3))
    catch_up(cluster, 1, 2)
    assert assignment(cluster) == "1,2,3"
    assert_nothing_is_left(cluster)


def _last_sent(seen: Seen, broker: int) -> tuple[int, tuple[int, ...]]:
    """The leader epoch and the replicas of t-0 in the last LeaderAndIsr request to a broker."""
    (sent,) = seen.leader_and_isr(broker)[-1].partitions
    return sent.leadership.leader_epoch, sent.assignment.replicas
