"""The runbooks on a real cluster, each with the incident that it is for."""

import json
import re
from pathlib import Path

import pytest

from tests.controller.cli.clusters import client
from tests.lab.runbooks.clusters import cluster, process_in, runbook
from tests.lab.runbooks.runbook import FOLDER

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


async def test_stuck_reassignment_is_explained_and_cancelled(tmp_path: Path) -> None:
    async with cluster() as lab_cluster:
        await lab_cluster.create_topic("orders", {0: [1, 2]})
        daemon = await lab_cluster.controlling()
        await lab_cluster.until_reported(daemon, "failover_done")
        dead = lab_cluster.lab.brokers[2]
        dead.kill()
        await lab_cluster.until_reported(daemon, "broker_failed")
        await lab_cluster.view.create(
            "/admin/reassign_partitions",
            '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,3]}]}',
        )
        page = runbook("stuck-reassignment", tmp_path, lab_cluster, daemon)
        status, output = await page.step()
        assert status == 1, output
        assert "orders-0" in output
        assert "stuck" in output
        status, output = await page.step()
        assert (status, "orders-0" in output) == (0, True), output
        status, output = await page.step()
        assert status == 0, output
        assert "broker 3" in output
        status, output = await page.step()
        assert status == 0, output
        status, output = await page.step()
        assert status == 0, output
        status, output = await page.step()
        assert (status, "orders-0" in output) == (0, False), output
        assert page.is_done
        assert await lab_cluster.replicas_of("orders") == {0: [1, 2]}


async def test_role_goes_back_to_a_broker_at_any_moment(tmp_path: Path) -> None:
    async with cluster() as lab_cluster:
        await lab_cluster.create_topic("orders", {0: [1, 2, 3]})
        daemon = await lab_cluster.controlling()
        page = runbook("back-to-stock", tmp_path, lab_cluster, daemon)
        status, output = await page.step()
        assert status == 0, output
        process = process_in(output)
        status, output = await page.step(PID=process)
        assert status == 0, output
        assert await daemon.ended() == 0
        await lab_cluster.until_stock_controller()
        hung = await lab_cluster.controlling()
        hung.pause()
        status, output = await page.step(PID=str(hung.pid))
        assert status == 0, output
        await lab_cluster.until_stock_controller()
        await lab_cluster.until_in_sync("orders", 3)
        status, output = await page.step()
        assert status == 0, output
        assert page.is_done


async def test_hung_daemon_is_found_and_ended(tmp_path: Path) -> None:
    async with cluster() as lab_cluster:
        await lab_cluster.create_topic("orders", {0: [1, 2, 3]})
        daemon = await lab_cluster.controlling()
        await lab_cluster.until_reported(daemon, "failover_done")
        daemon.pause()
        await lab_cluster.until_stock_controller()
        page = runbook("zombie-controller", tmp_path, lab_cluster, daemon)
        status, output = await page.step()
        assert status == 1, output
        status, output = await page.step(PID=process_in(output))
        assert status == 0, output
        await lab_cluster.until_in_sync("orders", 3)
        for _ in range(3):
            status, output = await page.step()
            assert status == 0, output
        assert page.is_done


async def test_registration_that_is_left_is_deleted(tmp_path: Path) -> None:
    async with cluster() as lab_cluster:
        await lab_cluster.create_topic("orders", {0: [3, 1, 2]})
        # The first of the two probes is later than the end of the broker's session. With a shorter
        # pause the daemon reports the registration of the killed broker before ZooKeeper deletes
        # it. A long session of the daemon: on a busy machine a new term would look again.
        settings = {"refold.registration.check.ms": 9000, "zookeeper.session.timeout.ms": 30000}
        daemon = await lab_cluster.controlling(settings=settings)
        await lab_cluster.until_reported(daemon, "failover_done")
        broker = lab_cluster.lab.brokers[2]
        content = json.dumps(await lab_cluster.view.content("/brokers/ids/3"))
        broker.kill()
        await lab_cluster.until_unregistered(3)
        async with client(lab_cluster.connect) as znodes:
            await znodes.create("/brokers/ids/3", content, ephemeral=True)
            await lab_cluster.until_reported(daemon, "registration_left_over")
            page = runbook("stuck-registration", tmp_path, lab_cluster, daemon)
            status, output = await page.step()
            assert status == 1, output
            assert "/brokers/ids/3 is left: no process listens on" in output
            status, output = await page.step()
            assert status == 0, output
            assert "/brokers/ids/3 is left" in output
            status, output = await page.step()
            assert status == 0, output
            assert not await lab_cluster.view.exists("/brokers/ids/3")
        await broker.start()
        await lab_cluster.until_in_sync("orders", 3)
        status, output = await page.step()
        assert status == 0, output
        assert page.is_done


async def test_live_broker_without_a_registration_is_restarted(tmp_path: Path) -> None:
    """A broker does not notice that its znode is deleted while its session continues."""
    async with cluster() as lab_cluster:
        await lab_cluster.create_topic("orders", {0: [3, 1, 2]})
        settings = {"refold.registration.check.ms": 3000, "zookeeper.session.timeout.ms": 30000}
        daemon = await lab_cluster.controlling(settings=settings)
        await lab_cluster.until_reported(daemon, "failover_done")
        async with client(lab_cluster.connect) as znodes:
            await znodes.delete("/brokers/ids/3")
        await lab_cluster.until_reported(daemon, "broker_not_registered")
        broker = lab_cluster.lab.brokers[2]
        page = runbook("stuck-registration", tmp_path, lab_cluster, daemon)
        cause = f"Broker 3 answers on {broker.connect}, but does not register again"
        await page.expect(1, cause)
        await page.expect(0, cause)
        page.skip()
        await broker.restart()
        await lab_cluster.until_in_sync("orders", 3)
        await page.expect(0)
        assert page.is_done


def test_every_runbook_is_tested() -> None:
    pages = list(FOLDER.glob("*.md"))
    assert pages
    for page in pages:
        [module] = re.findall(r"`tests/lab/runbooks/(test_\w+\.py)`", page.read_text())
        assert f'"{page.stem}"' in (Path(__file__).parent / module).read_text(), page
