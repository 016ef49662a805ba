"""Code that the comparisons with Kafka's controller share: a run, its conditions, its messages."""

import os
import platform
import shutil
import statistics
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Protocol, TypeVar

import anyio
import typer
from rich.console import Console
from rich.table import Table

from controller.cli.output import print_table
from controller.daemon.errors import texts_of
from controller.fingerprint import code_version, core_fingerprint
from tools.bench.contenders import zookeeper_heap
from tools.bench.measurement import BenchError, StepSample
from tools.bench.population import Population
from tools.lab import LabError, zookeeper

_NAMES = ("step", "controller")
_COLUMNS = ("min s", "median s", "max s", "CPU s", "requests", "MB", "ratio")

Partitions = Annotated[int, typer.Option(min=1, help="Partitions of the cluster.")]
PerTopic = Annotated[int, typer.Option(min=1, help="Partitions per topic.")]
Brokers = Annotated[int, typer.Option(min=2, help="Stub brokers.")]
ReplicationFactor = Annotated[int, typer.Option(min=1)]
InterBrokerProtocol = Annotated[str, typer.Option(help="From 2.4 to 3.9.")]
Peer = Annotated[bool, typer.Option(help="Measure Kafka's controller, too.")]
Folder = Annotated[
    Path | None, typer.Option("--dir", help="For data and logs, kept; default: a temporary folder.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]

_out = Console(highlight=False)
_err = Console(stderr=True, highlight=False)


class BenchResult(Protocol):
    """A result with the conditions under which its contender ran."""

    @property
    def conditions(self) -> str:
        """The conditions as a line of the report."""


AnyResult = TypeVar("AnyResult")


def report(line: str) -> None:
    """Print a line about the progress to standard error."""
    _err.print(line, markup=False, soft_wrap=True)


def run(
    name: str, folder: Path | None, compare: Callable[[Path], Awaitable[AnyResult]]
) -> AnyResult:
    """Run a comparison in `folder`, or in a temporary folder, which is kept if the run fails.

    An error is printed in one line, and ends the process with status 1.
    """
    place = folder or Path(tempfile.mkdtemp(prefix="refold-bench-"))
    place.mkdir(parents=True, exist_ok=True)
    try:
        results = anyio.run(compare, place)
    except (BenchError, LabError) as error:
        failure = str(error)
    except ExceptionGroup as errors:
        # Contexts with a task group, such as a ZooKeeper session, wrap the error.
        failures, others = errors.split((BenchError, LabError))
        if failures is None or others is not None:
            raise
        failure = "; ".join(texts_of(failures))
    else:
        if folder is None:
            shutil.rmtree(place)
        return results
    report(f"{name}: {failure}")
    raise typer.Exit(1)


def conditions(
    population: Population, protocol: str, runs: str, results: Sequence[BenchResult]
) -> list[str]:
    """The conditions of the figures; `runs` says how often each step was measured."""
    one, five, _ = os.getloadavg()
    return [
        f"{population.partitions:,} partitions in {len(population.topics):,} topics, replication "
        f"factor {population.replication_factor}, {population.brokers} stub brokers, whose "
        f"responses name no partition, "
        f"inter.broker.protocol.version {protocol}, {runs}",
        f"{os.cpu_count()} cores ({platform.machine()}), load average {one:.1f} (1 min) and "
        f"{five:.1f} (5 min) at the end, ZooKeeper "
        f"{zookeeper.LATEST} with fsync ({zookeeper_heap(population.partitions)})",
        *(result.conditions for result in results),
        f"refold {code_version()}, core {core_fingerprint()}",
    ]


def population_of(
    partitions: int, per_topic: int, brokers: int, replication_factor: int
) -> Population:
    """The cluster of the options. Raises typer.BadParameter."""
    if replication_factor > brokers:
        raise typer.BadParameter(
            f"--replication-factor {replication_factor} needs at least as many brokers"
        )
    return Population(partitions, per_topic, brokers, replication_factor)


def show(
    titles: Sequence[str], steps: Mapping[str, Sequence[Sequence[StepSample]]], lines: Sequence[str]
) -> None:
    """Print the samples of each step, one row for each controller in `titles`, and then `lines`."""
    rows: list[Sequence[str]] = []
    for step, by_controller in steps.items():
        first = _median(by_controller[0], lambda one: one.seconds)
        for number, samples in enumerate(by_controller):
            seconds = [one.seconds for one in samples]
            rows.append(
                (
                    step,
                    titles[number],
                    *(f"{one(seconds):.2f}" for one in (min, statistics.median, max)),
                    f"{_median(samples, lambda one: one.cpu_seconds):.2f}",
                    f"{_median(samples, lambda one: one.requests):.0f}",
                    f"{_median(samples, lambda one: one.received_bytes) / 1e6:.1f}",
                    f"{statistics.median(seconds) / first:.2f}" if number else "",
                )
            )
    show_rows(_NAMES, _COLUMNS, rows, lines)


def show_rows(
    names: Sequence[str],
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    lines: Iterable[str],
) -> None:
    """Print a table, whose first columns `names` are texts and the others numbers, then `lines`."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in names:
        table.add_column(name)
    for name in columns:
        table.add_column(name, justify="right")
    for row in rows:
        table.add_row(*row)
    print_table(table)
    for line in lines:
        _out.print(line, markup=False, soft_wrap=True)


def _median(samples: Sequence[StepSample], value: Callable[[StepSample], float]) -> float:
    return statistics.median(map(value, samples))
