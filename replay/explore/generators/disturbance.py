"""Disturbances: faults and acts of administrators at the moments at which controllers act.

A random mix seldom hits a procedure that takes a few milliseconds. Here a base run shows when the
controllers act, and each run adds a few inputs around one or two of these moments, most of them to
the process that acts. Acts of rare procedures are as likely as those of frequent ones.
"""

from typing import Final

from replay.explore.coverage import Act
from replay.explore.generators.acts import ActMaker
from replay.explore.generators.attempt import Attempts
from replay.explore.generators.faults import FaultMaker
from replay.explore.generators.mix import in_order
from replay.explore.numbers import Numbers
from replay.world.inputs import Input
from replay.world.scenario import Scenario

RUNS: Final = 24
"""Runs for one base run."""

_EARLIER_MS: Final = (0, 1, 2, 4, 8, 16, 30, 100, 500)
_LATER_MS: Final = (0, 1, 2, 4, 8, 16, 60, 1_000)
_FAULTS_PERCENT: Final = 65
_CONFLICTS_PERCENT: Final = 60
"""How often an act of an administrator is about what the controller writes at that moment."""

Moment = tuple[str, int, str]
"""A process, the time in milliseconds, and the kind of act."""


def disturb(attempts: Attempts, numbers: Numbers) -> None:
    """Run base inputs, then the same with inputs around acts of controllers."""
    inputs, traced = attempts.richest(numbers)
    moments = moments_of(traced.acts)
    if not moments:
        return
    for _ in range(RUNS):
        more = inputs_at(attempts.scenario, moments, numbers)
        attempts.run(in_order(attempts.scenario, [*inputs, *more]))


def moments_of(acts: dict[str, list[Act]]) -> list[list[Moment]]:
    """The moments of each kind of act."""
    kinds: dict[str, list[Moment]] = {}
    for process, done in acts.items():
        for act in done:
            kinds.setdefault(act.point, []).append((process, act.at_ms, act.point))
    return list(kinds.values())


def inputs_at(scenario: Scenario, moments: list[list[Moment]], numbers: Numbers) -> list[Input]:
    """One to four inputs around one or two moments."""
    faults, acts = FaultMaker(scenario, numbers), ActMaker(scenario, numbers)
    made: list[Input] = []
    for _ in range(numbers.between(1, 2)):
        process, at_ms, point = numbers.choice(numbers.choice(moments))
        faults.focus = process
        for _ in range(numbers.between(1, 2)):
            offset = numbers.choice(_LATER_MS) - numbers.choice(_EARLIER_MS)
            moment = min(max(0, at_ms + offset), scenario.active_ms - 1)
            if numbers.chance(_FAULTS_PERCENT):
                made.append(faults.make(moment))
            elif numbers.chance(_CONFLICTS_PERCENT):
                made += acts.about(point, moment)
            else:
                made += acts.make(moment)
    return made
