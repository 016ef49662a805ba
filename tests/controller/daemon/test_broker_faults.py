"""The daemon is controller while brokers die, return, are paused or move."""

import asyncio

import pytest

from tests.controller.daemon.lab_cluster import LabCluster, timed
from tools.lab.ports import HOST, free_port
from tools.lab.traffic import Traffic

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]


@pytest.mark.ci
async def test_partitions_of_a_dying_leader_are_elected_and_rejoined(
    lab_cluster: LabCluster,
) -> None:
    daemon = await lab_cluster.controlling()
    await lab_cluster.create_topic("leader-dies", {0: [1, 2, 3], 1: [2, 3, 1]})
    await lab_cluster.until_in_sync("leader-dies", 3)
    before = await lab_cluster.view.states("leader-dies")
    lab_cluster.lab.brokers[0].kill()
    await lab_cluster.until_led("leader-dies", {0: 2, 1: 2})
    after = await lab_cluster.view.states("leader-dies")
    assert after[0]["isr"] == [2, 3]
    assert after[0]["leader_epoch"] == before[0]["leader_epoch"] + 1
    await lab_cluster.lab.brokers[0].start()
    await lab_cluster.until_in_sync("leader-dies", 3)
    # The leaders do not move back at once.
    await lab_cluster.until_led("leader-dies", {0: 2, 1: 2})
    assert await daemon.stop() == 0


async def test_two_brokers_dying_at_once_leave_the_last_isr_member(lab_cluster: LabCluster) -> None:
    daemon = await lab_cluster.controlling()
    await lab_cluster.create_topic("two-die", {0: [1, 2, 3], 1: [2, 3, 1], 2: [1, 2]})
    await lab_cluster.until_isr("two-die", {0: 3, 1: 3, 2: 2})
    for broker in lab_cluster.lab.brokers[:2]:
        broker.kill()
    await lab_cluster.until_led("two-die", {0: 3, 1: 3, 2: -1})
    state = (await lab_cluster.view.states("two-die"))[2]
    assert state["isr"], "the last replica of the ISR must not be forgotten"
    for broker in lab_cluster.lab.brokers[:2]:
        await broker.start()
    await lab_cluster.until_isr("two-die", {0: 3, 1: 3, 2: 2})
    assert await daemon.stop() == 0


async def test_broker_restarted_during_a_pause_of_the_daemon_is_noticed(
    lab_cluster: LabCluster,
) -> None:
    """The daemon finds the same id with another broker epoch."""
    daemon = await lab_cluster.controlling(settings={"zookeeper.session.timeout.ms": 40_000})
    await lab_cluster.create_topic("bounced", {0: [1, 2, 3], 1: [3, 1, 2]})
    await lab_cluster.until_in_sync("bounced", 3)
    daemon.pause()
    lab_cluster.lab.brokers[0].kill()
    await lab_cluster.lab.brokers[0].start()
    daemon.resume()
    await lab_cluster.until_led("bounced", {0: 2, 1: 3})
    await lab_cluster.until_in_sync("bounced", 3)
    assert daemon.running
    assert await daemon.stop() == 0


async def test_short_pause_of_a_broker_changes_nothing(lab_cluster: LabCluster) -> None:
    daemon = await lab_cluster.controlling()
    await lab_cluster.create_topic("short-pause", {0: [1, 2, 3]})
    await lab_cluster.until_in_sync("short-pause", 3)
    before = await lab_cluster.view.states("short-pause")
    lab_cluster.lab.brokers[0].pause()
    await asyncio.sleep(1.5)  # Shorter than the session of the broker.
    lab_cluster.lab.brokers[0].resume()
    # A change that needs this broker shows that it works.
    await lab_cluster.create_topic("after-short-pause", {0: [1, 2, 3]})
    after = await lab_cluster.view.states("short-pause")
    assert (after[0]["leader"], after[0]["leader_epoch"]) == (
        before[0]["leader"],
        before[0]["leader_epoch"],
    )
    assert await daemon.stop() == 0


async def test_broker_paused_beyond_its_session_loses_its_leaders(lab_cluster: LabCluster) -> None:
    daemon = await lab_cluster.controlling()
    await lab_cluster.create_topic("long-pause", {0: [1, 2, 3], 1: [2, 3, 1]})
    await lab_cluster.until_in_sync("long-pause", 3)
    lab_cluster.lab.brokers[0].pause()
    await lab_cluster.until_led("long-pause", {0: 2, 1: 2})
    lab_cluster.lab.brokers[0].resume()
    await lab_cluster.until_in_sync("long-pause", 3)
    await lab_cluster.until_led("long-pause", {0: 2, 1: 2})
    assert await daemon.stop() == 0


@pytest.mark.ci
async def test_acknowledged_records_survive_broker_faults(lab_cluster: LabCluster) -> None:
    daemon = await lab_cluster.controlling()
    assignment = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
    await lab_cluster.create_topic("traffic", assignment)
    await lab_cluster.until_in_sync("traffic", 3)
    first, _, third = lab_cluster.lab.brokers
    async with Traffic(lab_cluster.lab.bootstrap, "traffic") as traffic:
        await until_more(traffic)
        first.kill()
        await lab_cluster.until_in_sync("traffic", 2, without=1)
        await until_more(traffic)
        await first.start()
        await lab_cluster.until_in_sync("traffic", 3)
        third.kill()
        await lab_cluster.until_in_sync("traffic", 2, without=3)
        await until_more(traffic)
        await third.start()
        await lab_cluster.until_in_sync("traffic", 3)
        await until_more(traffic)
        assert await traffic.finish() == set()
    assert await daemon.stop() == 0


async def test_broker_that_moves_to_another_port_is_found_there(lab_cluster: LabCluster) -> None:
    daemon = await lab_cluster.controlling()
    await lab_cluster.create_topic("before-the-move", {0: [1, 2, 3]})
    await lab_cluster.until_in_sync("before-the-move", 3)
    moved = lab_cluster.lab.brokers[2]
    moved.kill()
    moved.port = free_port()
    address = f"PLAINTEXT://{HOST}:{moved.port}"
    moved.config |= {"listeners": address, "advertised.listeners": address}
    await moved.start()
    await lab_cluster.until_in_sync("before-the-move", 3)
    await lab_cluster.create_topic("after-the-move", {0: [3, 1, 2]})
    await lab_cluster.until_in_sync("after-the-move", 3)
    assert await daemon.stop() == 0


async def until_more(traffic: Traffic) -> None:
    """More records have been acknowledged than now."""
    before = traffic.acknowledged

    async def more() -> bool:
        return traffic.acknowledged > before + 50

    await timed(more, "writes continue")
