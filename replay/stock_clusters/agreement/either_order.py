"""Where no log tells which of two waiting events was taken first, or when something was read: the
other orders, tried out.

The order that is chosen does not look at what Kafka decided. Only where the fold did not do the
same the comparison runs again, with one choice made otherwise, to see whether that fits: then it
explains the divergence (explaining.EITHER_ORDER), and the comparison goes on in that order.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from msgspec import structs

from replay.stock_clusters.agreement.explaining import EITHER_ORDER
from replay.stock_clusters.agreement.order import Chosen, Order, Turn
from replay.stock_clusters.agreement.results import AgreementResult, Divergence

_CHOICES_MAX: Final = 10
"""That are looked at for a divergence: the last ones."""
_RECORDS_BEHIND: Final = 100
"""How far behind a choice the fold may begin what shows that it was another one."""
_MOMENTS_MAX: Final = 4
_CHANGES_MAX: Final = 3
"""Choices of one race that are made otherwise."""
_GIVEN_UP_MAX: Final = 5
"""Divergences that no order explains: with more, it is not the order."""
RUNS_MAX: Final = 100
_RECORDS_MAX: Final = 500_000
"""That are walked through in all runs after the first."""

Compare = Callable[[Order], AgreementResult]


def in_the_order_that_fits(compare: Compare, records: int, runs: int = RUNS_MAX) -> AgreementResult:
    """The comparison of a log with so many records, in the order that leads to what Kafka did; at
    most so many others are tried."""
    return _Search(compare, min(runs, _RECORDS_MAX // max(records, 1))).result()


class _Try(NamedTuple):
    order: Order
    result: AgreementResult


class _Search:
    def __init__(self, compare: Compare, runs: int) -> None:
        self._compare = compare
        self._runs = runs
        self._best = self._try({})
        self._explained: list[Divergence] = []

    def result(self) -> AgreementResult:
        given_up: set[Divergence] = set()
        tried = 0
        while self._runs > 0 and tried < _GIVEN_UP_MAX:
            found = self._first_but(given_up)
            if found is None:
                break
            said = [
                one for one in self._best.result.divergences if one.batch_key == found.batch_key
            ]
            other = self._without(found, self._best, _CHANGES_MAX)
            if other is None:
                given_up.update(said)
                tried += 1
            else:
                self._explained += [one for one in said if one not in other.result.divergences]
                self._best = other
        result = self._best.result
        for one in self._explained:
            result.explain(structs.replace(one, explained=EITHER_ORDER.name))
        return result

    def _first_but(self, given_up: set[Divergence]) -> Divergence | None:
        divergences = self._best.result.divergences
        return next((one for one in divergences if one not in given_up), None)

    def _try(self, instead: Mapping[Turn, int]) -> _Try:
        order = Order(instead, is_noted=self._runs > 0)
        return _Try(order, self._compare(order))

    def _without(self, divergence: Divergence, before: _Try, changes: int) -> _Try | None:
        """An order in which a divergence is gone, and less is left than in the best one so far."""
        for instead in _otherwise(before.order, divergence):
            if self._runs <= 0:
                return None
            self._runs -= 1
            other = self._try({**before.order.instead, **instead})
            if divergence in other.result.divergences:
                continue
            if len(other.result.divergences) < len(self._best.result.divergences):
                return other
            new = _new(other.result, before.result)
            if new and changes > 1:
                found = self._without(new[0], other, changes - 1)
                if found is not None:
                    return found
        return None


def _otherwise(order: Order, divergence: Divergence) -> Iterator[Mapping[Turn, int]]:
    """What may have been at another time: the last choices before the divergence, those of what the
    fold was at first."""
    chosen = [
        one
        for one in order.chosen.values()
        if one.broker == divergence.controller
        and one.since <= divergence.seq
        and divergence.since <= one.at + _RECORDS_BEHIND
    ]
    chosen = [_within(divergence, one) if one.is_logged else one for one in chosen]
    chosen.sort(
        key=lambda one: (one.at >= divergence.since, _is_about(one, divergence), one.at),
        reverse=True,
    )
    others = ((one, _moments(order, one, divergence.seq)) for one in chosen)
    for one, moments in islice((each for each in others if each[1]), _CHOICES_MAX):
        for at in moments[:_MOMENTS_MAX]:
            listed = _listed_by(one, order)
            if listed is not None and at < one.at:
                yield {one.turn: at, listed: at}
            yield {one.turn: at}


def _listed_by(chosen: Chosen, order: Order) -> Turn | None:
    """The next reading, if it is of the znodes that this one has listed: it comes at once."""
    turn = chosen.turn._replace(read=chosen.turn.read + 1)
    following = order.chosen.get(turn) if chosen.turn.read else None
    if following is None or not following.paths:
        return None
    is_listed = all(
        any(path.startswith(f"{one}/") for one in chosen.paths) for path in following.paths
    )
    return turn if is_listed else None


def _is_about(chosen: Chosen, divergence: Divergence) -> bool:
    return bool(_within(divergence, chosen).paths)


def _within(divergence: Divergence, chosen: Chosen) -> Chosen:
    """The reading of those znodes that a divergence is about."""
    about = [one for one in chosen.paths if any(each.startswith(one) for each in divergence.paths)]
    return chosen._replace(paths=about)


def _moments(order: Order, chosen: Chosen, until: int) -> list[int]:
    """When a turn may have been instead: what is read, while it was otherwise; an event at once, or
    behind those that were taken after it."""
    known = {chosen.at, order.instead.get(chosen.turn)}
    if chosen.turn.read:
        changed = order.changes_of(chosen.paths, chosen.since, max(chosen.at, until))
        earlier = [one for one in changed if one <= chosen.at]
        later = [one + 1 for one in changed if one > chosen.at and not chosen.is_latest]
        return [one for one in earlier[::-1] + later if one not in known]
    following = sorted(
        one.at
        for one in order.chosen.values()
        if one.turn.session == chosen.turn.session
        and not one.turn.read
        and chosen.at <= one.at <= until
        and one.turn != chosen.turn
    )
    moments = dict.fromkeys([chosen.since, *(at + 1 for at in following), until])
    return [at for at in moments if at not in known]


def _new(after: AgreementResult, before: AgreementResult) -> list[Divergence]:
    """The divergences that were not there before, in order."""
    new = Counter(after.divergences) - Counter(before.divergences)
    return sorted(new, key=lambda one: one.seq)
