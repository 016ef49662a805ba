"""Elections that admin tools ask for (KB 3.9): rows SU-30 to SU-32, CI-38 of KB 17."""

import pytest

from controller.core import error_codes as codes
from controller.core import znodes
from controller.core.api_requests import ApiRequest
from controller.core.api_requests.controlled_shutdown import (
    AnswerControlledShutdown,
    ControlledShutdownReceived,
)
from controller.core.api_requests.elections import AnswerElectLeaders, ElectLeadersReceived
from controller.core.api_requests.partition_answer import PartitionAnswer
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    AnswerAlterPartitionReassignments,
    AnswerListPartitionReassignments,
    ListPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from controller.core.commands import WriteZnodes
from controller.core.procedures.elections.replica_election import process_elect_leaders
from controller.core.state_machines import PartitionState
from replay.world.simulation import Fate
from tests.controller.core.cluster import Cluster, writes_state
from tests.controller.core.driving import Driven
from tests.controller.core.elections.electing import (
    Election,
    Errors,
    answered,
    elect,
    leaders,
    request,
)
from tests.controller.core.endpoint import answers, controlled_shutdown
from tests.controller.core.reassignment.reassigning import Name, ask, ask_for_isr
from tests.controller.core.topics.deleting import mark

T0, T1, U0, NOBODY = ("t", 0), ("t", 1), ("u", 0), ("nobody", 0)


def reordered() -> Cluster:
    """t-0 and t-1 are led by 1 and prefer 2 since their replicas were put in another order."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2], 1: [1, 2]})
    cluster.create_topic("u", {0: [1, 2]})
    ask(cluster, (T0, (2, 1)), (T1, (2, 1)))
    assert cluster.state("t", 0) == "leader 1 e 1 isr [1,2] v 1 ce 1"
    return cluster


def waiting() -> Cluster:
    """t-0 and t-1 [1,2]: 2 died, then 1 with the only ISR, then 2 came back. u-0 is led by 3."""
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2], 1: [1, 2]})
    cluster.create_topic("u", {0: [3]})
    cluster.stop_broker(2)
    cluster.stop_broker(1)
    cluster.start_broker(2)
    assert cluster.state("t", 0) == "leader -1 e 2 isr [1] v 2 ce 1"
    return cluster


# Preferred --------------------------------------------------------------------------------------


def test_SU_30_the_preferred_replica_takes_over() -> None:
    cluster = reordered()
    seen = cluster.seen()
    assert elect(cluster, "preferred", T0) == {T0: codes.NONE}
    assert cluster.state("t", 0) == "leader 2 e 2 isr [1,2] v 2 ce 1"
    assert seen.requests(1)[0] == seen.requests(2)[0]
    assert seen.kinds(1) == ["LeaderAndIsr", "UpdateMetadata"]
    assert seen.kinds(3) == ["UpdateMetadata"]
    assert cluster.leadership("t", 1).leader == 1


def test_SU_30_a_partition_that_is_led_as_preferred_needs_none() -> None:
    cluster = reordered()
    seen = cluster.seen()
    assert elect(cluster, "preferred", U0) == {U0: codes.ELECTION_NOT_NEEDED}
    assert seen.writes() == []
    assert seen.requested() == {}


def test_SU_30_of_all_those_that_need_none_are_left_out() -> None:
    cluster = reordered()
    assert elect(cluster, "preferred") == {T0: codes.NONE, T1: codes.NONE}
    assert leaders(cluster, "t") == {0: 2, 1: 2}
    assert elect(cluster, "preferred") == {}


def test_SU_30_an_unknown_partition_is_told() -> None:
    cluster = reordered()
    error = codes.UNKNOWN_TOPIC_OR_PARTITION
    assert elect(cluster, "preferred", NOBODY, ("t", 9)) == {NOBODY: error, ("t", 9): error}


def test_SU_30_each_partition_has_its_own_answer() -> None:
    cluster = reordered()
    assert list(elect(cluster, "preferred", T1, NOBODY, U0, T1).items()) == [
        (T1, codes.NONE),
        (NOBODY, codes.UNKNOWN_TOPIC_OR_PARTITION),
        (U0, codes.ELECTION_NOT_NEEDED),
    ]


def test_SU_30_a_dead_preferred_replica_changes_nothing() -> None:
    cluster = reordered()
    cluster.stop_broker(2)
    before = cluster.state("t", 0)
    answer = answered(cluster, "preferred", T0)
    error = codes.PREFERRED_LEADER_NOT_AVAILABLE
    why = (
        "Failed to elect leader for partition t-0 under strategy "
        "PreferredReplicaPartitionLeaderElectionStrategy"
    )
    assert answer.partitions == (PartitionAnswer("t", 0, error, why),)
    assert cluster.state("t", 0) == before


def test_a_preferred_replica_that_lags_changes_nothing() -> None:
    cluster = reordered()
    ask_for_isr(cluster, 1)
    [one] = answered(cluster, "preferred", T0).partitions
    assert one.error == codes.PREFERRED_LEADER_NOT_AVAILABLE


def test_a_preferred_replica_in_controlled_shutdown_is_not_elected() -> None:
    cluster = reordered()
    controlled_shutdown(cluster, 2)
    before = cluster.state("t", 0)
    assert elect(cluster, "preferred", T0) == {T0: codes.PREFERRED_LEADER_NOT_AVAILABLE}
    assert cluster.state("t", 0) == before


def test_a_replica_in_controlled_shutdown_hears_of_the_new_leader() -> None:
    cluster = Cluster(1, 2, 3).start()
    cluster.create_topic("t", {0: [1, 2, 3]})
    ask(cluster, (T0, (2, 1, 3)))
    controlled_shutdown(cluster, 3)
    seen = cluster.seen()
    assert elect(cluster, "preferred", T0) == {T0: codes.NONE}
    assert seen.kinds(3) == ["LeaderAndIsr", "UpdateMetadata"]


def test_what_stands_in_zookeeper_decides_who_is_in_sync() -> None:
    """The leader has shrunk the ISR by itself, the controller has not heard of it yet."""
    cluster = reordered()
    cluster.set_isr("t", 0, [1])
    assert elect(cluster, "preferred", T0) == {T0: codes.PREFERRED_LEADER_NOT_AVAILABLE}
    assert cluster.leadership("t", 0).leader == 1


# Unclean ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "elected"), [((T0,), {0: 2, 1: -1}), ((T0, T1), {0: 2, 1: 2}), ((), {0: 2, 1: 2})]
)
def test_SU_31_who_is_left_leads(names: tuple[Name, ...], elected: dict[int, int]) -> None:
    cluster = waiting()
    errors: Errors = {("t", number): codes.NONE for number in range(len(names) or 2)}
    assert elect(cluster, "unclean", *names) == errors
    assert leaders(cluster, "t") == elected
    assert cluster.state("t", 0) == "leader 2 e 3 isr [2] v 3 ce 1 recovering"


def test_an_unclean_election_takes_who_is_in_sync_where_it_can() -> None:
    """Somebody has mended the state znode by hand."""
    cluster = waiting()
    cluster.set_isr("t", 0, [2])
    assert elect(cluster, "unclean", T0) == {T0: codes.NONE}
    assert cluster.state("t", 0) == "leader 2 e 3 isr [2] v 4 ce 1"


def test_SU_32_an_unknown_partition_is_told() -> None:
    cluster = waiting()
    assert elect(cluster, "unclean", NOBODY) == {NOBODY: codes.UNKNOWN_TOPIC_OR_PARTITION}


def test_SU_32_nobody_leads_where_no_replica_lives() -> None:
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


def test_SU_32_a_partition_whose_leader_lives_needs_none() -> None:
    cluster = waiting()
    seen = cluster.seen()
    assert elect(cluster, "unclean", U0) == {U0: codes.ELECTION_NOT_NEEDED}
    assert seen.writes() == []


def test_SU_32_each_partition_has_its_own_answer() -> None:
    cluster = waiting()
    assert elect(cluster, "unclean", U0, T0) == {U0: codes.ELECTION_NOT_NEEDED, T0: codes.NONE}


def test_a_leader_with_a_failed_log_directory_counts_as_living() -> None:
    """KB 3.9 step 5: only whether its broker lives is looked at."""
    driven = Driven(5, 6)
    partition = driven.partition((5, 6), PartitionState.ONLINE)
    driven.lead(partition, 5, (5, 6))
    driven.context.offline_dirs[5] = {partition: None}
    asked = ElectLeadersReceived(1, 2, "unclean", [T0])
    driven.run(process_elect_leaders(driven.controller, asked))
    [answer] = driven.of_kind(AnswerElectLeaders)
    assert [one.error for one in answer.partitions] == [codes.ELECTION_NOT_NEEDED]


def test_a_leader_in_controlled_shutdown_counts_as_gone() -> None:
    """It is the only one in sync and keeps its partition; asked to, another one takes it."""
    cluster = Cluster(1, 2).start()
    cluster.create_topic("t", {0: [1, 2]})
    ask_for_isr(cluster, 1)
    assert controlled_shutdown(cluster, 1).remaining == (T0,)
    assert elect(cluster, "unclean", T0) == {T0: codes.NONE}
    assert cluster.leadership("t", 0).leader == 2
    assert cluster.leadership("t", 0).isr == (2,)


# Both -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("election", ["preferred", "unclean"])
def test_a_topic_that_is_being_deleted_gets_no_election(election: Election) -> None:
    """Its deletion waits for broker 3. Of all, it is left out: brokers forget such topics."""
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


def test_a_controller_that_was_replaced_meanwhile_sends_the_tool_on() -> None:
    cluster = reordered()
    cluster.once(writes_state("t", 0), lambda: cluster.seize_role(3))
    answer = answered(cluster, "preferred", T0)
    error = codes.NOT_CONTROLLER
    assert (answer.error, answer.partitions) == (error, (PartitionAnswer("t", 0, error),))
    assert not cluster.is_active


def test_who_does_not_control_says_so_for_each_partition() -> None:
    cluster = Cluster(1)
    cluster.take_role(1)
    cluster.connect()
    answer = answered(cluster, "unclean", T0, U0)
    error = codes.NOT_CONTROLLER
    assert answer.error == error
    assert answer.partitions == tuple(PartitionAnswer(*one, error) for one in (T0, U0))
    assert answered(cluster, "unclean").partitions == ()


def test_CI_38_requests_that_wait_when_the_role_ends_are_answered() -> None:
    """While one election is under way the daemon is told to end."""
    cluster = reordered()
    running = request(cluster, "preferred", T0)
    number = running.request
    waiting: list[ApiRequest] = [
        ElectLeadersReceived(number + 1, 2, "preferred", [T0, T1]),
        ControlledShutdownReceived(number + 2, 3, 2, cluster.broker_epoch(2)),
        AlterPartitionReassignmentsReceived(number + 3, 0, [ReassignmentTarget("t", 0, (3,))]),
        ListPartitionReassignmentsReceived(number + 4, 0, None),
    ]

    def more_is_asked() -> None:
        for one in waiting:
            cluster.happen_next(one, f"api:{one.request}")
        cluster.ask_to_end()

    cluster.once(writes_state("t", 0), more_is_asked)
    cluster.happen(running, "api:1")
    error = codes.NOT_CONTROLLER
    refused = tuple(PartitionAnswer(*name, error) for name in (T0, T1))
    assert answers(cluster)[-5:] == [
        AnswerElectLeaders(number, codes.NONE, (PartitionAnswer("t", 0, codes.NONE),)),
        AnswerElectLeaders(number + 1, error, refused),
        AnswerControlledShutdown(number + 2, codes.STALE_CONTROLLER_EPOCH),
        AnswerAlterPartitionReassignments(number + 3, error),
        AnswerListPartitionReassignments(number + 4, error),
    ]


@pytest.mark.parametrize("fate", [Fate.SESSION_OVER, Fate.SESSION_OVER_AFTER])
def test_an_election_that_a_new_session_breaks_off_is_answered(fate: Fate) -> None:
    cluster = reordered()
    cluster.lose(lambda issued: isinstance(issued.command, WriteZnodes), fate)
    assert answered(cluster, "preferred", T0).error == codes.NOT_CONTROLLER
    assert (cluster.is_active, cluster.epoch()) == (True, 2)
