"""Compares refold with Kafka's controller: beginning many reassignments, and events during them.

    python -m tools.bench.reassignment --moves 1000 --partitions 2000 --brokers 6

Eight durations are measured:

- begin: from the creation of /admin/reassign_partitions until ZooKeeper has the adding replicas of
  every partition and the last LeaderAndIsr was received
- failure of a broker during the begin: its registration is deleted 0.1 s after the znode is
  created; from then until no state znode names it as the leader
- controlled shutdown during the begin: a broker's request 0.1 s after the znode is created, until
  the response
- the longest response to an AlterPartition during the begin: leaders of other partitions send one
  after the other
- failover without reassignments, with deletions of as many replicas pending on an unregistered
  broker, with all reassignments in progress, and with these after their records were deleted, as if
  a stock controller had begun them; several of each kind in a run

A failover begins when the role is lost. Three moments of it are measured:

- brokers informed: the last broker has received UpdateMetadata for all partitions, which follows
  its LeaderAndIsr
- next event handled: a broker that sends AlterPartition as soon as the role is taken has a response
- last request: the last byte of the last request was received. Controllers send requests for
  reassignments in progress after the brokers are informed. refold first stores the records of those
  that a stock controller began

Bias: ZooKeeper is real and the controllers are complete processes, but the brokers are stubs that
respond at once and name no partition. Everything runs on one machine. Every begin is measured on a
process that just started and failed over, when the JVM has compiled little of Kafka's code.
"""

import json
import statistics
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tools.bench.contenders import Contender, KafkaPeer, RefoldContender
from tools.bench.measurement import StepSample, bench
from tools.bench.moving_partitions import FAILOVER_STEPS, MoveMeasurements, MoveStep, MovingBench
from tools.bench.population import Population
from tools.bench.running import (
    AsJson,
    Brokers,
    Folder,
    InterBrokerProtocol,
    Partitions,
    Peer,
    PerTopic,
    ReplicationFactor,
    conditions,
    report,
    run,
    show,
    show_rows,
)


async def compare(
    folder: Path, population: Population, moves: int, protocol: str, runs: int, with_peer: bool
) -> list[MoveMeasurements]:
    """Measure Kafka's controller and then refold, each alone, on the same cluster."""
    results = []
    async with bench(folder, population, protocol, report, MovingBench) as cluster:
        cluster.moves = moves
        for kind in (KafkaPeer, RefoldContender) if with_peer else (RefoldContender,):
            made = partial(_contender, kind, folder, cluster, protocol)
            results.append(await cluster.measure_moving(made, runs))
    return results


def _contender(
    kind: type[KafkaPeer] | type[RefoldContender], folder: Path, cluster: MovingBench, protocol: str
) -> Contender:
    return kind(folder, cluster.server, protocol)


Moment = Callable[[StepSample], float]

MOMENTS: dict[str, Moment] = {
    "brokers informed": lambda one: one.informed_seconds,
    "next event handled": lambda one: one.answered_seconds,
    "last request": lambda one: one.seconds,
}
"""The moments of a failover."""


def median(result: MoveMeasurements, step: MoveStep, moment: Moment) -> float:
    """The median seconds from the loss of the role to a moment."""
    return statistics.median(map(moment, result.samples[step]))


def ratio_of_failovers(result: MoveMeasurements, step: MoveStep, moment: Moment) -> float:
    """How many times as long a failover with moves or deletions takes as one without."""
    return median(result, step, moment) / median(result, MoveStep.FAILOVER, moment)


def show_moves(results: list[MoveMeasurements], found: list[str]) -> None:
    """Print all steps, the failovers relative to one without reassignments, and then `found`."""
    steps = {step.value: [one.samples[step] for one in results] for step in MoveStep}
    show([one.title for one in results], steps, [])
    rows = [
        (
            step.value,
            one.title,
            *(f"{median(one, step, moment):.3f}" for moment in MOMENTS.values()),
            *(f"{ratio_of_failovers(one, step, moment):.2f}" for moment in MOMENTS.values()),
        )
        for step in FAILOVER_STEPS
        for one in results
    ]
    columns = [f"{name} s" for name in MOMENTS] + ["ratio"] * len(MOMENTS)
    show_rows(("median failover until", "controller"), columns, rows, [f"- {one}" for one in found])


def _as_json(results: list[MoveMeasurements], found: list[str]) -> str:
    content = {
        "conditions": found,
        "results": [
            {
                **asdict(one),
                "ratios_of_failovers": {
                    step: {
                        name: ratio_of_failovers(one, step, moment)
                        for name, moment in MOMENTS.items()
                    }
                    for step in FAILOVER_STEPS
                },
            }
            for one in results
        ],
    }
    return json.dumps(content, indent=2)


def main(
    moves: Annotated[int, typer.Option(min=1, help="Partitions that are reassigned.")] = 1000,
    partitions: Partitions = 2000,
    per_topic: PerTopic = 10,
    brokers: Brokers = 6,
    replication_factor: ReplicationFactor = 3,
    inter_broker_protocol: InterBrokerProtocol = "3.9",
    runs: Annotated[int, typer.Option(min=1)] = 3,
    peer: Peer = True,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Print how long many reassignments take to begin, and how long failures take during them.

    `ratio` is the ratio of the medians. In the first table it is refold's to Kafka's, in the second
    one that of a failover to the failover without moves, for each moment in order. CPU time is that
    of the controller's process. Each partition moves to as many other brokers as it has replicas.
    """
    if 2 * replication_factor > brokers:
        raise typer.BadParameter(f"--brokers: at least {2 * replication_factor} are needed")
    if moves >= partitions:
        raise typer.BadParameter(f"--moves {moves} needs more --partitions")
    population = Population(partitions, per_topic, brokers, replication_factor)
    comparison = partial(
        compare,
        population=population,
        moves=moves,
        protocol=inter_broker_protocol,
        runs=runs,
        with_peer=peer,
    )
    results = run("reassignment", folder, comparison)
    repetitions = f"{runs} run{'s' if runs > 1 else ''}"
    found = [
        f"{moves:,} moves",
        *conditions(population, inter_broker_protocol, repetitions, results),
    ]
    if as_json:
        typer.echo(_as_json(results, found))
    else:
        show_moves(results, found)


if __name__ == "__main__":
    typer.run(main)
