"""The supported versions of Kafka and of inter.broker.protocol.version."""

from pathlib import Path

import pytest

from tests.controller.daemon.conftest import with_lab_cluster
from tests.controller.daemon.lab_cluster import BROKER_CONFIG, LabCluster, timed
from tools.lab import Lab
from tools.lab.broker import KafkaBroker

pytestmark = [pytest.mark.lab, pytest.mark.timeout(150)]

PROTOCOL = "inter.broker.protocol.version"
CONFIG = BROKER_CONFIG | {"min.insync.replicas": "1"}


@pytest.mark.parametrize(
    ("kafka", "protocol"),
    [
        ("2.8.2", "2.4"),
        ("2.8.2", "2.8"),
        ("3.3.2", "2.8"),
        ("3.3.2", "3.3"),
        pytest.param("3.9.1", "3.9", marks=pytest.mark.ci),
    ],
)
async def test_topic_is_created_and_a_failure_elects(
    tmp_path: Path, kafka: str, protocol: str
) -> None:
    async with Lab(tmp_path / "lab", kafka=kafka) as lab:
        await lab.start_zookeeper()
        await lab.start_brokers(2, inter_broker_protocol=protocol, config=CONFIG)
        async with with_lab_cluster(lab, tmp_path) as lab_cluster:
            daemon = await lab_cluster.controlling(settings={PROTOCOL: protocol})
            await lab_cluster.create_topic("t", {0: [1, 2], 1: [2, 1]})
            await lab_cluster.until_in_sync("t", 2)
            lab.brokers[0].kill()
            await lab_cluster.until_led("t", {0: 2, 1: 2})
            if float(protocol) >= 2.8:
                await until_topic_id_is_known(lab_cluster, "t", lab.brokers[1])
            assert await daemon.stop() == 0
            await lab_cluster.until_stock_controller()
            await lab.brokers[0].start()
            await lab_cluster.until_in_sync("t", 2)


async def until_topic_id_is_known(lab_cluster: LabCluster, topic: str, broker: KafkaBroker) -> None:
    """A broker writes the id to the partition's folder. 2.8.2 does so only at the second
    LeaderAndIsr."""
    znode = await lab_cluster.view.topic(topic)
    assert znode is not None
    file = broker.folder / "data" / f"{topic}-0" / "partition.metadata"

    async def is_written() -> bool:
        return file.exists() and znode["topic_id"] in file.read_text()

    await timed(is_written, f"{broker.name} has the topic id {znode['topic_id']}")


async def test_protocol_version_that_brokers_do_not_have_is_reported(tmp_path: Path) -> None:
    async with Lab(tmp_path / "lab", kafka="2.8.2") as lab:
        await lab.start_zookeeper()
        await lab.start_brokers(1, inter_broker_protocol="2.8", config=CONFIG)
        async with with_lab_cluster(lab, tmp_path) as lab_cluster:
            daemon = await lab_cluster.controlling(settings={PROTOCOL: "3.9"})
            await lab_cluster.view.create_topic("t", {0: [1]})
            reported = await lab_cluster.until_reported(daemon, "channel_version")
            assert "broker 1" in reported["message"]
            assert PROTOCOL in reported["message"]
            assert await daemon.stop() == 0
            codes = [one.get("code") for one in daemon.messages()]
            assert codes.count("channel_version") == 1, "reported once, not at each attempt"
