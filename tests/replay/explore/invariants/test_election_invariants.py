"""Invariants of elections, each with a history that it reports and one that it accepts."""

import pytest

from controller.core.values import LeaderAndIsr
from replay.explore.invariants.elections import (
    ElectedIsOnline,
    FirstReplicaLeads,
    UncleanIsAllowed,
)
from replay.explore.invariants.invariant import Invariant
from replay.explore.invariants.known_cluster import LeaderCandidates
from tests.replay.explore.invariants.facts import NAME, History

_REPLICAS = (1, 2, 3)


def _elect(
    invariant: type[Invariant],
    leader: int,
    *,
    isr: tuple[int, ...] = _REPLICAS,
    online: tuple[int, ...] = _REPLICAS,
    orders: tuple[tuple[int, ...], ...] = (_REPLICAS,),
    allowed: str | None = None,
    restarted: tuple[int, ...] = (),
) -> list[str]:
    """A controller elects a leader after broker 1, which led with this ISR."""
    history = History(invariant)
    history.state(1, 1, isr)
    history.known.candidates_of = lambda process, name: LeaderCandidates(orders, online, online)
    if allowed is not None:
        history.known.allows_unclean[allowed] = None
    history.invariant.decided("refold 100", NAME, LeaderAndIsr(leader, 2, isr, 1, 1))
    history.state(leader, 2, (leader,), restarted=restarted)
    return history.reported


def test_leader_that_is_not_online_is_reported() -> None:
    [reported] = _elect(ElectedIsOnline, 2, online=(1, 3))
    assert "elected broker 2; online are [1, 3]" in reported
    assert not _elect(ElectedIsOnline, 3, online=(1, 3))


@pytest.mark.parametrize("registers_again", [False, True])
def test_elected_broker_whose_shutdown_was_granted_is_reported(registers_again: bool) -> None:
    history = History(ElectedIsOnline)
    history.state(1, 1, _REPLICAS)
    history.known.candidates_of = lambda process, name: LeaderCandidates(
        (_REPLICAS,), _REPLICAS, _REPLICAS
    )
    history.known.granted["refold 100"] = {2: history.known.brokers[2]}
    if registers_again:
        history.known.brokers[2] += 1
    history.invariant.decided("refold 100", NAME, LeaderAndIsr(2, 2, _REPLICAS, 1, 1))
    history.state(2, 2, _REPLICAS)
    assert bool(history.reported) is (not registers_again)


@pytest.mark.parametrize("allowed", ["", "orders"])
def test_leader_outside_of_the_isr_is_reported_unless_it_is_allowed(allowed: str) -> None:
    [reported] = _elect(UncleanIsAllowed, 3, isr=(1, 2), allowed="payments")
    assert "unclean elections are not allowed" in reported
    assert not _elect(UncleanIsAllowed, 3, isr=(1, 2), allowed=allowed)
    assert not _elect(UncleanIsAllowed, 2, isr=(1, 2))


def test_leader_that_is_not_the_first_in_the_order_of_the_replicas_is_reported() -> None:
    [reported] = _elect(FirstReplicaLeads, 3, isr=(3, 2, 1), online=(2, 3))
    assert "elected broker 3 of [3, 2]" in reported
    assert not _elect(FirstReplicaLeads, 2, isr=(3, 2, 1), online=(2, 3))


def test_leader_that_is_the_first_of_the_target_of_a_reassignment_is_accepted() -> None:
    assert not _elect(FirstReplicaLeads, 3, online=(2, 3), orders=(_REPLICAS, (3, 2)))


def test_first_replica_may_be_passed_over_if_it_has_restarted() -> None:
    assert not _elect(FirstReplicaLeads, 3, online=(2, 3), restarted=(2,))
    assert not _elect(FirstReplicaLeads, 2, online=(2, 3), restarted=(2,))
    [reported] = _elect(FirstReplicaLeads, 3, online=(1, 2, 3), restarted=(2,))
    assert "elected broker 3 of [1, 2, 3]" in reported
