"""Aligns two sequences that should be equal: what refold derives, and what the stock cluster did.

The alignment has the least cost. A pair that is similar but not equal costs less than an unpaired
stock entry, so it is reported as one difference, also at the end of a beginning. An unpaired
entry on each side costs less than two such pairs, so a moved entry is not mixed up with its
neighbours. The algorithm follows the furthest-reaching diagonals (Ukkonen 1985); its time is that
of one pass plus the square of the cost. If the cost exceeds COST_MAX, the first half of the best
path so far is kept, and the search begins again after it.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, Generic, NamedTuple, TypeVar

Item = TypeVar("Item")
Pair = tuple[int | None, int | None]

COST_MAX: Final = 60

REFOLD_LEFT_OVER: Final = 1
STOCK_LEFT_OVER: Final = 4
ALIKE: Final = 3

_SLIDE_MAX: Final = 1_000


class _FurthestPoint(NamedTuple):
    """The furthest place on a diagonal for a cost: one step after `came_from`, then along equal
    entries."""

    refold: int
    stock: int
    came_from: "_FurthestPoint | None"


def align(
    refold: Sequence[Item],
    stock: Sequence[Item],
    agree: Callable[[Item, Item], bool],
    alike: Callable[[Item, Item], bool],
    *,
    is_beginning: bool = False,
) -> list[Pair]:
    """Pairs of indexes in order; None for an unpaired entry.

    `is_beginning`: `stock` is only the beginning, and the remaining entries of `refold` cost
    nothing.
    """
    walk = _Walk(refold, stock, agree, alike, is_beginning)
    placed: list[Pair] = []
    left_over = 0
    for i, j in _cheapest(walk):
        placed.append((i, j))
        step = (i is not None) - (j is not None)
        if step * left_over < 0:
            _slide_back(placed, lambda i, j: agree(refold[i], stock[j]))
        left_over += step
    rest = range(sum(i is not None for i, _ in placed), len(refold))
    return [*placed, *((i, None) for i in rest)]


def _cheapest(walk: "_Walk[Item]") -> Iterator[Pair]:
    """The pairs up to the end, or up to the end of the stock sequence if that is a beginning."""
    start = _FurthestPoint(0, 0, None)
    at = walk.follow_equal(start)
    yield from _pairs(start, at)
    while not walk.is_at_end(at):
        start = _FurthestPoint(at.refold, at.stock, None)
        at = walk.on_from(start)
        yield from _path(at)


def _slide_back(placed: list[Pair], agree: Callable[[int, int], bool]) -> None:
    """Leave the first of a run of equal entries unpaired instead of the last.

    The first one is next to the unpaired entry of the other side before the run, so the entry
    moves no further than necessary.
    """
    for at in range(len(placed) - 1, max(0, len(placed) - _SLIDE_MAX), -1):
        (i, j), (refold, stock) = placed[at], placed[at - 1]
        if refold is None or stock is None:
            return
        if not agree(refold if i is None else i, stock if j is None else j):
            return
        placed[at - 1 : at + 1] = (
            [(refold, None), (i, stock)] if j is None else [(None, stock), (refold, j)]
        )


class _Walk(Generic[Item]):
    """Searches from a place along all diagonals, with increasing cost."""

    def __init__(
        self,
        refold: Sequence[Item],
        stock: Sequence[Item],
        agree: Callable[[Item, Item], bool],
        alike: Callable[[Item, Item], bool],
        is_beginning: bool,
    ) -> None:
        self._refold = refold
        self._stock = stock
        self._agree = agree
        self._alike = alike
        self._is_beginning = is_beginning

    def is_at_end(self, at: _FurthestPoint) -> bool:
        is_refold_at_end = self._is_beginning or at.refold == len(self._refold)
        return is_refold_at_end and at.stock == len(self._stock)

    def follow_equal(self, at: _FurthestPoint) -> _FurthestPoint:
        """The furthest point after `at` that is reached by pairing equal requests of both sides."""
        refold, stock, agree = self._refold, self._stock, self._agree
        i, j = at.refold, at.stock
        end = min(len(refold), i + len(stock) - j)
        while i < end and agree(refold[i], stock[j]):
            i, j = i + 1, j + 1
        return _FurthestPoint(i, j, at.came_from)

    def on_from(self, start: _FurthestPoint) -> _FurthestPoint:
        """The end, or the furthest place when the cost gets too high."""
        frontiers: list[list[_FurthestPoint]] = [[start]]
        furthest = {start.refold - start.stock: start.refold}
        while len(frontiers) <= COST_MAX:
            frontier: dict[int, _FurthestPoint] = {}
            for step in self._steps(frontiers):
                diagonal = step.refold - step.stock
                if step.refold > furthest.get(diagonal, -1):
                    reached = frontier[diagonal] = self.follow_equal(step)
                    furthest[diagonal] = reached.refold
                    if self.is_at_end(reached):
                        return reached
            frontiers.append([*frontier.values()])
        furthest_on = max(
            (one for frontier in frontiers for one in frontier),
            key=lambda one: one.refold + one.stock,
        )
        # Later entries may change the last steps, but hardly the first ones.
        places = _places(furthest_on)
        return places[len(places) // 2]

    def _steps(self, frontiers: Sequence[Sequence[_FurthestPoint]]) -> Iterator[_FurthestPoint]:
        """Every step to the next cost, which is the number of frontiers."""
        for before in _last_but(ALIKE, frontiers):
            i, j = before.refold, before.stock
            is_inside = i < len(self._refold) and j < len(self._stock)
            if is_inside and self._alike(self._refold[i], self._stock[j]):
                yield _FurthestPoint(i + 1, j + 1, before)
        for before in _last_but(REFOLD_LEFT_OVER, frontiers):
            if before.refold < len(self._refold):
                yield _FurthestPoint(before.refold + 1, before.stock, before)
        for before in _last_but(STOCK_LEFT_OVER, frontiers):
            if before.stock < len(self._stock):
                yield _FurthestPoint(before.refold, before.stock + 1, before)


def _last_but(cost: int, frontiers: Sequence[Sequence[_FurthestPoint]]) -> Sequence[_FurthestPoint]:
    """The frontier from which a step of that cost leads to the next one."""
    return frontiers[-cost] if len(frontiers) >= cost else ()


def _path(at: _FurthestPoint) -> Iterator[Pair]:
    for before, to in pairwise(_places(at)):
        yield from _pairs(before, to)


def _places(at: _FurthestPoint) -> list[_FurthestPoint]:
    """The path to a place, from its beginning."""
    places = [at]
    while (before := places[-1].came_from) is not None:
        places.append(before)
    return places[::-1]


def _pairs(before: _FurthestPoint, to: _FurthestPoint) -> Iterator[Pair]:
    """A change of diagonal is an unpaired entry; the other steps are pairs."""
    i, j = before.refold, before.stock
    if to.refold - to.stock > i - j:
        yield i, None
        i += 1
    elif to.refold - to.stock < i - j:
        yield None, j
        j += 1
    yield from zip(range(i, to.refold), range(j, to.stock), strict=True)
