"""Stock brokers with a ZooKeeper that can be suspended: one server, or an ensemble of three."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from tests.controller.daemon.lab_cluster import BROKER_CONFIG, LabCluster
from tests.controller.zookeeper.ensemble import ensemble
from tools.lab import Lab, ZooKeeperServer
from tools.lab.refold import Refold

SHORT_MS = 2_000
LONG_MS = 30_000
HANG_SECONDS = 4.0
"""Beyond the short sessions. The followers of an ensemble do not give up their leader yet."""
CHECK_MS = 2_000


class HangCluster(LabCluster):
    """A cluster whose ZooKeeper can be suspended. `start_brokers` starts the brokers."""

    def __init__(self, lab: Lab, folder: Path, leader: ZooKeeperServer) -> None:
        super().__init__(lab, folder)
        self.leader = leader
        self.servers = ",".join(one.connect for one in lab.zookeepers)

    async def start_brokers(self, *session_ms: int) -> None:
        """Start a broker with each of these session timeouts."""
        for timeout_ms in session_ms:
            config = BROKER_CONFIG | {
                "zookeeper.connect": self.servers,
                "zookeeper.session.timeout.ms": str(timeout_ms),
                "min.insync.replicas": "1",
            }
            await self.lab.start_brokers(1, inter_broker_protocol="2.6", config=config)

    async def active(self, session_ms: int, **settings: str | int) -> Refold:
        """A daemon that has taken the role, and knows all servers."""
        given = {
            "zookeeper.session.timeout.ms": session_ms,
            "refold.registration.check.ms": CHECK_MS,
            **settings,
        }
        daemon = await self.controlling(connect=self.servers, settings=given)
        await self.until_reported(daemon, "failover_done")
        return daemon

    async def hang(self, seconds: float = HANG_SECONDS) -> None:
        """The server, or the leader of the ensemble, is suspended for a while (SIGSTOP)."""
        async with self.without_session():
            self.leader.pause()
            await asyncio.sleep(seconds)  # The server hangs for this time.
            self.leader.resume()


async def _servers(lab: Lab, count: int) -> ZooKeeperServer:
    """Start the servers. Returns the leader, which is the last one of the lab: the first one is
    what the tests read."""
    if count == 1:
        return await lab.start_zookeeper()
    servers = ensemble(lab.folder)
    lab.zookeepers += servers
    async with anyio.create_task_group() as tasks:
        for one in servers:
            tasks.start_soon(one.start)
    for one in servers:
        if "Mode: leader" in await one.four_letter_word("srvr"):
            lab.zookeepers.sort(key=lambda server: server is one)
            return one
    raise AssertionError("the ensemble has no leader")


@pytest.fixture(params=[1, 3], ids=["single", "ensemble"])
async def hang_cluster(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[HangCluster]:
    """A ZooKeeper without brokers yet. At the end the daemons' logs are replayed."""
    async with Lab(tmp_path / "lab") as lab:
        leader = await _servers(lab, request.param)
        async with HangCluster(lab, tmp_path, leader) as cluster:
            yield cluster
        await cluster.check_logs()
