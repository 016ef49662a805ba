"""Compares refold with Kafka's controller: how long leaders wait for responses to AlterPartition.

    python -m tools.bench.alter_partition --partitions 100000 --rate 500

Each stub broker removes the last replica from the ISR of the partitions that it leads, one after
the other, at its share of the rate. As a Kafka broker does, it has one request in flight, and the
next one has all changes that came meanwhile. A wait begins when the leader has the change, also if
its earlier request is not answered yet.

Bias: as that of tools.bench.failover. The client runs in the process of the benchmark, and its
processor time is part of all waits.
"""

import json
import statistics
import time
from asyncio import StreamReader, StreamWriter, open_connection
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from struct import unpack
from typing import Annotated, Any
from uuid import UUID

import anyio
import typer

from controller.core import znodes
from controller.core.znodes import Name
from controller.wire.client_requests import RequestHead, decode_response, encode_request
from tools.bench.contenders import Contender, KafkaPeer, RefoldContender
from tools.bench.measurement import BenchCluster, BenchError, bench
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
    population_of,
    report,
    run,
    show_rows,
)
from tools.incidents.endpoint import alter_partition
from tools.lab.cluster_view import ClusterReader
from tools.lab.ports import HOST

_CLIENT = "bench"
_ANSWER_SECONDS_MAX = 60.0
_WARM_UP_SECONDS = 5
"""The waits of the first seconds are not counted."""


@dataclass(frozen=True)
class PartitionWaits:
    """The waits of all partitions, in milliseconds."""

    title: str
    conditions: str
    milliseconds: list[float] = field(repr=False)
    requests: int
    cpu_seconds: float

    @property
    def p99(self) -> float:
        """99 % of the waits are not longer."""
        return statistics.quantiles(self.milliseconds, n=100)[98]


class _Leader:
    """One broker: the changes that it has, and its connection to the controller."""

    def __init__(self, changes: Sequence[Any], reader: StreamReader, writer: StreamWriter) -> None:
        self.milliseconds: list[float] = []
        self.requests = 0
        self._changes = changes
        self._reader = reader
        self._writer = writer

    async def send(self, per_second: float) -> None:
        """Send all changes, each when it is due. Raises BenchError if one is refused."""
        begin, sent = time.monotonic(), 0
        while sent < len(self._changes):
            due = min(len(self._changes), 1 + int((time.monotonic() - begin) * per_second))
            if due == sent:
                await anyio.sleep(max(begin + sent / per_second - time.monotonic(), 0))
                continue
            await self._ask(_merged_request(self._changes[sent:due]))
            answered = time.monotonic()
            self.milliseconds += [
                (answered - begin - one / per_second) * 1e3 for one in range(sent, due)
            ]
            sent = due

    async def _ask(self, request: Any) -> None:
        self.requests += 1
        head = RequestHead(request.__api_key__, request.__version__, self.requests)
        self._writer.write(encode_request(head, _CLIENT, request))
        try:
            with anyio.fail_after(_ANSWER_SECONDS_MAX):
                (size,) = unpack(">i", await self._reader.readexactly(4))
                answer = decode_response(head, await self._reader.readexactly(size))
        except (OSError, EOFError) as error:
            raise BenchError(f"no response to an AlterPartition request: {error!r}") from error
        errors = [one.error_code for topic in answer.topics for one in topic.partitions]
        if answer.error_code or any(errors):
            raise BenchError(f"an AlterPartition request was rejected: {answer}")


def _merged_request(requests: Sequence[Any]) -> Any:
    """One request of a broker with the partitions of several."""
    first = requests[0]
    topics: dict[UUID, list[Any]] = {}
    for one in requests:
        for topic in one.topics:
            topics.setdefault(topic.topic_id, []).extend(topic.partitions)
    kind = type(first.topics[0])
    merged = tuple(
        kind(topic_id=id, partitions=tuple(partitions)) for id, partitions in topics.items()
    )
    return type(first)(broker_id=first.broker_id, broker_epoch=first.broker_epoch, topics=merged)


class AlterPartitionBench(BenchCluster):
    """A populated cluster whose leaders shrink ISRs."""

    async def measure_waits(
        self, contender: Contender, rate: float, seconds: float
    ) -> PartitionWaits:
        """Start a contender, wait for its failover, and measure the waits of leaders."""
        self._report(f"{contender.title}: starting, becoming controller")
        await self._population.reset_states(self._zookeeper)
        await self._measure_propagation(
            contender, lambda: self._start_contender(contender), self._population.partitions
        )
        per_broker = int(rate * (_WARM_UP_SECONDS + seconds)) // len(self._brokers)
        changes = await self._changes(per_broker)
        self._report(f"{contender.title}: {rate:g} partitions a second for {seconds:g} s")
        cpu_before = contender.cpu_seconds()
        leaders: list[_Leader] = []
        async with anyio.create_task_group() as tasks:
            for one in changes.values():
                try:
                    reader, writer = await open_connection(HOST, contender.port)
                except OSError as error:
                    raise BenchError(f"{contender.title} cannot be reached: {error!r}") from error
                leaders.append(_Leader(one, reader, writer))
            for leader in leaders:
                tasks.start_soon(leader.send, rate / len(leaders))
        cpu_seconds = contender.cpu_seconds() - cpu_before
        await contender.stop()
        skipped = int(rate * _WARM_UP_SECONDS) // len(leaders)
        waits = [one for leader in leaders for one in leader.milliseconds[skipped:]]
        requests = sum(leader.requests for leader in leaders)
        return PartitionWaits(contender.title, contender.conditions, waits, requests, cpu_seconds)

    async def _changes(self, per_broker: int) -> dict[int, list[Any]]:
        """For each broker requests that remove the last replica of a partition from its ISR."""
        found: dict[int, list[Any]] = {one: [] for one in self._brokers}
        async with ClusterReader(self.server.connect) as view:
            epochs = {one: await view.broker_epoch(one) for one in self._brokers}
            for topic, partitions in self._population.topics.items():
                topic_id = UUID(bytes=self._population.topic_ids[topic])
                for number, replicas in partitions.items():
                    leader = replicas[0]
                    if len(found[leader]) == per_broker:
                        continue
                    name: Name = topic, number
                    state, version = await view.versioned(znodes.state_path(*name))
                    changed = {**state, "isr": replicas[:-1], "version": version}
                    found[leader].append(
                        alter_partition(leader, epochs[leader], topic_id, number, changed)
                    )
                if all(len(one) == per_broker for one in found.values()):
                    return found
        raise BenchError("there are fewer partitions than changes; use a lower --rate or --seconds")


async def compare(
    folder: Path,
    population: Population,
    protocol: str,
    rate: float,
    seconds: float,
    with_peer: bool,
) -> list[PartitionWaits]:
    """Measure Kafka's controller and refold, each alone, on the same cluster."""
    results = []
    async with bench(folder, population, protocol, report, AlterPartitionBench) as cluster:
        for kind in (KafkaPeer, RefoldContender) if with_peer else (RefoldContender,):
            contender: Contender = kind(folder, cluster.server, protocol)
            try:
                results.append(await cluster.measure_waits(contender, rate, seconds))
            finally:
                contender.close()
    return results


def _show(results: Sequence[PartitionWaits], found: Sequence[str]) -> None:
    rows = [
        (
            one.title,
            f"{statistics.median(one.milliseconds):.1f}",
            f"{one.p99:.1f}",
            f"{max(one.milliseconds):.1f}",
            f"{one.requests}",
            f"{one.cpu_seconds:.1f}",
            f"{one.p99 / results[0].p99:.2f}" if number else "",
        )
        for number, one in enumerate(results)
    ]
    columns = ("median ms", "p99 ms", "max ms", "requests", "CPU s", "ratio of p99")
    show_rows(("controller",), columns, rows, (f"- {line}" for line in found))


def main(
    partitions: Partitions = 100_000,
    per_topic: PerTopic = 100,
    brokers: Brokers = 6,
    replication_factor: ReplicationFactor = 3,
    inter_broker_protocol: InterBrokerProtocol = "3.9",
    rate: Annotated[float, typer.Option(min=1, help="Changed partitions a second.")] = 500,
    seconds: Annotated[float, typer.Option(min=1, help="How long.")] = 30,
    peer: Peer = True,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Print how long leaders wait until the controller has accepted a change of an ISR.

    `ratio` is refold's p99 divided by Kafka's. CPU time is that of the controller's process.
    """
    population = population_of(partitions, per_topic, brokers, replication_factor)
    comparison = partial(
        compare,
        population=population,
        protocol=inter_broker_protocol,
        rate=rate,
        seconds=seconds,
        with_peer=peer,
    )
    results = run("alter_partition", folder, comparison)
    found = conditions(population, inter_broker_protocol, f"{seconds:g} s", results)
    if as_json:
        content = [{**asdict(one), "p99": one.p99} for one in results]
        typer.echo(json.dumps({"conditions": found, "results": content}, indent=2))
    else:
        _show(results, found)


if __name__ == "__main__":
    typer.run(main)
