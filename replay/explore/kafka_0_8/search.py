"""Searches for runs of the 0.8 design that break an invariant, and shrinks them.

The runs are numbered. What a run does depends only on the seed and its number. Workers are new
processes; each plays a few runs after the other.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import count
from typing import Final

from msgspec import Struct, field

from replay.explore.kafka_0_8.acts import Act, carry_out, drawn, new_cluster, settle
from replay.explore.kafka_0_8.monitor import KNOWN_FLAWS, Monitor, Violation
from replay.explore.numbers import Numbers, seed_of
from replay.explore.worker_processes import worker_pool
from replay.world.kafka_0_8.cluster import Cluster08

_ACTS: Final = 30
_WARM_UP_MS: Final = 1500
_RUNS_OF_A_PART: Final = 10
"""How many runs a worker plays before it reports."""
_POLL_S: Final = 0.2


class BrokenRun(Struct, frozen=True):
    """A run that breaks an invariant. `run` is its number in the search."""

    run: int
    invariant: str
    text: str
    acts: list[Act]


class Searched(Struct):
    """The result of a search, perhaps interrupted by Ctrl-C. `flaws` has the first run for each
    known flaw, `flaw_runs` how many runs broke it; `violation` breaks another invariant."""

    seed: int
    runs: int = 0
    events: int = 0
    flaw_runs: dict[str, int] = field(default_factory=dict)
    flaws: dict[str, BrokenRun] = field(default_factory=dict)
    violation: BrokenRun | None = None
    was_interrupted: bool = False

    @property
    def broken(self) -> list[BrokenRun]:
        """The first run for each invariant that was broken."""
        return [*self.flaws.values(), *([self.violation] if self.violation is not None else [])]

    def add(self, part: "Searched") -> None:
        """Add what other runs of the search found."""
        self.runs += part.runs
        self.events += part.events
        for name, times in part.flaw_runs.items():
            self.flaw_runs[name] = self.flaw_runs.get(name, 0) + times
        for name, broken in part.flaws.items():
            before = self.flaws.get(name)
            self.flaws[name] = broken if before is None or broken.run < before.run else before
        self.violation = self.violation or part.violation


def play(acts: Sequence[Act]) -> tuple[Cluster08, Violation | None]:
    """Play a run from the beginning to the settled cluster."""
    cluster = new_cluster()
    monitor = Monitor(cluster)
    try:
        cluster.start(*cluster.brokers)
        cluster.run(_WARM_UP_MS)
        for number, act in enumerate(acts):
            record = f"r{number}"
            request = carry_out(cluster, act, record)
            if request and act.number == -1:
                monitor.sends(request, (act.topic, 0), record)
        settle(cluster)
        monitor.check_end()
    except Violation as violation:
        return cluster, violation
    return cluster, None


def search(seed: int, workers: int, goes_on: Callable[[int], bool]) -> Searched:
    """Play runs while `goes_on` with the number of runs so far, up to the first violation that is
    no known flaw, or Ctrl-C. Raises ReplayError if a worker process ends."""
    found = Searched(seed)
    try:
        if workers == 1:
            _search_here(found, goes_on)
        else:
            _search_with(workers, found, goes_on)
    except KeyboardInterrupt:
        found.was_interrupted = True
    return found


def _search_here(found: Searched, goes_on: Callable[[int], bool]) -> None:
    while goes_on(found.runs) and found.violation is None:
        found.add(search_part(found.seed, found.runs + 1, 1))


def _search_with(workers: int, found: Searched, goes_on: Callable[[int], bool]) -> None:
    firsts = count(1, _RUNS_OF_A_PART)
    parts: set[Future[Searched]] = set()
    with worker_pool(workers) as pool:
        while goes_on(found.runs) and found.violation is None:
            while len(parts) < workers:
                parts.add(pool.submit(search_part, found.seed, next(firsts), _RUNS_OF_A_PART))
            done, parts = wait(parts, timeout=_POLL_S, return_when=FIRST_COMPLETED)
            for one in done:
                found.add(one.result())


def search_part(seed: int, first: int, runs: int) -> Searched:
    """Play the runs from number `first` on, up to a violation that is no known flaw."""
    found = Searched(seed)
    for number in range(first, first + runs):
        acts = drawn(Numbers(seed_of(seed, number)), _ACTS)
        cluster, violation = play(acts)
        found.runs += 1
        found.events += sum(len(run) for one in cluster.brokers.values() for run in one.runs)
        if violation is None:
            continue
        name = violation.invariant
        broken = BrokenRun(number, name, violation.text, acts)
        if name not in KNOWN_FLAWS:
            found.violation = broken
            break
        found.flaws.setdefault(name, broken)
        found.flaw_runs[name] = found.flaw_runs.get(name, 0) + 1
    return found


def shrunk(broken: BrokenRun) -> BrokenRun:
    """Leave out acts as long as the run still breaks the same invariant."""
    kept, text = list(broken.acts), broken.text
    place = 0
    while place < len(kept):
        without = kept[:place] + kept[place + 1 :]
        _, still = play(without)
        if still is not None and still.invariant == broken.invariant:
            kept, text = without, still.text
        else:
            place += 1
    return BrokenRun(broken.run, broken.invariant, text, kept)
