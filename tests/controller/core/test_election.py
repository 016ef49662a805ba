"""The election rules, row by row of KB 17.5 (Kafka's PartitionLeaderElectionAlgorithmsTest)."""

import pytest

from controller.core.election import (
    ElectionInput,
    controlled_shutdown_leader,
    first_leader,
    leader_after_restarts,
    offline_partition_leader,
    preferred_leader,
    reassignment_leader,
)
from controller.core.state import Partition, Topic
from controller.core.values import Assignment, LeaderAndIsr

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
def test_offline_partition_election(
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
def test_reassignment_election(target: Brokers, isr: Brokers, live: set[int], leader: int) -> None:
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
def test_preferred_election(replicas: Brokers, isr: Brokers, live: set[int], leader: int) -> None:
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
def test_controlled_shutdown_election(
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
    partition = Partition(Topic("t"), 0)
    partition.assignment = Assignment((4, 3, 1, 2), adding=(4, 3), removing=(1, 2))
    state = LeaderAndIsr(1, 0, (9, 1, 3), 0, 1)
    assert ElectionInput(partition, state, False, (1, 2)).replicas == (1, 2, 3)
