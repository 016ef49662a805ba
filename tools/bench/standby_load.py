"""Measures the load of a standby on ZooKeeper, on the cluster of the failover benchmark.

    python -m tools.bench.standby_load --partitions 100000

The counts do not depend on the speed of the machine; processor times and memory do. ZooKeeper
counts the requests of each connection itself (`cons`), also its watches and znodes (`mntr`).
"""

import json
import re
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Annotated

import anyio
import typer

from controller.core.commands import WriteZnodes
from controller.core.operations import OK, SetData
from controller.core.values import ANY_VERSION
from tools.bench.measurement import BenchError, bench
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

_CONNECTION = re.compile(r"recved=(\d+),sent=(\d+),sid=(0x[0-9a-f]+)")
_BATCHES_PER_SECOND = 10
_COUNTS = ("zk_watch_count", "zk_znode_count")
_COLUMNS = ("seconds", "requests", "sent", "watches", "znodes", "CPU s", "RSS MB")


@dataclass(frozen=True)
class LoadSample:
    """The work of ZooKeeper in a phase. `requests` were received from the standby, and `sent` are
    replies and events to the standby. `watches`, `znodes` and `rss_mb` are those at the end."""

    phase: str
    seconds: float
    requests: int
    sent: int
    watches: int
    znodes: int
    cpu_seconds: float
    rss_mb: float


@dataclass(frozen=True)
class LoadResult:
    """The phases in their order."""

    conditions: str
    samples: list[LoadSample]


class StandbyLoadBench(StandbyBench):
    """A bench that is controller while a standby follows."""

    async def measure_load(
        self, contender: StandbyRefold, seconds: int, changes_per_second: int
    ) -> LoadResult:
        """Measure ZooKeeper without the standby, while the standby reads the cluster, and while it
        follows: in `seconds` without a change, and with changes of partition states."""
        await self._take_role()
        self._own_sessions = frozenset(await self._traffic())
        changing = partial(self._change_states, seconds, changes_per_second)
        idle = partial(anyio.sleep, seconds)
        with_changes = f"{changes_per_second} changes a second"
        samples = [
            await self._phase("no standby, no change", idle),
            await self._phase(f"no standby, {with_changes}", changing),
        ]

        async def become_ready() -> None:
            await contender.start(wait=False)
            await self._until_ready(contender, 1)

        samples += [
            await self._phase("the standby becomes ready", become_ready),
            await self._phase("standby, no change", idle),
            await self._phase(f"standby, {with_changes}", changing),
        ]
        await contender.stop()
        return LoadResult(contender.conditions, samples)

    async def _phase(self, name: str, work: Callable[[], Awaitable[None]]) -> LoadSample:
        self._report(name)
        begin_s, cpu_before = time.monotonic(), self.server.cpu_seconds()
        requests_before, sent_before = await self._traffic_of_standby()
        await work()
        requests, sent = await self._traffic_of_standby()
        counts = await self._counts()
        return LoadSample(
            name,
            time.monotonic() - begin_s,
            requests - requests_before,
            sent - sent_before,
            counts["zk_watch_count"],
            counts["zk_znode_count"],
            self.server.cpu_seconds() - cpu_before,
            self.server.rss_mb(),
        )

    async def _change_states(self, seconds: int, per_second: int) -> None:
        """Write partition states at an even rate, each of another partition."""
        states = cycle(self._population.states())
        size = per_second // _BATCHES_PER_SECOND
        begin_s = time.monotonic()
        for number in range(seconds * _BATCHES_PER_SECOND):
            # The rate is what is measured.
            await anyio.sleep(max(0, begin_s + number / _BATCHES_PER_SECOND - time.monotonic()))
            found = islice(states, size)
            changes = tuple(SetData(one.path, one.data, ANY_VERSION) for one in found)
            errors = await self._zookeeper.call(WriteZnodes(changes, None), size)
            if set(errors) != {OK}:
                raise BenchError(f"partition states could not be written: ZooKeeper codes {errors}")

    async def _traffic(self) -> dict[str, tuple[int, int]]:
        """The packets that were received and sent so far, by session."""
        text = await self.server.four_letter_word("cons")
        found = _CONNECTION.findall(text)
        return {session: (int(received), int(sent)) for received, sent, session in found}

    async def _traffic_of_standby(self) -> tuple[int, int]:
        traffic = await self._traffic()
        found = [one for session, one in traffic.items() if session not in self._own_sessions]
        return sum(received for received, _ in found), sum(sent for _, sent in found)

    async def _counts(self) -> dict[str, int]:
        lines = (await self.server.four_letter_word("mntr")).splitlines()
        pairs = [line.split("\t")[:2] for line in lines]
        return {name: int(value) for name, value in pairs if name in _COUNTS}


async def measure(
    folder: Path, population: Population, protocol: str, seconds: int, changes: int
) -> LoadResult:
    """Measure one standby on its own cluster."""
    async with bench(folder, population, protocol, report, StandbyLoadBench) as cluster:
        standby = StandbyRefold(folder, cluster.server, protocol)
        try:
            return await cluster.measure_load(standby, seconds, changes)
        finally:
            standby.close()


def main(
    partitions: Partitions = 100_000,
    per_topic: PerTopic = 100,
    brokers: Brokers = 6,
    replication_factor: ReplicationFactor = 3,
    inter_broker_protocol: InterBrokerProtocol = "3.9",
    seconds: Annotated[int, typer.Option(min=1, help="The duration of a phase.")] = 60,
    changes: Annotated[
        int, typer.Option(min=10, help="Changes of partition states a second, in tens.")
    ] = 100,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Print what ZooKeeper does for a standby: requests, watches, processor time and memory."""
    population = population_of(partitions, per_topic, brokers, replication_factor)
    work = partial(
        measure,
        population=population,
        protocol=inter_broker_protocol,
        seconds=seconds,
        changes=changes,
    )
    result = run("standby_load", folder, work)
    found = conditions(population, inter_broker_protocol, "each phase once", [result])
    if as_json:
        typer.echo(json.dumps({"conditions": found, **asdict(result)}, indent=2))
        return
    rows = [
        (
            one.phase,
            f"{one.seconds:.1f}",
            *(f"{count:,}" for count in (one.requests, one.sent, one.watches, one.znodes)),
            f"{one.cpu_seconds:.2f}",
            f"{one.rss_mb:.0f}",
        )
        for one in result.samples
    ]
    show_rows(["phase"], _COLUMNS, rows, [f"- {line}" for line in found])


if __name__ == "__main__":
    typer.run(main)
