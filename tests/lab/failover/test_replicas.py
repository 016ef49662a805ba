"""The purpose of replicas, on real servers (docs/rows/failover.md, B-01, C-04 and T-04)."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path

import pytest

from controller.core import znodes
from tests.controller.daemon.lab_cluster import timed
from tests.lab.default_clusters.cluster import DefaultLabCluster
from tests.lab.shared_cluster import shared_cluster
from tools.demo.acks.clients import producing, write
from tools.lab import Lab
from tools.lab.broker_view import log_end_offset
from tools.lab.refold import run
from tools.lab.topic_reader import TopicReader

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

BROKER_CONFIG = {
    "zookeeper.session.timeout.ms": "9000",
    # A paused follower stays in the ISR.
    "replica.lag.time.max.ms": "60000",
    "min.insync.replicas": "1",
}
RECORDS = ["record 0", "record 1", "record 2"]


@pytest.fixture(scope="module")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """ZooKeeper and two stock brokers."""
    with shared_cluster(tmp_path_factory.mktemp("cluster"), 2, config=BROKER_CONFIG) as lab:
        yield lab


@pytest.fixture
async def lab_cluster(shared_lab: Lab, tmp_path: Path) -> AsyncIterator[DefaultLabCluster]:
    """The cluster with all brokers running; topics of earlier tests may exist."""
    async with DefaultLabCluster(shared_lab, tmp_path) as cluster:
        await cluster.until_stock_controller()
        yield cluster
        await cluster.check_logs(["0"])


async def create(cluster: DefaultLabCluster, topic: str, *replicas: int) -> None:
    """Create a topic with one partition, whose replicas are in sync."""
    await cluster.create_topic(topic, {0: list(replicas)})
    await cluster.until_in_sync(topic, len(replicas))


async def until_read(reader: TopicReader, topic: str, records: Sequence[str]) -> None:
    """Wait until the consumer has read exactly these records of a topic."""

    async def is_read() -> bool:
        return read_of(reader, topic) == list(records)

    await timed(is_read, f"the consumer reads the records of {topic}")


def read_of(reader: TopicReader, topic: str) -> list[str]:
    return [value.decode() for place, value in reader.read if place.topic == topic]


async def test_records_without_a_second_replica_are_unreadable_while_their_broker_is_dead(
    lab_cluster: DefaultLabCluster,
) -> None:
    """A partition with one replica is what each partition was before Kafka 0.8."""
    lab, daemon = lab_cluster.lab, await lab_cluster.controlling()
    await create(lab_cluster, "alone", 1)
    await create(lab_cluster, "copied", 1, 2)
    async with producing(lab.bootstrap, "all") as producer:
        for topic in ("alone", "copied"):
            await write(producer, topic, RECORDS)
    async with TopicReader(lab.bootstrap, ["alone", "copied"]) as before:
        for topic in ("alone", "copied"):
            await until_read(before, topic, RECORDS)
    lab.brokers[0].kill()
    await lab_cluster.until_led("alone", {0: -1})
    await lab_cluster.until_led("copied", {0: 2})
    async with TopicReader(lab.brokers[1].connect, ["alone", "copied"]) as reader:
        await until_read(reader, "copied", RECORDS)
        assert read_of(reader, "alone") == []
        await lab.brokers[0].start()
        await until_read(reader, "alone", RECORDS)
    assert await daemon.stop() == 0


async def test_producer_with_acks_all_waits_for_a_follower_for_which_acks_1_does_not_wait(
    lab_cluster: DefaultLabCluster,
) -> None:
    lab = lab_cluster.lab
    await create(lab_cluster, "acknowledged", 1, 2)
    leader, follower = lab.brokers
    async with producing(lab.bootstrap, "all") as patient, producing(lab.bootstrap, 1) as hasty:
        for producer in (patient, hasty):
            await write(producer, "acknowledged", ["first"])
        follower.pause()
        waiting = asyncio.create_task(write(patient, "acknowledged", ["of acks=all"]))

        async def is_on_the_leader() -> bool:
            return await log_end_offset(leader, "acknowledged") == 3

        await timed(is_on_the_leader, "the leader has the record of acks=all")
        assert await write(hasty, "acknowledged", ["of acks=1"]) == [3]
        assert not waiting.done()
        follower.resume()
        assert await waiting == [2]


async def test_partition_with_an_empty_isr_is_offline_although_its_brokers_are_alive(
    lab_cluster: DefaultLabCluster,
) -> None:
    """The controllers of Kafka 0.8 wrote an empty ISR when the last replica in sync failed. Later
    ones, and refold, keep the last member, so the test writes the empty ISR. An unclean election
    ends it."""
    await create(lab_cluster, "emptied", 1, 2)
    [state] = (await lab_cluster.view.states("emptied")).values()
    emptied = state | {"leader": -1, "isr": [], "leader_epoch": state["leader_epoch"] + 1}
    await lab_cluster.view.overwrite(znodes.state_path("emptied", 0), json.dumps(emptied))
    daemon = await lab_cluster.controlling()
    await lab_cluster.until_reported(daemon, "failover_done")
    await lab_cluster.until_led("emptied", {0: -1})
    status, output = await run(
        *("health", "--zookeeper", lab_cluster.connect, "--topic", "emptied"),
        *("--probe", "--patience", "1", "--json"),
    )
    report = json.loads(output.splitlines()[-1])
    assert (status, report["worst"]) == (1, "offline")
    [partition] = report["partitions"]
    assert (partition["leader"], partition["isr"]) == (-1, [])
    assert "LeaderNotAvailableError" in report["probe"][0]["fault"]
    await lab_cluster.view.configure("topics/emptied", {"unclean.leader.election.enable": "true"})
    await lab_cluster.until_led("emptied", {0: 1})
    await lab_cluster.until_in_sync("emptied", 2)
    assert await daemon.stop() == 0
