"""The versions of Kafka and of inter.broker.protocol.version that refold must do with."""

from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from tests.daemon.conftest import staged
from tests.daemon.scene import BROKER_CONFIG, Scene, timed
from tools.lab import Lab

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
async def test_a_topic_is_made_and_a_failure_elects(
    tmp_path: Path, kafka: str, protocol: str
) -> None:
    async with Lab(tmp_path / "lab", kafka=kafka) as lab:
        await lab.start_zookeeper()
        await lab.start_brokers(2, inter_broker_protocol=protocol, config=CONFIG)
        async with staged(lab, tmp_path) as scene:
            daemon = await scene.controlling(settings={PROTOCOL: protocol})
            await scene.create_topic("t", {0: [1, 2], 1: [2, 1]})
            await scene.until_in_sync("t", 2)
            if float(protocol) >= 2.8:
                await until_brokers_know_the_topic_id(scene, "t")
            lab.brokers[0].kill()
            await scene.until_led("t", {0: 2, 1: 2})
            assert await daemon.stop() == 0
            await scene.until_stock_controller()
            await lab.brokers[0].start()
            await scene.until_in_sync("t", 2)


async def until_brokers_know_the_topic_id(scene: Scene, topic: str) -> None:
    """Brokers write it into each partition's folder, old ones with the first record."""
    async with AIOKafkaProducer(bootstrap_servers=scene.lab.bootstrap, acks="all") as producer:
        await producer.send_and_wait(topic, b"a record", partition=0)
    znode = await scene.view.topic(topic)
    assert znode is not None
    folders = [broker.folder / "data" / f"{topic}-0" for broker in scene.lab.brokers]

    async def written() -> bool:
        files = [folder / "partition.metadata" for folder in folders]
        return all(file.exists() and znode["topic_id"] in file.read_text() for file in files)

    await timed(written, f"every broker has the topic id {znode['topic_id']}")


async def test_a_protocol_version_that_brokers_do_not_have_is_named(tmp_path: Path) -> None:
    async with Lab(tmp_path / "lab", kafka="2.8.2") as lab:
        await lab.start_zookeeper()
        await lab.start_brokers(1, inter_broker_protocol="2.8", config=CONFIG)
        async with staged(lab, tmp_path) as scene:
            daemon = await scene.controlling(settings={PROTOCOL: "3.9"})
            await scene.view.create_topic("t", {0: [1]})
            told = await scene.until_told(daemon, "channel_version")
            assert "broker 1" in told["message"]
            assert PROTOCOL in told["message"]
            assert await daemon.stop() == 0
            codes = [one.get("code") for one in daemon.messages()]
            assert codes.count("channel_version") == 1, "told once, not at each try"
