"""Clusters for the tests of the whole daemon. Every log must agree in a replay."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.controller.daemon.scene import BROKER_CONFIG, Scene
from tools.lab import Lab
from tools.lab.shared import shared_cluster


@asynccontextmanager
async def staged(lab: Lab, folder: Path, chroot: str = "") -> AsyncIterator[Scene]:
    """A scene in a running cluster. At its end the daemons' logs are replayed."""
    async with Scene(lab, folder, chroot) as scene:
        yield scene
    await scene.check_logs()


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """ZooKeeper and three stock brokers at inter.broker.protocol.version 2.6."""
    folder = tmp_path_factory.mktemp("cluster")
    with shared_cluster(folder, 3, inter_broker_protocol="2.6", config=BROKER_CONFIG) as lab:
        yield lab


@pytest.fixture
async def scene(shared_lab: Lab, tmp_path: Path) -> AsyncIterator[Scene]:
    """The shared cluster with all its servers running. It may contain topics of earlier tests."""
    for server in reversed(list(shared_lab.servers)):
        if server.state == "paused":
            server.resume()
        if not server.running:
            await server.start()
    async with staged(shared_lab, tmp_path) as made:
        await made.until_stock_controller()
        yield made
