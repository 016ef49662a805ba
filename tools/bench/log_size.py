"""Measures how many bytes an event log needs, and checks the formula of docs/logs.md.

The cluster is simulated; its log is written as the daemon writes it. The bytes of each step are
fitted for two sizes of cluster, and predict those of a third one. See
`python -m tools.bench.log_size --help`.
"""

import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Final, NamedTuple

import msgspec
import typer

from controller.core import znodes
from controller.core.configuration import Configuration
from controller.core.snapshot import take_snapshot
from controller.fingerprint import core_fingerprint
from replay.logs.histories import write_history
from replay.world.simulation import Simulation

BROKERS: Final = 6
REPLICATION_FACTOR: Final = 3
PER_TOPIC: Final = 100
SNAPSHOT: Final = "snapshot, uncompressed"
DIFFERENCE_MAX: Final = 0.1
"""Of the predicted bytes of a step from the measured ones."""


class LogSizeStep(NamedTuple):
    """A step of the simulated cluster. `partitions`: the share of all partitions that it changes
    or reads."""

    name: str
    act: Callable[[Simulation, int], None]
    partitions: float


def _create(simulation: Simulation, partitions: int) -> None:
    for first in range(0, partitions, PER_TOPIC):
        replicas = {
            str(number): [(first + number + one) % BROKERS for one in range(REPLICATION_FACTOR)]
            for number in range(min(PER_TOPIC, partitions - first))
        }
        body = {"version": 1, "partitions": replicas}
        simulation.put(znodes.topic_path(f"topic-{first:06}"), msgspec.json.encode(body))


def _broker_restarts(simulation: Simulation, _: int) -> None:
    simulation.stop_broker(1)
    simulation.start_broker(1)


STEPS: Final = (
    LogSizeStep("creation of topics", _create, 1),
    LogSizeStep("failover", lambda simulation, _: simulation.expire(), 1),
    LogSizeStep("crash and return of a broker", _broker_restarts, REPLICATION_FACTOR / BROKERS),
)


def measured(partitions: int, folder: Path) -> dict[str, int]:
    """The bytes of the log for each step, with this number of partitions."""
    configuration = Configuration(broker_id=1000, auto_leader_rebalance_enable=False)
    simulation = Simulation(configuration)
    for broker in range(BROKERS):
        simulation.register(broker)
    simulation.connect()
    ends = [len(simulation.history)]
    for step in STEPS:
        step.act(simulation, partitions)
        ends.append(len(simulation.history))
    sizes = []
    for number, end in enumerate(ends):
        log = folder / f"{partitions}-{number}"
        history = simulation.history[:end]
        write_history(
            log, history, configuration, core_fingerprint=core_fingerprint(), cluster_id="bench"
        )
        sizes.append(sum(file.stat().st_size for file in log.iterdir()))
    grown = (after - before for before, after in pairwise(sizes))
    found = dict(zip((one.name for one in STEPS), grown, strict=True))
    return found | {SNAPSHOT: len(take_snapshot(simulation.fold))}


def main(
    small: Annotated[int, typer.Option(help="Partitions of the first fitted cluster.")] = 2_000,
    large: Annotated[int, typer.Option(help="Partitions of the second fitted cluster.")] = 10_000,
    checked: Annotated[int, typer.Option(help="Partitions of the predicted cluster.")] = 40_000,
) -> None:
    """Print bytes per partition, and the predicted and measured bytes of a larger cluster.

    Exit status: 1 if a prediction differs by more than a tenth.
    """
    with TemporaryDirectory() as made:
        few, many, found = (measured(one, Path(made)) for one in (small, large, checked))
    typer.echo(f"{'step':30} {'bytes/partition':>15} {'predicted':>12} {'measured':>12}")
    is_wrong = False
    shares = {step.name: step.partitions for step in STEPS} | {SNAPSHOT: 1}
    for name, share in shares.items():
        slope = (many[name] - few[name]) / (large - small)
        predicted = few[name] + slope * (checked - small)
        is_wrong |= abs(predicted / found[name] - 1) > DIFFERENCE_MAX
        per_partition = slope / share
        typer.echo(f"{name:30} {per_partition:15.0f} {predicted:12,.0f} {found[name]:12,}")
    if is_wrong:
        sys.exit(1)


if __name__ == "__main__":
    typer.run(main)
