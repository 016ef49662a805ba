"""The runbook of a lost ZooKeeper quorum: three servers, of which two are killed."""

from pathlib import Path
from tempfile import TemporaryDirectory

import anyio
import pytest

from tests.controller.daemon.lab_cluster import timed
from tests.controller.zookeeper.ensemble import ensemble
from tests.lab.default_clusters.cluster import DefaultLabCluster
from tests.lab.runbooks.runbook import Runbook
from tools.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]


async def test_servers_that_do_not_serve_are_found_and_started(tmp_path: Path) -> None:
    with TemporaryDirectory() as made:
        async with Lab(Path(made) / "servers") as lab:
            servers = ensemble(lab.folder)
            lab.zookeepers += servers
            async with anyio.create_task_group() as tasks:
                for one in servers:
                    tasks.start_soon(one.start)
            connect = ",".join(one.connect for one in servers)
            config = {"zookeeper.connect": connect, "zookeeper.session.timeout.ms": "6000"}
            await lab.start_brokers(3, config=config)
            async with DefaultLabCluster(lab, Path(made)) as lab_cluster:
                await run_page(lab_cluster, connect, tmp_path)


async def run_page(lab_cluster: DefaultLabCluster, connect: str, folder: Path) -> None:
    servers = lab_cluster.lab.zookeepers
    await lab_cluster.until_stock_controller()
    await lab_cluster.create_topic("orders", {0: [1, 2, 3]})
    daemon = await lab_cluster.controlling(connect=connect)
    await lab_cluster.until_reported(daemon, "failover_done")
    places = {
        "zk1:2181,zk2:2181,zk3:2181/kafka": connect,
        **{f"zk{number}:2181": one.connect for number, one in enumerate(servers, 1)},
        "/var/lib/refold": str(daemon.log_dir),
    }
    page = Runbook("lost-quorum", folder, places)
    async with lab_cluster.without_session():
        for one in servers[1:]:
            one.kill()

        async def is_lost() -> bool:
            return "lost the connection to ZooKeeper" in daemon.last_output()

        await timed(is_lost, "the daemon has no connection")
        await page.expect(0, "not connected")
        await page.expect(0, "not currently serving requests")
        await page.expect(7)
        await page.expect(7)
        async with anyio.create_task_group() as tasks:
            for one in servers[1:]:
                tasks.start_soon(one.start)
    await timed(lambda: is_led(lab_cluster), "orders-0 is led")
    await lab_cluster.until_in_sync("orders", 3)
    await page.expect(0, ", connected to")
    await page.expect(0)
    await page.expect(0, "agrees")
    assert page.is_done


async def is_led(lab_cluster: DefaultLabCluster) -> bool:
    """Whether there is a controller, and a leader that it elected."""
    states = await lab_cluster.view.states("orders")
    return await lab_cluster.view.controller() is not None and states[0]["leader"] > 0
