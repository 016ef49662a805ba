"""Elections that admin tools ask for (KB 3.9): rows SU-30 to SU-32, CI-38 of KB 17."""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests import ApiRequest
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.api_requests.elections import ElectLeadersReceived, ElectLeadersResponse
from controller.core.api_requests.partition_result import PartitionResult
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsReceived,
    ListPartitionReassignmentsResponse,
    ReassignmentTarget,
)
from controller.core.commands import WriteZnodes
from controller.core.procedures.elections.replica_election import process_elect_leaders
from controller.core.state_machines import PartitionState
from tests.controller.core.cluster import Cluster, writes_state
from tests.controller.core.driving import ControllerHarness
from tests.controller.core.endpoint import answers, controlled_shutdown
from tests.controller.core.procedures.elections.electing import (
    Election,
    Errors,
    answered,
    elect,
    leaders,
    request,
)
from tests.controller.core.procedures.reassignment.reassigning import Name, ask, ask_for_isr
from tests.controller.core.procedures.topics.deleting import mark
from tests.controller.core.unreliable import Delivery

T0, T1, U0, MISSING = ("t", 0), ("t", 1), ("u", 0), ("missing", 0)


def reordered() -> Cluster:
    """t-0 and t-1 are led by 1 and prefer 2 since their replicas were put in another order."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2], 1: [1, 2]})
    cluster.create_topic("u", {0: [1, 2]})
    ask(cluster, (T0, (2, 1)), (T1, (2, 1)))
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1,2] v 1 ce 1"
    return cluster


def waiting() -> Cluster:
    """t-0 and t-1 [1,2]: broker 2 died, then 1 with the only ISR, then 2 came back. u-0 is led
    by 3."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2], 1: [1, 2]})
    cluster.create_topic("u", {0: [3]})
    cluster.stop_broker(2)
    cluster.stop_broker(1)
    cluster.start_broker(2)
    assert cluster.state("t", 0) == "leader -1 e 2 isr [1] v 2 ce 1"
    return cluster


# Preferred --------------------------------------------------------------------------------------


def test_SU_30_preferred_replica_is_elected() -> None:
    cluster = reordered()
    seen = cluster.seen()
    assert elect(cluster, "preferred", T0) == {T0: codes.NONE}
    assert cluster.state("t", 0) == "leader 2 e 2 isr [1,2] v 2 ce 1"
    assert seen.requests(1)[0] == seen.requests(2)[0]
    assert seen.kinds(1) == ["LeaderAndIsr", "UpdateMetadata"]
    assert seen.kinds(3) == ["UpdateMetadata"]
    assert cluster.leadership("t", 1).leader == 1


def test_SU_30_partition_led_by_its_preferred_replica_needs_no_election() -> None:
    cluster = reordered()
    seen = cluster.seen()
    assert elect(cluster, "preferred", U0) == {U0: codes.ELECTION_NOT_NEEDED}
    assert seen.writes() == []
    assert seen.requested() == {}


def test_SU_30_election_of_all_omits_partitions_that_need_none() -> None:
    cluster = reordered()
    assert elect(cluster, "preferred") == {T0: codes.NONE, T1: codes.NONE}
    assert leaders(cluster, "t") == {0: 2, 1: 2}
    assert elect(cluster, "preferred") == {}


def test_SU_30_unknown_partition_is_an_error() -> None:
    cluster = reordered()
    error = codes.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(cluster, "preferred", MISSING, ("t", 9)) == {MISSING: error, ("t", 9): error}


def test_SU_30_each_partition_has_its_own_answer() -> None:
    cluster = reordered()
    assert list(elect(cluster, "preferred", T1, MISSING, U0, T1).items()) == [
        (T1, codes.NONE),
        (MISSING, codes.UNKNOWN_TOPIC_OR_PARTITION),
        (U0, codes.ELECTION_NOT_NEEDED),
    ]


def test_SU_30_dead_preferred_replica_changes_nothing() -> None:
    cluster = reordered()
    cluster.stop_broker(2)
    before = cluster.state("t", 0)
    answer = answered(cluster, "preferred", T0)
    error = codes.PREFERRED_LEADER_NOT_AVAILABLE
    why = (
        "Failed to elect leader for partition t-0 under strategy "
        "PreferredReplicaPartitionLeaderElectionStrategy"
    )
    assert answer.partitions == (PartitionResult("t", 0, error, why),)
    assert cluster.state("t", 0) == before


def test_preferred_replica_out_of_sync_changes_nothing() -> None:
    cluster = reordered()
    ask_for_isr(cluster, 1)
    [one] = answered(cluster, "preferred", T0).partitions
    assert one.error == codes.PREFERRED_LEADER_NOT_AVAILABLE


def test_preferred_replica_in_controlled_shutdown_is_not_elected() -> None:
    cluster = reordered()
    controlled_shutdown(cluster, 2)
    before = cluster.state("t", 0)
    assert elect(cluster, "preferred", T0) == {T0: codes.PREFERRED_LEADER_NOT_AVAILABLE}
    assert cluster.state("t", 0) == before


def test_replica_in_controlled_shutdown_learns_the_new_leader() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    ask(cluster, (T0, (2, 1, 3)))
    controlled_shutdown(cluster, 3)
    seen = cluster.seen()
    assert elect(cluster, "preferred", T0) == {T0: codes.NONE}
    assert seen.kinds(3) == ["LeaderAndIsr", "UpdateMetadata"]


def test_isr_in_zookeeper_decides_whether_the_preferred_replica_is_in_sync() -> None:
    """The leader has shrunk the ISR, and the controller has not been notified yet."""
    cluster = reordered()
    cluster.set_isr("t", 0, [1])
    assert elect(cluster, "preferred", T0) == {T0: codes.PREFERRED_LEADER_NOT_AVAILABLE}
    assert cluster.leadership("t", 0).leader == 1


# Unclean ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "elected"), [((T0,), {0: 2, 1: -1}), ((T0, T1), {0: 2, 1: 2}), ((), {0: 2, 1: 2})]
)
def test_SU_31_live_replica_out_of_sync_is_elected(
    names: tuple[Name, ...], elected: dict[int, int]
) -> None:
    cluster = waiting()
    errors: Errors = {("t", number): codes.NONE for number in range(len(names) or 2)}
    assert elect(cluster, "unclean", *names) == errors
    assert leaders(cluster, "t") == elected
    assert cluster.state("t", 0) == "leader 2 e 3 isr [2] v 3 ce 1 recovering"


def test_unclean_election_prefers_a_replica_in_sync() -> None:
    """An operator has repaired the state znode."""
    cluster = waiting()
    cluster.set_isr("t", 0, [2])
    assert elect(cluster, "unclean", T0) == {T0: codes.NONE}
    assert cluster.state("t", 0) == "leader 2 e 3 isr [2] v 4 ce 1"


def test_partition_whose_znodes_a_tool_deleted_is_unknown() -> None:
    """The controller still has its states."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    cluster.remove_topic_znodes("t")
    assert cluster.partition("t", 0).replicas == ()
    for election in ("preferred", "unclean"):
        assert elect(cluster, election, T0) == {T0: codes.UNKNOWN_TOPIC_OR_PARTITION}


def test_SU_32_unknown_partition_is_an_error() -> None:
    cluster = waiting()
    assert elect(cluster, "unclean", MISSING) == {MISSING: codes.UNKNOWN_TOPIC_OR_PARTITION}


def test_SU_32_partition_without_a_live_replica_gets_no_leader() -> None:
    cluster = waiting()
    cluster.stop_broker(2)
    before = cluster.state("t", 0)
    [one] = answered(cluster, "unclean", T0).partitions
    assert one.error == codes.ELIGIBLE_LEADERS_NOT_AVAILABLE
    assert one.message == (
        "Failed to elect leader for partition t-0 under strategy "
        "OfflinePartitionLeaderElectionStrategy(true)"
    )
    assert cluster.state("t", 0) == before


def test_SU_32_partition_with_a_live_leader_needs_no_election() -> None:
    cluster = waiting()
    seen = cluster.seen()
    assert elect(cluster, "unclean", U0) == {U0: codes.ELECTION_NOT_NEEDED}
    assert seen.writes() == []


def test_SU_32_each_partition_has_its_own_answer() -> None:
    cluster = waiting()
    assert elect(cluster, "unclean", U0, T0) == {U0: codes.ELECTION_NOT_NEEDED, T0: codes.NONE}


def test_leader_with_a_failed_log_directory_counts_as_live() -> None:
    """KB 3.9 step 5: only the leader's broker is checked."""
    driven = ControllerHarness(5, 6)
    partition = driven.partition((5, 6), PartitionState.ONLINE)
    driven.lead(partition, 5, (5, 6))
    driven.fail_log_dir(5, partition)
    asked = ElectLeadersReceived(1, 2, "unclean", [T0])
    driven.run(process_elect_leaders(driven.controller, asked))
    [answer] = driven.of_kind(ElectLeadersResponse)
    assert [one.error for one in answer.partitions] == [codes.ELECTION_NOT_NEEDED]


def test_leader_in_controlled_shutdown_counts_as_dead() -> None:
    """The leader keeps its partition as the only replica in sync. On request another one is
    elected."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    ask_for_isr(cluster, 1)
    assert controlled_shutdown(cluster, 1).remaining == (T0,)
    assert elect(cluster, "unclean", T0) == {T0: codes.NONE}
    assert cluster.leadership("t", 0).leader == 2
    assert cluster.leadership("t", 0).isr == (2,)


# Both elections ---------------------------------------------------------------------------------


@pytest.mark.parametrize("election", ["preferred", "unclean"])
def test_topic_being_deleted_gets_no_election(election: Election) -> None:
    """Its deletion waits for broker 3. An election of all omits it: brokers forget such topics."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [3, 1], 1: [3]})
    cluster.stop_broker(3)
    mark(cluster, "t")
    assert cluster.data(znodes.topic_path("t")) is not None
    before = cluster.state("t", 0)
    error = codes.INVALID_TOPIC_EXCEPTION
    assert elect(cluster, election, T0, T1) == {T0: error, T1: error}
    assert elect(cluster, election) == {}
    assert cluster.state("t", 0) == before


def test_controller_replaced_meanwhile_answers_not_controller() -> None:
    cluster = reordered()
    cluster.once(writes_state("t", 0), lambda: cluster.seize_role(3))
    answer = answered(cluster, "preferred", T0)
    error = codes.NOT_CONTROLLER
    assert (answer.error, answer.partitions) == (error, (PartitionResult("t", 0, error),))
    assert not cluster.is_active


def test_standby_answers_not_controller_for_each_partition() -> None:
    cluster = Cluster(1)
    cluster.take_role(1)
    cluster.connect()
    answer = answered(cluster, "unclean", T0, U0)
    error = codes.NOT_CONTROLLER
    assert answer.error == error
    assert answer.partitions == tuple(PartitionResult(*one, error) for one in (T0, U0))
    assert answered(cluster, "unclean").partitions == ()


def test_CI_38_queued_requests_are_answered_when_the_role_ends() -> None:
    """The shutdown is requested during an election."""
    cluster = reordered()
    running = request(cluster, "preferred", T0)
    number = running.request
    waiting: list[ApiRequest] = [
        ElectLeadersReceived(number + 1, 2, "preferred", [T0, T1]),
        ControlledShutdownReceived(number + 2, 3, 2, cluster.broker_epoch(2)),
        AlterPartitionReassignmentsReceived(number + 3, 0, [ReassignmentTarget("t", 0, (3,))]),
        ListPartitionReassignmentsReceived(number + 4, 0, None),
    ]

    def send_more_requests() -> None:
        for one in waiting:
            cluster.happen_next(one, f"api:{one.request}")
        cluster.shut_down_quietly()

    cluster.once(writes_state("t", 0), send_more_requests)
    cluster.happen(running, "api:1")
    error = codes.NOT_CONTROLLER
    refused = tuple(PartitionResult(*name, error) for name in (T0, T1))
    assert answers(cluster)[-5:] == [
        ElectLeadersResponse(number, codes.NONE, (PartitionResult("t", 0, codes.NONE),)),
        ElectLeadersResponse(number + 1, error, refused),
        ControlledShutdownResponse(number + 2, codes.STALE_CONTROLLER_EPOCH),
        AlterPartitionReassignmentsResponse(number + 3, error),
        ListPartitionReassignmentsResponse(number + 4, error),
    ]


@pytest.mark.parametrize("delivery", [Delivery.SESSION_OVER, Delivery.SESSION_OVER_AFTER])
def test_election_interrupted_by_a_new_session_is_answered(delivery: Delivery) -> None:
    cluster = reordered()
    cluster.lose(lambda issued: isinstance(issued.command, WriteZnodes), delivery)
    assert answered(cluster, "preferred", T0).error == codes.NOT_CONTROLLER
    assert (cluster.is_active, cluster.epoch()) == (True, 2)
