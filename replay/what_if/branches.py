"""The futures of a moment: what follows in the log happens or not, at slightly other times.

Future n of one moment and future n of another one decide alike about each cause. So the share of
bad futures changes only at a cause, or at a decision of the controller.
"""

import zlib
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct

from replay.errors import ReplayError
from replay.explore.generators.variation import varied
from replay.explore.numbers import Numbers, seed_of
from replay.what_if.causes import Cause
from replay.what_if.conditions import Condition, holds
from replay.what_if.starting import Continuation, inputs_of, scenario_with

HAPPENS_PERCENT: Final = 50
"""How likely a later cause of the log happens in a future."""


class Branch(Struct, frozen=True):
    """Some futures of a moment: those from number `first` on."""

    begun: Continuation
    condition: Condition
    seed: int
    first: int
    futures: int


class Futures(Struct, frozen=True):
    """The result: how many futures were run, in how many of them the outcome was bad, and in how
    many the controller's code failed. `causes`: how many causes they had together."""

    futures: int = 0
    bad: int = 0
    failed: int = 0

    def plus(self, other: "Futures") -> "Futures":
        """The sum of both."""
        return Futures(
            self.futures + other.futures, self.bad + other.bad, self.failed + other.failed
        )


def run_branch(branch: Branch) -> Futures:
    """Run the futures of a branch. A function of its argument, also in another process."""
    bad = failed = 0
    for number in range(branch.first, branch.first + branch.futures):
        causes = future_causes(branch.begun.causes, branch.seed, number)
        begun = branch.begun
        try:
            inputs = inputs_of(begun, causes)
            scenario = scenario_with(begun, causes)
            bad += holds(branch.condition, scenario, inputs, begun.begin_ms)
        except ReplayError:
            failed += 1
    return Futures(branch.futures, bad, failed)


def future_causes(causes: Sequence[Cause], seed: int, number: int) -> list[Cause]:
    """The causes of one future, in the order of their times."""
    found: list[Cause] = []
    for cause in causes:
        if cause.is_certain:
            found.append(cause)
            continue
        numbers = Numbers(seed_of(seed, number) ^ _key(cause))
        if numbers.chance(HAPPENS_PERCENT):
            found += varied([cause], numbers)
    return sorted(found, key=lambda one: one.at_ms)


def _key(cause: Cause) -> int:
    """A number of a cause that is the same from each moment."""
    return zlib.crc32(msgspec.json.encode(cause)) << 20
