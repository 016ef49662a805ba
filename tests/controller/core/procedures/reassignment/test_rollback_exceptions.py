"""Rollbacks in a state that few clusters reach: unreadable states, and writes of clients or writes
that ZooKeeper refused (KB 14.2)."""

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.procedures.elections.rebalance import rebalance_timer
from controller.core.znodes import Entry
from tests.controller.core.cluster import writes
from tests.controller.core.procedures.reassignment.interrupting import (
    WriteRejectingCluster,
    assert_nothing_is_left,
    cancel_all,
    entries,
    files,
    half_way,
    interruptible,
    record,
    remove_cancel_quietly,
    submit,
    submit_quietly,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    assignment,
    reassign,
)


def test_rollback_waits_while_a_state_is_unreadable_since_a_failover() -> None:
    """The controller has never known the leader: it may have records."""
    cluster = half_way(4)
    path = znodes.state_path("t", 0)
    before = cluster.data(path)
    cluster.put_quietly(path, b"garbage")
    cluster.expire()
    seen = cluster.seen()
    cancel_all(cluster)
    assert seen.texts_of("rollback_waits") == [
        "the state cannot be read: the rollback waits, and the other replicas stay"
    ]
    assert (assignment(cluster), files(cluster)) == (
        "4,5,6,1,2,3 adding 4,5,6 removing 1,2,3",
        [1, 2, 3, 4, 5, 6],
    )
    cluster.put_quietly(path, before or b"")
    cluster.fire(rebalance_timer(cluster.fold.controller))
    assert files(cluster) == [1, 2, 3, 4, 5, 6], "its leader is not known yet"
    cluster.stop_broker(6)
    assert assignment(cluster) == "1,2,3"
    assert set(cluster.leadership("t", 0).isr) == {1, 2, 3}
    assert_nothing_is_left(cluster)


def test_entry_written_while_the_api_undoes_a_move_to_its_target_begins() -> None:
    cluster = interruptible(3, 1, 2)
    assert reassign(cluster, 3) == codes.NONE
    cluster.once(writes(znodes.topic_path("t")), lambda: submit_quietly(cluster, {T0: [3]}))
    assert reassign(cluster, 1, 2) == codes.NONE
    assert entries(cluster) == {T0: Entry((3,), (1, 2))}
    assert assignment(cluster) == "3,1,2 adding 3 removing 1,2"
    assert record(cluster).legacy  # type: ignore[union-attr]


def test_rollback_whose_entry_could_not_be_removed_ends_with_a_later_cancellation() -> None:
    cluster = WriteRejectingCluster(1, 2, 3, kip_236_enable=True)
    cluster.start()
    cluster.create_topic("t", {0: [1, 2]})
    submit(cluster, {T0: [3]})
    cluster.refuses = writes(znodes.REASSIGN_PARTITIONS)
    seen = cluster.seen()
    cancel_all(cluster)
    [text] = seen.texts_of("procedure_failed")
    assert "/admin/reassign_partitions cannot be written (ZooKeeper code -102)" in text
    assert entries(cluster) == {T0: Entry((3,), (1, 2))}
    assert assignment(cluster) == "1,2"
    cluster.refuses = lambda issued: False
    state = cluster.state("t", 0)
    remove_cancel_quietly(cluster)
    cancel_all(cluster)
    assert_nothing_is_left(cluster)
    assert (assignment(cluster), cluster.state("t", 0)) == ("1,2", state)


def test_rollback_waits_while_the_state_of_a_partition_with_a_leader_is_missing() -> None:
    cluster = half_way(4)
    path = znodes.state_path("t", 0)
    before = cluster.data(path)
    cluster.remove_quietly(path)
    cancel_all(cluster)
    assert files(cluster) == [1, 2, 3, 4, 5, 6]
    cluster.put_quietly(path, before or b"")
    cluster.fire(rebalance_timer(cluster.fold.controller))
    assert assignment(cluster) == "1,2,3"
