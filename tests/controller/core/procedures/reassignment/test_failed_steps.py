"""Reassignments of which one step fails: what is sent, stored and deleted, and what continues later
(KB 7.4, 7.7)."""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.commands import Issued, WriteAtomically, WriteZnodes
from controller.core.operations import Delete, SetData
from controller.core.procedures.reassignment.leader_epochs import RAISE
from controller.core.state_machines import ReplicaState
from controller.core.values import Assignment
from controller.core.znodes import (
    REASSIGN_CANCEL,
    REASSIGNMENTS,
    TopicContent,
    reassignment_path,
    reassignments_path,
)
from tests.controller.core.cluster import Cluster, by_rule, reads, writes
from tests.controller.core.procedures.reassignment.dropping import pending, stopped
from tests.controller.core.procedures.reassignment.interrupting import (
    OtherControllersTerm,
    WriteRejectingCluster,
    cancel_all,
    entries,
    half_way,
    identity,
    interruptible,
    record,
    records,
    remove_cancel,
    request_quietly,
    submit,
    submit_quietly,
    topics_with_records,
)
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    T1,
    assert_no_failures,
    assignment,
    catch_up,
    reassign,
    reassigning,
)
from tests.controller.core.unreliable import Delivery

raises_leader_epoch = by_rule(WriteZnodes, RAISE)


def cluster_of_three(*replicas: int) -> WriteRejectingCluster:
    """t-0 on `replicas` of brokers 1 to 3."""
    cluster = WriteRejectingCluster(1, 2, 3, kip_236_enable=True)
    cluster.start()
    cluster.create_topic("t", {0: replicas})
    return cluster


def stored_epoch(cluster: WriteRejectingCluster) -> int | None:
    """The leader epoch in the record of t-0."""
    path = reassignment_path(*T0)
    return znodes.read_record(path, cluster.data(path))[1]


# The leader epoch cannot be raised ----------------------------------------------------------------


def test_move_whose_leader_epoch_cannot_be_raised_informs_no_broker_and_stays_requested() -> None:
    cluster = cluster_of_three(1)
    cluster.refuses = raises_leader_epoch
    seen = cluster.seen()
    submit(cluster, {T0: [2]})
    assert seen.requested() == {}
    assert assignment(cluster) == "2,1 adding 2 removing 1"
    assert set(entries(cluster) or {}) == {T0}
    deleted = [one.path for one in seen.writes() if isinstance(one, Delete)]
    assert znodes.REASSIGN_PARTITIONS not in deleted
    assert record(cluster) is not None
    assert stored_epoch(cluster) is None
    cluster.refuses = lambda issued: False
    cluster.expire()
    assert [one for one in seen.requests(2) if one.startswith("LeaderAndIsr")] != []
    catch_up(cluster, 2)
    assert assignment(cluster) == "2"


def test_record_whose_leader_epoch_cannot_be_unset_is_the_reported_failure() -> None:
    """A later controller would take the leader epoch of a rollback for that of the beginning."""
    path = reassignment_path(*T0)
    cluster = cluster_of_three(1)
    cluster.refuses = lambda issued: raises_leader_epoch(issued) or writes(path)(issued)
    seen = cluster.seen()
    submit(cluster, {T0: [2]})
    [text] = seen.texts_of("reassignment_failed")
    assert path in text


def test_failure_without_records_names_the_leader_epoch() -> None:
    cluster = WriteRejectingCluster(1, 2)
    cluster.start()
    cluster.create_topic("t", {0: [1]})
    cluster.refuses = raises_leader_epoch
    seen = cluster.seen()
    assert reassign(cluster, 2) == codes.UNKNOWN_SERVER_ERROR
    assert [one for one in seen.texts() if "KeyError" in one] == []


def test_complete_move_whose_leader_is_not_sent_the_state_keeps_its_replicas() -> None:
    """The leader would still wait for the replica that is deleted."""
    cluster = cluster_of_three(1, 2)
    submit(cluster, {T0: [1, 3]})
    cluster.refuses = raises_leader_epoch
    seen = cluster.seen()
    catch_up(cluster, 3)
    assert stopped(seen, 2) == []
    assert records(cluster) == reassigning(cluster) == [T0]
    assert pending(cluster) == []


def test_complete_move_whose_assignment_cannot_be_stored_goes_on_at_failover() -> None:
    cluster = cluster_of_three(1, 2)
    submit(cluster, {T0: [1, 3]})
    cluster.refuses = writes(znodes.topic_path("t"))
    catch_up(cluster, 3)
    assert records(cluster) == reassigning(cluster) == [T0]
    assert set(entries(cluster) or {}) == {T0}
    cluster.refuses = lambda issued: False
    cluster.expire()
    assert assignment(cluster) == "1,3"
    assert (records(cluster), entries(cluster)) == ([], None)


def test_replicas_of_a_complete_move_are_online() -> None:
    cluster = cluster_of_three(1, 2)
    submit(cluster, {T0: [1, 3]})
    catch_up(cluster, 3)
    online = ReplicaState.ONLINE
    assert cluster.partition("t", 0).replica_states == {1: online, 3: online}


# Records ------------------------------------------------------------------------------------------


def test_records_whose_parents_a_client_deletes_are_written_with_new_parents() -> None:
    cluster = cluster_of_three(1)
    cluster.remove_quietly(REASSIGNMENTS)
    submit(cluster, {T0: [2]})
    assert record(cluster) is not None
    assert_no_failures(cluster)


def test_record_whose_parents_a_client_deletes_meanwhile_is_written_with_new_parents() -> None:
    """The controller knows another record below the same parent."""
    cluster = interruptible(3, 1)
    cluster.create_topic("t", {0: [1], 1: [1]})
    submit(cluster, {T0: [2]})
    cluster.remove_quietly(REASSIGNMENTS)
    submit(cluster, {T0: [2], T1: [3]})
    assert T1 in records(cluster)
    assert assignment(cluster, T1) == "3,1 adding 3 removing 1"
    assert_no_failures(cluster)


def test_failover_removes_parents_without_records() -> None:
    cluster = interruptible(2, 1)
    cluster.put_quietly(reassignments_path("t"), b"")
    cluster.expire()
    assert topics_with_records(cluster) == []


def test_failover_finds_a_move_of_a_partition_that_had_leaders_before_under_way() -> None:
    """The leader epoch of the beginning is not 0; the failover's own requests are enough."""
    cluster = interruptible(3, 1, 3)
    cluster.bounce(1)
    before = cluster.leadership(*T0).leader_epoch
    assert before > 0
    submit(cluster, {T0: [2]})
    cluster.expire()
    assert cluster.leadership(*T0).leader_epoch == before + 1


def test_move_of_a_partition_without_a_leader_is_recorded() -> None:
    cluster = interruptible(2, 3)
    submit(cluster, {T0: [2]})
    assert records(cluster) == [T0]
    assert assignment(cluster) == "2,3 adding 2 removing 3"


def test_record_that_a_client_deletes_before_a_failover_reads_it_is_no_error() -> None:
    cluster = interruptible(2, 1)
    submit(cluster, {T0: [2]})
    path = reassignment_path(*T0)
    cluster.once(reads(path), lambda: cluster.remove_quietly(path))
    seen = cluster.seen()
    cluster.expire()
    assert seen.texts_of("unreadable_znode") == []
    assert records(cluster) == [T0]


def test_below_ibp_2_7_a_failover_does_not_write_the_record_again() -> None:
    cluster = interruptible(2, 1, inter_broker_protocol_version="2.6")
    submit(cluster, {T0: [2]})
    before = identity(cluster)
    cluster.expire()
    assert identity(cluster) == before


def test_without_checks_of_versions_moves_of_one_topic_check_no_record() -> None:
    """As in logs from before topics' znodes were written with their versions."""
    cluster = interruptible(2, 1, checks_topic_versions=False)
    cluster.create_topic("t", {0: [1], 1: [1]})
    seen = cluster.seen()
    submit(cluster, {T0: [2], T1: [2]})
    assert records(cluster) == [T0, T1]
    checked = [one.path for one in seen.writes() if type(one).__name__ == "Check"]
    assert [one for one in checked if one.startswith(REASSIGNMENTS)] == []


# A failover ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_request", [False, True])
def test_failover_that_begins_a_move_raises_its_leader_epoch_once(is_request: bool) -> None:
    cluster = interruptible(3, 1)
    before = cluster.leadership(*T0).leader_epoch
    if is_request:
        request_quietly(cluster, {T0: [2]})
    else:
        submit_quietly(cluster, {T0: [2]})
    cluster.expire()
    assert cluster.leadership(*T0).leader_epoch == before + 1


def writes_record(issued: Issued) -> bool:
    """Whether a command writes the record of t-0 with its topic."""
    operations = issued.command.operations if isinstance(issued.command, WriteAtomically) else ()
    return reassignment_path(*T0) in [one.path for one in operations]


def begun_by_another(cluster: Cluster, delivery: Delivery = Delivery.ANSWERED) -> list[Issued]:
    """A stock controller begins to move t-0 to 2; the record is written with this delivery.
    Returns what the daemon does then."""
    begun = len(cluster.commands())
    with OtherControllersTerm(cluster):
        moving = TopicContent({0: Assignment((2, 1), (2,), (1,))}, cluster.topic("t").topic_id)
        cluster.put_quietly(znodes.topic_path("t"), znodes.write_topic(moving))
        submit_quietly(cluster, {T0: [2]})
        cluster.lose(writes_record, delivery)
    return cluster.commands()[begun:]


def test_record_of_an_assignment_that_stays_is_written_again_after_a_lost_request() -> None:
    """An assignment in ZooKeeper does not show whether the record was written."""
    cluster = interruptible(2, 1)
    issued = begun_by_another(cluster, Delivery.REQUEST_LOST)
    assert len([one for one in issued if writes_record(one)]) == 2
    assert records(cluster) == [T0]


def test_without_checks_of_versions_an_assignment_that_stays_is_written_all_the_same() -> None:
    cluster = interruptible(2, 1, checks_topic_versions=False)
    multi = next(one.command for one in begun_by_another(cluster) if writes_record(one))
    assert isinstance(multi, WriteAtomically)
    assert [one.path for one in multi.operations if isinstance(one, SetData)] == [
        "/brokers/topics/t"
    ]


# A cancellation -----------------------------------------------------------------------------------


def test_rollback_waits_while_the_state_of_its_partition_is_missing() -> None:
    """The other replicas may have the only copies."""
    cluster = half_way(4)
    path = znodes.state_path(*T0)
    state = cluster.data(path) or b""
    cluster.remove_quietly(path)
    cancel_all(cluster)
    assert assignment(cluster) == "4,5,6,1,2,3 adding 4,5,6 removing 1,2,3"
    assert [one.key for one in cluster.fold.controller.context.rollback_waiting] == [T0]
    cluster.put(path, state)
    cluster.bounce(5)
    assert assignment(cluster) == "1,2,3"


def test_unreadable_cancellation_cancels_and_is_reported_once_in_its_time() -> None:
    cluster = half_way(4)
    seen = cluster.seen()
    for _ in range(2):
        cluster.put(REASSIGN_CANCEL, b"garbage")
    assert assignment(cluster) == "1,2,3"
    assert len(seen.texts_of("unreadable_znode")) == 1
    remove_cancel(cluster)
    cluster.put(REASSIGN_CANCEL, b"garbage")
    assert len(seen.texts_of("unreadable_znode")) == 2
    assert_no_failures(cluster)
