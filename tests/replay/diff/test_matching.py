"""Decisions of two versions are matched by content, and decisions in another order are found."""

from itertools import combinations, permutations

import pytest

from replay.diff.matching import Pair, match
from replay.diff.messages import Decision
from tests.replay.diff.samples import decision


def writes(names: str) -> list[Decision]:
    """Writes at one event. Each letter is the content of a write."""
    return [decision(name) for name in names]


def longest_in_order(names: tuple[str, ...]) -> int:
    """The largest number of names that are in alphabetical order."""
    return next(
        length
        for length in range(len(names), 0, -1)
        if any(list(some) == sorted(some) for some in combinations(names, length))
    )


def test_decisions_of_one_version_have_no_partner() -> None:
    found = match(writes("axbc"), writes("abycz"))
    assert found.pairs == [(0, 0), (2, 1), (3, 3)]
    assert (found.base_only, found.head_only) == ([1], [2, 4])
    assert found.reordered == []


def test_versions_without_a_common_decision_have_no_pairs() -> None:
    found = match(writes("ab"), writes("xyz"))
    assert (found.pairs, found.reordered) == ([], [])
    assert (found.base_only, found.head_only) == ([0, 1], [0, 1, 2])


def test_repeated_decision_is_matched_at_the_same_event() -> None:
    found = match([decision("a", seq=1), decision("a", seq=5)], [decision("a", seq=5)])
    assert (found.pairs, found.base_only) == ([(1, 0)], [0])


def test_repeated_decision_at_other_events_is_matched_in_order() -> None:
    base = [decision("a", seq=1), decision("a", seq=2)]
    head = [decision("b", seq=3), decision("a", seq=3), decision("a", seq=4)]
    found = match(base, head)
    assert (found.pairs, found.head_only) == ([(0, 1), (1, 2)], [0])


def test_repeated_decision_that_both_versions_make_equally_often_is_not_reordered() -> None:
    base = [decision("a", seq=1), decision("a", seq=2)]
    head = [decision("a", seq=2), decision("a", seq=3)]
    found = match(base, head)
    assert (found.pairs, found.reordered) == ([(0, 0), (1, 1)], [])


# Another order ------------------------------------------------------------------------------------


def test_fewest_decisions_are_reordered() -> None:
    for names in permutations("abcde"):
        found = match(writes("abcde"), writes("".join(names)))
        moved = {one.pair for one in found.reordered}
        kept = [there for here, there in found.pairs if (here, there) not in moved]
        assert kept == sorted(kept), names
        assert len(kept) == longest_in_order(names), names


@pytest.mark.parametrize(
    ("head", "moved", "passed"),
    [("wwwwacdb", (1, 7), (2, 5)), ("wwwwdabc", (3, 4), (0, 5)), ("adbc", (3, 1), (1, 2))],
)
def test_reordered_decision_passes_the_first_of_the_others(
    head: str, moved: Pair, passed: Pair
) -> None:
    [found] = match(writes("abcd"), writes(head)).reordered
    assert (found.pair, found.passes) == (moved, passed)


def test_reordered_decision_passes_a_harmful_one_rather_than_a_harmless_one() -> None:
    moved, last = decision("a", channel="broker 1"), decision("c", channel="broker 1")
    harmless = decision("b", channel="broker 2")
    [found] = match([moved, harmless, last], [harmless, last, moved]).reordered
    assert (found.passes, found.is_harmless) == ((2, 1), False)


def test_reordering_after_a_thousand_equal_decisions_is_found() -> None:
    same = writes("s") * 1000
    found = match([*same, *writes("abc")], [*same, *writes("bca")])
    assert [one.pair for one in found.reordered] == [(1000, 1002)]


ONE_TURN = (1, 1)


@pytest.mark.parametrize(
    ("channels", "base_turns", "head_turns", "is_harmless"),
    [
        (("zookeeper", "zookeeper"), ONE_TURN, ONE_TURN, False),
        (("broker 1", "broker 1"), ONE_TURN, ONE_TURN, False),
        (("broker 1", "broker 2"), (1, 2), (2, 1), True),
        (("zookeeper", "broker 1"), ONE_TURN, ONE_TURN, True),
        (("broker 1", "zookeeper"), ONE_TURN, ONE_TURN, True),
        (("zookeeper", "broker 1"), (1, 2), ONE_TURN, False),
        (("zookeeper", "broker 1"), ONE_TURN, (2, 1), False),
        (("broker 1", "zookeeper"), (1, 2), (2, 1), False),
    ],
)
def test_reordering_is_harmless_across_brokers_or_with_a_write_of_the_same_turn(
    channels: tuple[str, str],
    base_turns: tuple[int, int],
    head_turns: tuple[int, int],
    is_harmless: bool,
) -> None:
    """The turns are those of the same two decisions in each version."""
    base, head = (
        [
            decision(name, channel=channel, turn=turn)
            for name, channel, turn in zip("ab", channels, turns, strict=True)
        ]
        for turns in (base_turns, head_turns)
    )
    [found] = match(base, head[::-1]).reordered
    assert found.is_harmless is is_harmless
