"""Crash points: the controller ends before or after each of its acts, with each kind of successor.

An act is a write to ZooKeeper or a request to a broker. Acts of the same kind in the same procedure
are one crash point (coverage). The rarest ones are tried first, because a later job may not have
them: those that the fewest of the base runs have.
"""

from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from replay.explore.coverage import ControllerAct
from replay.explore.generators.attempt import Attempts
from replay.explore.generators.ending import with_refold_at_end
from replay.explore.numbers import RandomNumbers
from replay.world.inputs import NONE, SAME, CrashController, Input
from replay.world.scenario import Scenario

BASES: Final = 8
"""Base runs of one job."""
RUNS: Final = 24
"""Further runs, each with a crash."""
RARE_RUNS: Final = 16
"""This many of them crash at the rarest points."""

_RESTARTS_MS: Final = (50, 2_000, 8_000)


class BaseRunAct(NamedTuple):
    """An act of a base run."""

    inputs: list[Input]
    process: str
    act: ControllerAct


def crash_points(attempts: Attempts, numbers: RandomNumbers) -> None:
    """Run base inputs, then the same with a crash at one of the acts of its controllers."""
    runs: list[tuple[list[Input], dict[str, list[ControllerAct]]]] = []
    for _ in range(BASES):
        inputs = attempts.inputs(numbers)
        acts = attempts.trace(inputs).acts
        # In the quiet part, no controller crashes.
        runs.append((inputs, {process: _active(done, attempts) for process, done in acts.items()}))
    for inputs, process, act in choose_acts(runs, numbers):
        crash = crash_at(attempts.scenario, process, act.number, numbers)
        attempts.run(with_refold_at_end(attempts.scenario, [crash, *inputs], numbers))


def _active(acts: list[ControllerAct], attempts: Attempts) -> list[ControllerAct]:
    return [one for one in acts if one.at_ms < attempts.scenario.active_ms]


def choose_acts(
    runs: list[tuple[list[Input], dict[str, list[ControllerAct]]]], numbers: RandomNumbers
) -> Iterator[BaseRunAct]:
    """One act of each crash point: those that the fewest runs have, then any others."""
    places: dict[str, list[list[BaseRunAct]]] = {}
    for inputs, acts in runs:
        of_run: dict[str, list[BaseRunAct]] = {}
        for process, done in acts.items():
            for act in done:
                of_run.setdefault(act.point, []).append(BaseRunAct(inputs, process, act))
        for point, found in of_run.items():
            places.setdefault(point, []).append(found)
    points = numbers.sample(list(places), len(places))
    rarest = sorted(points, key=lambda point: len(places[point]))[:RARE_RUNS]
    others = [one for one in points if one not in rarest]
    for point in (*rarest, *others[: RUNS - len(rarest)]):
        yield numbers.choice(numbers.choice(places[point]))


def crash_at(scenario: Scenario, process: str, act: int, numbers: RandomNumbers) -> Input:
    """A crash at an act, counted from the start of the run."""
    others = [one.process for one in scenario.controllers if one.process != process]
    successor = numbers.choice((SAME, SAME, NONE, *others, *others))
    when: Literal["before", "after"] = "before" if numbers.chance(50) else "after"
    return CrashController(0, process, act, when, successor, numbers.choice(_RESTARTS_MS))
