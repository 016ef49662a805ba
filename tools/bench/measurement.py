"""Measures controllers on a populated cluster of stub brokers, one step at a time.

A duration begins with the trigger: the request that deletes /controller, or that deletes or creates
a broker's registration. It ends with the last byte of the last request that a stub received. All
processes of the machine share the monotonic clock that is used.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

import anyio

from controller.core import znodes
from controller.core.commands import ReadZnodes, WriteZnodes
from controller.core.operations import NO_NODE, OK, Delete
from controller.core.values import ANY_VERSION
from tools.bench.contenders import Contender, FastZooKeeper, zookeeper_heap
from tools.bench.population import Population
from tools.bench.stub_brokers import UPDATE_METADATA, Request, StubBrokers
from tools.bench.zookeeper_reads import CommandClient, client_of
from tools.lab.secured import SecuredFiles

STEP_SECONDS_MAX = 300.0
QUIET_SECONDS_MIN = 3.0
"""A step ends when no request arrived for this time and for half of the step's duration."""

_POLL_SECONDS = 0.1
_FALLING_BROKER = 1


class Step(StrEnum):
    """The measured quantities."""

    FAILOVER = "failover"
    BROKER_FAILURE = "broker-failure"
    BROKER_START = "broker-start"


Report = Callable[[str], None]
"""Takes a line about the current step."""


class BenchError(Exception):
    """A controller did not do the measured work. The message says which log to read."""


@dataclass(frozen=True)
class StepSample:
    """One measurement of a step: its duration, the contender's CPU time, the received requests,
    and when it began by the monotonic clock.

    `informed_seconds`: until all brokers had received UpdateMetadata for all partitions.
    `answered_seconds`: until a request that was sent during a failover was answered; 0: none was.
    """

    seconds: float
    cpu_seconds: float
    requests: int
    received_bytes: int
    begin_ns: int = 0
    informed_seconds: float = 0.0
    answered_seconds: float = 0.0


@dataclass(frozen=True)
class ContenderMeasurements:
    """All measurements of one contender; `cold` is the failover after its process starts."""

    title: str
    conditions: str
    cold: StepSample
    samples: dict[Step, list[StepSample]]
    peak_rss_mb: float


def check_step(contender: Contender, begin_ns: int, what: str) -> None:
    """Check that a step does not take too long, and that the contender runs. Raises BenchError;
    `what` says what is late."""
    if time.monotonic_ns() - begin_ns > STEP_SECONDS_MAX * 1e9:
        raise BenchError(
            f"{contender.title}: {what} after {STEP_SECONDS_MAX:g} s; see {contender.folder}"
        )
    if not contender.running:
        raise BenchError(f"{contender.title} exited; see {contender.folder}")


AnyBench = TypeVar("AnyBench", bound="BenchCluster")


class BenchCluster:
    """A populated cluster with stub brokers, on which controllers are measured one after the
    other."""

    def __init__(
        self,
        population: Population,
        server: FastZooKeeper,
        zookeeper: CommandClient,
        stubs: StubBrokers,
        report: Report,
    ) -> None:
        self.server = server
        self._population = population
        self._zookeeper = zookeeper
        self._stubs = stubs
        self._report = report

    async def set_up(self) -> None:
        """Populate ZooKeeper and start the stubs."""
        await self._population.create(self._zookeeper)
        for broker in self._brokers:
            await self._stubs.register(broker)

    @property
    def _brokers(self) -> Sequence[int]:
        return range(1, self._population.brokers + 1)

    async def measure(
        self, contender: Contender, steps: Sequence[Step], runs: int
    ) -> ContenderMeasurements:
        """Start a contender, run a warm-up, measure each step `runs` times, and stop it."""
        everywhere = self._population.partitions
        samples: dict[Step, list[StepSample]] = {step: [] for step in steps}
        await self._population.reset_states(self._zookeeper)
        self._report(f"{contender.title}: starting, becoming controller")
        cold = await self._measure_propagation(
            contender, lambda: self._start_contender(contender), everywhere
        )
        for run in range(runs + 1):
            self._report(f"{contender.title}: {f'run {run} of {runs}' if run else 'warm-up'}")
            measured = await self._cycle(contender, steps)
            if run:
                for step in steps:
                    samples[step].append(measured[step])
        peak_rss_mb = contender.peak_rss_mb()
        await contender.stop()
        await self._until_role_is(NO_NODE)
        return ContenderMeasurements(
            contender.title, contender.conditions, cold, samples, peak_rss_mb
        )

    async def _cycle(self, contender: Contender, steps: Sequence[Step]) -> dict[Step, StepSample]:
        """Measure a failover; then the failure and return of a broker, if one of these is
        requested."""
        population, stubs = self._population, self._stubs
        a_broker_falls = Step.BROKER_FAILURE in steps or Step.BROKER_START in steps
        if a_broker_falls:
            await population.reset_states(self._zookeeper)
        failover = await self._measure_propagation(
            contender, self._role_lost, population.partitions
        )
        if not a_broker_falls:
            return {Step.FAILOVER: failover}
        affected = population.replicas_on(_FALLING_BROKER)
        failure = await self._measure_propagation(
            contender, lambda: stubs.unregister(_FALLING_BROKER), affected, but=_FALLING_BROKER
        )
        start = await self._measure_propagation(
            contender, lambda: stubs.register(_FALLING_BROKER), affected
        )
        return {
            Step.FAILOVER: failover,
            Step.BROKER_FAILURE: failure,
            Step.BROKER_START: start,
        }

    async def _start_contender(self, contender: Contender) -> int:
        await contender.start(wait=False)
        return await self._until_role_is(OK)

    async def _role_lost(self) -> int:
        requested_ns = time.monotonic_ns()
        delete = Delete(znodes.CONTROLLER, ANY_VERSION)
        errors = await self._zookeeper.call(WriteZnodes((delete,), None), 1)
        if errors != [OK]:
            raise BenchError(f"/controller could not be deleted: ZooKeeper code {errors[0]}")
        return requested_ns

    async def _until_role_is(self, wanted: int) -> int:
        """Wait until /controller exists (OK) or does not (NO_NODE); returns the monotonic clock."""
        with anyio.fail_after(STEP_SECONDS_MAX):
            while True:
                errors = await self._zookeeper.call(ReadZnodes((znodes.CONTROLLER,)), 1)
                if errors == [wanted]:
                    return time.monotonic_ns()
                await anyio.sleep(0.02)

    async def _measure_propagation(
        self,
        contender: Contender,
        trigger: Callable[[], Awaitable[int]],
        partitions: int,
        *,
        but: int | None = None,
    ) -> StepSample:
        """Run the trigger and wait until all brokers except `but` have received UpdateMetadata for
        `partitions` partitions."""
        await self._stubs.requests()
        cpu_before = contender.cpu_seconds() if contender.running else 0.0
        begin_ns = await trigger()
        missing = {
            broker: partitions * self._metadata_bytes_min
            for broker in self._brokers
            if broker != but
        }
        received: list[Request] = []
        informed_ns = begin_ns
        while not self._is_over(received, begin_ns, missing):
            check_step(contender, begin_ns, "UpdateMetadata incomplete")
            await anyio.sleep(_POLL_SECONDS)
            for one in await self._stubs.requests():
                if one.controller == contender.broker_id:
                    received.append(one)
                    if one.api == UPDATE_METADATA and missing.get(one.broker, 0) > 0:
                        missing[one.broker] -= one.frame_bytes
                        informed_ns = one.ended_ns
        return StepSample(
            (received[-1].ended_ns - begin_ns) / 1e9,
            contender.cpu_seconds() - cpu_before,
            len(received),
            sum(one.frame_bytes for one in received),
            begin_ns,
            (informed_ns - begin_ns) / 1e9,
        )

    @property
    def _metadata_bytes_min(self) -> int:
        """The minimum size of a partition in UpdateMetadata without its topic (KB 12.3.2): 24
        bytes, and 4 for each replica and each ISR member, of which one may be missing."""
        return 24 + 4 * (2 * self._population.replication_factor - 1)

    def _is_over(self, received: list[Request], begin_ns: int, missing: dict[int, int]) -> bool:
        if not received or any(one > 0 for one in missing.values()):
            return False
        last_ns = received[-1].ended_ns
        quiet_ns = max(QUIET_SECONDS_MIN * 1e9, (last_ns - begin_ns) / 2)
        return time.monotonic_ns() - last_ns > quiet_ns


@asynccontextmanager
async def bench(
    folder: Path,
    population: Population,
    protocol: str,
    report: Report,
    kind: type[AnyBench],
    files: SecuredFiles | None = None,
) -> AsyncIterator[AnyBench]:
    """Set up a bench of class `kind` in `folder`. All its processes end with the block. `files`:
    the servers have listeners with TLS and SASL, too."""
    server = FastZooKeeper(folder, zookeeper_heap(population.partitions), files)
    report(f"populating a real ZooKeeper with {population.partitions:,} partitions")
    try:
        # Making the topics takes longer than a session lasts.
        _ = population.topics
        await server.start()
        async with client_of(server.connect) as client:
            log = folder / "stub-brokers.log"
            stubs = await StubBrokers.start(
                server.connect,
                log,
                protocol,
                None if files is None else files.authority.issue("stubs").pem,
            )
            try:
                made = kind(population, server, client, stubs, report)
                await made.set_up()
                yield made
            finally:
                await stubs.close()
    finally:
        server.close()
