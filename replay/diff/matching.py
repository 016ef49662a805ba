"""Which decisions of two versions are the same: by what they say, not by where they stand."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from replay.diff.messages import Decision
from replay.diff.version.decided import ZOOKEEPER

_MOVED_MAX: Final = 1000
"""Decisions in another order whose reasons are looked for; there are seldom any."""

Pair = tuple[int, int]
"""The places of a decision in base and in head."""


class Moved(Struct, frozen=True):
    """A decision in another order. `passes` is one that it stands before in one version and after
    in the other; `is_harmless`: nobody can tell the difference."""

    pair: Pair
    passes: Pair
    is_harmless: bool


class Matched(Struct):
    """Two versions' decisions: those of both, and the places of those that only one has."""

    pairs: list[Pair] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    base_only: list[int] = field(default_factory=list)
    head_only: list[int] = field(default_factory=list)


def match(base: Sequence[Decision], head: Sequence[Decision]) -> Matched:
    """Match decisions: those at the same event of the log first, then the others in order."""
    if [one.key for one in base] == [one.key for one in head]:
        return Matched([(place, place) for place in range(len(base))])
    matched = Matched()
    partner: dict[int, int] = {}
    left = _pair_off(range(len(base)), range(len(head)), base, head, partner, at_event=True)
    left = _pair_off(*left, base, head, partner, at_event=False)
    matched.pairs = sorted(partner.items())
    matched.base_only, matched.head_only = sorted(left[0]), sorted(left[1])
    matched.moved = list(_moved(matched.pairs, base, head))
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
    """Pair what says the same, first with first; the places that are left on both sides."""
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


def _moved(
    pairs: Sequence[Pair], base: Sequence[Decision], head: Sequence[Decision]
) -> Iterator[Moved]:
    """Those that have to be taken out for the rest to be in the same order."""
    kept = _longest_rising([there for _, there in pairs])
    if len(kept) == len(pairs):
        return
    staying = [pairs[number] for number in kept]
    moved = [pair for number, pair in enumerate(pairs) if number not in set(kept)]
    for pair in moved[:_MOVED_MAX]:
        passed = [one for one in staying if (one[0] < pair[0]) != (one[1] < pair[1])]
        if not passed:
            continue
        harmful = [one for one in passed if not _is_harmless(pair, one, base, head)]
        yield Moved(pair, (harmful or passed)[0], not harmful)


def _is_harmless(
    one: Pair, other: Pair, base: Sequence[Decision], head: Sequence[Decision]
) -> bool:
    """Order is promised within a channel. Across channels only ZooKeeper's answers make one: what
    is decided after the answer to a write may depend on it."""
    first, second = base[one[0]], base[other[0]]
    if first.channel == second.channel:
        return False
    if ZOOKEEPER not in (first.channel, second.channel):
        return True
    return first.turn == second.turn and head[one[1]].turn == head[other[1]].turn


def _longest_rising(values: Sequence[int]) -> list[int]:
    """The places of a longest rising sequence among different numbers."""
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
