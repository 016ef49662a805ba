"""Seven stock brokers for reassignments that are interrupted."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.default_clusters.cluster import BROKER_CONFIG, LATEST_PROTOCOL
from tests.interrupted_lab.moving import Moving
from tools.lab import Lab
from tools.lab.shared import shared_cluster

BROKERS = 7


@pytest.fixture(scope="package")
def wide_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """ZooKeeper and seven stock brokers."""
    folder = tmp_path_factory.mktemp("cluster")
    with shared_cluster(
        folder, BROKERS, inter_broker_protocol=LATEST_PROTOCOL, config=BROKER_CONFIG
    ) as lab:
        yield lab


@pytest.fixture
async def moving(wide_lab: Lab, tmp_path: Path) -> AsyncIterator[Moving]:
    """The cluster with all its brokers up and nothing under way."""
    for broker in wide_lab.brokers:
        if broker.state == "paused":
            broker.resume()
        if not broker.running:
            await broker.start()
    async with Moving(wide_lab, tmp_path) as made:
        await made.tidy()
        await made.until_stock_controller()
        yield made
    await made.check_logs()
