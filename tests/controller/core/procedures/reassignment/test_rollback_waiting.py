"""Rollbacks with dead brokers: the elected leader, and which rollbacks wait (KB 14.2)."""

from collections.abc import Callable
from typing import Any

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import StopReplicaRequest
from controller.core.procedures.elections.rebalance import rebalance_timer
from controller.core.znodes import REASSIGN_CANCEL, Entry
from tests.controller.core.cluster import Cluster, Seen, writes
from tests.controller.core.endpoint import alter_partition, proposal
from tests.controller.core.procedures.elections.electing import (
    configure,
    configure_quietly,
    elect,
    rebalance,
)
from tests.controller.core.procedures.reassignment.interrupting import (
    WriteRejectingCluster,
    assert_nothing_is_left,
    cancel_all,
    cancel_briefly,
    cancel_quietly,
    entries,
    files,
    force_all,
    half_way,
    interruptible,
    remove_cancel,
    set_minimum,
    submit,
    submit_quietly,
    written_in,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    ask_for_isr,
    assert_no_failures,
    assignment,
    catch_up,
)


def test_dead_target_does_not_delay_the_rollback() -> None:
    cluster = half_way(4)
    cluster.stop_broker(6)
    cancel_all(cluster)
    assert assignment(cluster) == "1,2,3"
    assert_nothing_is_left(cluster)
    assert_no_failures(cluster)


def test_dead_original_remains_a_replica() -> None:
    cluster = half_way(4)
    cluster.stop_broker(1)
    cancel_all(cluster)
    assert assignment(cluster) == "1,2,3"
    assert cluster.leadership("t", 0).leader == 2
    cluster.start_broker(1)
    catch_up(cluster, 1)
    assert set(cluster.leadership("t", 0).isr) == {1, 2, 3}


def test_rollback_continues_when_min_insync_replicas_is_lowered() -> None:
    cluster = interruptible(4, 1, 2)
    set_minimum(cluster, 2)
    submit(cluster, {T0: [3, 4]})
    ask_for_isr(cluster, 1, 3)
    cancel_all(cluster)
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"
    configure(cluster, "topics/t", {"min.insync.replicas": "1"})
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)


def only_the_target_in_sync(**settings: Any) -> Cluster:
    """[1,2] moves to [3,4]. Broker 3 leads alone, and both originals are dead."""
    cluster = interruptible(3, 1, 2, **settings)
    submit(cluster, {T0: [3, 4]})
    cluster.set_isr("t", 0, (1, 2, 3))
    cluster.run()
    for broker in (1, 2):
        cluster.stop_broker(broker)
    assert cluster.leadership("t", 0).isr == (3,)
    return cluster


def test_rollback_waits_if_only_an_unclean_leader_could_be_elected() -> None:
    cluster = only_the_target_in_sync()
    seen = cluster.seen()
    cancel_all(cluster)
    assert cluster.leadership("t", 0).leader == 3
    assert entries(cluster) == {T0: Entry((3, 4), (1, 2))}
    [text] = seen.texts_of("rollback_waits")
    assert text == (
        "1 of the original replicas 1,2 must be live and in sync, and none is: the rollback "
        "waits, and the other replicas stay"
    )
    assert seen.texts_of("reassignment_cancelled") == []


def test_waiting_rollback_continues_when_an_original_is_in_sync() -> None:
    cluster = only_the_target_in_sync()
    cancel_all(cluster)
    cluster.start_broker(2)
    assert cluster.leadership("t", 0).leader == 3
    catch_up(cluster, 2)
    assert assignment(cluster) == "1,2"
    assert cluster.state("t", 0).startswith("leader 2 e")  # type: ignore[union-attr]
    assert_nothing_is_left(cluster)


def test_waiting_rollback_continues_when_one_request_changes_other_isrs_too() -> None:
    cluster = only_the_target_in_sync()
    cluster.create_topic("u", {0: [3]})
    cancel_all(cluster)
    cluster.start_broker(2)
    changed = proposal(cluster, "t", 0, isr=(3, 2)), proposal(cluster, "u", 0)
    alter_partition(cluster, 3, *changed)
    assert assignment(cluster) == "1,2"


def test_below_2_7_IV2_waiting_rollback_watches_the_leaders_writes() -> None:
    """Also after a failover."""
    cluster = only_the_target_in_sync(inter_broker_protocol_version="2.7-IV1")
    cancel_all(cluster)
    cluster.expire()
    cluster.start_broker(2)
    cluster.set_isr("t", 0, (3, 2))
    cluster.run()
    assert assignment(cluster) == "1,2"


def test_unclean_topic_rolls_back_without_an_original_in_sync() -> None:
    cluster = only_the_target_in_sync()
    configure(cluster, "topics/t", "true")
    cluster.stop_broker(3)
    cluster.start_broker(1)
    seen = cluster.seen()
    cancel_all(cluster)
    assert assignment(cluster) == "1,2"
    assert cluster.leadership("t", 0).leader == 1
    assert_nothing_is_left(cluster)
    assert seen.texts_of("rollback_waits") == []


def without_a_live_isr_member() -> Cluster:
    """[1,2] moves to [3,4]. Broker 3, the only one in sync, is dead; 1 and 2 are alive."""
    cluster = only_the_target_in_sync()
    cluster.stop_broker(3)
    for broker in (1, 2):
        cluster.start_broker(broker)
    assert cluster.state("t", 0).startswith("leader -1")  # type: ignore[union-attr]
    return cluster


def test_rollback_of_an_unclean_topic_follows_the_election_of_an_original() -> None:
    """The topic has just been allowed unclean leaders, and no election has followed yet."""
    cluster = without_a_live_isr_member()
    cluster.stop_broker(1)
    allowed = {"version": 1, "config": {"unclean.leader.election.enable": "true"}}
    configure_quietly(cluster, "topics/t", allowed)
    seen = cluster.seen()
    cancel_all(cluster)
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"
    cluster.start_broker(1)
    assert assignment(cluster) == "1,2"
    assert cluster.leadership("t", 0).leader in (1, 2)
    assert seen.texts_of("unclean_leader") == [
        "offline partition leader election: the new leader of t-0 was not in sync: records may be "
        "lost (passed over: 1 not in sync, 2 not in sync, 3 not online)"
    ]
    assert_nothing_is_left(cluster)


def test_clean_leader_elected_by_a_rollback_is_not_reported() -> None:
    cluster = half_way(4)
    cluster.stop_broker(1)
    seen = cluster.seen()
    cancel_all(cluster)
    assert cluster.leadership("t", 0).leader == 2
    assert seen.texts_of("unclean_leader") == []


def test_rollback_without_a_live_isr_member_waits_if_the_topic_is_not_unclean() -> None:
    cluster = without_a_live_isr_member()
    seen = cluster.seen()
    cancel_all(cluster)
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"
    assert cluster.state("t", 0).startswith("leader -1")  # type: ignore[union-attr]
    assert len(seen.texts_of("rollback_waits")) == 1
    assert seen.texts_of("rollback") == []
    assert seen.texts_of("unclean_leader") == []
    cluster.start_broker(3)
    assert cluster.leadership("t", 0).leader == 3
    catch_up(cluster, 1)
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)


def test_rollback_whose_isr_members_are_all_dead_originals_waits_for_one() -> None:
    """The live targets out of sync have the only copies that can be reached."""
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3, 4]})
    cluster.stop_broker(2)
    cluster.stop_broker(1)
    seen = cluster.seen()
    cancel_all(cluster)
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"
    assert deleted_on(seen) == []
    cluster.start_broker(1)
    assert cluster.leadership("t", 0).leader == 1
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)


def test_waiting_rollback_keeps_the_live_targets_when_the_last_original_in_sync_dies() -> None:
    cluster = half_way()
    set_minimum(cluster, 2)
    for broker in (2, 3):
        cluster.stop_broker(broker)
    cancel_all(cluster)
    under_way = assignment(cluster)
    seen = cluster.seen()
    cluster.stop_broker(1)
    assert cluster.state("t", 0).startswith("leader -1")  # type: ignore[union-attr]
    assert (assignment(cluster), deleted_on(seen)) == (under_way, [])
    force_all(cluster)
    assert (assignment(cluster), deleted_on(seen)) == (under_way, [])
    cluster.start_broker(1)
    assert assignment(cluster) == "1,2,3"
    assert deleted_on(seen) == [4, 5, 6]


def deleted_on(seen: Seen) -> list[int]:
    """The brokers that were sent StopReplica with deletion."""
    commands = (one.command for _, issued in seen.history for one in issued)
    stops = [one for one in commands if isinstance(one, StopReplicaRequest)]
    return [one.broker for one in stops if any(part.delete for part in one.partitions)]


def test_rollback_without_a_live_replica_waits_for_an_isr_member() -> None:
    """No step is started."""
    cluster = only_the_target_in_sync()
    cluster.stop_broker(3)
    seen = cluster.seen()
    cancel_all(cluster)
    assert seen.texts_of("rollback") == []
    assert entries(cluster) == {T0: Entry((3, 4), (1, 2))}
    cluster.start_broker(3)
    cluster.start_broker(1)
    catch_up(cluster, 1)
    assert assignment(cluster) == "1,2"


def test_removed_cancellation_lets_a_waiting_reassignment_continue_and_is_reported() -> None:
    cluster = only_the_target_in_sync()
    cancel_all(cluster)
    seen = cluster.seen()
    remove_cancel(cluster)
    assert seen.texts_of("rollback_given_up") == [
        "/admin/reassign_cancel was deleted before the partition was on its original replicas 1,2 "
        "again: the rollback ends, and the reassignment to 3,4 continues"
    ]
    cluster.start_broker(4)
    catch_up(cluster, 4)
    assert assignment(cluster) == "3,4"
    assert_nothing_is_left(cluster)


def one_original_in_sync() -> Cluster:
    """[1,2] to [3,4]: 1 and 3 are in sync, and a rollback waits for 2 as well."""
    cluster = interruptible(4, 1, 2)
    set_minimum(cluster, 2)
    submit(cluster, {T0: [3, 4]})
    ask_for_isr(cluster, 1, 3)
    return cluster


FORCED = (
    "/admin/reassign_cancel forces the rollback: the rollback waits for one original replica in "
    "sync, not for min.insync.replicas"
)


def test_forced_cancellation_is_logged_when_a_waiting_rollback_continues() -> None:
    cluster = one_original_in_sync()
    cancel_all(cluster)
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"
    seen = cluster.seen()
    force_all(cluster)
    assert assignment(cluster) == "1,2"
    assert seen.notices() == [("rollback_forced", "t-0")]
    assert seen.texts() == [FORCED]
    force_all(cluster)
    assert len(seen.texts_of("rollback_forced")) == 1
    assert seen.texts_of("reassignments_cancelled") == []


def test_cancellation_that_is_forced_at_once_is_logged() -> None:
    cluster = one_original_in_sync()
    seen = cluster.seen()
    force_all(cluster)
    assert assignment(cluster) == "1,2"
    assert seen.texts_of("rollback_forced") == [FORCED]


def test_rollback_with_an_unreadable_state_is_retried() -> None:
    """No event follows when an operator repairs the state."""
    cluster = half_way(4)
    path = znodes.state_path("t", 0)
    before = cluster.data(path)
    cluster.put_quietly(path, b"garbage")
    seen = cluster.seen()
    cancel_all(cluster)
    assert seen.texts_of("rollback_waits") == [
        "the state cannot be read: the rollback waits, and the other replicas stay"
    ]
    cluster.put_quietly(path, before or b"")
    cluster.fire(rebalance_timer(cluster.fold.controller))
    assert assignment(cluster) == "1,2,3"
    assert_nothing_is_left(cluster)


def test_rollback_of_a_partition_whose_state_a_client_has_deleted_does_not_begin() -> None:
    cluster = half_way(4)
    cluster.remove_quietly(znodes.state_path("t", 0))
    seen = cluster.seen()
    cancel_all(cluster)
    assert seen.texts_of("rollback_waits") == [
        "the state cannot be read: the rollback waits, and the other replicas stay"
    ]
    assert seen.texts_of("rollback") == []
    assert seen.requested() == {}


def test_originals_already_deleted_fetch_again() -> None:
    """A stock controller completed the reassignment in memory, removed 1 and 2, and exited."""
    cluster = interruptible(4, 1, 2)
    submit(cluster, {T0: [3, 4]})
    cluster.once(
        lambda one: znodes.topic_path("t") in written_in([one]) and one.reason.rule != "",
        lambda: cluster.seize_role(9),
    )
    catch_up(cluster, 3, 4)
    assert not cluster.is_active
    assert cluster.leadership("t", 0).isr == (3, 4)
    cluster.put_quietly(REASSIGN_CANCEL, b"")
    session = cluster.seize_role(9)
    cluster.leave_role(session)
    assert cluster.is_active
    assert cluster.leadership("t", 0).leader == 3
    assert entries(cluster) == {T0: Entry((3, 4), (1, 2))}
    assert set(cluster.partition("t", 0).replicas) == {1, 2, 3, 4}
    catch_up(cluster, 1)
    assert assignment(cluster) == "1,2"
    assert files(cluster) == [1, 2]


# Rollbacks without a leader ---------------------------------------------------------------------


def test_partition_without_a_state_is_rolled_back() -> None:
    """The partition has no records to lose."""
    cluster = interruptible(2, 1)
    cluster.create_topic("u", {0: [8]})
    submit(cluster, {("u", 0): [9]})
    assert assignment(cluster, ("u", 0)) == "9,8 adding 9 removing 8"
    cancel_all(cluster)
    assert assignment(cluster, ("u", 0)) == "8"
    assert cluster.state("u", 0) is None
    assert_nothing_is_left(cluster)


def test_move_that_adds_no_replica_is_rolled_back_without_a_live_one() -> None:
    cluster = interruptible(2, 1, 2)
    cluster.stop_broker(1)
    submit(cluster, {T0: [1]})
    cluster.stop_broker(2)
    seen = cluster.seen()
    cancel_all(cluster)
    assert assignment(cluster) == "1,2"
    assert cluster.state("t", 0) == "leader -1 e 3 isr [2] v 3 ce 1"
    assert seen.texts_of("rollback_waits") == []
    assert_nothing_is_left(cluster)


def test_rollback_whose_originals_cannot_be_stored_is_reported_and_ends_at_a_failover() -> None:
    cluster = WriteRejectingCluster(1, 2, 3, kip_236_enable=True)
    cluster.start()
    cluster.create_topic("t", {0: [1, 2]})
    submit(cluster, {T0: [3]})
    cluster.refuses = writes(znodes.topic_path("t"))
    seen = cluster.seen()
    cancel_all(cluster)
    [text] = seen.texts_of("procedure_failed")
    assert "/brokers/topics/t cannot be written (ZooKeeper code -102)" in text
    assert entries(cluster) == {T0: Entry((3,), (1, 2))}
    cluster.refuses = lambda issued: False
    cluster.expire()
    assert assignment(cluster) == "1,2"
    assert_nothing_is_left(cluster)


# Preferred elections ----------------------------------------------------------------------------


def test_preferred_leader_of_a_waiting_rollback_is_not_elected_again() -> None:
    """Each election would raise the leader epoch."""
    cluster = interruptible(4, 1, 2)
    set_minimum(cluster, 2)
    submit(cluster, {T0: [3, 4]})
    cluster.stop_broker(2)
    ask_for_isr(cluster, 1, 3)
    cancel_all(cluster)
    state = cluster.state("t", 0)
    assert state is not None
    assert state.startswith("leader 1 e")
    rebalance(cluster)
    assert elect(cluster, "preferred", T0) == {T0: codes.ELECTION_NOT_NEEDED}
    assert cluster.state("t", 0) == state


def test_first_original_is_elected_while_a_rollback_waits() -> None:
    cluster = interruptible(5, 1, 2, 5)
    set_minimum(cluster, 3)
    submit(cluster, {T0: [3, 4]})
    for broker in (5, 1):
        cluster.stop_broker(broker)
    cluster.start_broker(1)
    catch_up(cluster, 1)
    cancel_all(cluster)
    assert cluster.leadership("t", 0).leader == 2
    rebalance(cluster)
    assert cluster.leadership("t", 0).leader == 1


def replaced_and_cancelled(*acts: Callable[[Cluster], None]) -> tuple[Cluster, Seen]:
    """As `only_the_target_in_sync`. The controller sees only afterwards that a client has written
    the entry of t-0 with another target, and has then cancelled."""
    cluster = only_the_target_in_sync()
    seen = cluster.seen()
    submit_quietly(cluster, {T0: [4]})
    for act in acts:
        act(cluster)
    cluster.run()
    return cluster, seen


DROPPED = (
    "the entry with replicas 4 is removed from /admin/reassign_partitions, and its reassignment "
    "does not begin: /admin/reassign_cancel was created after the entry"
)


@pytest.mark.parametrize("fails_over", [False, True])
def test_cancelled_entry_that_replaced_another_does_not_begin_after_a_rollback_is_given_up(
    *, fails_over: bool
) -> None:
    acts = [cancel_quietly, Cluster.expire] if fails_over else [cancel_quietly]
    cluster, seen = replaced_and_cancelled(*acts)
    assert len(seen.texts_of("rollback_waits")) == 1
    assert seen.texts_of("reassignment_cancelled") == [DROPPED]
    assert entries(cluster) == {T0: Entry((3, 4), (1, 2))}
    remove_cancel(cluster)
    assert len(seen.texts_of("rollback_given_up")) == 1
    cluster.start_broker(4)
    catch_up(cluster, 4)
    assert assignment(cluster) == "3,4"
    assert_nothing_is_left(cluster)


def test_entry_that_replaced_another_is_dropped_by_a_brief_cancellation() -> None:
    cluster, seen = replaced_and_cancelled(cancel_briefly)
    assert seen.texts_of("reassignment_cancelled") == [DROPPED]
    assert entries(cluster) == {T0: Entry((3, 4), (1, 2))}
    assert assignment(cluster) == "3,4,1,2 adding 3,4 removing 1,2"


def test_entry_that_replaces_another_after_the_cancellation_begins_when_that_is_deleted() -> None:
    cluster = only_the_target_in_sync()
    cancel_all(cluster)
    seen = cluster.seen()
    submit(cluster, {T0: [4]})
    assert entries(cluster) == {T0: Entry((4,))}
    remove_cancel(cluster)
    assert seen.texts_of("reassignment_cancelled") == []
    assert assignment(cluster) == "4,3,1,2 adding 4,3 removing 3,1,2"
