"""Clusters of seven stock brokers for reassignments that are interrupted."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path

import pytest

from tests.lab.default_clusters.cluster import BROKER_CONFIG, LATEST_PROTOCOL
from tests.lab.interrupted import crash_procedures
from tests.lab.interrupted.moving import Moving
from tests.lab.shared_cluster import shared_cluster
from tools.lab import Lab

BROKERS = 7
CRASH_CLUSTERS = 2
"""Clusters on which crash points are tested at the same time: most of the time is waiting."""


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
    """The cluster with all brokers running and no reassignment."""
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


@pytest.fixture(scope="module")
def crash_labs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Lab]]:
    """Clusters of ZooKeeper and seven stock brokers, configured for tests of crash points."""
    options = {
        "inter_broker_protocol": LATEST_PROTOCOL,
        "config": crash_procedures.BROKER_CONFIG,
        "java_options": ("-Xmx256m",),
    }
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                shared_cluster(tmp_path_factory.mktemp("cluster"), BROKERS, **options)
            )
            for _ in range(CRASH_CLUSTERS)
        ]


@pytest.fixture
async def crash_clusters(crash_labs: list[Lab], tmp_path: Path) -> AsyncIterator[list[Moving]]:
    """The clusters without a reassignment."""
    async with AsyncExitStack() as stack:
        lab_clusters = []
        for number, lab in enumerate(crash_labs):
            folder = tmp_path / f"lab_cluster-{number}"
            folder.mkdir()
            lab_clusters.append(await stack.enter_async_context(Moving(lab, folder)))
        for lab_cluster in lab_clusters:
            await lab_cluster.tidy()
            await lab_cluster.until_stock_controller()
        yield lab_clusters
    # One seed is enough: there are more than a hundred logs.
    await asyncio.gather(*(lab_cluster.check_logs(seeds=("77",)) for lab_cluster in lab_clusters))
