"""The runbook of a migration to KRaft and its rollback."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.lab.default_clusters.cluster import BROKER_CONFIG, LATEST_PROTOCOL, DefaultLabCluster
from tests.lab.runbooks.clusters import process_in, runbook
from tools.lab import Lab
from tools.lab.migration import LabMigration

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


async def test_cluster_migrates_and_comes_back(lab: Lab, tmp_path: Path) -> None:
    await lab.start_zookeeper()
    await lab.start_brokers(3, inter_broker_protocol=LATEST_PROTOCOL, config=BROKER_CONFIG)
    with TemporaryDirectory() as made:
        async with DefaultLabCluster(lab, Path(made)) as lab_cluster:
            await lab_cluster.until_stock_controller()
            daemon = await lab_cluster.controlling()
            await lab_cluster.create_topic("orders", {0: [1, 2, 3]})
            await lab_cluster.until_in_sync("orders", 3)
            page = runbook("migrate-to-kraft", tmp_path, lab_cluster, daemon)
            process = process_in(await page.expect(0))
            await page.expect(0, PID=process)
            assert await daemon.ended() == 0
            await lab_cluster.until_stock_controller()
            await page.expect(0)
            migration = await LabMigration.prepared(lab, lab_cluster.view)
            await migration.controller.start()
            await migration.enter()
            await page.expect(1, "KRaft controller 3000 has the role")
            await migration.controller.stop()
            await page.expect(0)
            await page.expect(0)
            await lab_cluster.until_stock_controller()
            await migration.restart_brokers()
            await lab_cluster.until_in_sync("orders", 3)
            await page.expect(0)
            await page.expect(0)
            assert page.is_done
            again = await lab_cluster.controlling()
            assert await again.stop() == 0
