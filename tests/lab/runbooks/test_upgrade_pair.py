"""The runbook of an upgrade of a pair, from a copy of this version to this version."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.lab.runbooks.clusters import cluster, runbook
from tests.lab.standby.test_rolling_upgrade import ROOT, copied, standby_of

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


async def test_pair_is_upgraded(tmp_path: Path) -> None:
    old = copied(tmp_path / "refold-1")
    with TemporaryDirectory() as made:
        folder = Path(made)
        async with cluster() as lab_cluster:
            of_active = folder / "active" / "logs"
            active = await lab_cluster.controlling("--standby", log_dir=of_active, code=old)
            await lab_cluster.until_reported(active, "failover_done")
            await lab_cluster.create_topic("orders", {0: [1, 2, 3]})
            await lab_cluster.until_in_sync("orders", 3)
            standby = standby_of(lab_cluster, folder / "standby" / "logs", code=old)
            await standby.start()
            await lab_cluster.until_reported(standby, "standby_ready")
            places = {"/opt/refold-1": str(old), "/opt/refold-2": str(ROOT)}
            page = runbook("upgrade-pair", tmp_path, lab_cluster, active, **places)
            await page.expect(0)
            await page.expect(0, PID=str(standby.pid))
            assert await standby.ended() == 0
            upgraded = standby_of(lab_cluster, folder / "upgraded" / "logs")
            await upgraded.start()
            await lab_cluster.until_reported(upgraded, "standby_ready")
            output = await page.expect(0, f"process {upgraded.pid}")
            assert str(active.pid) in output
            with lab_cluster.brokers_paused():
                await page.expect(0, PID=str(active.pid))
                assert await active.ended() == 0
                await lab_cluster.until_reported(upgraded, "failover_done")
            again = standby_of(lab_cluster, folder / "again" / "logs")
            await again.start()
            await lab_cluster.until_reported(again, "standby_ready")
            await lab_cluster.until_in_sync("orders", 3)
            of_upgraded = {str(of_active): str(upgraded.log_dir)}
            await page.expect(0, f"process {again.pid}", **of_upgraded)
            await page.expect(0, **of_upgraded)
            await page.expect(0, "agrees", **of_upgraded)
            assert page.is_done
