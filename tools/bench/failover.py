"""Compares refold with Kafka's controller: failover, and the failure and return of a broker.

The take-over of a standby is compared with Kafka's warm failover.

    python -m tools.bench.failover --partitions 100000 --brokers 6 --replication-factor 3

Bias: ZooKeeper is real and the controllers are complete processes, but the brokers are stubs that
respond at once and name no partition. Everything runs on one machine. Each controller is the only
candidate while it is measured, and works on the same znodes.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from tools.bench.contenders import Contender, KafkaPeer, RefoldContender
from tools.bench.measurement import ContenderMeasurements, Step, StepSample, bench
from tools.bench.population import Population
from tools.bench.running import (
    AsJson,
    BenchResult,
    Brokers,
    Folder,
    InterBrokerProtocol,
    Partitions,
    Peer,
    PerTopic,
    ReplicationFactor,
    conditions,
    population_of,
    report,
    run,
    show,
)
from tools.bench.standby import StandbyBench, StandbyRefold, StandbyResult

_COLD = "failover, cold"
_WARM = "failover, warm"
_STANDBY = "standby take-over"


class FailoverComparison(NamedTuple):
    """The results of all controllers, and those of the standby, if it was measured."""

    results: list[ContenderMeasurements]
    standby: StandbyResult | None


async def compare(
    folder: Path,
    population: Population,
    steps: Sequence[Step],
    protocol: str,
    runs: int,
    with_peer: bool,
    with_standby: bool,
) -> FailoverComparison:
    """Measure Kafka's controller, refold, and a standby, each alone, on the same cluster."""
    results = []
    result = None
    async with bench(folder, population, protocol, report, StandbyBench) as cluster:
        for contender_type in (KafkaPeer, RefoldContender) if with_peer else (RefoldContender,):
            contender: Contender = contender_type(folder, cluster.server, protocol)
            try:
                results.append(await cluster.measure(contender, steps, runs))
            finally:
                contender.close()
        if with_standby:
            standby = StandbyRefold(folder, cluster.server, protocol)
            try:
                result = await cluster.measure_standby(standby, runs)
            finally:
                standby.close()
    return FailoverComparison(results, result)


def _steps_of(result: ContenderMeasurements) -> dict[str, list[StepSample]]:
    warm = {
        _WARM if step is Step.FAILOVER else step.value: samples
        for step, samples in result.samples.items()
    }
    return {_COLD: [result.cold], **warm}


def _show(compared: FailoverComparison, found: list[str]) -> None:
    results, standby = compared
    by_controller = [_steps_of(result) for result in results]
    steps = {step: [one[step] for one in by_controller] for step in by_controller[0]}
    lines = [f"peak RSS of {one.title}: {one.peak_rss_mb:.0f} MB" for one in results]
    if standby is not None:
        # The first row is that of the failover to compare with.
        steps[_STANDBY] = [*(one[_WARM] for one in by_controller[:-1]), standby.samples]
        lines.append(
            f"standby: {standby.following_mb:.0f} MB RSS while it follows, peak "
            f"{standby.peak_rss_mb:.0f} MB; it knows the cluster {standby.following_s:.1f} s after "
            "its start"
        )
    show([one.title for one in results], steps, [*lines, *(f"- {line}" for line in found)])


def _as_json(compared: FailoverComparison, found: list[str]) -> str:
    results, standby = compared
    content: dict[str, Any] = {"conditions": found, "results": [asdict(one) for one in results]}
    if standby is not None:
        content["standby"] = asdict(standby)
    return json.dumps(content, indent=2)


def main(
    partitions: Partitions = 100_000,
    per_topic: PerTopic = 100,
    brokers: Brokers = 6,
    replication_factor: ReplicationFactor = 3,
    inter_broker_protocol: InterBrokerProtocol = "3.9",
    runs: Annotated[int, typer.Option(min=1, help="Measured runs, after one warm-up run.")] = 3,
    peer: Peer = True,
    standby: Annotated[bool, typer.Option(help="Measure a standby, too.")] = True,
    steps: Annotated[str, typer.Option(help="The measurements, separated by commas.")] = ",".join(
        Step
    ),
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Print the duration of a failover, of a broker's failure and of its return, and of a standby's
    take-over.

    A duration ends with the last byte that a broker receives. `ratio` is the ratio of the medians,
    refold's to Kafka's; a take-over is compared with Kafka's warm failover. CPU time is that of the
    controller's process.
    """
    population = population_of(partitions, per_topic, brokers, replication_factor)
    try:
        chosen = [Step(name) for name in steps.split(",")]
    except ValueError as error:
        raise typer.BadParameter(f"--steps: {error}; use some of {', '.join(Step)}") from error
    comparison = partial(
        compare,
        population=population,
        steps=chosen,
        protocol=inter_broker_protocol,
        runs=runs,
        with_peer=peer,
        with_standby=standby,
    )
    compared = run("failover", folder, comparison)
    repetitions = f"{runs} runs after a warm-up"
    measured: list[BenchResult] = [*compared.results]
    measured += [compared.standby] if compared.standby is not None else []
    found = conditions(population, inter_broker_protocol, repetitions, measured)
    if as_json:
        typer.echo(_as_json(compared, found))
    else:
        _show(compared, found)


if __name__ == "__main__":
    typer.run(main)
