"""Between the death of a controller and the next one (docs/rows/failover.md, K-06 and K-07)."""

from pathlib import Path

import pytest

from tests.controller.daemon.lab_cluster import BROKER_CONFIG, OWN_ID, LabCluster
from tests.lab.default_clusters.cluster import until_more
from tools.lab import Lab
from tools.lab.traffic import Traffic

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

LONG_SESSION = {"zookeeper.session.timeout.ms": 40_000}
"""/controller still names the daemon when the session of the killed broker has ended."""


async def test_clients_continue_without_a_controller_and_a_dead_leader_waits_for_the_next_one(
    tmp_path: Path,
) -> None:
    async with Lab(tmp_path / "servers") as lab:
        await lab.start_zookeeper()
        await lab.start_brokers(3, inter_broker_protocol="2.6", config=BROKER_CONFIG)
        async with LabCluster(lab, tmp_path) as lab_cluster:
            await lab_cluster.until_stock_controller()
            daemon = await lab_cluster.controlling(settings=LONG_SESSION)
            await lab_cluster.create_topic("kept", {0: [2, 3]})
            await lab_cluster.create_topic("lost", {0: [1, 2]})
            for topic in ("kept", "lost"):
                await lab_cluster.until_in_sync(topic, 2)
            async with Traffic(lab.bootstrap, "kept") as traffic:
                await until_more(traffic)
                daemon.kill()
                await daemon.ended()
                await until_more(traffic)
                lab.brokers[0].kill()
                await lab_cluster.until_unregistered(1)
                await until_more(traffic)
                # Without a controller, the partition of the dead leader is offline.
                assert await lab_cluster.view.controller() == OWN_ID
                assert (await lab_cluster.view.states("lost"))[0]["leader"] == 1

                await lab_cluster.until_stock_controller()
                await lab_cluster.until_led("lost", {0: 2})
                await until_more(traffic)
                assert await traffic.finish() == set()
                assert traffic.refused == 0
            await lab_cluster.check_logs(["0"])
