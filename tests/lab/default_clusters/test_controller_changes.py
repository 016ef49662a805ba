"""The role changes between refold and stock brokers while leaders request ISR changes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.controller.daemon.lab_cluster import timed
from tests.lab.default_clusters.cluster import DefaultLabCluster, until_more
from tools.lab import KafkaBroker
from tools.lab.refold import Refold
from tools.lab.traffic import Traffic

pytestmark = [pytest.mark.lab, pytest.mark.timeout(90)]

TOPIC = "followed"
ASSIGNMENT = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}
FOUND_SECONDS_MAX = 2.0
"""The time in which brokers find the new controller and get its response."""

LAG_SECONDS_MAX = 3.0
"""replica.lag.time.max.ms, and half of it again: the interval in which a leader checks its ISR."""

SESSION_MS = 2000


async def test_brokers_find_each_new_controller(lab_cluster: DefaultLabCluster) -> None:
    """A follower is paused while the role changes. It cannot become controller then, and the
    leaders of its partitions request ISR changes."""
    daemon = await take_role(lab_cluster)
    await lab_cluster.create_topic(TOPIC, ASSIGNMENT)
    await lab_cluster.until_in_sync(TOPIC, 3)
    # A broker that looks for the controller from now on finds the daemon.
    follower = lab_cluster.broker_not_taken_for_controller()
    async with Traffic(lab_cluster.lab.bootstrap, TOPIC) as traffic:
        async with paused(lab_cluster, follower):
            await until_shrunk(lab_cluster, follower)
        async with paused(lab_cluster, follower):
            daemon.kill()
            await daemon.ended()
            await lab_cluster.until_stock_controller()
            seconds = await until_shrunk(lab_cluster, follower)
        assert seconds < FOUND_SECONDS_MAX + LAG_SECONDS_MAX - SESSION_MS / 1000
        await until_more(traffic)
        async with paused(lab_cluster, follower):
            again = await take_role(lab_cluster)
            seconds = await until_shrunk(lab_cluster, follower)
        assert seconds < FOUND_SECONDS_MAX + LAG_SECONDS_MAX
        assert await lab_cluster.events("alter_partition_received"), "refold received no request"
        await until_more(traffic)
        async with paused(lab_cluster, follower):
            assert await again.stop() == 0
            await lab_cluster.until_stock_controller()
            seconds = await until_shrunk(lab_cluster, follower)
        assert seconds < FOUND_SECONDS_MAX + LAG_SECONDS_MAX
        await until_more(traffic)
        assert await traffic.finish() == set()


async def take_role(lab_cluster: DefaultLabCluster) -> Refold:
    return await lab_cluster.controlling(settings={"zookeeper.session.timeout.ms": SESSION_MS})


@asynccontextmanager
async def paused(lab_cluster: DefaultLabCluster, broker: KafkaBroker) -> AsyncIterator[None]:
    """Pauses the broker during the block, which must be shorter than its session. Afterwards the
    broker returns to every ISR."""
    broker.pause()
    try:
        yield
    finally:
        broker.resume()
    await lab_cluster.until_in_sync(TOPIC, 3)


async def until_shrunk(lab_cluster: DefaultLabCluster, follower: KafkaBroker) -> float:
    """Waits until the follower is in no other leader's ISR; returns the seconds."""

    async def is_alone() -> bool:
        states = (await lab_cluster.view.states(TOPIC)).values()
        # A paused leader may remove followers from its ISR when it is resumed.
        others = [one for one in states if one["leader"] != follower.broker_id]
        return bool(others) and all(follower.broker_id not in one["isr"] for one in others)

    return await timed(is_alone, f"{follower.name} is in no ISR of another leader")
