"""Measures a controller while many partitions are reassigned, on a cluster of stub brokers.

The stubs never fetch, so a reassignment never completes. Each begin is measured on a reset cluster,
with a controller whose process just started.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property
from typing import Any
from uuid import UUID

import anyio
from kio.schema.errors import ErrorCode

from controller.core import znodes
from controller.core.commands import WriteZnodes
from controller.core.operations import (
    NO_NODE,
    NODE_EXISTS,
    OK,
    Create,
    Delete,
    WriteOperation,
)
from controller.core.values import ANY_VERSION
from controller.core.znodes import (
    REASSIGN_PARTITIONS_EXTRA,
    REASSIGNMENT_REQUESTS,
    REASSIGNMENTS,
    REPLICA_DELETIONS,
    Entry,
    Name,
    ReplicaDeletion,
    write_deletion,
    write_entries,
)
from tools.bench.contenders import Contender
from tools.bench.measurement import BenchCluster, BenchError, StepSample, check_step
from tools.bench.stub_brokers import LEADER_AND_ISR, Request
from tools.incidents.endpoint import alter_partition, ask, controlled_shutdown
from tools.lab.cluster_view import ClusterReader

QUIET_SECONDS = 3.0
"""LeaderAndIsr requests are complete when none arrived for this time."""
AFTER_SECONDS = 0.1
"""When a broker fails or asks for a shutdown, after the reassignments were submitted."""
ENDING_BROKER = 1
ISR_CHANGES_MAX = 200
"""The maximum number of AlterPartition requests during a begin."""
FAILOVERS = 5
"""How many failovers of each kind are measured in a run: they are so short that one varies much."""
NAMES_IN_DELETION = 100
"""How many replicas each record below /admin/replica_deletions has."""

_POLL_SECONDS = 0.05
_ASK_AGAIN_SECONDS = 0.005
_LEADER_AND_ISR_BYTES_MIN = 40
"""The minimum size of a partition with its replicas in LeaderAndIsr (KB 12.3.1)."""


class MoveStep(StrEnum):
    """The measurements of each controller."""

    FAILOVER = "failover, nothing moves"
    BEGIN = "begin"
    FAILOVER_MOVING = "failover, all moves in flight"
    FAILOVER_UNRECORDED = "failover, all moves in flight, as a stock controller began them"
    FAILOVER_DELETING = "failover, deletions pending"
    DEATH = "a broker dies during the begin"
    SHUTDOWN = "a broker asks for a controlled shutdown during the begin"
    ISR_CHANGE = "longest response to AlterPartition during the begin"


FAILOVER_STEPS = (
    MoveStep.FAILOVER,
    MoveStep.FAILOVER_DELETING,
    MoveStep.FAILOVER_MOVING,
    MoveStep.FAILOVER_UNRECORDED,
)
_TIMES = dict.fromkeys(FAILOVER_STEPS, FAILOVERS)


@dataclass(frozen=True)
class MoveMeasurements:
    """All measurements of one contender."""

    title: str
    conditions: str
    samples: dict[MoveStep, list[StepSample]]

    def seconds(self, step: MoveStep) -> list[float]:
        """The durations of one step."""
        return [one.seconds for one in self.samples[step]]


class MovingBench(BenchCluster):
    """A populated cluster in which some partitions are reassigned."""

    moves = 0
    """How many partitions are reassigned; set by the caller."""

    @cached_property
    def _replicas(self) -> list[tuple[Name, tuple[int, ...]]]:
        """All partitions in order, with their replicas. The first `moves` are reassigned."""
        return [
            ((topic, number), replicas)
            for topic, partitions in self._population.topics.items()
            for number, replicas in partitions.items()
        ]

    @cached_property
    def _targets(self) -> dict[Name, Entry]:
        """The first partitions, each with target brokers that have no replica of it."""
        found = {}
        for name, replicas in self._replicas[: self.moves]:
            others = [one for one in self._brokers if one not in replicas]
            first = name[1] % len(others)
            others = others[first:] + others[:first]
            found[name] = Entry(tuple(others[: self._population.replication_factor]))
        return found

    async def measure_moving(
        self, contender_type: Callable[[], Contender], runs: int
    ) -> MoveMeasurements:
        """Measure each step in each of `runs` new processes."""
        samples: dict[MoveStep, list[StepSample]] = {step: [] for step in MoveStep}
        contender = contender_type()
        for run in range(1, runs + 1):
            self._report(f"{contender.title}: run {run} of {runs}")
            for steps in (
                (
                    MoveStep.FAILOVER,
                    MoveStep.FAILOVER_DELETING,
                    MoveStep.BEGIN,
                    MoveStep.FAILOVER_MOVING,
                    MoveStep.FAILOVER_UNRECORDED,
                ),
                (MoveStep.DEATH,),
                (MoveStep.SHUTDOWN,),
                (MoveStep.ISR_CHANGE,),
            ):
                contender = contender_type()
                try:
                    await self._run_steps(contender, steps, samples)
                finally:
                    contender.close()
        return MoveMeasurements(contender.title, contender.conditions, samples)

    async def _run_steps(
        self,
        contender: Contender,
        steps: Sequence[MoveStep],
        samples: dict[MoveStep, list[StepSample]],
    ) -> None:
        await self._reset()
        everywhere = self._population.partitions
        await self._measure_propagation(
            contender, lambda: self._start_contender(contender), everywhere
        )
        repeated = [one for step in steps for one in [step] * _TIMES.get(step, 1)]
        for step in repeated:
            if step is MoveStep.BEGIN:
                sample = await self._measure_begin(contender)
            elif step is MoveStep.DEATH:
                sample = await self._measure_broker_failure(contender)
            elif step is MoveStep.SHUTDOWN:
                sample = await self._measure_controlled_shutdown(contender)
            elif step is MoveStep.ISR_CHANGE:
                sample = await self._measure_isr_changes(contender)
            elif step is MoveStep.FAILOVER_DELETING:
                sample = await self._measure_failover_with_deletions(contender)
            elif step is MoveStep.FAILOVER_UNRECORDED:
                sample = await self._measure_failover_without_records(contender)
            else:
                sample = await self._measure_failover(contender)
            self._report(f"{contender.title}: {step}: {sample.seconds:.2f} s")
            samples[step].append(sample)
        await contender.stop()
        await self._until_role_is(NO_NODE)
        if MoveStep.DEATH in steps:
            await self._stubs.register(ENDING_BROKER)

    # Failovers ------------------------------------------------------------------------------------

    async def _measure_failover(self, contender: Contender) -> StepSample:
        """A failover. As soon as the role is taken, a broker sends AlterPartition with the epoch of
        an earlier registration. The controller rejects it, and sends no broker a request."""
        [asked] = await self._isr_changes(1)
        request = replace(asked, broker_epoch=asked.broker_epoch - 1)
        answered: list[float] = []

        async def ask_when_elected(begin_ns: int) -> None:
            await self._until_role_is(OK)
            while (await ask(contender.port, request)).error_code != ErrorCode.stale_broker_epoch:
                check_step(contender, begin_ns, "AlterPartition is not handled")
                await anyio.sleep(_ASK_AGAIN_SECONDS)
            answered.append((time.monotonic_ns() - begin_ns) / 1e9)

        async with anyio.create_task_group() as tasks:

            async def lose_role() -> int:
                begin_ns = await self._role_lost()
                tasks.start_soon(ask_when_elected, begin_ns)
                return begin_ns

            sample = await self._measure_propagation(
                contender, lose_role, self._population.partitions
            )
        return replace(sample, answered_seconds=answered[0])

    # Pending deletions ----------------------------------------------------------------------------

    async def _measure_failover_with_deletions(self, contender: Contender) -> StepSample:
        """Measure a failover while as many replicas as there are moves are left on a broker that is
        not registered."""
        names = list(self._targets)
        records = {
            f"{REPLICA_DELETIONS}/0_{start}": names[start : start + NAMES_IN_DELETION]
            for start in range(0, len(names), NAMES_IN_DELETION)
        }
        absent = self._brokers[-1] + 1
        creates = [
            Create(path, write_deletion(ReplicaDeletion(absent, tuple(some))))
            for path, some in records.items()
        ]
        # refold creates the parent itself; without refold it does not exist.
        await self._write([Create(REPLICA_DELETIONS, b"")], NODE_EXISTS)
        await self._write(creates)
        sample = await self._measure_failover(contender)
        await self._write([Delete(path, ANY_VERSION) for path in records])
        return sample

    # Moves of a stock controller ------------------------------------------------------------------

    async def _measure_failover_without_records(self, contender: Contender) -> StepSample:
        """The records of the moves are deleted, which a stock controller does not write."""
        records = await self._records()
        await self._write([Delete(path, ANY_VERSION) for path in records])
        sample = await self._measure_failover(contender)
        if len(await self._records()) < len(records):
            raise BenchError(
                f"{contender.title} has not written all records of its moves again in its failover,"
                f" which took {sample.seconds:.1f} s; see {contender.folder}"
            )
        return sample

    # Begin ----------------------------------------------------------------------------------------

    async def _submit(self) -> int:
        requested_ns = time.monotonic_ns()
        await self._write([Create(znodes.REASSIGN_PARTITIONS, write_entries(self._targets))])
        return requested_ns

    async def _measure_begin(self, contender: Contender) -> StepSample:
        """Wait until ZooKeeper has all adding replicas and their brokers have the last
        LeaderAndIsr."""
        await self._stubs.requests()
        cpu_before = contender.cpu_seconds()
        begin_ns = await self._submit()
        stored_ns = await self._wait_until(
            contender, begin_ns, self._adding_missing, "adding replicas"
        )
        received: list[Request] = []

        async def receive_more() -> bool:
            received.extend(
                one
                for one in await self._stubs.requests()
                if one.controller == contender.broker_id and one.api == LEADER_AND_ISR
            )
            return not self._is_complete(received)

        await self._wait_until(contender, begin_ns, receive_more, "LeaderAndIsr requests")
        last_ns = max(stored_ns, received[-1].ended_ns)
        return StepSample(
            (last_ns - begin_ns) / 1e9,
            contender.cpu_seconds() - cpu_before,
            len(received),
            sum(one.frame_bytes for one in received),
        )

    def _is_complete(self, received: Sequence[Request]) -> bool:
        """Whether each adding broker received the minimum number of bytes, and no more requests
        arrive."""
        missing = dict.fromkeys(self._brokers, 0)
        for entry in self._targets.values():
            for broker in entry.replicas:
                missing[broker] += _LEADER_AND_ISR_BYTES_MIN
        for one in received:
            missing[one.broker] -= one.frame_bytes
        if not received or any(one > 0 for one in missing.values()):
            return False
        return time.monotonic_ns() - received[-1].ended_ns > QUIET_SECONDS * 1e9

    async def _adding_missing(self) -> bool:
        """Whether a partition has no adding replicas in ZooKeeper yet."""
        paths = tuple(dict.fromkeys(znodes.topic_path(topic) for topic, _ in self._targets))
        found = dict(zip(paths, await self._zookeeper.read(paths), strict=True))
        assignments = {
            path: znodes.read_topic(path, data).assignments
            for path, data in found.items()
            if data is not None
        }
        return not all(
            assignments[znodes.topic_path(topic)][number].adding for topic, number in self._targets
        )

    # Failure of a broker --------------------------------------------------------------------------

    async def _measure_broker_failure(self, contender: Contender) -> StepSample:
        """Measure the time from the broker's failure until no state names it as the leader."""
        await self._stubs.requests()
        cpu_before = contender.cpu_seconds()
        await self._submit()
        await anyio.sleep(AFTER_SECONDS)
        begin_ns = await self._stubs.unregister(ENDING_BROKER)
        led = [
            znodes.state_path(*name)
            for name, replicas in self._replicas
            if replicas[0] == ENDING_BROKER
        ]

        async def leads() -> bool:
            found = await self._zookeeper.read(tuple(led))
            led[:] = [
                path
                for path, data in zip(led, found, strict=True)
                if znodes.read_state(path, data, 0).leader == ENDING_BROKER
            ]
            return bool(led)

        end_ns = await self._wait_until(contender, begin_ns, leads, "leaders")
        requests = await self._stubs.requests()
        return StepSample(
            (end_ns - begin_ns) / 1e9,
            contender.cpu_seconds() - cpu_before,
            len(requests),
            sum(one.frame_bytes for one in requests),
        )

    # Requests of brokers --------------------------------------------------------------------------

    async def _measure_controlled_shutdown(self, contender: Contender) -> StepSample:
        """Measure the time from a broker's request to shut down until the response."""
        async with ClusterReader(self.server.connect) as view:
            epoch = await view.broker_epoch(ENDING_BROKER)
        cpu_before = contender.cpu_seconds()
        await self._submit()
        await anyio.sleep(AFTER_SECONDS)
        seconds = await self._response_seconds(contender, controlled_shutdown(ENDING_BROKER, epoch))
        return StepSample(seconds, contender.cpu_seconds() - cpu_before, 1, 0)

    async def _measure_isr_changes(self, contender: Contender) -> StepSample:
        """The longest response to leaders that shrink the ISR of one partition after the other. No
        request is sent after the last reassignment has begun."""
        requests = await self._isr_changes(ISR_CHANGES_MAX)
        cpu_before = contender.cpu_seconds()
        begin_ns = await self._submit()
        longest, sent = 0.0, 0
        for request in requests:
            longest, sent = max(longest, await self._response_seconds(contender, request)), sent + 1
            check_step(contender, begin_ns, "adding replicas missing")
            if not await self._adding_missing():
                break
        return StepSample(longest, contender.cpu_seconds() - cpu_before, sent, 0)

    async def _isr_changes(self, count: int) -> list[Any]:
        """Requests to remove the last replica of partitions that are not reassigned from the
        ISR."""
        requests = []
        async with ClusterReader(self.server.connect) as view:
            epochs = {one: await view.broker_epoch(one) for one in self._brokers}
            for (topic, number), replicas in self._replicas[self.moves :][:count]:
                state, version = await view.versioned(znodes.state_path(topic, number))
                changed = {**state, "isr": replicas[:-1], "version": version}
                leader, topic_id = state["leader"], UUID(bytes=self._population.topic_ids[topic])
                requests.append(alter_partition(leader, epochs[leader], topic_id, number, changed))
        return requests

    async def _response_seconds(self, contender: Contender, request: Any) -> float:
        """The seconds until a broker's request is answered. Raises BenchError if it fails."""
        asked = time.monotonic()
        what = type(request).__name__
        try:
            answer = await ask(contender.port, request)
        except (OSError, TimeoutError) as error:
            raise BenchError(f"{contender.title}: no response to {what}: {error!r}") from error
        seconds = time.monotonic() - asked
        errors = [answer.error_code]
        errors += [
            one.error_code for topic in getattr(answer, "topics", ()) for one in topic.partitions
        ]
        if any(errors):
            raise BenchError(f"{contender.title} rejected {what}: {answer}")
        return seconds

    async def _wait_until(
        self,
        contender: Contender,
        begin_ns: int,
        is_missing: Callable[[], Awaitable[bool]],
        what: str,
    ) -> int:
        """Wait until `is_missing` is false; returns the monotonic clock before the last check."""
        while True:
            looked_ns = time.monotonic_ns()
            if not await is_missing():
                return looked_ns
            check_step(contender, begin_ns, f"{what} missing")
            await anyio.sleep(_POLL_SECONDS)

    # Reset ----------------------------------------------------------------------------------------

    async def _reset(self) -> None:
        """Remove all reassignments and restore all partitions."""
        paths = [znodes.REASSIGN_PARTITIONS, REASSIGN_PARTITIONS_EXTRA]
        async with ClusterReader(self.server.connect) as view:
            for parent in (REASSIGNMENT_REQUESTS, REPLICA_DELETIONS):
                paths += [f"{parent}/{one}" for one in await view.children(parent)]
        paths += await self._records()
        await self._write([Delete(path, ANY_VERSION) for path in paths], NO_NODE)
        await self._population.reset_assignments(self._zookeeper)
        await self._population.reset_states(self._zookeeper)

    async def _records(self) -> list[str]:
        """The records of refold's reassignments, and their parents. Kafka has none."""
        paths: list[str] = []
        async with ClusterReader(self.server.connect) as view:
            for topic in await view.children(REASSIGNMENTS):
                folder = f"{REASSIGNMENTS}/{topic}"
                paths += [f"{folder}/{one}" for one in await view.children(folder)]
                paths.append(folder)
        return paths

    async def _write(self, operations: Sequence[WriteOperation], *accepted: int) -> None:
        """Write to ZooKeeper. Raises BenchError for a code that is neither OK nor accepted."""
        errors = await self._zookeeper.call(WriteZnodes(tuple(operations), None), len(operations))
        for operation, error in zip(operations, errors, strict=True):
            if error not in (OK, *accepted):
                raise BenchError(f"{operation.path} cannot be written: ZooKeeper code {error}")
