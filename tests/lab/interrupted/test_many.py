"""2,000 partitions of 200 topics are reassigned and cancelled at once; brokers are stubs."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controller.core import znodes
from controller.core.commands import WriteZnodes
from controller.core.operations import OK, Create
from controller.core.znodes import (
    CANCEL_CONTENT,
    REASSIGN_CANCEL,
    Entry,
    write_entries,
)
from tests.controller.daemon.lab_cluster import WAIT_SECONDS, LabCluster
from tests.lab.default_clusters.cluster import LATEST_PROTOCOL, PROTOCOL
from tools.bench.population import Population
from tools.bench.stub_brokers import StubBrokers
from tools.bench.zookeeper_reads import CommandClient, client_of
from tools.lab import Lab
from tools.lab.cluster_view import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(1500)]

BROKERS = 6
POPULATION = Population(2000, 10, BROKERS, 3)
SECONDS_MAX = 600.0
"""A limit for a busy machine; on a quiet machine it takes some seconds."""


@asynccontextmanager
async def large_cluster(folder: Path) -> AsyncIterator[LabCluster]:
    """ZooKeeper with 200 topics, stub brokers, and no controller."""
    async with Lab(folder / "lab") as lab:
        server = await lab.start_zookeeper()
        async with client_of(server.connect) as zookeeper:
            await POPULATION.create(zookeeper)
        stubs = await StubBrokers.start(server.connect, folder / "stubs.log", LATEST_PROTOCOL)
        try:
            for broker in range(1, BROKERS + 1):
                await stubs.register(broker)
            async with LabCluster(lab, folder) as made:
                yield made
                await made.check_logs()
        finally:
            await stubs.close()


async def create(zookeeper: CommandClient, path: str, data: bytes) -> None:
    """Creates a znode as a tool does."""
    assert await zookeeper.call(WriteZnodes((Create(path, data),), None), 1) == [OK]


async def test_2000_partitions_are_reassigned_and_cancelled_in_one_go(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    async with large_cluster(tmp_path) as lab_cluster:
        record_property("seconds", await reassigned_and_cancelled(lab_cluster))


async def reassigned_and_cancelled(lab_cluster: LabCluster) -> tuple[float, float]:
    """The seconds until all were in progress, and until all were rolled back."""
    daemon = await lab_cluster.controlling(settings={PROTOCOL: LATEST_PROTOCOL})
    await lab_cluster.until_reported(daemon, "failover_done")
    given = {
        (topic, number): Entry(tuple(one % BROKERS + 1 for one in replicas))
        for topic, partitions in POPULATION.topics.items()
        for number, replicas in partitions.items()
    }
    last = list(POPULATION.topics)[-1]

    async def begun() -> bool:
        return len(await lab_cluster.view.children(f"/admin/reassignments/{last}")) == 10

    async def back() -> bool:
        return not await lab_cluster.view.exists(znodes.REASSIGN_PARTITIONS)

    async with client_of(lab_cluster.connect) as zookeeper:
        start = time.monotonic()
        await create(zookeeper, znodes.REASSIGN_PARTITIONS, write_entries(given))
        await until(begun, SECONDS_MAX, "all are in progress")
        submitted = time.monotonic() - start
        start = time.monotonic()
        await create(zookeeper, REASSIGN_CANCEL, CANCEL_CONTENT)
        await until(back, SECONDS_MAX, "all are rolled back")
        cancelled = time.monotonic() - start
    for topic, partitions in POPULATION.topics.items():
        znode = await lab_cluster.view.topic(topic)
        assert znode is not None
        wanted = {str(number): list(replicas) for number, replicas in partitions.items()}
        assert znode["partitions"] == wanted
        assert not znode.get("adding_replicas")

    async def no_records() -> bool:
        return await lab_cluster.view.children("/admin/reassignments") == []

    await until(no_records, WAIT_SECONDS, "no record exists")
    assert await daemon.stop() == 0
    return submitted, cancelled
