"""A lost reply is assumed only if fewer divergences remain with it."""

from collections.abc import Callable, Set

import pytest

from replay.agreement.assumptions import Choices
from replay.agreement.cause import NO_CAUSE
from replay.agreement.results import AgreementResult, Divergence
from replay.agreement.search.event_order import EventOrder
from replay.agreement.search.lost_replies import LostReply
from replay.agreement.search.search import ComparisonRun, search

Explains = Callable[[Set[int]], list[int]]


def missing(zxid: int) -> Divergence:
    return Divergence(
        subject="decision",
        verdict="missing",
        kind="refused",
        seq=zxid,
        since=0,
        zxid=zxid,
        broker=1,
        epoch=1,
        paths=(),
        differences=(),
        cause=NO_CAUSE,
        explained="",
        controller=1,
    )


class Comparison:
    """`left` returns the decisions that the fold lacks if some replies were lost; the reply to the
    decision before each of them may have been lost."""

    def __init__(self, left: Explains) -> None:
        self.left = left
        self.runs: list[Set[int]] = []

    def __call__(self, choices: Choices) -> AgreementResult:
        lost = choices.assumptions.lost_replies
        self.runs.append(lost)
        result = AgreementResult()
        for zxid in self.left(lost):
            choices.record_repeated(zxid - 1)
            result.divergences.append(missing(zxid))
        return result

    def searched(self, records: int = 100) -> ComparisonRun:
        return search(self, (LostReply(),), records)


def test_agreeing_log_is_compared_once() -> None:
    comparison = Comparison(lambda lost: [])
    run = comparison.searched()
    assert comparison.runs == [frozenset()]
    assert run.result.notes == []


def test_only_replies_that_explain_a_divergence_are_assumed_lost() -> None:
    """6 follows a lost reply; 3 is missing whichever reply is lost."""
    comparison = Comparison(lambda lost: [3] if 5 in lost else [3, 6])
    run = comparison.searched()
    assert [one.zxid for one in run.result.divergences] == [3]
    [note] = run.result.notes
    assert note.startswith("zxid 0x5: its reply was lost")
    assert {2} in comparison.runs
    assert run.choices.assumptions.lost_replies == {5}


def test_second_lost_reply_is_found_after_the_first() -> None:
    """Two writes of one batch are repeated."""
    comparison = Comparison(lambda lost: [] if {5, 6} <= lost else [7] if 5 in lost else [6, 7])
    run = comparison.searched()
    assert not run.result.divergences
    assert run.choices.assumptions.lost_replies == {5, 6}


def test_orders_are_tried_with_the_lost_replies() -> None:
    comparison = Comparison(lambda lost: [8] if 5 in lost else [6, 8])
    search(comparison, (LostReply(), EventOrder()), 100)
    later = comparison.runs[comparison.runs.index({5}) + 1 :]
    assert later
    assert all(5 in lost for lost in later)


@pytest.mark.parametrize(("records", "runs"), [(100, 10), (250_000, 2), (2_000_000, 1)])
def test_large_log_is_compared_few_times(records: int, runs: int) -> None:
    comparison = Comparison(lambda lost: list(range(100, 200)))
    comparison.searched(records)
    assert len(comparison.runs) == 1 + runs
