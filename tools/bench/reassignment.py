"""Compares refold with Kafka's controller: beginning many reassignments, and events during them.

    python -m tools.bench.reassignment --moves 1000 --partitions 2000 --brokers 6

Eight durations are measured:

- begin: from the creation of /admin/reassign_partitions until ZooKeeper has the adding replicas of
  every partition and the last LeaderAndIsr was received
- failure of a broker during the begin: its registration is deleted 0.1 s after the znode is
  created; from then until no state znode names it as the leader
- controlled shutdown during the begin: a broker's request 0.1 s after the znode is created, until
  the answer
- the longest answer to an AlterPartition during the begin: leaders of other partitions send one
  after the other
- failover without reassignments, with deletions of as many replicas pending on an unregistered
  broker, with all reassignments in progress, and with these after their records were deleted, as if
  a stock controller had begun them: until the last byte of the last request; three of each kind in
  a run

Bias: ZooKeeper is real and the controllers are complete processes, but the brokers are stubs that
respond at once and name no partition. Everything runs on one machine. Every begin is measured on a
process that just started and failed over, when the JVM has compiled little of Kafka's code.
"""

import json
import statistics
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from tools.bench.contenders import Contender, KafkaPeer, Refold
from tools.bench.measurement import bench
from tools.bench.moving_partitions import MovingBench, Result, Step
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
)


async def compare(
    folder: Path, population: Population, moves: int, protocol: str, runs: int, with_peer: bool
) -> list[Result]:
    """Measure Kafka's controller and then refold, each alone, on the same cluster."""
    results = []
    async with bench(folder, population, protocol, report, MovingBench) as cluster:
        cluster.moves = moves
        for kind in (KafkaPeer, Refold) if with_peer else (Refold,):
            made = partial(_contender, kind, folder, cluster, protocol)
            results.append(await cluster.measure_moving(made, runs))
    return results


def _contender(
    kind: type[KafkaPeer] | type[Refold], folder: Path, cluster: MovingBench, protocol: str
) -> Contender:
    return kind(folder, cluster.server, protocol)


def ratio_of_failovers(result: Result, step: Step = Step.FAILOVER_MOVING) -> float:
    """The duration of a failover with moves or deletions, relative to one without."""
    still = statistics.median(result.seconds(Step.FAILOVER))
    return statistics.median(result.seconds(step)) / still


def _show(results: list[Result], found: list[str]) -> None:
    steps = {step.value: [one.samples[step] for one in results] for step in Step}
    ratios = [
        f"failover of {one.title} with the moves in flight takes {ratio_of_failovers(one):.2f} "
        "times as long, with deletions pending "
        f"{ratio_of_failovers(one, Step.FAILOVER_DELETING):.2f} times, with moves that a stock "
        f"controller began {ratio_of_failovers(one, Step.FAILOVER_UNRECORDED):.2f} times"
        for one in results
    ]
    show([one.title for one in results], steps, [*ratios, *(f"- {line}" for line in found)])


def _as_json(results: list[Result], found: list[str]) -> str:
    content = {
        "conditions": found,
        "results": [
            {**asdict(one), "ratio_of_failovers": ratio_of_failovers(one)} for one in results
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

    `ratio` is the ratio of the medians, refold's to Kafka's. CPU time is that of the controller's
    process. Each partition moves to as many other brokers as it has replicas.
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
        _show(results, found)


if __name__ == "__main__":
    typer.run(main)
