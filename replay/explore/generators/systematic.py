"""Systematic search: every order of racing messages, up to a number of forced orders.

A forced order delays the earlier of two racing messages until after the later one. Only orders of
dependent messages are forced, and a run whose trace is equivalent to an earlier one is not taken
further: these are the ideas of persistent and sleep sets.

Source: Godefroid: Partial-order methods for the verification of concurrent systems (1996).
"""

from collections import deque
from typing import Final

from replay.explore.generators.attempt import Attempts
from replay.explore.generators.trace import Race, Trace
from replay.explore.numbers import RandomNumbers
from replay.world.inputs import Delay, Input
from replay.world.scheduler import MS, SECOND

RUNS: Final = 24
"""Runs for one base run."""

_ORDERS_MAX: Final = 3
_RACES_MAX: Final = 12
"""Races of one run that are reversed; chosen at random among all."""

_WINDOW_US: Final = SECOND // 2
_AROUND_MS: Final = (50, 4_000)
"""Races are reversed from the first time before an input to the second time after it."""


def systematic(attempts: Attempts, numbers: RandomNumbers) -> None:
    """Run base inputs, then reverse the races of its runs, breadth first."""
    inputs = attempts.inputs(numbers)
    seen: dict[int, None] = {}
    # Bounded by the number of runs times the races of each.
    waiting: deque[tuple[Input, ...]] = deque([()])
    for _ in range(RUNS):
        if not waiting:
            return
        orders = waiting.popleft()
        trace = Trace(attempts.trace([*inputs, *orders]).deliveries)
        digest = trace.digest()
        if digest in seen:
            continue
        seen[digest] = None
        if len(orders) < _ORDERS_MAX:
            races = [one for one in trace.races(_WINDOW_US) if _is_near(one, inputs)]
            waiting.extend((*orders, reversal(one)) for one in numbers.sample(races, _RACES_MAX))


def reversal(race: Race) -> Input:
    """The order in which the second message of a race arrives first."""
    late_us = race.second.at_us - race.first.at_us
    return Delay(0, race.first.link, race.first.number, late_us // MS + 1)


def _is_near(race: Race, inputs: list[Input]) -> bool:
    at_ms = race.first.at_us // MS
    before, after = _AROUND_MS
    return any(one.at_ms - before <= at_ms <= one.at_ms + after for one in inputs)
