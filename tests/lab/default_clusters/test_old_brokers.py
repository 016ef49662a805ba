"""Brokers before Kafka 3.0: they look for their controller in ZooKeeper when they stop, and break
on configurations that they do not know."""

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.controller.daemon.scene import timed
from tests.lab.default_clusters.cluster import DefaultScene, until_more
from tools.lab.traffic import Traffic

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(90),
    pytest.mark.parametrize("versions", [("2.8.2", "2.8")], ids="-at-".join, indirect=True),
]

TOPIC = "old"
INVALID_CONFIG = 40


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


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("message.format.version", "3.5", "Version 3.5 is not a valid version"),
        ("local.retention.ms", "5", "Unknown topic config name: local.retention.ms"),
    ],
)
async def test_what_they_cannot_read_is_not_written(
    scene: DefaultScene, name: str, value: str, told: str
) -> None:
    """Partitions of other topics would go with it, and the broker would not start again."""
    daemon = await scene.controlling()
    await timed(lambda: offered_by(scene, 3), "all brokers have told what they offer")
    admin = AIOKafkaAdminClient(bootstrap_servers=scene.own_address)
    await admin.start()
    try:
        refused = NewTopic("refused", -1, -1, {0: [1, 2]}, {name: value})
        taken = NewTopic(f"old-{name}", -1, -1, {0: [1, 2]}, {"message.format.version": "2.8"})
        answer = await admin.create_topics([refused, taken], timeout_ms=30_000)
    finally:
        await admin.close()
    errors = {topic: (code, text) for topic, code, text in answer.topic_errors}
    code, text = errors["refused"]
    assert code == INVALID_CONFIG
    assert told in text
    assert errors[f"old-{name}"] == (0, None)
    assert await scene.view.topic("refused") is None
    await scene.until_in_sync(f"old-{name}", 2)
    assert await daemon.stop() == 0


async def offered_by(scene: DefaultScene, brokers: int) -> bool:
    """Whether so many brokers have told what they offer."""
    return len(await scene.events("versions_offered")) >= brokers
