"""The runbook of a broker that is gone, or hangs."""

from pathlib import Path

import pytest

from tests.controller.daemon.lab_cluster import timed
from tests.lab.default_clusters.cluster import DefaultLabCluster
from tests.lab.runbooks.clusters import cluster, runbook
from tests.lab.runbooks.runbook import Runbook
from tools.lab.refold import Refold

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

# The first probe is later than the end of a broker's session.
SETTINGS = {"refold.registration.check.ms": 3000}


async def started(lab_cluster: DefaultLabCluster, folder: Path) -> tuple[Refold, Runbook]:
    """A daemon that is controller, and the page for its log. Broker 3 has the only replica of
    audit-0."""
    await lab_cluster.create_topic("orders", {0: [3, 1, 2]})
    await lab_cluster.create_topic("audit", {0: [3]})
    daemon = await lab_cluster.controlling(settings=SETTINGS)
    await lab_cluster.until_reported(daemon, "failover_done")
    [log] = daemon.log_dir.glob("run-*")
    places = {"LOG": str(log)}
    return daemon, runbook("missing-broker", folder, lab_cluster, daemon, **places)


@pytest.mark.parametrize(
    ("hangs", "probe"), [(False, "refuses the connection"), (True, "does not answer")]
)
async def test_missing_broker_is_named_with_what_it_stops(
    tmp_path: Path, hangs: bool, probe: str
) -> None:
    async with cluster() as lab_cluster:
        daemon, page = await started(lab_cluster, tmp_path)
        broker = lab_cluster.lab.brokers[2]
        if hangs:
            broker.pause()
        else:
            broker.kill()
        await lab_cluster.until_reported(daemon, "broker_failed")
        await page.expect(0, "broker 3 is not registered", "audit-0", "orders-0")

        async def is_probed() -> bool:
            return f"broker 3 {probe}" in (await page.preview())[1]

        await timed(is_probed, "the daemon has probed the broker")
        await page.expect(0, f"the address of broker 3 {probe}")
        await page.expect(0, "Broker 3")
        if hangs:
            broker.resume()
        else:
            await broker.start()
        await lab_cluster.until_in_sync("orders", 3)
        await lab_cluster.until_in_sync("audit", 1)
        await page.expect(0)
        assert page.is_done
