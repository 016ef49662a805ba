"""The runbook of two controllers."""

from pathlib import Path

import pytest

from tests.controller.daemon.lab_cluster import timed
from tests.lab.runbooks.clusters import cluster, runbook
from tools.lab.ports import HOST, free_port

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


async def test_daemon_that_took_the_role_is_found_and_stopped(tmp_path: Path) -> None:
    async with cluster() as lab_cluster:
        await lab_cluster.create_topic("orders", {0: [1, 2, 3]})
        first = await lab_cluster.controlling("--standby")
        await lab_cluster.until_reported(first, "failover_done")
        # An operator starts another daemon, which takes the role from the pair.
        other = lab_cluster.daemon(
            *("--take-over", "--listeners", f"PLAINTEXT://{HOST}:{free_port()}"), broker_id=1001
        )
        await other.start()
        await lab_cluster.until_controller(1001, other)
        await lab_cluster.until_reported(other, "failover_done")
        await lab_cluster.until_reported(first, "resigned")
        page = runbook("two-controllers", tmp_path, lab_cluster, first)
        await page.expect(0, '"brokerid":1001')
        await page.expect(0, str(await lab_cluster.view.controller_epoch()))
        await page.expect(0, "role: standby")
        # The daemon's only term, and its end.
        term = str((await lab_cluster.until_reported(first, "elected"))["term"])
        await page.expect(0, "another controller was found", **{"--term 3": f"--term {term}"})
        await page.expect(0, PID=str(other.pid))
        assert await other.ended() == 0

        async def has_one() -> bool:
            return await lab_cluster.view.controller() != 1001

        await timed(has_one, "another has the role")
        await lab_cluster.until_in_sync("orders", 3)
        await page.expect(0)
        await page.expect(0, "agrees")
        assert page.is_done
