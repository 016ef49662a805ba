"""Partition reassignment as in KB 7.7 and 7.8: completed, cancelled and replaced (KB 17.1)."""

from typing import Any

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests.partition_result import PartitionResult
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    AlterPartitionReassignmentsResponse,
    ReassignmentTarget,
)
from controller.core.commands import BrokerRequest, LeaderAndIsrRequest
from controller.core.state_machines import ReplicaState
from tests.controller.core.cluster import Cluster, writes_state
from tests.controller.core.endpoint import answers, controlled_shutdown
from tests.controller.core.procedures.reassignment.reassigning import (
    T0,
    ask,
    ask_for_isr,
    assert_no_failures,
    assignment,
    cancel,
    catch_up,
    cluster_of,
    listed,
    put_request,
    reassign,
    reassigning,
    request,
)

DISK_ERROR = 56
OLD_PROTOCOL = "2.7-IV1"


# Completed --------------------------------------------------------------------------------------


def test_CI_12_request_in_zookeeper_moves_a_partition() -> None:
    cluster = cluster_of(2, 1)
    put_request(cluster, {T0: [2]})
    assert assignment(cluster) == "2,1 adding 2 removing 1"
    assert listed(cluster) == {T0: "2,1 adding 2 removing 1"}
    catch_up(cluster, 2)
    assert cluster.state("t", 0) == "leader 2 e 2 isr [2] v 3 ce 1"
    assert assignment(cluster) == "2"
    assert request(cluster) is None
    assert (listed(cluster), reassigning(cluster)) == ({}, [])


def test_CI_12_api_request_moves_a_partition() -> None:
    cluster = cluster_of(2, 1)
    assert reassign(cluster, 2) == codes.NONE
    catch_up(cluster, 2)
    assert cluster.state("t", 0) == "leader 2 e 2 isr [2] v 3 ce 1"
    assert assignment(cluster) == "2"
    assert listed(cluster) == {}


def test_CI_13_broker_with_a_failed_log_directory_creates_a_new_replica() -> None:
    """The broker creates a log only for a replica that the request marks as new."""
    cluster = cluster_of(2, 1)

    def refuses_old(command: BrokerRequest) -> list[tuple[str, int, int]]:
        if isinstance(command, LeaderAndIsrRequest) and command.broker == 2:
            has_log = ("t", 0) in cluster.broker(2).logs
            return [
                (topic.hex() if (topic := one.topic_id) else one.topic, one.partition, DISK_ERROR)
                for one in command.partitions
                if not one.is_new and not has_log
            ]
        return []

    cluster.broker_errors = refuses_old
    put_request(cluster, {T0: [2]})
    catch_up(cluster, 2)
    assert cluster.state("t", 0) == "leader 2 e 2 isr [2] v 3 ce 1"
    assert assignment(cluster) == "2"


def test_CI_14_dead_target_delays_the_reassignment() -> None:
    cluster = cluster_of(2, 1)
    cluster.stop_broker(2)
    put_request(cluster, {T0: [2]})
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1] v 1 ce 1"
    assert assignment(cluster) == "2,1 adding 2 removing 1"
    assert request(cluster) == {T0: (2,)}


def test_CI_15_start_of_the_target_resumes_the_reassignment() -> None:
    cluster = cluster_of(2, 1)
    cluster.stop_broker(2)
    put_request(cluster, {T0: [2]})
    seen = cluster.seen()
    cluster.start_broker(2)
    assert cluster.state("t", 0) == "leader 1 e 2 isr [1] v 2 ce 1"
    announced = "t-0 leader 1 e 2 isr [1] v 2 ce 1 replicas [2,1] adding [2] removing [1] new"
    assert f"LeaderAndIsr v7; {announced}" in seen.requests(2)
    assert seen.notices() == []
    catch_up(cluster, 2)
    assert cluster.state("t", 0) == "leader 2 e 3 isr [2] v 4 ce 1"
    assert assignment(cluster) == "2"
    assert request(cluster) is None


def test_start_of_another_broker_resumes_nothing() -> None:
    cluster = cluster_of(3, 1, 3)
    reassign(cluster, 1, 2)
    cluster.stop_broker(3)
    before = cluster.state("t", 0)
    cluster.start_broker(3)
    assert cluster.state("t", 0) == before


def test_target_that_dies_during_the_move_is_waited_for() -> None:
    """KB 7.9.3."""
    cluster = cluster_of(3, 1)
    reassign(cluster, 2, 3)
    catch_up(cluster, 2)
    cluster.stop_broker(3)
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1,2] v 2 ce 1"
    cluster.start_broker(3)
    assert cluster.state("t", 0) == "leader 1 e 2 isr [1,2] v 3 ce 1"
    catch_up(cluster, 3)
    assert cluster.state("t", 0) == "leader 2 e 3 isr [2,3] v 5 ce 1"


def test_in_sync_target_that_dies_has_to_catch_up_again() -> None:
    cluster = cluster_of(3, 1)
    reassign(cluster, 2, 3)
    catch_up(cluster, 2)
    cluster.stop_broker(2)
    assert cluster.state("t", 0) == "leader 1 e 2 isr [1] v 3 ce 1"
    catch_up(cluster, 3)
    assert assignment(cluster) == "2,3,1 adding 2,3 removing 1"
    cluster.start_broker(2)
    catch_up(cluster, 2)
    assert assignment(cluster) == "2,3"


def test_leader_that_dies_during_the_move_is_replaced_by_a_target_in_sync() -> None:
    """KB 4.4.5: RS is target-first."""
    cluster = cluster_of(4, 1, 2)
    reassign(cluster, 3, 4)
    catch_up(cluster, 3)
    cluster.stop_broker(1)
    assert cluster.state("t", 0) == "leader 3 e 2 isr [2,3] v 3 ce 1"
    catch_up(cluster, 4)
    assert cluster.state("t", 0) == "leader 3 e 3 isr [3,4] v 5 ce 1"
    assert assignment(cluster) == "3,4"


def test_removed_replicas_on_a_dead_broker_are_not_waited_for() -> None:
    cluster = cluster_of(3, 1, 2)
    cluster.stop_broker(2)
    reassign(cluster, 3)
    catch_up(cluster, 3)
    assert assignment(cluster) == "3"
    assert cluster.partition("t", 0).replica_states == {3: ReplicaState.ONLINE}


def test_kept_leader_gets_the_final_assignment_with_a_new_epoch() -> None:
    """B3 as A1: removed followers must not return to the ISR."""
    cluster = cluster_of(3, 1, 2)
    reassign(cluster, 1, 3)
    seen = cluster.seen()
    catch_up(cluster, 3)
    final = "t-0 leader 1 e 2 isr [1,3] v 3 ce 1 replicas [1,3]"
    assert f"LeaderAndIsr v7; {final}" in seen.requests(1)
    assert f"LeaderAndIsr v7; {final}" in seen.requests(3)
    assert not any(one.startswith("LeaderAndIsr") for one in seen.requests(2))
    assert cluster.state("t", 0) == "leader 1 e 2 isr [1,3] v 3 ce 1"


def test_leader_that_is_removed_is_not_sent_the_next_leader() -> None:
    """The controller sends StopReplica to the removed leader."""
    cluster = cluster_of(4, 1, 2)
    assert reassign(cluster, 3, 4) == codes.NONE
    seen = cluster.seen()
    catch_up(cluster, 3, 4)
    assert cluster.leadership("t", 0).leader == 3
    assert seen.leader_and_isr(1) == []
    assert "StopReplica" in seen.kinds(1)


def test_kept_leader_in_controlled_shutdown_is_replaced() -> None:
    """B3: the leader is in TRS and not online. Before, no other replica could lead; the leader
    adds the target to the ISR itself."""
    cluster = cluster_of(3, 1, 2, inter_broker_protocol_version=OLD_PROTOCOL)
    reassign(cluster, 1, 3)
    cluster.stop_broker(2)
    controlled_shutdown(cluster, 1)
    assert cluster.state("t", 0) == "leader 1 e 2 isr [1] v 2 ce 1"
    cluster.set_isr("t", 0, [1, 3])
    cluster.run()
    assert cluster.state("t", 0) == "leader 3 e 3 isr [1,3] v 4 ce 1"
    assert assignment(cluster) == "1,3"


def test_failed_election_does_not_prevent_the_remaining_steps() -> None:
    """KB 7.9.4: the only target shuts down, and no other replica may lead."""
    cluster = cluster_of(2, 1, 2)
    cluster.stop_broker(2)
    controlled_shutdown(cluster, 1)
    assert reassign(cluster, 1) == codes.NONE
    assert assignment(cluster) == "1"
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1] v 1 ce 1"
    assert reassigning(cluster) == []


def test_reordered_replicas_complete_at_once() -> None:
    cluster = cluster_of(3, 1, 2, 3)
    assert reassign(cluster, 3, 1, 2) == codes.NONE
    assert assignment(cluster) == "3,1,2"
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1,2,3] v 1 ce 1"
    assert listed(cluster) == {}


def test_OB_14_same_replicas_again_raise_the_epoch() -> None:
    cluster = cluster_of(3, 1, 2, 3)
    version = cluster.version(znodes.topic_path("t"))
    assert reassign(cluster, 1, 2, 3) == codes.NONE
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1,2,3] v 1 ce 1"
    assert cluster.version(znodes.topic_path("t")) == (version or 0) + 1
    assert cancel(cluster) == codes.NO_REASSIGNMENT_IN_PROGRESS


def test_same_target_again_restarts_phase_a() -> None:
    """KB 7.3: the leader epoch rises by one."""
    cluster = cluster_of(3, 1, 2)
    reassign(cluster, 2, 3)
    assert reassign(cluster, 2, 3) == codes.NONE
    assert cluster.state("t", 0) == "leader 1 e 2 isr [1,2] v 2 ce 1"
    assert assignment(cluster) == "2,3,1 adding 3 removing 1"


def test_fewer_replicas_complete_at_once() -> None:
    cluster = cluster_of(3, 1, 2, 3)
    assert reassign(cluster, 3) == codes.NONE
    assert cluster.state("t", 0) == "leader 3 e 1 isr [3] v 1 ce 1"
    assert assignment(cluster) == "3"


def test_isr_changes_without_the_targets_do_not_complete_it() -> None:
    cluster = cluster_of(4, 1, 2)
    reassign(cluster, 3, 4)
    ask_for_isr(cluster, 1)
    ask_for_isr(cluster, 1, 2, 3)
    assert reassigning(cluster) == [T0]


def test_isr_members_that_are_no_targets_do_not_delay_completion() -> None:
    """KB 7.5: TRS is a part of the ISR."""
    cluster = cluster_of(4, 1, 2)
    reassign(cluster, 3)
    ask_for_isr(cluster, 1, 2, 3)
    assert assignment(cluster) == "3"


def test_repeated_isr_completes_the_reassignment() -> None:
    """KB 7.5: an idempotent AlterPartition is evaluated as well."""
    cluster = cluster_of(3, 1)
    reassign(cluster, 2)
    cluster.set_isr("t", 0, [1, 2])
    assert ask_for_isr(cluster, 1) == codes.NONE
    assert assignment(cluster) == "2"


def test_complete_reassignment_cannot_be_cancelled() -> None:
    """As in Kafka, completion is part of the event of the ISR change."""
    cluster = cluster_of(3, 1)
    reassign(cluster, 2)
    asked = AlterPartitionReassignmentsReceived(99, 0, [ReassignmentTarget(*T0, None)])
    cluster.once(writes_state("t", 0), lambda: cluster.happen_next(asked, "api:1"))
    catch_up(cluster, 2)
    [answer] = [one for one in answers(cluster) if one.request == 99]
    none = PartitionResult(*T0, codes.NO_REASSIGNMENT_IN_PROGRESS)
    assert answer == AlterPartitionReassignmentsResponse(99, codes.NONE, (none,))
    assert assignment(cluster) == "2"


def test_reassignment_does_not_change_other_partitions_of_the_topic() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2], 1: [2, 3], 2: [3, 1]})
    ask(cluster, (("t", 0), [3, 1]), (("t", 1), [1, 2]))
    content = cluster.topic("t")
    assert assignment(cluster, ("t", 0)) == "3,1,2 adding 3 removing 2"
    assert assignment(cluster, ("t", 1)) == "1,2,3 adding 1 removing 3"
    assert assignment(cluster, ("t", 2)) == "3,1"
    assert content.topic_id is not None
    catch_up(cluster, 3, name=("t", 0))
    assert assignment(cluster, ("t", 0)) == "3,1"
    assert assignment(cluster, ("t", 1)) == "1,2,3 adding 1 removing 3"
    assert cluster.topic("t").topic_id == content.topic_id


def test_R23_topic_deleted_during_the_move_delays_nothing() -> None:
    """A tool deletes the znode without a marker. The partition is listed as reassigning, as in
    Kafka."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1]})
    cluster.create_topic("u", {0: [1]})
    cluster.stop_broker(3)
    put_request(cluster, {T0: [3], ("u", 0): [3]})
    cluster.remove_topic_znodes("t")
    assert list(listed(cluster)) == [("u", 0)]
    cluster.start_broker(3)
    assert cluster.leadership("u", 0).leader_epoch == 2
    assert_no_failures(cluster)


# Scenarios of Kafka's reassignment tool tests ---------------------------------------------------


def two_topics(**settings: Any) -> Cluster:
    """SU-23: foo-0 [1,2,3] and bar-0 [4,3,2]. Each broker id is one higher than in the row."""
    cluster = Cluster(1, 2, 3, 4, **settings).start()
    cluster.create_topic("foo", {0: [1, 2, 3]})
    cluster.create_topic("bar", {0: [4, 3, 2]})
    return cluster


FOO, BAR = ("foo", 0), ("bar", 0)


def assert_both_moved(cluster: Cluster) -> None:
    assert assignment(cluster, FOO) == "1,2,4"
    assert assignment(cluster, BAR) == "4,3,1"
    assert cluster.leadership(*FOO).isr == (1, 2, 4)
    assert cluster.leadership(*BAR).isr == (4, 3, 1)
    assert FOO not in cluster.broker(3).logs
    assert BAR not in cluster.broker(2).logs
    assert FOO in cluster.broker(4).logs
    assert BAR in cluster.broker(1).logs
    assert (listed(cluster), reassigning(cluster)) == ({}, [])


def test_SU_23_two_partitions_move_and_their_old_replicas_are_deleted() -> None:
    cluster = two_topics()
    answer = ask(cluster, (FOO, [1, 2, 4]), (BAR, [4, 3, 1]))
    assert [one.error for one in answer.partitions] == [codes.NONE, codes.NONE]
    catch_up(cluster, 4, name=FOO)
    catch_up(cluster, 1, name=BAR)
    assert_both_moved(cluster)


def test_SU_24_below_2_7_IV2_state_znodes_are_watched() -> None:
    cluster = two_topics(inter_broker_protocol_version=OLD_PROTOCOL)
    ask(cluster, (FOO, [1, 2, 4]), (BAR, [4, 3, 1]))
    cluster.set_isr("foo", 0, [1, 2])
    cluster.run()
    assert len(listed(cluster)) == 2
    cluster.set_isr("foo", 0, [1, 2, 3, 4])
    cluster.set_isr("bar", 0, [4, 3, 2, 1])
    cluster.run()
    assert_both_moved(cluster)
    assert cluster.state(*FOO) == "leader 1 e 2 isr [1,2,4] v 4 ce 1"


def test_SU_24_writes_of_the_leader_after_completion_are_ignored() -> None:
    cluster = two_topics(inter_broker_protocol_version=OLD_PROTOCOL)
    ask(cluster, (FOO, [1, 2, 4]))
    cluster.set_isr("foo", 0, [1, 2, 3, 4])
    cluster.run()
    seen = cluster.seen()
    cluster.set_isr("foo", 0, [1, 2])
    cluster.run()
    assert seen.writes() == []
    assert seen.broker_requests() == []


def test_SU_24_with_alter_partition_no_state_is_watched() -> None:
    cluster = two_topics()
    ask(cluster, (FOO, [1, 2, 4]))
    cluster.set_isr("foo", 0, [1, 2, 3, 4])
    seen = cluster.seen()
    cluster.run()
    assert seen.history == []


def test_SU_25_leaders_of_an_older_protocol_announce_their_isr() -> None:
    cluster = two_topics()
    ask(cluster, (FOO, [1, 2, 4]), (BAR, [4, 3, 1]))
    cluster.set_isr("foo", 0, [1, 2, 3, 4])
    cluster.set_isr("bar", 0, [4, 3, 2, 1])
    cluster.announce_isr(FOO, BAR)
    assert_both_moved(cluster)


def test_SU_26_two_reassignments_are_cancelled() -> None:
    baz = ("baz", 1)
    cluster = Cluster(1, 2, 3, 4).start()
    cluster.create_topic("foo", {0: [1, 2, 3]})
    cluster.create_topic("baz", {0: [1], 1: [3, 1, 2]})
    ask(cluster, (FOO, [1, 2, 4]), (baz, [1, 3, 4]))
    assert listed(cluster) == {
        FOO: "1,2,4,3 adding 4 removing 3",
        baz: "1,3,4,2 adding 4 removing 2",
    }
    answer = ask(cluster, (FOO, None), (baz, None))
    assert [one.error for one in answer.partitions] == [codes.NONE, codes.NONE]
    assert listed(cluster) == {}
    assert assignment(cluster, FOO) == "1,2,3"
    assert cluster.broker(4).logs == {}
    again = ask(cluster, (FOO, None), (baz, None))
    none = codes.NO_REASSIGNMENT_IN_PROGRESS
    assert [one.error for one in again.partitions] == [none, none]


def test_SU_27_cancelled_replica_in_sync_leaves_the_isr() -> None:
    cluster = cluster_of(5, 1, 2, 3)
    reassign(cluster, 1, 4, 5)
    catch_up(cluster, 4)
    assert cancel(cluster) == codes.NONE
    assert cluster.state("t", 0) == "leader 1 e 3 isr [1,2,3] v 4 ce 1"
    assert assignment(cluster) == "1,2,3"
    assert cluster.broker(4).logs == cluster.broker(5).logs == {}
    assert cluster.partition("t", 0).replica_states == dict.fromkeys((1, 2, 3), ReplicaState.ONLINE)


# Cancelled and replaced -------------------------------------------------------------------------


def test_cancelled_reassignment_writes_the_topic_twice_and_stops_the_adding_replica() -> None:
    """KB 7.8.1. The leader epoch rises by one."""
    cluster = cluster_of(3, 1, 2)
    reassign(cluster, 2, 3)
    seen = cluster.seen()
    cancel(cluster)
    topic, state = znodes.topic_path("t"), znodes.state_path("t", 0)
    assert seen.written() == [topic, state, topic]
    stopped = [one for one in seen.requests(3) if one.startswith("StopReplica")]
    assert stopped == ["StopReplica v4; t-0 e 1", "StopReplica v4; t-0 e 1 delete"]
    assert cluster.state("t", 0) == "leader 1 e 2 isr [1,2] v 2 ce 1"


def test_cancellation_loses_the_original_order_where_the_lists_overlap() -> None:
    """KB 7.8.2."""
    cluster = cluster_of(4, 1, 2, 3)
    reassign(cluster, 3, 4, 2)
    assert assignment(cluster) == "3,4,2,1 adding 4 removing 1"
    cancel(cluster)
    assert assignment(cluster) == "3,2,1"


def test_replaced_reassignment_starts_from_the_origin() -> None:
    """KB 7.8.3."""
    cluster = cluster_of(9, 1, 2, 3)
    reassign(cluster, 4, 5, 6)
    catch_up(cluster, 5)
    seen = cluster.seen()
    assert reassign(cluster, 7, 8, 9) == codes.NONE
    assert assignment(cluster) == "7,8,9,1,2,3 adding 7,8,9 removing 1,2,3"
    for broker in (4, 5, 6):
        assert any(one.endswith(" delete") for one in seen.requests(broker))
        assert T0 not in cluster.broker(broker).logs
    assert cluster.state("t", 0) == "leader 1 e 3 isr [1,2,3] v 4 ce 1"
    catch_up(cluster, 7, 8, 9)
    assert assignment(cluster) == "7,8,9"
    assert cluster.leadership("t", 0).isr == (7, 8, 9)


def test_replica_in_both_targets_is_not_stopped() -> None:
    cluster = cluster_of(5, 1, 2)
    reassign(cluster, 3, 4)
    catch_up(cluster, 3)
    seen = cluster.seen()
    reassign(cluster, 3, 5)
    assert assignment(cluster) == "3,5,1,2 adding 3,5 removing 1,2"
    assert not any("Stop" in one for one in seen.requests(3))
    catch_up(cluster, 5)
    assert assignment(cluster) == "3,5"


def test_cancelled_replica_can_be_added_again() -> None:
    cluster = cluster_of(3, 1)
    reassign(cluster, 2)
    cancel(cluster)
    seen = cluster.seen()
    reassign(cluster, 2)
    assert seen.notices() == []
    assert sum(" new" in one for one in seen.requests(2)) == 2
    catch_up(cluster, 2)
    assert assignment(cluster) == "2"
