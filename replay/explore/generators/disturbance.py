"""Disturbances: faults and acts of administrators at the moments at which something happens.

A random mix seldom hits a procedure that takes a few milliseconds. Here base runs show when
controllers and brokers act, and each further run adds a few inputs around one or two of these
moments, most of them to the process that acts. Moments of a rare kind are as likely as those of a
frequent one.

A run that reaches a kind of moment that no run of the job has reached before is varied next, and
the new moments first. So a chain of faults is built up one by one, each aimed at what the one
before has caused.
"""

from typing import Final

from replay.explore.generators.acts import ActMaker, shared_znode
from replay.explore.generators.attempt import Attempts
from replay.explore.generators.ending import with_refold_at_end
from replay.explore.generators.faults import FaultMaker
from replay.explore.generators.injection_points import InjectionPoint, injection_points_of
from replay.explore.generators.mix import in_order
from replay.explore.numbers import RandomNumbers
from replay.world.inputs import Input
from replay.world.scenario import Scenario

BASES: Final = 3
"""Base runs of one job."""
RUNS: Final = 24
"""Further runs."""

_EARLIER_MS: Final = (0, 1, 2, 4, 8, 16, 30, 100, 500)
_LATER_MS: Final = (0, 1, 2, 4, 8, 16, 60, 1_000)
_FAULTS_PERCENT: Final = 65
_CONFLICTS_PERCENT: Final = 60
"""How often an act of an administrator is about what the controller writes at that moment."""
_WRITERS_PERCENT: Final = 35
"""How often an administrator writes what a controller writes, within a few milliseconds."""
_LAST_PERCENT: Final = 50
"""How often the run that was the last to reach something new is varied."""
_NEW_PERCENT: Final = 60
"""How often the moments are of a kind that this run was the first to reach."""
_INPUTS_MAX: Final = 30

PointsByKind = dict[str, list[InjectionPoint]]
"""By kind."""


class _Base:
    """A run that reached something new: `fresh` are the moments of the kinds that are new."""

    def __init__(self, inputs: list[Input], points: PointsByKind, fresh: PointsByKind) -> None:
        self.inputs = inputs
        self.points = points
        self.fresh = fresh


class _Bases:
    """The runs that are varied."""

    def __init__(self, attempts: Attempts, numbers: RandomNumbers) -> None:
        self._attempts = attempts
        self._numbers = numbers
        self._seen: dict[str, None] = {}
        self._bases: list[_Base] = []

    def run(self, inputs: list[Input]) -> None:
        """Run inputs. Raises ViolationFound, BudgetSpent."""
        traced = self._attempts.trace(inputs)
        points = injection_points_of(traced.acts, traced.deliveries)
        fresh = {kind: found for kind, found in points.items() if kind not in self._seen}
        if fresh:
            self._seen.update(dict.fromkeys(fresh))
            self._bases.append(_Base(inputs, points, fresh))

    def run_variation(self) -> None:
        """Run a variation of one of the bases. Raises ViolationFound, BudgetSpent."""
        numbers, scenario = self._numbers, self._attempts.scenario
        if not self._bases:
            self.run(self._attempts.inputs(numbers))
            return
        is_last = numbers.chance(_LAST_PERCENT)
        base = self._bases[-1] if is_last else numbers.choice(self._bases)
        points = base.fresh if numbers.chance(_NEW_PERCENT) else base.points
        kept = base.inputs
        if len(kept) > _INPUTS_MAX:
            kept = numbers.sample(kept, _INPUTS_MAX)
        more = inputs_at(scenario, list(points.values()), numbers)
        changed = in_order(scenario, [*kept, *more])
        self.run(with_refold_at_end(scenario, changed, numbers))


def disturb(attempts: Attempts, numbers: RandomNumbers) -> None:
    """Run base inputs, then the same with inputs around moments of these runs."""
    bases = _Bases(attempts, numbers)
    for _ in range(BASES):
        bases.run(attempts.inputs(numbers))
    for _ in range(RUNS):
        bases.run_variation()


def inputs_at(
    scenario: Scenario, points: list[list[InjectionPoint]], numbers: RandomNumbers
) -> list[Input]:
    """One to four inputs around one or two injection points."""
    faults, acts = FaultMaker(scenario, numbers), ActMaker(scenario, numbers)
    shared: dict[str, list[InjectionPoint]] = {}
    for found in points:
        znode = shared_znode(found[0].kind)
        if znode is not None:
            shared.setdefault(znode, []).extend(found)
    made: list[Input] = []
    for _ in range(numbers.between(1, 2)):
        if shared and numbers.chance(_WRITERS_PERCENT):
            one = numbers.choice(numbers.choice(list(shared.values())))
            made += acts.about(
                one.kind, scenario.nearest_active_ms(one.at_ms + numbers.between(-2, 1))
            )
            continue
        one = numbers.choice(numbers.choice(points))
        faults.focus = one.process
        for _ in range(numbers.between(1, 2)):
            offset = numbers.choice(_LATER_MS) - numbers.choice(_EARLIER_MS)
            moment = scenario.nearest_active_ms(one.at_ms + offset)
            if numbers.chance(_FAULTS_PERCENT):
                made += faults.make_aimed(moment)
            elif numbers.chance(_CONFLICTS_PERCENT):
                made += acts.about(one.kind, moment)
            else:
                made += acts.make(moment)
    return made
