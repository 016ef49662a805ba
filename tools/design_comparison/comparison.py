"""Runs of both designs with many seeds, on all cores."""

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice
from typing import Final

from msgspec import Struct, field

from replay.explore.numbers import seed_of
from replay.worker_processes import worker_pool
from replay.world.cluster import Cluster
from replay.world.kafka_0_8.networked.cluster import NetworkedCluster
from tools.design_comparison.broker_failure import BrokerFailure
from tools.design_comparison.meter import Measurements, Meter, measure
from tools.design_comparison.scenarios import drawn

_SEEDS_OF_A_PART: Final = 5
"""How many seeds a worker runs before it reports."""
_POLL_S: Final = 0.2

DESIGNS: Final = ("0.8", "controller")


class DesignComparison(Struct):
    """The result, perhaps interrupted by Ctrl-C: the measurements of each design, and the failures
    of one broker."""

    seed: int
    date: str = ""
    designs: dict[str, Measurements] = field(
        default_factory=lambda: {one: Measurements() for one in DESIGNS}
    )
    failures: list[BrokerFailure] = field(default_factory=list)
    was_interrupted: bool = False

    @property
    def runs(self) -> int:
        """The number of seeds."""
        return self.designs["0.8"].runs

    def add(self, part: dict[str, Measurements]) -> None:
        """Add the runs of some seeds."""
        for design, measured in part.items():
            self.designs[design].add(measured)


def run_seeds(seed: int, first: int, count: int) -> dict[str, Measurements]:
    """Run both designs with the seeds number `first` and so on."""
    found = {one: Measurements() for one in DESIGNS}
    for number in range(first, first + count):
        scenario, inputs = drawn(seed_of(seed, number))
        for design, cluster in (("0.8", NetworkedCluster), ("controller", Cluster)):
            meter = Meter()
            found[design].add(measure(cluster(scenario, inputs, meter), meter))
    return found


def compare(
    seed: int, runs: int, workers: int, progress: Callable[[int], None]
) -> DesignComparison:
    """Run both designs with `runs` seeds; Ctrl-C ends early. `progress` gets the number of seeds
    so far. The result does not depend on the number of workers. Raises ReplayError if a worker
    process ends."""
    compared = DesignComparison(seed)
    firsts = iter(range(1, runs + 1, _SEEDS_OF_A_PART))
    parts: set[Future[dict[str, Measurements]]] = set()
    try:
        with worker_pool(workers) as pool:
            while True:
                for first in islice(firsts, workers - len(parts)):
                    count = min(_SEEDS_OF_A_PART, runs + 1 - first)
                    parts.add(pool.submit(run_seeds, seed, first, count))
                if not parts:
                    break
                done, parts = wait(parts, timeout=_POLL_S, return_when=FIRST_COMPLETED)
                for one in done:
                    compared.add(one.result())
                    progress(compared.runs)
    except KeyboardInterrupt:
        compared.was_interrupted = True
    return compared
