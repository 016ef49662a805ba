"""Which elections and ISRs the watch of the table of crash points reports."""

from typing import Any

import pytest

from tests.lab.interrupted.partition_watch import Watched


def state(leader: int, *isr: int, epoch: int = 2) -> dict[str, Any]:
    return {"leader": leader, "isr": list(isr), "controller_epoch": epoch}


def elected(
    leader: int, isr: tuple[int, ...], *, allows_unclean: bool = False, cancelled: bool = False
) -> list[tuple[int, str]]:
    """The violations if this replica replaces leader 1; the originals are 1, 2 and 3."""
    watched = Watched([1, 2, 3], allows_unclean, floor=1, last=state(1, *isr))
    watched.judge(state(leader, leader), "0.10 s", cancelled=cancelled)
    assert watched.shrunk == []
    return watched.elected


@pytest.mark.parametrize("leader", [2, 5])
def test_leader_outside_of_the_isr_is_a_violation(leader: int) -> None:
    assert elected(leader, (1, 4)) == [
        (
            2,
            f"0.10 s: {leader} is elected while [1, 4] are in the ISR, and the topic allows no "
            "unclean leader",
        )
    ]


def test_original_outside_of_the_isr_may_lead_if_the_topic_allows_unclean_leaders() -> None:
    assert elected(2, (1, 4), allows_unclean=True, cancelled=True) == []


def test_target_outside_of_the_isr_must_not_lead_during_a_cancellation() -> None:
    [(_, text)] = elected(5, (1, 4), allows_unclean=True, cancelled=True)
    assert text.endswith("are in the ISR and the cancellation to [1, 2, 3] exists")


def test_target_in_the_isr_must_not_lead_during_a_cancellation() -> None:
    assert len(elected(4, (1, 4), cancelled=True)) == 1
    assert elected(4, (1, 4)) == []


def test_target_may_lead_if_no_original_is_in_sync() -> None:
    assert elected(4, (4, 5), cancelled=True) == []


def test_partition_without_a_leader_is_no_election() -> None:
    watched = Watched([1, 2, 3], last=state(1, 1))
    watched.judge(state(-1, 1), "0.10 s", cancelled=True)
    watched.judge(state(1, 1), "0.20 s", cancelled=True)
    assert watched.elected == []


def test_isr_below_the_floor_is_a_violation() -> None:
    watched = Watched([1, 2, 3], floor=2, lowest_isr=2, last=state(1, 1, 2))
    watched.judge(state(1, 1), "0.10 s", cancelled=False)
    assert watched.shrunk == ["0.10 s: the ISR [1, 2] becomes [1], fewer than 2"]
    assert watched.lowest_isr == 1
