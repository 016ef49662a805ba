"""A random mix of faults and acts of administrators.

Times are not spread evenly: most inputs fall close to one of a few moments, because races need
several things at once.
"""

from typing import Final

from replay.explore.generators.acts import ActMaker
from replay.explore.generators.ending import with_refold_at_end
from replay.explore.generators.faults import FaultMaker
from replay.explore.generators.patterns import Patterns
from replay.explore.numbers import RandomNumbers
from replay.world.inputs import Input
from replay.world.scenario import Scenario

START_MS: Final = 3_000
"""When the first input may happen: the cluster has a controller and leaders."""

_SPREAD_MS: Final = (0, 5, 30, 200, 1_000, 3_000)
_FAULTS_PERCENT: Final = 60
_PATTERN_PERCENT: Final = 85
_ALONE_PERCENT: Final = 60
"""How often nothing else happens near a pattern. Other inputs often stop what it aims at."""


def random_mix(scenario: Scenario, numbers: RandomNumbers) -> list[Input]:
    """A pattern with other inputs, two patterns that are far from each other, or other inputs, in
    the order of their times."""
    faults, acts = FaultMaker(scenario, numbers), ActMaker(scenario, numbers)
    moments = [
        numbers.between(START_MS, scenario.active_ms - 1) for _ in range(numbers.between(1, 4))
    ]
    made: list[Input] = []
    faults.draw_focus()
    others = numbers.between(2, 12)
    if numbers.chance(_PATTERN_PERCENT):
        patterns = Patterns(scenario, numbers)
        at_ms = numbers.choice(moments)
        made += patterns.make(at_ms)
        if made and numbers.chance(_ALONE_PERCENT):
            others = 0
            made += patterns.make(_far_from(at_ms, scenario))
    for _ in range(others):
        moment = numbers.choice(moments) + numbers.below(1 + numbers.choice(_SPREAD_MS))
        at_ms = scenario.nearest_active_ms(moment)
        if numbers.chance(_FAULTS_PERCENT):
            made.append(faults.make(at_ms))
        else:
            made += acts.make(at_ms)
    return with_refold_at_end(scenario, in_order(scenario, made), numbers)


def _far_from(at_ms: int, scenario: Scenario) -> int:
    """A moment in the other half of the time in which inputs happen."""
    span_ms = scenario.active_ms - START_MS
    return START_MS + (at_ms - START_MS + span_ms // 2) % span_ms


def in_order(scenario: Scenario, inputs: list[Input]) -> list[Input]:
    """The inputs by time, without those after the active part of the scenario."""
    kept = [one for one in inputs if one.at_ms < scenario.active_ms]
    return sorted(kept, key=lambda one: one.at_ms)
