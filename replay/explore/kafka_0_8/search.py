"""Searches for runs of the 0.8 design that break an invariant, and shrinks them.

The runs are numbered. A run depends only on the seed and its number. Workers are new processes;
each plays a few runs after the other.
"""

import itertools
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Final

from msgspec import Struct, field

from replay.explore.coverage import add_counts, count
from replay.explore.invariants.invariant import Violation
from replay.explore.kafka_0_8.generator import draw_run
from replay.explore.kafka_0_8.run import Coverage, Run08, breaks
from replay.explore.numbers import RandomNumbers, seed_of
from replay.explore.shrink import shrink
from replay.progress import Progress, unreported
from replay.worker_processes import worker_pool
from replay.world.kafka_0_8.networked.inputs import Input08
from replay.world.scenario import Scenario

_RUNS_OF_A_PART: Final = 5
"""How many runs a worker plays before it reports."""
_POLL_S: Final = 0.2


class BrokenRun(Struct, frozen=True):
    """A run that breaks an invariant, or has a known flaw of the design. `run` is its number in the
    search."""

    run: int
    violation: Violation
    scenario: Scenario
    inputs: tuple[Input08, ...]


class SearchResult(Struct):
    """The result of a search, perhaps interrupted by Ctrl-C. `flaws` has the first run for each
    known flaw, `flaw_runs` how many runs had it; `broken` breaks an invariant."""

    seed: int
    coverage: Coverage = field(default_factory=Coverage)
    flaw_runs: dict[str, int] = field(default_factory=dict)
    flaws: dict[str, BrokenRun] = field(default_factory=dict)
    broken: BrokenRun | None = None
    was_interrupted: bool = False

    @property
    def runs_to_save(self) -> list[BrokenRun]:
        """The first run for each flaw and violation."""
        return [*self.flaws.values(), *([self.broken] if self.broken is not None else [])]

    def add(self, part: "SearchResult") -> None:
        """Add what other runs of the search found."""
        self.coverage.add(part.coverage)
        add_counts(self.flaw_runs, part.flaw_runs)
        for name, broken in part.flaws.items():
            before = self.flaws.get(name)
            self.flaws[name] = broken if before is None or broken.run < before.run else before
        self.broken = self.broken or part.broken


def search(seed: int, workers: int, goes_on: Callable[[Coverage], bool]) -> SearchResult:
    """Play runs while `goes_on` with what was reached so far, up to the first violation that is no
    known flaw, or Ctrl-C. Raises ReplayError if a worker process ends."""
    found = SearchResult(seed)
    try:
        if workers == 1:
            _search_here(found, goes_on)
        else:
            _search_with(workers, found, goes_on)
    except KeyboardInterrupt:
        found.was_interrupted = True
    return found


def _search_here(found: SearchResult, goes_on: Callable[[Coverage], bool]) -> None:
    while goes_on(found.coverage) and found.broken is None:
        found.add(search_part(found.seed, found.coverage.runs + 1, 1))


def _search_with(workers: int, found: SearchResult, goes_on: Callable[[Coverage], bool]) -> None:
    firsts = itertools.count(1, _RUNS_OF_A_PART)
    parts: set[Future[SearchResult]] = set()
    with worker_pool(workers) as pool:
        while goes_on(found.coverage) and found.broken is None:
            while len(parts) < workers:
                parts.add(pool.submit(search_part, found.seed, next(firsts), _RUNS_OF_A_PART))
            done, parts = wait(parts, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            for one in done:
                found.add(one.result())


def search_part(seed: int, first: int, runs: int) -> SearchResult:
    """Play the runs from number `first` on, up to a violation that is no known flaw."""
    found = SearchResult(seed)
    for number in range(first, first + runs):
        scenario, inputs = draw_run(RandomNumbers(seed_of(seed, number)))
        played = Run08(scenario, inputs)
        found.coverage.add(played.coverage())
        if played.violation is None:
            continue
        broken = BrokenRun(number, played.violation, scenario, inputs)
        if not played.is_flaw:
            found.broken = broken
            break
        name = played.violation.invariant
        found.flaws.setdefault(name, broken)
        count(found.flaw_runs, name)
    return found


def shrink_run(broken: BrokenRun, *, seconds: float, report: Progress = unreported) -> BrokenRun:
    """The fewest inputs and the smallest cluster that still have the same violation."""
    name = broken.violation.invariant

    least = shrink(
        broken.scenario,
        broken.inputs,
        lambda scenario, inputs: breaks(scenario, inputs, name),
        seconds=seconds,
        report=report,
    )
    violation = Run08(least.scenario, least.inputs).violation
    assert violation is not None
    return BrokenRun(broken.run, violation, least.scenario, least.inputs)
