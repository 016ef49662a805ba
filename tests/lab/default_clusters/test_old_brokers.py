"""Brokers before Kafka 3.0 look up their controller in ZooKeeper when they stop, and fail at
configurations that they do not know."""

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.controller.daemon.lab_cluster import timed
from tests.lab.default_clusters.cluster import DefaultLabCluster, until_more
from tools.lab.traffic import Traffic

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(90),
    pytest.mark.parametrize("versions", [("2.8.2", "2.8")], ids="-at-".join, indirect=True),
]

TOPIC = "old"
INVALID_CONFIG = 40


async def test_old_broker_stops_without_controlled_shutdown(lab_cluster: DefaultLabCluster) -> None:
    """The daemon is not in /brokers/ids: the broker stops its attempts, and no record is lost."""
    daemon = await lab_cluster.controlling()
    await lab_cluster.create_topic(TOPIC, {0: [1, 2, 3], 1: [2, 3, 1]})
    await lab_cluster.until_in_sync(TOPIC, 3)
    first = lab_cluster.lab.brokers[0]
    async with Traffic(lab_cluster.lab.bootstrap, TOPIC) as traffic:
        await until_more(traffic)
        await first.stop()
        assert (
            "Broker registration for controller 1000 is not available"
            in (first.folder / "server.log").read_text()
        )
        await lab_cluster.until_led(TOPIC, {0: 2, 1: 2})
        await until_more(traffic)
        await first.start()
        await lab_cluster.until_in_sync(TOPIC, 3)
        assert await lab_cluster.events("alter_partition_received"), (
            "ISR requests go to the endpoint"
        )
        assert await traffic.finish() == set()
    assert await daemon.stop() == 0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("message.format.version", "3.5", "Version 3.5 is not a valid version"),
        ("local.retention.ms", "5", "Unknown topic config name: local.retention.ms"),
    ],
)
async def test_configuration_unknown_to_old_brokers_is_rejected(
    lab_cluster: DefaultLabCluster, name: str, value: str, message: str
) -> None:
    """A broker that read such a configuration would lose other partitions and fail to start."""
    daemon = await lab_cluster.controlling()
    await timed(lambda: offered_by(lab_cluster, 3), "all brokers have sent their API versions")
    admin = AIOKafkaAdminClient(bootstrap_servers=lab_cluster.daemon_address)
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
    assert message in text
    assert errors[f"old-{name}"] == (0, None)
    assert await lab_cluster.view.topic("refused") is None
    await lab_cluster.until_in_sync(f"old-{name}", 2)
    assert await daemon.stop() == 0


async def offered_by(lab_cluster: DefaultLabCluster, brokers: int) -> bool:
    """Whether this many brokers have sent their API versions."""
    return len(await lab_cluster.events("versions_offered")) >= brokers
