"""An alignment has the least cost, and its work grows with the lengths of the sequences."""

from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.agreement.broker_requests.alignment import (
    ALIKE,
    COST_MAX,
    REFOLD_LEFT_OVER,
    STOCK_LEFT_OVER,
    Pair,
    align,
)

Entry = tuple[str, int]
entries = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=12)


def agree(refold: Entry, stock: Entry) -> bool:
    return refold == stock


def alike(refold: Entry, stock: Entry) -> bool:
    return refold[0] == stock[0]


def aligned(refold: list[Entry], stock: list[Entry]) -> list[Pair]:
    return align(refold, stock, agree, alike)


def cost(pairs: list[Pair], refold: list[Entry], stock: list[Entry]) -> int:
    total = 0
    for i, j in pairs:
        if i is None:
            total += STOCK_LEFT_OVER
        elif j is None:
            total += REFOLD_LEFT_OVER
        elif not agree(refold[i], stock[j]):
            assert alike(refold[i], stock[j])
            total += ALIKE
    return total


def least(refold: list[Entry], stock: list[Entry]) -> int:
    """The least cost, by the table of the costs of all prefixes."""

    @lru_cache(None)
    def of(i: int, j: int) -> int:
        if not i or not j:
            return REFOLD_LEFT_OVER * i + STOCK_LEFT_OVER * j
        one, other = refold[i - 1], stock[j - 1]
        left_over = min(of(i - 1, j) + REFOLD_LEFT_OVER, of(i, j - 1) + STOCK_LEFT_OVER)
        if agree(one, other):
            return min(left_over, of(i - 1, j - 1))
        return min(left_over, of(i - 1, j - 1) + ALIKE) if alike(one, other) else left_over

    return of(len(refold), len(stock))


@given(entries, entries)
def test_alignment_has_the_least_cost(refold: list[Entry], stock: list[Entry]) -> None:
    pairs = aligned(refold, stock)
    assert [i for i, _ in pairs if i is not None] == [*range(len(refold))]
    assert [j for _, j in pairs if j is not None] == [*range(len(stock))]
    assert cost(pairs, refold, stock) == least(refold, stock)


@pytest.mark.parametrize(("refold", "stock"), [(4_000, 3_000), (4_000, 0), (1, 4_000)])
def test_sequences_without_common_entries_are_aligned_in_linear_time(
    refold: int, stock: int
) -> None:
    """More entries differ than one search covers: work grows with the lengths, not their square."""
    compared = 0

    def count(one: Entry, other: Entry) -> bool:
        nonlocal compared
        compared += 1
        return agree(one, other)

    pairs = align([("a", 0)] * refold, [("b", 0)] * stock, count, alike)
    assert len(pairs) == refold + stock
    assert compared <= COST_MAX * (refold + stock)


@given(entries, entries, entries)
def test_entries_after_the_aligned_prefix_cost_nothing(
    refold: list[Entry], stock: list[Entry], rest: list[Entry]
) -> None:
    pairs = align([*refold, *rest], stock, agree, alike, is_beginning=True)
    assert [i for i, _ in pairs if i is not None] == [*range(len(refold) + len(rest))]
    assert [j for _, j in pairs if j is not None] == [*range(len(stock))]
    while pairs and pairs[-1][1] is None:
        pairs.pop()
    beginnings = [[*refold, *rest][:end] for end in range(len(refold) + len(rest) + 1)]
    assert cost(pairs, [*refold, *rest], stock) == min(least(one, stock) for one in beginnings)


def test_alignment_finds_equal_entries_after_many_differences() -> None:
    same = [("a", number) for number in range(3 * COST_MAX)]
    refold = [("b", 1)] * (2 * COST_MAX) + same
    assert [pair for pair in aligned(refold, same) if None not in pair] == [
        (number + 2 * COST_MAX, number) for number in range(len(same))
    ]
