"""How long a controller takes over a cluster, or a broker's death: refold beside Kafka's own.

    python -m tools.bench.failover --partitions 100000 --brokers 6 --replication-factor 3

The bias: ZooKeeper is real and the controllers are whole processes, but the brokers are stubs that
answer at once and name no partition, all of it on one machine. Each controller is alone in the role
while it is measured, and is asked for the same work on the same znodes.
"""

import json
import os
import platform
import shutil
import statistics
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Protocol

import anyio
import typer
from rich.console import Console
from rich.table import Table

from controller.cli.output import print_table
from controller.fingerprint import code_version, core_fingerprint
from tools.bench.contenders import ZOOKEEPER_HEAP, Contender, KafkaPeer, Refold
from tools.bench.measurement import Bench, BenchError, Result, Sample, Step, bench
from tools.bench.population import Population
from tools.lab import LabError, zookeeper

_COLD = "failover, cold"

_out = Console()
_err = Console(stderr=True, highlight=False)


async def compare(
    folder: Path,
    population: Population,
    steps: Sequence[Step],
    protocol: str,
    runs: int,
    with_peer: bool,
) -> list[Result]:
    """Measure the peer and then refold, each alone on the same cluster."""
    results = []
    async with bench(folder, population, protocol, _say, Bench) as cluster:
        for contender_type in (KafkaPeer, Refold) if with_peer else (Refold,):
            contender: Contender = contender_type(folder, cluster.server, protocol)
            try:
                results.append(await cluster.measure(contender, steps, runs))
            finally:
                contender.close()
    return results


def _say(line: str) -> None:
    _err.print(line, markup=False, soft_wrap=True)


class Measured(Protocol):
    """A result that says what its contender was run with."""

    @property
    def conditions(self) -> str: ...


def conditions(
    population: Population, protocol: str, runs: str, results: Sequence[Measured]
) -> list[str]:
    """What the figures hold for; `runs` says how often each step was measured."""
    one, five, _ = os.getloadavg()
    return [
        f"{population.partitions:,} partitions in {len(population.topics):,} topics, replication "
        f"factor {population.replication_factor}, {population.brokers} stub brokers whose answers "
        f"name no partition, "
        f"inter.broker.protocol.version {protocol}, {runs}",
        f"{os.cpu_count()} cores ({platform.machine()}), load average {one:.1f} (1 min) and "
        f"{five:.1f} (5 min) at the end, ZooKeeper "
        f"{zookeeper.LATEST} with fsync ({ZOOKEEPER_HEAP})",
        *(result.conditions for result in results),
        f"refold {code_version()}, core {core_fingerprint()}",
    ]


def _steps_of(result: Result) -> dict[str, list[Sample]]:
    warm = {
        f"{step}, warm" if step is Step.FAILOVER else step.value: samples
        for step, samples in result.samples.items()
    }
    return {_COLD: [result.cold], **warm}


def _middle(samples: list[Sample], of: Callable[[Sample], float]) -> float:
    return statistics.median(map(of, samples))


def _table(results: list[Result]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("step")
    for name in ("controller", "min s", "median s", "max s", "CPU s", "requests", "MB", "ratio"):
        table.add_column(name, justify="left" if name == "controller" else "right")
    by_title = [_steps_of(result) for result in results]
    for step, first in by_title[0].items():
        for result, steps in zip(results, by_title, strict=True):
            samples = steps[step]
            seconds = [one.seconds for one in samples]
            ratio = statistics.median(seconds) / _middle(first, lambda one: one.seconds)
            table.add_row(
                step,
                result.title,
                *(f"{one(seconds):.2f}" for one in (min, statistics.median, max)),
                f"{_middle(samples, lambda one: one.cpu_seconds):.2f}",
                f"{_middle(samples, lambda one: one.requests):.0f}",
                f"{_middle(samples, lambda one: one.received_bytes) / 1e6:.1f}",
                f"{ratio:.2f}" if result is not results[0] else "",
            )
    return table


def _show(results: list[Result], told: list[str]) -> None:
    print_table(_table(results))
    for result in results:
        _out.print(f"peak RSS of {result.title}: {result.peak_rss_mb:.0f} MB", highlight=False)
    for line in told:
        _out.print(f"- {line}", highlight=False, soft_wrap=True)


def _as_json(results: list[Result], told: list[str]) -> str:
    content: dict[str, Any] = {"conditions": told, "results": [asdict(one) for one in results]}
    return json.dumps(content, indent=2)


def main(
    partitions: Annotated[int, typer.Option(min=1, help="Of the whole cluster.")] = 100_000,
    per_topic: Annotated[int, typer.Option(min=1, help="Partitions of one topic.")] = 100,
    brokers: Annotated[int, typer.Option(min=2, help="Stub brokers.")] = 6,
    replication_factor: Annotated[int, typer.Option(min=1)] = 3,
    inter_broker_protocol: Annotated[str, typer.Option(help="From 2.4 to 3.9.")] = "3.9",
    runs: Annotated[int, typer.Option(min=1, help="Measured, after one to warm up.")] = 3,
    peer: Annotated[bool, typer.Option(help="Measure Kafka's own controller too.")] = True,
    steps: Annotated[str, typer.Option(help="Separated by commas.")] = ",".join(Step),
    folder: Annotated[
        Path | None,
        typer.Option("--dir", help="For data and logs, kept; else a folder that is removed."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print how long failover, a broker's death and its return take.

    Times run until the last byte that a broker receives. `ratio` is that of the medians, refold's
    to Kafka's; the CPU time is the controller process's own.
    """
    if replication_factor > brokers:
        raise typer.BadParameter(f"--replication-factor {replication_factor} needs as many brokers")
    try:
        wanted = [Step(name) for name in steps.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"--steps: {error}; there are {', '.join(Step)}") from error
    population = Population(partitions, per_topic, brokers, replication_factor)
    # What failed is to be looked at: only a run that went well removes its folder.
    place = folder or Path(tempfile.mkdtemp(prefix="refold-bench-"))
    place.mkdir(parents=True, exist_ok=True)
    try:
        results = anyio.run(compare, place, population, wanted, inter_broker_protocol, runs, peer)
    except (BenchError, LabError) as error:
        _say(f"failover: {error}")
        raise typer.Exit(1) from None
    if folder is None:
        shutil.rmtree(place)
    often = f"{runs} runs after a warm-up"
    told = conditions(population, inter_broker_protocol, often, results)
    if as_json:
        typer.echo(_as_json(results, told))
    else:
        _show(results, told)


if __name__ == "__main__":
    typer.run(main)
