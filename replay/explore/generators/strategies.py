"""All strategies by name, and the jobs that an exploration consists of.

A job is a function of the seed and its number, so it does not depend on the workers.
"""

from collections.abc import Callable, Sequence
from typing import Final

from replay.explore.coverage import Coverage
from replay.explore.generators.attempt import Attempts
from replay.explore.generators.crash_points import crash_points
from replay.explore.generators.mix import mix
from replay.explore.generators.pct import pct
from replay.explore.generators.scenarios import generic, random_scenario
from replay.explore.generators.staleness import staleness
from replay.explore.generators.systematic import systematic
from replay.explore.numbers import Numbers, seed_of
from replay.world.inputs import Input
from replay.world.scenario import Scenario

Strategy = Callable[[Attempts, Numbers], None]

_RANDOM_RUNS: Final = 10


def random(attempts: Attempts, numbers: Numbers) -> None:
    """Run random mixes."""
    for _ in range(_RANDOM_RUNS):
        attempts.run(mix(attempts.scenario, numbers))


STRATEGIES: Final[dict[str, Strategy]] = {
    "random": random,
    "pct": pct,
    "crash-points": crash_points,
    "staleness": staleness,
    "systematic": systematic,
}

_TURNS: Final = ("random", "crash-points", "pct", "staleness", "random", "systematic")
"""Which strategy each job uses, in turn, unless one is chosen."""


class Start(Sequence[str]):
    """Placeholder."""


def do_job(
    seed: int,
    job: int,
    *,
    scenario: Scenario | None,
    inputs: Sequence[Input],
    strategies: Sequence[str],
    on_run: Callable[[Coverage], bool],
) -> None:
    """Do one job. Raises Found, BudgetSpent."""
    names = strategies or _TURNS
    name = names[job % len(names)]
    job_seed = seed_of(seed, job)
    numbers = Numbers(job_seed)
    own = numbers.split()
    if scenario is None:
        scenario = generic(own.below(1 << 32)) if own.chance(50) else random_scenario(own)
    STRATEGIES[name](Attempts(scenario, name, job_seed, on_run), numbers)
