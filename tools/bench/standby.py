"""Measures the take-over by a standby on the cluster of the failover benchmark.

The benchmark holds /controller itself, in its session, and deletes it: that is the loss of the
controller. After each take-over it takes the role back, and the standby follows again.
"""

import time
from dataclasses import dataclass
from pathlib import Path

import anyio

from controller.core import znodes
from controller.core.commands import WriteAtomically
from controller.core.operations import NO_NODE, Create, Delete, SetData
from controller.core.values import ANY_VERSION
from tools.bench.contenders import RefoldContender
from tools.bench.measurement import BenchCluster, BenchError, StepSample, check_step
from tools.lab import ZooKeeperServer

_READY = '"code":"standby_ready"'
_POLL_SECONDS = 0.1
_FOREIGN_ID = 1


@dataclass(frozen=True)
class StandbyResult:
    """The measurements of a standby. `following_s`: from its start until it knows the cluster;
    memory is resident memory in MB while it follows, and its peak."""

    conditions: str
    samples: list[StepSample]
    following_s: float
    following_mb: float
    peak_rss_mb: float


class StandbyRefold(RefoldContender):
    """The daemon as a standby."""

    title = "refold, standby"
    options = ("--standby",)
    conditions = "refold, standby: `refold run --standby`; the benchmark was controller before"

    def __init__(self, folder: Path, zookeeper: ZooKeeperServer, protocol: str) -> None:
        super().__init__(folder / "standby", zookeeper, protocol)

    def times_ready(self) -> int:
        """How often the daemon has reported that it knows the cluster."""
        return self.log.read_text().count(_READY) if self.log.exists() else 0


class StandbyBench(BenchCluster):
    """A bench that is controller while a standby is measured."""

    async def measure_standby(self, contender: StandbyRefold, runs: int) -> StandbyResult:
        """Measure `runs` take-overs after a warm-up."""
        await self._population.reset_states(self._zookeeper)
        await self._take_role()
        begin_ns = time.monotonic_ns()
        await contender.start(wait=False)
        following_s = following_mb = 0.0
        samples = []
        for run in range(runs + 1):
            self._report(f"{contender.title}: {f'run {run} of {runs}' if run else 'warm-up'}")
            ready_ns = await self._until_ready(contender, run + 1)
            following_s = following_s or (ready_ns - begin_ns) / 1e9
            following_mb = contender.rss_mb()
            samples.append(
                await self._measure_propagation(
                    contender, self._role_lost, self._population.partitions
                )
            )
            await self._take_role()
        peak_rss_mb = contender.peak_rss_mb()
        await contender.stop()
        await self._role_lost()
        return StandbyResult(
            contender.conditions, samples[1:], following_s, following_mb, peak_rss_mb
        )

    async def _until_ready(self, contender: StandbyRefold, times: int) -> int:
        begin_ns = time.monotonic_ns()
        while contender.times_ready() < times:
            check_step(contender, begin_ns, "the standby does not know the cluster")
            await anyio.sleep(_POLL_SECONDS)
        ready_ns = time.monotonic_ns()
        # Its messages may come before its last work.
        await anyio.sleep(1)
        return ready_ns

    async def _take_role(self) -> None:
        """Become controller in one transaction, as a stock broker does, but with a seizure."""
        data = znodes.write_controller(_FOREIGN_ID, time.time_ns() // 1_000_000)
        [epoch] = await self._zookeeper.read((znodes.CONTROLLER_EPOCH,))
        raised = str(int(epoch or b"0") + 1).encode()
        create = Create(znodes.CONTROLLER, data, ephemeral=True)
        set_epoch = (
            Create(znodes.CONTROLLER_EPOCH, raised)
            if epoch is None
            else SetData(znodes.CONTROLLER_EPOCH, raised, ANY_VERSION)
        )
        seizure = (Delete(znodes.CONTROLLER, ANY_VERSION), create, set_epoch)
        errors = await self._zookeeper.call(WriteAtomically(seizure), len(seizure))
        if NO_NODE in errors:
            errors = await self._zookeeper.call(WriteAtomically(seizure[1:]), 2)
        if any(errors):
            raise BenchError(f"/controller could not be taken: ZooKeeper codes {errors}")
