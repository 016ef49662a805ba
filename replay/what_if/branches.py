"""The futures of a moment: the later causes of the log happen or not, at slightly other times.

Future n of one moment and future n of another one decide alike about each cause. So the share of
bad futures changes only at a cause, or at a decision of the controller.
"""

import zlib
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Struct, structs

from replay.errors import ReplayError
from replay.explore.generators.variation import vary_times
from replay.explore.numbers import RandomNumbers, seed_of
from replay.what_if.causes import ExternalCause, moved
from replay.what_if.conditions import Condition, has_bad_outcome
from replay.what_if.starting import Continuation, inputs_of, scenario_with

HAPPENS_PERCENT: Final = 50
"""How likely a later cause of the log happens in a future."""


class FutureRange(Struct, frozen=True):
    """Some futures of the moment after event `seq`: those from number `first` on. The moment is at
    `at_ms` of a run, which may begin earlier."""

    seq: int
    at_ms: int
    continuation: Continuation
    condition: Condition
    seed: int
    first: int
    futures: int


class Futures(Struct, frozen=True):
    """The result: in how many futures the outcome was bad, and in how many the controller's code
    failed. `runs`: how many futures were run, because no other one has the same causes."""

    futures: int = 0
    bad: int = 0
    failed: int = 0
    runs: int = 0

    def __add__(self, other: "Futures") -> "Futures":
        """The sum of both."""
        return Futures(
            self.futures + other.futures,
            self.bad + other.bad,
            self.failed + other.failed,
            self.runs + other.runs,
        )


def run_branch(branch: FutureRange) -> Futures:
    """Run the futures of a branch. A function of its argument, also in another process."""
    found = Futures()
    known: dict[bytes, Futures] = {}
    for number in range(branch.first, branch.first + branch.futures):
        causes = future_causes(branch.continuation.causes, branch.seed, number)
        key = msgspec.json.encode(causes)
        if key in known:
            # A run is a function of its causes.
            found += structs.replace(known[key], runs=0)
        else:
            known[key] = _run_future(branch, causes)
            found += known[key]
    return found


def _run_future(branch: FutureRange, causes: Sequence[ExternalCause]) -> Futures:
    continuation = branch.continuation
    scenario, inputs = scenario_with(continuation, causes), inputs_of(continuation, causes)
    try:
        is_bad = has_bad_outcome(branch.condition, scenario, inputs, branch.at_ms)
    except ReplayError:
        return Futures(1, 0, 1, 1)
    return Futures(1, int(is_bad), 0, 1)


def future_causes(causes: Sequence[ExternalCause], seed: int, number: int) -> list[ExternalCause]:
    """The causes of one future, in the order of their times."""
    found: list[ExternalCause] = []
    for cause in causes:
        if cause.is_certain:
            found.append(cause)
            continue
        numbers = RandomNumbers(seed_of(seed, number) ^ _key(cause))
        if numbers.chance(HAPPENS_PERCENT):
            (varied,) = vary_times([cause], numbers)
            found.append(moved(cause, varied.at_ms - cause.at_ms))
    return sorted(found, key=lambda one: one.at_ms)


def _key(cause: ExternalCause) -> int:
    """A number of a cause that is the same from each moment."""
    return zlib.crc32(msgspec.json.encode(cause)) << 20
