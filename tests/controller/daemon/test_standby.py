"""Hot standbys on real servers: the active daemon is killed, suspended, or resigns."""

import json
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import pytest

from controller.core.operations import OK, Create
from controller.daemon.standby_list import STANDBYS
from controller.operator.zookeeper_client import ZooKeeperClient
from controller.zookeeper.servers import parse_connect_string
from tests.controller.daemon.lab_cluster import OWN_ID, LabCluster, timed
from tools.lab.refold import Refold, run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

SHORT = {"zookeeper.session.timeout.ms": 2000}
STALE = "Latest known controller epoch is"
"""A broker logs this when it rejects a request of a former controller."""


async def standby_of(cluster: LabCluster, *topics: str) -> tuple[Refold, Refold]:
    """An active daemon with topics, and a standby that follows."""
    active = await cluster.controlling("--standby", settings=SHORT)
    for topic in topics:
        await cluster.create_topic(topic, {0: [1, 2, 3], 1: [2, 3, 1]})
        await cluster.until_in_sync(topic, 3)
    standby = cluster.daemon("--standby", settings=SHORT)
    await standby.start()
    await cluster.until_reported(standby, "standby_ready")
    return active, standby


def rejected(cluster: LabCluster) -> list[str]:
    """The brokers' log lines about requests of former controllers."""
    return [
        line
        for broker in cluster.lab.brokers
        for log in broker.folder.glob("*.log")
        for line in log.read_text(errors="replace").splitlines()
        if STALE in line
    ]


def roles(daemon: Refold) -> list[str]:
    """The changes of the role that a daemon has logged."""
    codes = ("elected", "failover_done", "resigned", "standby_used", "standby_ready")
    return [one["code"] for one in daemon.messages() if one.get("code") in codes]


class DaemonWithStatus(NamedTuple):
    """A daemon with a status socket, whose path must be short."""

    daemon: Refold
    socket: str

    async def status(self) -> dict[str, Any]:
        """The status of the daemon."""
        code, output = await run("status", self.socket, "--json")
        assert code == 0, output
        return dict(json.loads(output))

    async def until_standbys(self, *expected: Refold) -> list[dict[str, Any]]:
        """Wait until the daemon lists these standbys and no other."""
        pids = sorted(one.pid for one in expected)
        found: list[dict[str, Any]] = []

        async def are_listed() -> bool:
            listed = (await self.status())["standbys"]
            found[:] = listed or []
            return listed is not None and sorted(one["process"] for one in found) == pids

        await timed(are_listed, f"the standbys {pids} are listed")
        return found


async def write_by_another_program(cluster: LabCluster, data: bytes) -> None:
    """A znode next to those of the standbys."""
    async with ZooKeeperClient(parse_connect_string(cluster.connect), 6_000) as client:
        assert await client.write((Create(f"{STANDBYS}/unknown", data),)) == OK


async def test_active_daemon_lists_its_standbys(lab_cluster: LabCluster) -> None:
    with TemporaryDirectory() as folder:
        sockets = [f"{folder}/{number}.sock" for number in range(2)]
        options = [("--standby", "--status-socket", one) for one in sockets]
        active = await lab_cluster.controlling(*options[0], settings=SHORT)
        watched = DaemonWithStatus(active, sockets[0])
        await watched.until_standbys()
        await write_by_another_program(lab_cluster, b'{"host":"\xff"}')
        first = lab_cluster.daemon("--standby", settings=SHORT)
        second = lab_cluster.daemon(*options[1], settings=SHORT)
        await first.start()
        await watched.until_standbys(first)
        await second.start()
        shown = await watched.until_standbys(first, second)
        own = await watched.status()
        assert {one["version"] for one in shown} == {own["version"]}
        assert {one["broker_id"] for one in shown} == {OWN_ID}
        assert all(one["core"] and one["host"] and one["started"] for one in shown)
        of_second = DaemonWithStatus(second, sockets[1])
        assert (await of_second.status())["standbys"] is None
        first.kill()
        await first.ended()
        await watched.until_standbys(second)
        await lab_cluster.until_reported(second, "standby_ready")
        active.kill()
        await active.ended()
        with lab_cluster.brokers_paused():
            await lab_cluster.until_reported(second, "failover_done")
        again = lab_cluster.daemon("--standby", settings=SHORT)
        await again.start()
        await of_second.until_standbys(again)
        assert await again.stop() == 0
        await of_second.until_standbys()
        assert await second.stop() == 0


@pytest.mark.ci
async def test_standby_takes_the_role_of_a_killed_daemon(lab_cluster: LabCluster) -> None:
    active, standby = await standby_of(lab_cluster, "killed")
    await lab_cluster.create_topic("followed", {0: [3, 1]})
    epoch = await lab_cluster.view.controller_epoch()
    active.kill()
    await active.ended()
    with lab_cluster.brokers_paused():
        await lab_cluster.until_reported(standby, "failover_done")
    assert await lab_cluster.view.controller_epoch() == epoch + 1
    assert roles(standby) == ["standby_ready", "elected", "standby_used", "failover_done"]
    used = await lab_cluster.until_reported(standby, "standby_used")
    known, _, total, *_ = used["message"].partition(": ")[2].split()
    assert known == total, used
    await lab_cluster.create_topic("after-the-kill", {0: [2, 3, 1]})
    again = lab_cluster.daemon("--standby", settings=SHORT)
    await again.start()
    await lab_cluster.until_reported(again, "standby_ready")
    assert [await again.stop(), await standby.stop()] == [0, 0]


@pytest.mark.ci
async def test_suspended_daemon_sends_brokers_nothing_after_a_standby_took_over(
    lab_cluster: LabCluster,
) -> None:
    active, standby = await standby_of(lab_cluster, "suspended")
    before = rejected(lab_cluster)
    active.pause()
    with lab_cluster.brokers_paused():
        await lab_cluster.until_reported(standby, "failover_done")
    # Events wait in the socket of the suspended daemon, and another controller handles them.
    await lab_cluster.create_topic("meanwhile", {0: [1, 2], 1: [3, 1]})
    lab_cluster.lab.brokers[0].kill()
    await lab_cluster.until_led("suspended", {0: 2, 1: 2})
    epoch = await lab_cluster.view.controller_epoch()
    active.resume()
    await lab_cluster.until_reported(active, "resigned")
    await lab_cluster.lab.brokers[0].start()
    await lab_cluster.until_in_sync("suspended", 3)
    assert await lab_cluster.view.controller_epoch() == epoch
    assert rejected(lab_cluster) == before
    await lab_cluster.create_topic("after-the-pause", {0: [2, 3, 1]})
    assert [await active.stop(), await standby.stop()] == [0, 0]


async def test_daemon_with_take_over_takes_the_role_of_the_active_daemon_without_a_race(
    lab_cluster: LabCluster,
) -> None:
    active, standby = await standby_of(lab_cluster, "handed-over")
    assert await standby.stop() == 0
    epoch = await lab_cluster.view.controller_epoch()
    successor = lab_cluster.daemon("--standby", "--take-over", settings=SHORT)
    await successor.start()
    await lab_cluster.until_reported(successor, "failover_done")
    await lab_cluster.until_reported(active, "resigned")
    assert await lab_cluster.view.controller_epoch() == epoch + 1
    assert await active.stop() == 0
    assert await lab_cluster.view.controller() == OWN_ID
    assert await successor.stop() == 0


async def test_one_of_three_daemons_takes_the_role_that_a_client_deleted(
    lab_cluster: LabCluster,
) -> None:
    active, standby = await standby_of(lab_cluster, "deposed")
    before = rejected(lab_cluster)
    second = lab_cluster.daemon("--standby", settings=SHORT)
    await second.start()
    await lab_cluster.until_reported(second, "standby_ready")
    with lab_cluster.brokers_paused():
        await lab_cluster.view.delete("/controller")
        await lab_cluster.until_controller(OWN_ID)
    await lab_cluster.create_topic("after-the-deposition", {0: [2, 3, 1]})
    for daemon in (active, standby, second):
        assert daemon.running
        assert await daemon.stop() == 0
    assert rejected(lab_cluster) == before
