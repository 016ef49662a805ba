"""How long refold's event loop is busy without a pause during a failover.

    python -m tools.bench.loop_slices --partitions 100000

A callback that runs for long keeps pings to ZooKeeper and answers to brokers waiting. The cluster
is that of tools.bench.failover. The daemon is the real one; tools.bench.timed_daemon also measures
its callbacks.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from tools.bench.contenders import RefoldContender
from tools.bench.measurement import Step, StepSample, bench
from tools.bench.population import Population
from tools.bench.running import (
    AsJson,
    Brokers,
    Folder,
    InterBrokerProtocol,
    Partitions,
    PerTopic,
    ReplicationFactor,
    conditions,
    population_of,
    report,
    run,
    show_rows,
)
from tools.bench.standby import StandbyBench, StandbyRefold

_SHOWN_MAX = 3


@dataclass(frozen=True)
class Slices:
    """The measurements of one failover: the longest callbacks first, and the latest timer."""

    step: str
    seconds: float
    callbacks: list[dict[str, Any]]
    timer_late_ms: float


class TimedRefold(RefoldContender):
    """The daemon with tools.bench.timed_daemon."""

    def _command(self) -> Sequence[str]:
        return _timed_command(super()._command(), self.folder)


class TimedStandby(StandbyRefold):
    """A standby with tools.bench.timed_daemon."""

    def _command(self) -> Sequence[str]:
        return _timed_command(super()._command(), self.folder)


def _timed_command(command: Sequence[str], folder: Path) -> Sequence[str]:
    python, _, _, *rest = command
    return python, "-m", "tools.bench.timed_daemon", str(folder / "slices.jsonl"), *rest


def _slices(folder: Path, step: str, samples: Sequence[StepSample]) -> list[Slices]:
    """The callbacks and timers that the daemon recorded, for each sample."""
    lines = [json.loads(line) for line in (folder / "slices.jsonl").read_text().splitlines()]
    found = []
    for sample in samples:
        end_ns = sample.begin_ns + int(sample.seconds * 1e9)
        within = [one for one in lines if sample.begin_ns <= one["ended_ns"] <= end_ns]
        callbacks = [one for one in within if one["kind"] == "callback"]
        callbacks.sort(key=lambda one: -one["ms"])
        late = max((one["ms"] for one in within if one["kind"] == "timer"), default=0.0)
        found.append(Slices(step, sample.seconds, callbacks[:_SHOWN_MAX], late))
    return found


async def measure(
    folder: Path, population: Population, protocol: str, runs: int
) -> tuple[list[Slices], list[str]]:
    """Cold and warm failovers, and take-overs of a standby."""
    async with bench(folder, population, protocol, report, StandbyBench) as cluster:
        refold = TimedRefold(folder, cluster.server, protocol)
        try:
            result = await cluster.measure(refold, [Step.FAILOVER], runs)
        finally:
            refold.close()
        standby = TimedStandby(folder, cluster.server, protocol)
        try:
            taken = await cluster.measure_standby(standby, runs)
        finally:
            standby.close()
    return [
        *_slices(refold.folder, "failover, cold", [result.cold]),
        *_slices(refold.folder, "failover, warm", result.samples[Step.FAILOVER]),
        *_slices(standby.folder, "standby take-over", taken.samples),
    ], conditions(population, protocol, f"{runs} runs after a warm-up", [result, taken])


def _show(slices: Sequence[Slices], found: Sequence[str]) -> None:
    rows = [
        (
            one.step,
            f"{one.seconds:.2f}",
            f"{one.callbacks[0]['ms'] if one.callbacks else 0.0:.0f}",
            f"{one.timer_late_ms:.0f}",
        )
        for one in slices
    ]
    callbacks = [
        f"{one.step}: {callback['ms']:.0f} ms: {callback['what']}"
        for one in slices
        for callback in one.callbacks
    ]
    lines = [*callbacks, *(f"- {line}" for line in found)]
    show_rows(("step",), ("seconds", "longest callback ms", "latest timer ms"), rows, lines)


def main(
    partitions: Partitions = 100_000,
    per_topic: PerTopic = 100,
    brokers: Brokers = 6,
    replication_factor: ReplicationFactor = 3,
    inter_broker_protocol: InterBrokerProtocol = "3.9",
    runs: Annotated[int, typer.Option(min=1, help="Measured runs, after one warm-up run.")] = 3,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Print the longest callbacks of the event loop during failovers, and how late timers fired."""
    population = population_of(partitions, per_topic, brokers, replication_factor)
    measured = partial(measure, population=population, protocol=inter_broker_protocol, runs=runs)
    slices, found = run("loop_slices", folder, measured)
    if as_json:
        content = {"conditions": found, "results": [asdict(one) for one in slices]}
        typer.echo(json.dumps(content, indent=2))
    else:
        _show(slices, found)


if __name__ == "__main__":
    typer.run(main)
