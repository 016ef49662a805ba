"""The role goes to a stock broker and back while brokers need a controller."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.default_clusters.cluster import DefaultScene, until_more
from tools.lab import KafkaBroker
from tools.lab.traffic import Traffic

pytestmark = [pytest.mark.lab, pytest.mark.timeout(90)]

ASSIGNMENT = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
FOUND_SECONDS_MAX = 2.0
"""For brokers to find the new controller and to be answered by it."""

LAG_SECONDS_MAX = 3.0
"""replica.lag.time.max.ms, and half of it again: when a leader looks."""


async def test_isr_changes_go_to_whoever_is_controller(scene: DefaultScene) -> None:
    daemon = await scene.controlling()
    await scene.create_topic("followed", ASSIGNMENT)
    await scene.until_in_sync("followed", 3)
    async with Traffic(scene.lab.bootstrap, "followed") as traffic:
        await until_more(traffic)
        daemon.kill()
        await daemon.ended()
        await scene.until_stock_controller()
        await change_an_isr(scene, "followed")
        await until_more(traffic)
        again = await scene.controlling()
        await change_an_isr(scene, "followed")
        assert await scene.events("alter_partition_received"), "refold was asked again"
        await until_more(traffic)
        assert await again.stop() == 0
        await scene.until_stock_controller()
        await change_an_isr(scene, "followed")
        assert await traffic.finish() == set()


@pytest.mark.ci
async def test_brokers_find_a_new_controller_within_two_seconds(scene: DefaultScene) -> None:
    daemon = await scene.controlling(settings={"zookeeper.session.timeout.ms": 2000})
    await scene.create_topic("waiting", ASSIGNMENT)
    await scene.until_in_sync("waiting", 3)
    async with held_up(scene.lab.brokers[2]):
        # The leaders ask while nobody has the role.
        daemon.kill()
        await daemon.ended()
        await scene.until_stock_controller()
        seconds = await until_shrunk(scene, "waiting", 3)
    assert seconds < FOUND_SECONDS_MAX + LAG_SECONDS_MAX - 2.0
    await scene.until_in_sync("waiting", 3)
    async with held_up(scene.lab.brokers[2]):
        again = await scene.controlling()
        seconds = await until_shrunk(scene, "waiting", 3)
    assert seconds < FOUND_SECONDS_MAX + LAG_SECONDS_MAX
    await scene.until_in_sync("waiting", 3)
    assert await again.stop() == 0


async def change_an_isr(scene: DefaultScene, topic: str) -> None:
    """Have a broker that is not controller leave the ISRs of the others, and come back."""
    controller = await scene.view.controller()
    broker = next(one for one in scene.lab.brokers[1:] if one.broker_id != controller)
    async with held_up(broker):
        await until_shrunk(scene, topic, broker.broker_id)
    await scene.until_in_sync(topic, 3)


@asynccontextmanager
async def held_up(broker: KafkaBroker) -> AsyncIterator[None]:
    """The broker does nothing during the block, which must be shorter than its session."""
    broker.pause()
    try:
        yield
    finally:
        broker.resume()


async def until_shrunk(scene: DefaultScene, topic: str, broker: int) -> float:
    """Wait until the broker is in no ISR but of what it leads itself; the seconds it took."""
    began = time.monotonic()
    leaders = {number: one["leader"] for number, one in (await scene.view.states(topic)).items()}
    await scene.until_isr(topic, {one: 3 if by == broker else 2 for one, by in leaders.items()})
    return time.monotonic() - began
