"""How long a controller takes to begin many reassignments, and what they cost it meanwhile.

    python -m tools.bench.reassignment --moves 1000 --partitions 2000 --brokers 6

Four times, refold's next to those of Kafka's own controller:

- begin: from the creation of /admin/reassign_partitions until ZooKeeper has the adding replicas of
  every partition and the last LeaderAndIsr has been received;
- a broker dies during the begin: its registration is removed 0.5 s after the znode is created; from
  then until no state znode names it as the leader any more;
- failover with nothing under way, and with all the moves in flight: until the last byte of the last
  request.

The bias: ZooKeeper is real and the controllers are whole processes, but the brokers are stubs that
answer at once and name no partition, all of it on one machine. Every begin is measured on a process
that has just started and failed over: Java has not compiled much of it then.
"""

import json
import shutil
import statistics
import tempfile
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Annotated

import anyio
import typer
from rich.console import Console
from rich.table import Table

from controller.cli.output import print_table
from tools.bench.contenders import Contender, KafkaPeer, Refold
from tools.bench.failover import conditions
from tools.bench.measurement import BenchError, bench
from tools.bench.moving_partitions import MovingBench, Result, Step
from tools.bench.population import Population
from tools.lab import LabError

_out = Console()
_err = Console(stderr=True, highlight=False)


async def compare(
    folder: Path, population: Population, moves: int, protocol: str, runs: int, with_peer: bool
) -> list[Result]:
    """Measure the peer and then refold, each alone on the same cluster."""
    results = []
    async with bench(folder, population, protocol, _say, MovingBench) as cluster:
        cluster.moves = moves
        for kind in (KafkaPeer, Refold) if with_peer else (Refold,):
            made = partial(_contender, kind, folder, cluster, protocol)
            results.append(await cluster.measure_moving(made, runs))
    return results


def _contender(
    kind: type[KafkaPeer] | type[Refold], folder: Path, cluster: MovingBench, protocol: str
) -> Contender:
    return kind(folder, cluster.server, protocol)


def _say(line: str) -> None:
    _err.print(line, markup=False, soft_wrap=True)


def _table(results: list[Result]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("step")
    for name in ("controller", "min s", "median s", "max s", "CPU s", "requests", "ratio"):
        table.add_column(name, justify="left" if name == "controller" else "right")
    for step in Step:
        first = statistics.median(results[0].seconds(step))
        for result in results:
            seconds = result.seconds(step)
            samples = result.samples[step]
            table.add_row(
                step,
                result.title,
                *(f"{one(seconds):.2f}" for one in (min, statistics.median, max)),
                f"{statistics.median(one.cpu_seconds for one in samples):.2f}",
                f"{statistics.median(one.requests for one in samples):.0f}",
                f"{statistics.median(seconds) / first:.2f}" if result is not results[0] else "",
            )
    return table


def ratio_of_failovers(result: Result) -> float:
    """How many times longer a failover takes with the moves in flight."""
    moving, still = (
        statistics.median(result.seconds(step)) for step in (Step.FAILOVER_MOVING, Step.FAILOVER)
    )
    return moving / still


def _show(results: list[Result], told: list[str]) -> None:
    print_table(_table(results))
    for result in results:
        ratio = f"{ratio_of_failovers(result):.2f}"
        _out.print(
            f"failover of {result.title} with the moves in flight: {ratio} times that without",
            highlight=False,
        )
    for line in told:
        _out.print(f"- {line}", highlight=False, soft_wrap=True)


def _as_json(results: list[Result], told: list[str]) -> str:
    content = {
        "conditions": told,
        "results": [
            {**asdict(one), "ratio_of_failovers": ratio_of_failovers(one)} for one in results
        ],
    }
    return json.dumps(content, indent=2)


def main(
    moves: Annotated[int, typer.Option(min=1, help="Partitions that are reassigned.")] = 1000,
    partitions: Annotated[int, typer.Option(min=1, help="Of the whole cluster.")] = 2000,
    per_topic: Annotated[int, typer.Option(min=1, help="Partitions of one topic.")] = 10,
    brokers: Annotated[int, typer.Option(min=2, help="Stub brokers.")] = 6,
    replication_factor: Annotated[int, typer.Option(min=1)] = 3,
    inter_broker_protocol: Annotated[str, typer.Option(help="From 2.4 to 3.9.")] = "3.9",
    runs: Annotated[int, typer.Option(min=1)] = 3,
    peer: Annotated[bool, typer.Option(help="Measure Kafka's own controller too.")] = True,
    folder: Annotated[
        Path | None,
        typer.Option("--dir", help="For data and logs, kept; else a folder that is removed."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print how long many reassignments take to begin, and what a death and a failover take.

    `ratio` is that of the medians, refold's to Kafka's; the CPU time is the controller process's
    own. Each partition moves to as many other brokers as it has replicas.
    """
    if 2 * replication_factor > brokers:
        raise typer.BadParameter(f"--brokers: at least {2 * replication_factor} are needed")
    if moves > partitions:
        raise typer.BadParameter(f"--moves {moves} needs as many --partitions")
    population = Population(partitions, per_topic, brokers, replication_factor)
    # What failed is to be looked at: only a run that went well removes its folder.
    place = folder or Path(tempfile.mkdtemp(prefix="refold-bench-"))
    place.mkdir(parents=True, exist_ok=True)
    try:
        results = anyio.run(compare, place, population, moves, inter_broker_protocol, runs, peer)
    except (BenchError, LabError) as error:
        _say(f"reassignment: {error}")
        raise typer.Exit(1) from None
    if folder is None:
        shutil.rmtree(place)
    often = f"{runs} run{'s' if runs > 1 else ''}"
    told = [
        f"{moves:,} moves",
        *conditions(population, inter_broker_protocol, often, results),
    ]
    if as_json:
        typer.echo(_as_json(results, told))
    else:
        _show(results, told)


if __name__ == "__main__":
    typer.run(main)
