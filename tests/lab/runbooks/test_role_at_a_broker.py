"""The runbook of a stock broker that has the role."""

from pathlib import Path

import pytest

from tests.lab.runbooks.clusters import cluster, runbook

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


async def test_role_is_taken_back_from_a_broker(tmp_path: Path) -> None:
    async with cluster() as lab_cluster:
        await lab_cluster.create_topic("orders", {0: [1, 2, 3]})
        daemon = await lab_cluster.controlling("--standby")
        await lab_cluster.until_reported(daemon, "failover_done")
        daemon.pause()
        await lab_cluster.until_stock_controller()
        daemon.resume()
        await lab_cluster.until_reported(daemon, "standby_ready")
        page = runbook("role-at-a-broker", tmp_path, lab_cluster, daemon)
        await page.expect(0, "role: standby")
        await page.expect(0, "the ZooKeeper session is over; nothing had been observed for")
        await page.expect(0, PID=str(daemon.pid))
        assert await daemon.ended() == 0
        again = await lab_cluster.controlling("--standby", log_dir=daemon.log_dir)
        await lab_cluster.until_reported(again, "failover_done")
        await lab_cluster.until_in_sync("orders", 3)
        await page.expect(0, "role: active")
        await page.expect(0)
        assert page.is_done
