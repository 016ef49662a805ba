"""The daemon while ZooKeeper is killed, paused or old."""

from pathlib import Path

import pytest

from tests.controller.daemon.conftest import with_lab_cluster
from tests.controller.daemon.lab_cluster import BROKER_CONFIG, OWN_ID
from tools.lab import Lab
from tools.lab.ports import HOST, free_port

pytestmark = [pytest.mark.lab, pytest.mark.timeout(150)]

LONG_SESSION_MS = 20_000
LASTING = BROKER_CONFIG | {"zookeeper.session.timeout.ms": "6000", "min.insync.replicas": "1"}


async def test_zookeeper_killed_and_restarted_within_the_session_keeps_the_role(
    lab: Lab, tmp_path: Path
) -> None:
    server = await lab.start_zookeeper()
    await lab.start_brokers(2, inter_broker_protocol="2.6", config=LASTING)
    async with with_lab_cluster(lab, tmp_path) as lab_cluster:
        daemon = await lab_cluster.controlling(
            settings={"zookeeper.session.timeout.ms": LONG_SESSION_MS}
        )
        await lab_cluster.create_topic("before", {0: [1, 2]})
        epoch = await lab_cluster.view.controller_epoch()
        async with lab_cluster.without_session():
            server.kill()
            await server.start()
        await lab_cluster.create_topic("after", {0: [2, 1]})
        assert await lab_cluster.view.controller() == OWN_ID
        assert await lab_cluster.view.controller_epoch() == epoch
        assert await daemon.stop() == 0


async def test_zookeeper_paused_beyond_the_session_ends_the_role(lab: Lab, tmp_path: Path) -> None:
    server = await lab.start_zookeeper()
    await lab.start_brokers(2, inter_broker_protocol="2.6", config=LASTING)
    async with with_lab_cluster(lab, tmp_path) as lab_cluster:
        daemon = await lab_cluster.controlling(settings={"zookeeper.session.timeout.ms": 2000})
        await lab_cluster.create_topic("before", {0: [1, 2]})
        async with lab_cluster.without_session():
            server.pause()
            # Without a reply of ZooKeeper the daemon must not assume that it has the role.
            await lab_cluster.until_reported(daemon, "resigned")
            server.resume()
        await lab_cluster.until_controller(OWN_ID, daemon)
        await lab_cluster.create_topic("after", {0: [2, 1]})
        assert await daemon.stop() == 0


async def test_chroot_and_an_absent_server_work(lab: Lab, tmp_path: Path) -> None:
    server = await lab.start_zookeeper()
    await lab.start_brokers(2, chroot="/kafka", inter_broker_protocol="2.6", config=LASTING)
    async with with_lab_cluster(lab, tmp_path, "/kafka") as lab_cluster:
        connect = f"{HOST}:{free_port()},{server.connect}/kafka"
        daemon = await lab_cluster.controlling(connect=connect)
        await lab_cluster.create_topic("below", {0: [1, 2]})
        await lab_cluster.until_in_sync("below", 2)
        assert await daemon.stop() == 0
        await lab_cluster.until_stock_controller()


async def test_oldest_zookeeper_and_brokers_work(tmp_path: Path) -> None:
    """ZooKeeper 3.5.9 has neither multiRead nor addWatch."""
    async with Lab(tmp_path / "lab", kafka="2.8.2") as lab:
        await lab.start_zookeeper("3.5.9")
        await lab.start_brokers(2, inter_broker_protocol="2.6", config=LASTING)
        async with with_lab_cluster(lab, tmp_path) as lab_cluster:
            daemon = await lab_cluster.controlling()
            await lab_cluster.create_topic("old", {0: [1, 2], 1: [2, 1]})
            await lab_cluster.until_in_sync("old", 2)
            lab.brokers[0].kill()
            await lab_cluster.until_led("old", {0: 2, 1: 2})
            await lab.brokers[0].start()
            await lab_cluster.until_in_sync("old", 2)
            # A watch fires once on this server, so that the second change is the harder case.
            lab.brokers[1].kill()
            await lab_cluster.until_led("old", {0: 1, 1: 1})
            await lab_cluster.create_topic("old-again", {0: [1]})
            assert await daemon.stop() == 0
