"""The cost of TLS and SASL: the failover of refold in plain text and secured, on the same cluster.

    python -m tools.bench.secured_failover --partitions 100000

Bias: as that of tools.bench.failover. The stub brokers and ZooKeeper decrypt on the same machine.
They have all listeners in both cases. A client in plain text drives both.
"""

import json
import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tools.bench.contenders import RefoldContender, SecuredRefold
from tools.bench.measurement import BenchCluster, ContenderMeasurements, Step, StepSample, bench
from tools.bench.population import Population
from tools.bench.running import (
    AsJson,
    Brokers,
    Folder,
    Partitions,
    PerTopic,
    ReplicationFactor,
    conditions,
    population_of,
    report,
    run,
    show,
)
from tools.lab.secured import SecuredFiles

_PROTOCOL = "3.9"


async def compare(folder: Path, population: Population, runs: int) -> list[ContenderMeasurements]:
    """The failovers in plain text, and those over TLS and SASL."""
    files = SecuredFiles(folder / "files")
    results = []
    async with bench(folder, population, _PROTOCOL, report, BenchCluster, files) as cluster:
        for contender in (
            RefoldContender(folder, cluster.server, _PROTOCOL),
            SecuredRefold(folder, cluster.server, _PROTOCOL, files),
        ):
            try:
                results.append(await cluster.measure(contender, [Step.FAILOVER], runs))
            finally:
                contender.close()
    return results


def ratio(results: Sequence[ContenderMeasurements], value: Callable[[StepSample], float]) -> float:
    """The median over TLS and SASL, divided by the median in plain text."""
    plain, secured = (statistics.median(map(value, one.samples[Step.FAILOVER])) for one in results)
    return secured / plain


def main(
    partitions: Partitions = 100_000,
    per_topic: PerTopic = 100,
    brokers: Brokers = 6,
    replication_factor: ReplicationFactor = 3,
    runs: Annotated[int, typer.Option(min=1, help="Measured runs, after one warm-up run.")] = 5,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Print the duration and the CPU time of failovers in plain text, and over TLS and SASL, and
    the ratio of the medians."""
    population = population_of(partitions, per_topic, brokers, replication_factor)
    results = run("secured-failover", folder, partial(compare, population=population, runs=runs))
    found = conditions(population, _PROTOCOL, f"{runs} runs after a warm-up", results)
    ratios = {
        "duration": ratio(results, lambda one: one.seconds),
        "cpu": ratio(results, lambda one: one.cpu_seconds),
    }
    if as_json:
        content = {"conditions": found, "ratios": ratios, "results": list(map(asdict, results))}
        typer.echo(json.dumps(content, indent=2))
        return
    lines = [f"TLS and SASL take {one:.2f} times the {name}" for name, one in ratios.items()]
    steps = {
        "failover, cold": [[one.cold] for one in results],
        "failover, warm": [one.samples[Step.FAILOVER] for one in results],
    }
    show([one.title for one in results], steps, [*lines, *(f"- {one}" for one in found)])


if __name__ == "__main__":
    typer.run(main)
