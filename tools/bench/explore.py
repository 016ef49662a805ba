"""Measures how fast one core simulates and checks a cluster for `refold explore`.

    python -m tools.bench.explore

The standard scenario has 3 brokers, 20 partitions with 3 replicas, 20 records a second, two
refolds, replica.lag.time.max.ms of 10 s, and a fault every 10 s. The faults take turns: they are
always the same. Each run is measured with all invariants and without any, one after the other.

The peer is the same run without invariants, so the ratio is the cost of the invariants. Without
them, nothing observes the run except for a count of its events.
"""

import cProfile
import pstats
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from controller.core.commands import Issued
from controller.core.configuration import Configuration
from controller.core.events import Recorded
from replay.explore.run import Run
from replay.world import inputs
from replay.world.cluster import Cluster
from replay.world.observer import Observer
from replay.world.scenario import BrokerSpec, ControllerSpec, Load, Scenario, TopicSpec
from replay.world.scheduler import SECOND

GOAL: Final = 300
"""Simulated seconds for each second of CPU time, with all invariants."""

_BROKERS: Final = (1, 2, 3)
_TOPICS: Final = ("clicks", "orders", "payments", "users")
_PARTITIONS_OF_A_TOPIC: Final = 5
_FAULT_EVERY_MS: Final = 10_000
_QUIET_MS: Final = 90_000

_FAULTS: Final[tuple[Callable[[int], inputs.Input], ...]] = (
    lambda at: inputs.CrashBroker(at, 2, restart_after_ms=4_000),
    lambda at: inputs.KillController(at, "refold 100"),
    lambda at: inputs.CutConnection(at, "broker 1", "broker 3", 3_000),
    lambda at: inputs.ExpireSession(at, "broker 1"),
    lambda at: inputs.StopBroker(at, 3, restart_after_ms=3_000),
    lambda at: inputs.ChangeZooKeeperLeader(at, 500),
    lambda at: inputs.PauseProcess(at, "broker 2", 4_000),
    lambda at: inputs.ExpireSession(at, "refold 101"),
    lambda at: inputs.LoseReply(at, "refold 100"),
    lambda at: inputs.CrashBroker(at, 1, loses_unflushed=True, restart_after_ms=4_000),
)


@dataclass(frozen=True)
class ExplorerSample:
    """One run: what it simulated, and the time that it took."""

    simulated_s: float
    events: int
    cpu_s: float
    wall_s: float
    digest: str


class _Counting(Observer):
    """Counts the events that controllers fold."""

    def __init__(self) -> None:
        self.events = 0

    def folded(self, process: str, recorded: Recorded, issued: list[Issued]) -> None:
        self.events += 1


def standard(seconds: int) -> tuple[Scenario, tuple[inputs.Input, ...]]:
    """The standard scenario, and its faults within the given time."""
    rotated = [
        tuple(_BROKERS[(n + k) % 3] for k in range(3)) for n in range(_PARTITIONS_OF_A_TOPIC)
    ]
    refolds = (
        ControllerSpec(
            Configuration(
                broker_id=100 + number,
                kip_236_enable=True,
                leader_imbalance_check_interval_seconds=10,
            ),
            starts_after_ms=500 * number,
        )
        for number in range(2)
    )
    scenario = Scenario(
        name="standard",
        brokers=tuple(BrokerSpec(number) for number in _BROKERS),
        broker_settings={
            "replica.lag.time.max.ms": "10000",
            "zookeeper.session.timeout.ms": "9000",
        },
        topics=tuple(TopicSpec(name, tuple(rotated)) for name in _TOPICS),
        controllers=tuple(refolds),
        load=Load(records_per_second=20),
        active_ms=seconds * 1_000,
        quiet_ms=_QUIET_MS,
    )
    times = range(_FAULT_EVERY_MS, seconds * 1_000, _FAULT_EVERY_MS)
    return scenario, tuple(
        _FAULTS[number % len(_FAULTS)](at_ms) for number, at_ms in enumerate(times)
    )


def main(
    seconds: Annotated[
        int, typer.Option(help="The active part of a run, in simulated time.")
    ] = 600,
    runs: Annotated[int, typer.Option(help="Number of measured runs, after one to warm up.")] = 3,
    profile: Annotated[
        bool, typer.Option("--profile", help="Print the functions that use most time, instead.")
    ] = False,
) -> None:
    """Simulate the standard scenario in this process, and print simulated seconds per second."""
    scenario, faults = standard(seconds)
    if profile:
        _profile(lambda: _measure_checked_run(scenario, faults))
        return
    samples: list[tuple[ExplorerSample, ExplorerSample]] = []
    for _ in range(runs + 1):
        checked = _measure_checked_run(scenario, faults)
        samples.append((checked, _measure_unchecked_run(scenario, faults, checked.simulated_s)))
    typer.echo(
        f"{len(faults)} faults in {seconds} s; until the recovery {samples[0][0].simulated_s:.0f} "
        f"simulated seconds and {samples[0][0].events:,} folded events a run; best of {runs} runs"
    )
    typer.echo(
        f"{'':<15}{'simulated s per CPU s':>23}{'per s':>8}{'events per CPU s':>18}{'per s':>8}"
    )
    with_all = min((one for one, _ in samples[1:]), key=lambda one: one.cpu_s)
    without = min((one for _, one in samples[1:]), key=lambda one: one.cpu_s)
    for title, one in (("all invariants", with_all), ("no invariants", without)):
        typer.echo(
            f"{title:<15}{one.simulated_s / one.cpu_s:>23,.0f}{one.simulated_s / one.wall_s:>8,.0f}"
            f"{one.events / one.cpu_s:>18,.0f}{one.events / one.wall_s:>8,.0f}"
        )
    reached = with_all.simulated_s / with_all.cpu_s
    typer.echo(f"with all invariants / without: {without.cpu_s / with_all.cpu_s:.2f} times as fast")
    typer.echo(f"goal: {GOAL} simulated s per CPU s; reached {reached:.0f} ({reached / GOAL:.2f})")


def _measure_checked_run(scenario: Scenario, faults: tuple[inputs.Input, ...]) -> ExplorerSample:
    cpu, wall = time.process_time(), time.perf_counter()
    run = Run(scenario, faults)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    outcome = run.outcome(with_digest=True)
    if outcome.violation is not None:
        typer.echo(f"the standard scenario breaks an invariant: {outcome.violation}", err=True)
        sys.exit(1)
    return ExplorerSample(
        outcome.simulated_us / SECOND, outcome.coverage.events, cpu, wall, outcome.digest
    )


def _measure_unchecked_run(
    scenario: Scenario, faults: tuple[inputs.Input, ...], simulated_s: float
) -> ExplorerSample:
    """Measure the simulation of a scenario up to a simulated time, without checks of invariants."""
    counting = _Counting()
    cpu, wall = time.process_time(), time.perf_counter()
    cluster = Cluster(scenario, faults, counting)
    end_us = int(simulated_s * SECOND)
    while cluster.scheduler.now_us < end_us and cluster.step():
        pass
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return ExplorerSample(cluster.scheduler.now_us / SECOND, counting.events, cpu, wall, "")


def _profile(call: Callable[[], object]) -> None:
    profiler = cProfile.Profile()
    profiler.runcall(call)
    pstats.Stats(profiler).sort_stats("tottime").print_stats(60)


if __name__ == "__main__":
    typer.run(main)
