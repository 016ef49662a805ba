"""Brokers before Kafka 3.0, which look for their controller in ZooKeeper when they stop."""

import pytest

from tests.default_clusters.cluster import DefaultScene, until_more
from tools.lab.traffic import Traffic

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(90),
    pytest.mark.parametrize("versions", [("2.8.2", "2.8")], ids="-at-".join, indirect=True),
]

TOPIC = "old"


async def test_a_broker_stops_without_the_controller(scene: DefaultScene) -> None:
    """The daemon stands not under /brokers/ids: the broker gives up, and nothing is lost."""
    daemon = await scene.controlling()
    await scene.create_topic(TOPIC, {0: [1, 2, 3], 1: [2, 3, 1]})
    await scene.until_in_sync(TOPIC, 3)
    first = scene.lab.brokers[0]
    async with Traffic(scene.lab.bootstrap, TOPIC) as traffic:
        await until_more(traffic)
        await first.stop()
        assert (
            "Broker registration for controller 1000 is not available"
            in (first.folder / "server.log").read_text()
        )
        await scene.until_led(TOPIC, {0: 2, 1: 2})
        await until_more(traffic)
        await first.start()
        await scene.until_in_sync(TOPIC, 3)
        assert await scene.events("alter_partition_received"), "for the ISR it asks the endpoint"
        assert await traffic.finish() == set()
    assert await daemon.stop() == 0
