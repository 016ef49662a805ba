"""Clusters at default settings; the logs of their daemons must agree in a replay."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.lab.default_clusters.cluster import BROKER_CONFIG, LATEST_PROTOCOL, DefaultLabCluster
from tests.lab.shared_cluster import shared_cluster
from tools.lab import Lab
from tools.lab.lab import LATEST_KAFKA


@asynccontextmanager
async def with_lab_cluster(
    lab: Lab, folder: Path, *, protocol: str = LATEST_PROTOCOL, chroot: str = ""
) -> AsyncIterator[DefaultLabCluster]:
    """A `LabCluster` in a running lab; the daemons' logs are checked at its end."""
    async with DefaultLabCluster(lab, folder, protocol=protocol, chroot=chroot) as lab_cluster:
        await lab_cluster.until_stock_controller()
        yield lab_cluster
    await lab_cluster.check_logs()


@pytest.fixture(scope="module")
def versions(request: pytest.FixtureRequest) -> tuple[str, str]:
    """Kafka's version and the protocol version; a module chooses others by parametrizing."""
    chosen: tuple[str, str] = getattr(request, "param", (LATEST_KAFKA, LATEST_PROTOCOL))
    return chosen


@pytest.fixture(scope="module")
def shared_lab(
    tmp_path_factory: pytest.TempPathFactory, versions: tuple[str, str]
) -> Iterator[Lab]:
    """ZooKeeper and three stock brokers of these versions."""
    kafka, protocol = versions
    folder = tmp_path_factory.mktemp("cluster")
    options = {"inter_broker_protocol": protocol, "config": BROKER_CONFIG}
    with shared_cluster(folder, 3, kafka=kafka, **options) as lab:
        yield lab


@pytest.fixture
async def lab_cluster(
    shared_lab: Lab, versions: tuple[str, str], tmp_path: Path
) -> AsyncIterator[DefaultLabCluster]:
    """The shared cluster with all brokers running; topics of earlier tests may exist."""
    for broker in shared_lab.brokers:
        if broker.state == "paused":
            broker.resume()
        if not broker.running:
            await broker.start()
    async with with_lab_cluster(shared_lab, tmp_path, protocol=versions[1]) as made:
        yield made
