"""Brokers that are away when somebody asks for the topic, or lets go of it."""

import time
from pathlib import Path

import anyio
import pytest

from eventstore.mirror.publishing import MirrorEvent, Publisher
from eventstore.mirror.topic import Topic, cluster_of, create_topic, partitions_of
from eventstore.writer import LogWriter
from tests.eventstore.samples import event, header
from tools.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

TOPIC = "kept"
END_MAX_S = 15


async def test_a_broker_that_is_down_is_passed_over(lab: Lab) -> None:
    """It stands in the others' metadata until its session is over."""
    await lab.start_zookeeper()
    await lab.start_brokers(2)
    topic = Topic(TOPIC, {"bootstrap_servers": lab.bootstrap})
    await create_topic(topic)
    cluster = await cluster_of(topic)
    lab.brokers[1].kill()
    for _ in range(10):
        assert len(await partitions_of(topic)) == 6
        assert await cluster_of(topic) == cluster


# A client of aiokafka that is given up leaves its connections to the collector.
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
async def test_a_mirror_ends_though_no_broker_is_there(lab: Lab, tmp_path: Path) -> None:
    """What it has not published by then, the next one does."""
    await lab.start_zookeeper()
    await lab.start_brokers(1)
    topic = Topic(TOPIC, {"bootstrap_servers": lab.bootstrap})
    published = anyio.Event()

    def tell(told: MirrorEvent) -> None:
        if told.kind == "published":
            published.set()

    with LogWriter.create(tmp_path / "logs" / "run-a", header()) as writer:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(Publisher(tmp_path / "logs", topic, tell).follow, anyio.Event())
            await published.wait()
            lab.brokers[0].kill()
            writer.append([event(1)], [])
            await anyio.sleep(1)  # it has begun to send
            begun = time.monotonic()
            tasks.cancel_scope.cancel()
        assert time.monotonic() - begun < END_MAX_S
