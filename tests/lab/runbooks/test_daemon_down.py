"""The runbook of a daemon that does not run."""

from pathlib import Path

import pytest

from tests.lab.runbooks.clusters import cluster, runbook
from tests.lab.standby.test_rolling_upgrade import standby_of

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


async def test_missing_standby_is_found_and_started_again(tmp_path: Path) -> None:
    async with cluster() as lab_cluster:
        await lab_cluster.create_topic("orders", {0: [1, 2, 3]})
        active = await lab_cluster.controlling("--standby")
        await lab_cluster.until_reported(active, "failover_done")
        logs = active.log_dir.with_name("second")
        standby = standby_of(lab_cluster, logs)
        await standby.start()
        await lab_cluster.until_reported(standby, "standby_ready")
        assert await standby.stop() == 0
        page = runbook("daemon-down", tmp_path, lab_cluster, standby)
        await page.expect(0, '"brokerid":1000')
        await page.expect(1, "no daemon runs")
        await page.expect(0, "this daemon waits")
        again = standby_of(lab_cluster, logs)
        await again.start()
        await lab_cluster.until_reported(again, "standby_ready")
        await page.expect(0, "role: standby")
        await page.expect(0)
        assert page.is_done
