"""Shrinking: the fewest inputs, and the smallest cluster, that still break the same invariant.

First the inputs: delta debugging removes parts of the list, ever smaller ones. Then the cluster:
fewer topics, partitions, controllers and brokers, less load, a shorter run. Then the values of the
inputs: shorter times. This is repeated until nothing more can be removed.

Source: Zeller, Hildebrandt: Simplifying and isolating failure-inducing input (IEEE TSE 2002).
"""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from msgspec import Struct

from controller.core.values import counted
from replay.explore.smaller_runs import simpler_inputs, smaller_clusters
from replay.progress import Progress, unreported
from replay.world.inputs import TimedInput
from replay.world.scenario import Scenario

T = TypeVar("T")
Input = TypeVar("Input", bound=TimedInput)

Breaks = Callable[[Scenario, Sequence[Input]], bool]
"""Whether a run breaks the invariant."""


class ShrunkRun(Struct, Generic[Input], frozen=True):
    """The result. `runs`: how many runs it took; `is_minimal`: there was time to try everything."""

    scenario: Scenario
    inputs: tuple[Input, ...]
    runs: int
    is_minimal: bool


class _OutOfTime(Exception):
    pass


def shrink(
    scenario: Scenario,
    inputs: Sequence[Input],
    breaks: Breaks[Input],
    *,
    seconds: float,
    report: Progress = unreported,
    now: Callable[[], float] = time.monotonic,
) -> ShrunkRun[Input]:
    """Shrink a run that breaks an invariant, until `seconds` are over, or Ctrl-C."""
    shrinking = _Shrinking(scenario, inputs, breaks, now() + seconds, report, now)
    try:
        shrinking.run()
        is_minimal = True
    except (_OutOfTime, KeyboardInterrupt):
        is_minimal = False
    return ShrunkRun(shrinking.scenario, tuple(shrinking.inputs), shrinking.runs, is_minimal)


class _Shrinking(Generic[Input]):
    def __init__(
        self,
        scenario: Scenario,
        inputs: Sequence[Input],
        breaks: Breaks[Input],
        end: float,
        report: Progress,
        now: Callable[[], float],
    ) -> None:
        self.scenario = scenario
        self.inputs = list(inputs)
        self.runs = 0
        self._breaks = breaks
        self._end = end
        self._report = report
        self._now = now

    def run(self) -> None:
        """Repeat all steps until none of them changes anything. Raises _OutOfTime."""
        while True:
            before = self.scenario, self.inputs
            self._shrink_inputs()
            self._shrink_while_it_breaks(self._clusters)
            self._shrink_while_it_breaks(self._values)
            if (self.scenario, self.inputs) == before:
                return

    def _shrink_inputs(self) -> None:
        if self._test(self.scenario, []):
            self.inputs = []
            return

        def test(some: list[Input]) -> bool:
            if not self._test(self.scenario, some):
                return False
            self.inputs = some
            return True

        ddmin(self.inputs, test)

    def _shrink_while_it_breaks(
        self, candidates: Callable[[], Iterator[tuple[Scenario, list[Input]]]]
    ) -> None:
        """Replace the run by the first smaller one that breaks, as long as there is one."""
        while True:
            for scenario, inputs in candidates():
                if self._test(scenario, inputs):
                    self.scenario, self.inputs = scenario, inputs
                    break
            else:
                return

    def _clusters(self) -> Iterator[tuple[Scenario, list[Input]]]:
        return smaller_clusters(self.scenario, self.inputs)

    def _values(self) -> Iterator[tuple[Scenario, list[Input]]]:
        return ((self.scenario, inputs) for inputs in simpler_inputs(self.inputs))

    def _test(self, scenario: Scenario, inputs: list[Input]) -> bool:
        if self._now() >= self._end:
            raise _OutOfTime
        self.runs += 1
        self._report(f"shrinking: {counted(len(self.inputs), 'input')}", self.runs, None)
        return self._breaks(scenario, inputs)


def ddmin(items: list[T], test: Callable[[list[T]], bool]) -> list[T]:
    """A part of `items` for which `test` holds, and none of whose items can be left out.

    `test` holds for `items`. It is not called for the empty list.
    """
    parts = 2
    while len(items) >= 2:
        size = -(-len(items) // parts)
        for begin in range(0, len(items), size):
            rest = items[:begin] + items[begin + size :]
            if rest and test(rest):
                items = rest
                parts = max(parts - 1, 2)
                break
        else:
            if size == 1:
                break
            parts = min(parts * 2, len(items))
    return items
