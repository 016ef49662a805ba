"""The election rules, row by row of KB 17.5 (Kafka's PartitionLeaderElectionAlgorithmsTest)."""

import pytest

from controller.core.election import (
    OFFLINE,
    ElectionInput,
    RollbackGoal,
    TooFewInSync,
    controlled_shutdown_leader,
    first_leader,
    leader_after_restarts,
    offline_partition_leader,
    preferred_leader,
    reassignment_leader,
    rollback_leader,
)
from controller.core.state import ControllerContext, Partition, Topic
from controller.core.values import Assignment, Broker, LeaderAndIsr

Brokers = tuple[int, ...]


@pytest.mark.parametrize(
    ("replicas", "isr", "live", "unclean", "leader"),
    [
        pytest.param((2, 4), (2, 4), {4}, False, 4, id="PA-01"),
        pytest.param((2, 4), (2,), {4}, False, -1, id="PA-02"),
        pytest.param((2, 4), (2,), {4}, True, 4, id="PA-03"),
        pytest.param((2, 4), (4, 2), {2, 4}, False, 2, id="replicas-count-not-the-isr"),
        pytest.param((2, 4), (4,), {2, 4}, True, 4, id="clean-goes-first"),
    ],
)
def test_offline_partition_is_led_by_the_first_eligible_replica(
    replicas: Brokers, isr: Brokers, live: set[int], unclean: bool, leader: int
) -> None:
    elected = offline_partition_leader(replicas, isr, live.__contains__, unclean)
    assert elected.leader == leader
    assert elected.unclean is (leader not in isr and leader != -1)


def test_clean_leader_keeps_the_live_members_of_the_isr_in_their_order() -> None:
    elected = offline_partition_leader((1, 2, 3, 4), (4, 1, 3), {3, 4}.__contains__, True)
    assert (elected.leader, elected.isr, elected.unclean) == (3, (4, 3), False)


def test_unclean_leader_is_the_only_member_of_the_isr() -> None:
    elected = offline_partition_leader((1, 2, 3), (1,), {2, 3}.__contains__, True)
    assert (elected.leader, elected.isr, elected.unclean) == (2, (2,), True)


def test_passed_over_replicas_have_a_reason() -> None:
    elected = offline_partition_leader((1, 2, 3), (1, 3), {2, 3}.__contains__, False)
    assert elected.passed_over == ((1, "not online"), (2, "not in sync"))


def test_reassignment_election_has_a_reason_for_each_passed_over_replica() -> None:
    elected = reassignment_leader((1, 2, 3), (1, 3), {2, 3}.__contains__)
    assert elected.leader == 3
    assert elected.passed_over == ((1, "not online"), (2, "not in sync"))


def test_controlled_shutdown_election_has_a_reason_for_each_passed_over_replica() -> None:
    elected = controlled_shutdown_leader(
        (1, 2, 3, 4), (1, 3, 4), {2, 3, 4}.__contains__, {3}.__contains__
    )
    assert (elected.leader, elected.isr) == (4, (1, 4))
    assert elected.passed_over == (
        (1, "not online"),
        (2, "not in sync"),
        (3, "shutting down"),
    )


@pytest.mark.parametrize(
    ("target", "isr", "live", "leader"),
    [
        pytest.param((2, 4), (2, 4), {4}, 4, id="PA-04"),
        pytest.param((2, 4), (2,), set(), -1, id="PA-05"),
        pytest.param((2, 4), (), {2}, -1, id="PA-06"),
    ],
)
def test_reassignment_elects_the_first_target_replica_in_sync_and_online(
    target: Brokers, isr: Brokers, live: set[int], leader: int
) -> None:
    elected = reassignment_leader(target, isr, live.__contains__)
    assert (elected.leader, elected.isr) == (leader, isr)


@pytest.mark.parametrize(
    ("replicas", "isr", "live", "leader"),
    [
        pytest.param((2, 4), (2, 4), {2, 4}, 2, id="PA-07"),
        pytest.param((2, 4), (2,), set(), -1, id="PA-08"),
        pytest.param((2, 4), (4,), {2, 4}, -1, id="PA-09"),
        pytest.param((2, 4), (), set(), -1, id="PA-10"),
    ],
)
def test_preferred_election_elects_the_first_replica_or_none(
    replicas: Brokers, isr: Brokers, live: set[int], leader: int
) -> None:
    elected = preferred_leader(replicas, isr, live.__contains__)
    assert (elected.leader, elected.isr) == (leader, isr)


@pytest.mark.parametrize(
    ("isr", "shutting_down", "leader", "new_isr"),
    [
        pytest.param((2, 4), {2}, 4, (4,), id="PA-11"),
        pytest.param((2,), {2}, -1, (2,), id="PA-12"),
        pytest.param((2, 4), {2, 4}, -1, (2, 4), id="PA-13"),
    ],
)
def test_controlled_shutdown_elects_a_replica_that_stays_up(
    isr: Brokers, shutting_down: set[int], leader: int, new_isr: Brokers
) -> None:
    elected = controlled_shutdown_leader(
        (2, 4), isr, {2, 4}.__contains__, shutting_down.__contains__
    )
    assert (elected.leader, elected.isr) == (leader, new_isr)


@pytest.mark.parametrize(
    ("replicas", "live", "leader", "isr"),
    [
        pytest.param((3, 1, 2), {1, 2, 3}, 3, (3, 1, 2), id="the preferred replica"),
        pytest.param((3, 1, 2), {1, 2}, 1, (1, 2), id="the next live replica"),
        pytest.param((3, 1, 2), set(), -1, (), id="no live replica"),
    ],
)
def test_first_leader_of_a_new_partition_is_the_first_live_replica(
    replicas: Brokers, live: set[int], leader: int, isr: Brokers
) -> None:
    elected = first_leader(replicas, live.__contains__)
    assert (elected.leader, elected.isr) == (leader, isr)
    before = replicas[: replicas.index(leader)] if leader in replicas else replicas
    assert elected.passed_over == tuple((one, "not online") for one in before)


@pytest.mark.parametrize(
    ("restarted", "live", "leader", "isr"),
    [
        pytest.param({3}, {1, 2, 3}, 2, (1, 2), id="the leader stays"),
        pytest.param({3}, {1, 3}, 1, (1, 2), id="the leader is not alive"),
        pytest.param({2}, {1, 2, 3}, 1, (1, 3), id="the leader has restarted"),
        pytest.param({1, 2}, {1, 2}, 2, (1, 2, 3), id="no other member is alive"),
        pytest.param({1, 2}, {1}, -1, (1, 2, 3), id="neither the leader nor another is alive"),
    ],
)
def test_leader_after_restarts_of_members_stays_if_it_may(
    restarted: set[int], live: set[int], leader: int, isr: Brokers
) -> None:
    elected = leader_after_restarts((1, 2, 3), 2, (1, 2, 3), restarted, live.__contains__)
    assert (elected.leader, elected.isr) == (leader, isr)


def test_cancelled_reassignment_elects_the_originals_then_other_replicas_in_sync() -> None:
    """A broker in the ISR that is no replica any more cannot lead."""
    _, given = cancelled(1, (9, 1, 3), {1, 3, 9}, unclean=False)
    assert given.replicas == (1, 2, 3)


def cancelled(
    leader: int, isr: Brokers, live: set[int], unclean: bool
) -> tuple[ControllerContext, ElectionInput]:
    """The election of a partition whose move from 1 and 2 to 3 and 4 is cancelled."""
    context = ControllerContext("PLAINTEXT")
    context.brokers = {one: Broker(one, 1, ()) for one in live}
    partition = Partition(Topic("t"), 0)
    partition.assignment = Assignment((3, 4, 1, 2), adding=(3, 4), removing=(1, 2))
    state = LeaderAndIsr(leader, 0, isr, 0, 1)
    return context, ElectionInput(partition, state, unclean, (1, 2))


LATE = "not in sync"
NO_ORIGINAL = "not an original replica of the cancelled reassignment"


@pytest.mark.parametrize(
    ("isr", "live", "unclean", "leader", "passed_over"),
    [
        pytest.param(
            (1, 3), {2, 3, 4}, False, 3, ((1, "not online"), (2, LATE)), id="a leader in sync"
        ),
        pytest.param(
            (1,),
            {3},
            False,
            -1,
            ((1, "not online"), (2, "not online"), (3, LATE)),
            id="none, where only replicas in sync may lead",
        ),
        pytest.param(
            (1,),
            {3, 4},
            True,
            -1,
            ((1, "not online"), (2, "not online"), (3, NO_ORIGINAL), (4, NO_ORIGINAL)),
            id="none, where replicas out of sync may lead",
        ),
        pytest.param(
            (1,),
            {2, 4},
            True,
            2,
            ((1, "not online"), (2, LATE), (4, NO_ORIGINAL)),
            id="an unclean leader",
        ),
    ],
)
def test_election_of_a_cancelled_reassignment_names_the_live_replicas_that_may_not_lead(
    isr: Brokers, live: set[int], unclean: bool, leader: int, passed_over: tuple[tuple[int, str]]
) -> None:
    context, given = cancelled(1, isr, live, unclean)
    elected = OFFLINE.choose(context, given)
    assert (elected.leader, elected.passed_over) == (leader, passed_over)


@pytest.mark.parametrize(
    ("leader", "isr", "live", "elected"),
    [
        pytest.param(2, (1, 2, 3), {1, 2, 3}, 2, id="the leader is an original and stays"),
        pytest.param(3, (3, 2, 1), {1, 2, 3}, 1, id="the first original"),
        pytest.param(1, (1, 2, 3), {2, 3}, 2, id="the leader is an original that is not alive"),
    ],
)
def test_rollback_has_a_leader_among_the_originals_in_sync(
    leader: int, isr: Brokers, live: set[int], elected: int
) -> None:
    context, given = cancelled(leader, isr, live, unclean=False)
    found, too_few = rollback_leader(context, given, RollbackGoal((1, 2), (3, 4), 1))
    originals = tuple(one for one in isr if one in (1, 2))
    assert (found.leader, found.isr, too_few) == (elected, originals, None)


@pytest.mark.parametrize(
    ("isr", "live", "in_sync", "lagging"),
    [
        pytest.param((1, 3), {1, 2, 3}, (1,), ((2, LATE),), id="an original lags"),
        pytest.param((1, 2, 3), {1, 3}, (1,), (), id="an original is not alive"),
    ],
)
def test_rollback_waits_for_originals_that_are_live_and_in_sync(
    isr: Brokers, live: set[int], in_sync: Brokers, lagging: tuple[tuple[int, str]]
) -> None:
    context, given = cancelled(3, isr, live, unclean=False)
    found, too_few = rollback_leader(context, given, RollbackGoal((1, 2), (3, 4), 2))
    assert (found.leader, found.isr, found.passed_over) == (-1, isr, lagging)
    assert too_few == TooFewInSync(in_sync, 2)
    rest = rollback_leader(context, given, RollbackGoal((1, 2), (), 2))
    assert rest[1] is None


def test_unclean_leader_of_a_rollback_is_the_only_member_of_the_isr() -> None:
    context, given = cancelled(1, (1,), {2}, unclean=True)
    found, too_few = rollback_leader(context, given, RollbackGoal((1, 2), (3, 4), 0))
    assert (found.leader, found.isr, found.unclean, too_few) == (2, (2,), True, None)
