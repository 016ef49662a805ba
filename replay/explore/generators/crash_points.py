"""Crash points: the controller ends before or after each of its acts, with each kind of successor.

An act is a write to ZooKeeper or a request to a broker. Acts of the same kind in the same procedure
are one crash point (coverage); the first of each is tried first.
"""

from collections.abc import Iterator
from typing import Final, Literal

from replay.explore.coverage import Act
from replay.explore.generators.attempt import Attempts
from replay.explore.generators.ending import with_refold_at_end
from replay.explore.numbers import Numbers
from replay.world.inputs import NONE, SAME, CrashController, Input
from replay.world.scenario import Scenario

RUNS: Final = 24
"""Runs for one base run."""

_RESTARTS_MS: Final = (50, 2_000, 8_000)


def crash_points(attempts: Attempts, numbers: Numbers) -> None:
    """Run base inputs, then the same with a crash at one of the acts of its controllers."""
    inputs, traced = attempts.richest(numbers)
    for crash in _chosen(attempts.scenario, traced.acts, numbers):
        attempts.run(with_refold_at_end(attempts.scenario, [crash, *inputs], numbers))


def _chosen(scenario: Scenario, acts: dict[str, list[Act]], numbers: Numbers) -> Iterator[Input]:
    """First acts of each kind, in a random order, then any."""
    firsts: dict[tuple[str, str], Act] = {}
    for process, done in acts.items():
        for act in done:
            firsts.setdefault((process, act.point), act)
    every = [(process, act) for process, done in acts.items() for act in done]
    chosen = [(process, act) for (process, _), act in firsts.items()]
    chosen = numbers.sample(chosen, RUNS)
    while every and len(chosen) < RUNS:
        chosen.append(numbers.choice(every))
    for process, act in chosen:
        yield crash_at(scenario, process, act.number, numbers)


def crash_at(scenario: Scenario, process: str, act: int, numbers: Numbers) -> Input:
    """A crash at an act, counted from the start of the run."""
    others = [one.process for one in scenario.controllers if one.process != process]
    successor = numbers.choice((SAME, SAME, NONE, *others, *others))
    when: Literal["before", "after"] = "before" if numbers.chance(50) else "after"
    return CrashController(0, process, act, when, successor, numbers.choice(_RESTARTS_MS))
