"""An alignment has the least cost, and its work grows with the lengths of the sequences."""

from functools import lru_cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.agreement.broker_requests.alignment import (
    ALIKE,
    COST_MAX,
    OURS_LEFT_OVER,
    THEIRS_LEFT_OVER,
    Pair,
    align,
)

Entry = tuple[str, int]
entries = st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2)), max_size=12)


def agree(ours: Entry, theirs: Entry) -> bool:
    return ours == theirs


def alike(ours: Entry, theirs: Entry) -> bool:
    return ours[0] == theirs[0]


def aligned(ours: list[Entry], theirs: list[Entry]) -> list[Pair]:
    return align(ours, theirs, agree, alike)


def cost(pairs: list[Pair], ours: list[Entry], theirs: list[Entry]) -> int:
    total = 0
    for i, j in pairs:
        if i is None:
            total += THEIRS_LEFT_OVER
        elif j is None:
            total += OURS_LEFT_OVER
        elif not agree(ours[i], theirs[j]):
            assert alike(ours[i], theirs[j])
            total += ALIKE
    return total


def least(ours: list[Entry], theirs: list[Entry]) -> int:
    """The least cost, by the table of the costs of all prefixes."""

    @lru_cache(None)
    def of(i: int, j: int) -> int:
        if not i or not j:
            return OURS_LEFT_OVER * i + THEIRS_LEFT_OVER * j
        one, other = ours[i - 1], theirs[j - 1]
        left_over = min(of(i - 1, j) + OURS_LEFT_OVER, of(i, j - 1) + THEIRS_LEFT_OVER)
        if agree(one, other):
            return min(left_over, of(i - 1, j - 1))
        return min(left_over, of(i - 1, j - 1) + ALIKE) if alike(one, other) else left_over

    return of(len(ours), len(theirs))


@given(entries, entries)
def test_alignment_has_the_least_cost(ours: list[Entry], theirs: list[Entry]) -> None:
    pairs = aligned(ours, theirs)
    assert [i for i, _ in pairs if i is not None] == [*range(len(ours))]
    assert [j for _, j in pairs if j is not None] == [*range(len(theirs))]
    assert cost(pairs, ours, theirs) == least(ours, theirs)


@pytest.mark.parametrize(("ours", "theirs"), [(4_000, 3_000), (4_000, 0), (1, 4_000)])
def test_sequences_without_common_entries_are_aligned_in_linear_time(
    ours: int, theirs: int
) -> None:
    """More entries differ than one search covers: work grows with the lengths, not their square."""
    compared = 0

    def count(one: Entry, other: Entry) -> bool:
        nonlocal compared
        compared += 1
        return agree(one, other)

    pairs = align([("a", 0)] * ours, [("b", 0)] * theirs, count, alike)
    assert len(pairs) == ours + theirs
    assert compared <= COST_MAX * (ours + theirs)


@given(entries, entries, entries)
def test_entries_after_the_aligned_prefix_cost_nothing(
    ours: list[Entry], theirs: list[Entry], rest: list[Entry]
) -> None:
    pairs = align([*ours, *rest], theirs, agree, alike, is_beginning=True)
    assert [i for i, _ in pairs if i is not None] == [*range(len(ours) + len(rest))]
    assert [j for _, j in pairs if j is not None] == [*range(len(theirs))]
    while pairs and pairs[-1][1] is None:
        pairs.pop()
    beginnings = [[*ours, *rest][:end] for end in range(len(ours) + len(rest) + 1)]
    assert cost(pairs, [*ours, *rest], theirs) == min(least(one, theirs) for one in beginnings)


def test_alignment_finds_equal_entries_after_many_differences() -> None:
    same = [("a", number) for number in range(3 * COST_MAX)]
    ours = [("b", 1)] * (2 * COST_MAX) + same
    assert [pair for pair in aligned(ours, same) if None not in pair] == [
        (number + 2 * COST_MAX, number) for number in range(len(same))
    ]
