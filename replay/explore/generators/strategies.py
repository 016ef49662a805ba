"""All strategies by name, and the jobs that an exploration consists of.

A job is a function of the seed and its number, so it does not depend on the workers.
"""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct

from replay.explore.coverage import Coverage
from replay.explore.generators.attempt import Attempts
from replay.explore.generators.crash_points import crash_points
from replay.explore.generators.disturbance import disturb
from replay.explore.generators.mix import random_mix
from replay.explore.generators.pct import pct
from replay.explore.generators.scenarios import random_generic, random_scenario
from replay.explore.generators.staleness import staleness
from replay.explore.generators.systematic import systematic
from replay.explore.generators.variation import vary_times
from replay.explore.numbers import RandomNumbers, seed_of
from replay.world.inputs import Input
from replay.world.scenario import Scenario

Strategy = Callable[[Attempts, RandomNumbers], None]

_RANDOM_RUNS: Final = 32


def random(attempts: Attempts, numbers: RandomNumbers) -> None:
    """Run inputs as they are."""
    for _ in range(_RANDOM_RUNS):
        attempts.run(attempts.inputs(numbers))


STRATEGIES: Final[dict[str, Strategy]] = {
    "random": random,
    "disturbances": disturb,
    "pct": pct,
    "crash-points": crash_points,
    "staleness": staleness,
    "systematic": systematic,
}

_TURNS: Final = (
    "random",
    "disturbances",
    "random",
    "crash-points",
    "disturbances",
    "random",
    "pct",
    "disturbances",
    "random",
    "staleness",
    "disturbances",
    "systematic",
)
"""Which strategy each job uses, in turn, unless some are chosen."""


class ExplorationStart(Struct, frozen=True):
    """The start of an exploration. Without a scenario, each job makes one. Without inputs, each job
    makes a random mix; otherwise it varies these."""

    scenario: Scenario | None = None
    inputs: tuple[Input, ...] = ()
    strategies: tuple[str, ...] = ()


def do_job(
    start: ExplorationStart, seed: int, job: int, on_run: Callable[[Coverage], bool]
) -> None:
    """Do one job. Raises ViolationFound, BudgetSpent."""
    names: Sequence[str] = start.strategies or _TURNS
    name = names[job % len(names)]
    job_seed = seed_of(seed, job)
    numbers = RandomNumbers(job_seed)
    scenario = start.scenario
    if scenario is None:
        of_cluster = numbers.split()
        is_generic = of_cluster.chance(50)
        scenario = random_generic(of_cluster) if is_generic else random_scenario(of_cluster)
    given = start.inputs
    base = (lambda of, more: vary_times(given, more, of)) if given else random_mix
    STRATEGIES[name](Attempts(scenario, name, job_seed, base, on_run), numbers)
