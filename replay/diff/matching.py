"""Finds the decisions that two versions have in common, by content and not by position."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from replay.diff.messages import Decision
from replay.diff.version.decisions import ZOOKEEPER

_REORDERED_MAX: Final = 1000
"""The number of reordered decisions that are reported. There are rarely any."""

Pair = tuple[int, int]
"""The positions of a decision in base and in head."""


class ReorderedDecision(Struct, frozen=True):
    """A decision in another order. It comes before the decision `passes` in one version and after
    it in the other. `is_harmless`: no broker or client can observe the difference."""

    pair: Pair
    passes: Pair
    is_harmless: bool


class MatchedDecisions(Struct):
    """The decisions of both versions, and the positions of those that only one version has."""

    pairs: list[Pair] = field(default_factory=list)
    reordered: list[ReorderedDecision] = field(default_factory=list)
    base_only: list[int] = field(default_factory=list)
    head_only: list[int] = field(default_factory=list)


def match(base: Sequence[Decision], head: Sequence[Decision]) -> MatchedDecisions:
    """Match decisions at the same event of the log, then the others in order."""
    if [one.key for one in base] == [one.key for one in head]:
        return MatchedDecisions([(place, place) for place in range(len(base))])
    matched = MatchedDecisions()
    partner: dict[int, int] = {}
    left = _pair_off(range(len(base)), range(len(head)), base, head, partner, at_event=True)
    left = _pair_off(*left, base, head, partner, at_event=False)
    matched.pairs = sorted(partner.items())
    matched.base_only, matched.head_only = left
    matched.reordered = list(_reordered_decisions(matched.pairs, base, head))
    return matched


def _pair_off(
    base_places: Sequence[int],
    head_places: Sequence[int],
    base: Sequence[Decision],
    head: Sequence[Decision],
    partner: dict[int, int],
    *,
    at_event: bool,
) -> tuple[list[int], list[int]]:
    """Pair decisions with the same content in order. Return the positions that remain."""
    waiting: dict[tuple[bytes, int], list[int]] = defaultdict(list)
    for place in reversed(head_places):
        waiting[head[place].key, head[place].seq if at_event else 0].append(place)
    left = []
    for place in base_places:
        same = waiting.get((base[place].key, base[place].seq if at_event else 0))
        if same:
            partner[place] = same.pop()
        else:
            left.append(place)
    return left, sorted(place for places in waiting.values() for place in places)


# Another order ------------------------------------------------------------------------------------


def _reordered_decisions(
    pairs: Sequence[Pair], base: Sequence[Decision], head: Sequence[Decision]
) -> Iterator[ReorderedDecision]:
    """The decisions without which the others are in the same order."""
    kept = dict.fromkeys(_longest_increasing([there for _, there in pairs]))
    staying = [pairs[number] for number in kept]
    moved = [pair for number, pair in enumerate(pairs) if number not in kept]
    for pair in moved[:_REORDERED_MAX]:
        # It passes one at least: the longest sequence would have it otherwise.
        passed = [one for one in staying if (one[0] < pair[0]) != (one[1] < pair[1])]
        harmful = [one for one in passed if not _is_harmless(pair, one, base, head)]
        yield ReorderedDecision(pair, (harmful or passed)[0], not harmful)


def _is_harmless(
    one: Pair, other: Pair, base: Sequence[Decision], head: Sequence[Decision]
) -> bool:
    """Whether the order of two decisions cannot be observed. Order matters within a channel. Across
    channels, a decision after ZooKeeper's reply to a write may depend on the reply."""
    first, second = base[one[0]], base[other[0]]
    if first.channel == second.channel:
        return False
    if ZOOKEEPER not in (first.channel, second.channel):
        return True
    return first.turn == second.turn and head[one[1]].turn == head[other[1]].turn


def _longest_increasing(values: Sequence[int]) -> list[int]:
    """The positions of a longest increasing subsequence of distinct numbers."""
    ends: list[int] = []
    at_end: list[int] = []
    before: list[int] = []
    for place, value in enumerate(values):
        length = bisect_left(ends, value)
        before.append(at_end[length - 1] if length else -1)
        if length == len(ends):
            ends.append(value)
            at_end.append(place)
        else:
            ends[length], at_end[length] = value, place
    place = at_end[-1] if at_end else -1
    found = []
    while place >= 0:
        found.append(place)
        place = before[place]
    return found[::-1]
