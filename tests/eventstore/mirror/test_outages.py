"""Brokers that are down when a mirror reads the topic's metadata, or ends."""

import time
from pathlib import Path

import anyio
import pytest

from eventstore.mirror.publishing import MirrorEvent, Publisher
from eventstore.mirror.topic import MirrorTopic, cluster_of, create_topic, partitions_of
from eventstore.writer import LogWriter
from tests.eventstore.samples import event, header
from tools.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

TOPIC = "kept"
END_MAX_S = 15


async def test_broker_that_is_down_is_skipped(lab: Lab) -> None:
    """The metadata of the others contains it until its session expires."""
    await lab.start_zookeeper()
    await lab.start_brokers(2)
    topic = MirrorTopic(TOPIC, {"bootstrap_servers": lab.bootstrap})
    await create_topic(topic)
    cluster = await cluster_of(topic)
    lab.brokers[1].kill()
    for _ in range(10):
        assert len(await partitions_of(topic)) == 6
        assert await cluster_of(topic) == cluster


# A cancelled client of aiokafka leaves its connections to the garbage collector.
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
async def test_mirror_ends_without_a_broker(lab: Lab, tmp_path: Path) -> None:
    """Another mirror publishes the remaining records."""
    await lab.start_zookeeper()
    await lab.start_brokers(1)
    topic = MirrorTopic(TOPIC, {"bootstrap_servers": lab.bootstrap})
    published = anyio.Event()

    def report(event: MirrorEvent) -> None:
        if event.kind == "published":
            published.set()

    with LogWriter.create(tmp_path / "logs" / "run-a", header()) as writer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Publisher(tmp_path / "logs", topic, report).follow, anyio.Event())
            await published.wait()
            lab.brokers[0].kill()
            writer.append([event(1)], [])
            await anyio.sleep(1)  # The mirror sends the records, and waits for the broker.
            begun = time.monotonic()
            tasks.cancel_scope.cancel()
        assert time.monotonic() - begun < END_MAX_S
