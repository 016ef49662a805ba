"""Which writes were not answered: those without whose replies less is left."""

from collections.abc import Callable, Set

import pytest
from replay.stock_clusters.agreement.lost_replies import LostReplies

from replay.stock_clusters.agreement.results import AgreementResult, Divergence
from replay.stock_clusters.agreement.search.assumptions import Order, Turn
from replay.stock_clusters.agreement.search.lost_replies import WithLostReplies

Explains = Callable[[Set[int]], list[int]]


def lacking(zxid: int) -> Divergence:
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
        cause="",
        explained="",
        controller=1,
    )


class Comparison:
    """`left` are the decisions that the fold lacks with those replies lost; behind each of them the
    decision before may be one that was not answered."""

    def __init__(self, left: Explains) -> None:
        self.left = left
        self.runs: list[Set[int]] = []

    def __call__(self, order: Order, replies: LostReplies) -> AgreementResult:
        self.runs.append(replies.lost)
        result = AgreementResult()
        for zxid in self.left(replies.lost):
            replies.suppose(zxid - 1)
            result.divergences.append(lacking(zxid))
        return result


def test_nothing_is_tried_where_nothing_is_lacking() -> None:
    comparison = Comparison(lambda lost: [])
    answering = WithLostReplies(comparison, 100)
    answering.compare(Order())
    assert comparison.runs == [frozenset()]
    assert answering.notes == []


def test_what_explains_is_kept_and_what_does_not_is_not() -> None:
    """6 is behind a lost reply; 3 is not, and lacks whatever is lost."""
    comparison = Comparison(lambda lost: [3] if 5 in lost else [3, 6])
    answering = WithLostReplies(comparison, 100)
    result = answering.compare(Order())
    assert [one.zxid for one in result.divergences] == [3]
    [note] = answering.notes
    assert note.startswith("zxid 0x5: its reply was lost")
    assert {2} in comparison.runs
    assert comparison.runs[-1] == {5}


def test_one_shows_behind_another() -> None:
    """Two writes of one batch come again."""
    comparison = Comparison(lambda lost: [] if {5, 6} <= lost else [7] if 5 in lost else [6, 7])
    answering = WithLostReplies(comparison, 100)
    assert not answering.compare(Order()).divergences
    assert comparison.runs[-1] == {5, 6}


def test_other_orders_have_what_the_first_one_found() -> None:
    comparison = Comparison(lambda lost: [] if 5 in lost else [6])
    answering = WithLostReplies(comparison, 100)
    answering.compare(Order())
    count = len(comparison.runs)
    answering.compare(Order({Turn(1, "Startup", 3): 9}))
    assert comparison.runs[count:] == [{5}]


@pytest.mark.parametrize(("records", "runs"), [(100, 10), (250_000, 2), (2_000_000, 1)])
def test_a_large_log_is_not_walked_through_often(records: int, runs: int) -> None:
    comparison = Comparison(lambda lost: list(range(100, 200)))
    WithLostReplies(comparison, records).compare(Order())
    assert len(comparison.runs) == 1 + runs
