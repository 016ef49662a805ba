"""A broker is added to a running cluster (docs/rows/failover.md, F-01 and F-02)."""

from pathlib import Path

import pytest

from tests.lab.default_clusters.cluster import BROKER_CONFIG, DefaultLabCluster
from tools.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]


async def test_new_broker_changes_no_partition_and_gets_replicas_of_a_new_topic(
    tmp_path: Path,
) -> None:
    async with Lab(tmp_path / "servers") as lab:
        await lab.start_zookeeper()
        await lab.start_brokers(2, config=BROKER_CONFIG)
        async with DefaultLabCluster(lab, tmp_path) as lab_cluster:
            await lab_cluster.until_stock_controller()
            daemon = await lab_cluster.controlling()
            await lab_cluster.create_topic("before", {0: [1, 2], 1: [2, 1]})
            await lab_cluster.until_in_sync("before", 2)
            states = await lab_cluster.view.states("before")

            await lab.start_brokers(1, config=BROKER_CONFIG)
            # Each broker knows the leaders, also the new one.
            await lab_cluster.until_led("before", {0: 1, 1: 2})
            await lab_cluster.until_auto_created(["after"])

            assert await lab_cluster.replicas_of("before") == {0: [1, 2], 1: [2, 1]}
            assert await lab_cluster.view.states("before") == states
            [replicas] = (await lab_cluster.replicas_of("after")).values()
            assert sorted(replicas) == [1, 2, 3]
            assert await daemon.stop() == 0
            await lab_cluster.check_logs(["0"])
