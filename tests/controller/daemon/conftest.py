"""Clusters for the tests of the whole daemon. Every log must agree in a replay."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.controller.daemon.lab_cluster import BROKER_CONFIG, LabCluster
from tests.lab.shared_cluster import shared_cluster
from tools.lab import Lab


@asynccontextmanager
async def with_lab_cluster(lab: Lab, folder: Path, chroot: str = "") -> AsyncIterator[LabCluster]:
    """A `LabCluster` in a running lab. At its end the daemons' logs are replayed."""
    async with LabCluster(lab, folder, chroot) as lab_cluster:
        yield lab_cluster
    await lab_cluster.check_logs()


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """ZooKeeper and three stock brokers at inter.broker.protocol.version 2.6."""
    folder = tmp_path_factory.mktemp("cluster")
    with shared_cluster(folder, 3, inter_broker_protocol="2.6", config=BROKER_CONFIG) as lab:
        yield lab


@pytest.fixture
async def lab_cluster(shared_lab: Lab, tmp_path: Path) -> AsyncIterator[LabCluster]:
    """The shared cluster with all its servers running. It may contain topics of earlier tests."""
    for server in reversed(list(shared_lab.servers)):
        if server.state == "paused":
            server.resume()
        if not server.running:
            await server.start()
    async with with_lab_cluster(shared_lab, tmp_path) as made:
        await made.until_stock_controller()
        yield made
