"""The metrics of the daemon are those of a stock controller in the same incident, read over JMX."""

import json
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.core.metric_table import GAUGES, METRICS
from tests.controller.daemon.conftest import with_lab_cluster
from tests.controller.daemon.lab_cluster import BROKER_CONFIG, LabCluster
from tools.lab import Lab
from tools.lab.cluster_view import until
from tests.controller.daemon.jmx import jmx_options, jmx_values
from tools.lab.ports import HOST, free_port
from tools.lab.refold import run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

Read = Callable[[], Awaitable[Mapping[str, float]]]
"""Reads the values of the controller, by Kafka's JMX names."""

CONTROLLER = "kafka.controller:type=KafkaController,name="
SETTLED_SECONDS_MAX = 60.0

COUNTED_ALIKE = ("TopicChange", "TopicDeletion", "LeaderElection", "ManualLeaderBalance")
"""Timers of events that have the same number under both controllers."""


@pytest.fixture
async def measured_cluster(tmp_path: Path) -> AsyncIterator[tuple[LabCluster, int]]:
    """Three brokers, of which the first is controller and serves its JMX values on a port."""
    port = free_port()
    async with Lab(tmp_path / "lab") as lab:
        await lab.start_zookeeper()
        common: dict[str, Any] = {"inter_broker_protocol": "2.6", "config": BROKER_CONFIG}
        await lab.start_brokers(1, java_options=("-Xmx384m", *jmx_options(port)), **common)
        await lab.start_brokers(2, **common)
        folder = tmp_path / "refold"
        folder.mkdir()
        async with with_lab_cluster(lab, folder) as cluster:
            yield cluster, port


def of_controller(values: Mapping[str, float]) -> dict[str, float]:
    """The gauges of kafka.controller:type=KafkaController, by name."""
    return {name: values[f"{CONTROLLER}{name}:Value"] for name in GAUGES}


def counts(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """How often each event was handled in between."""
    names = [
        f"kafka.controller:type=ControllerStats,name={one}RateAndTimeMs" for one in COUNTED_ALIKE
    ]
    return {name: after[f"{name}:Count"] - before[f"{name}:Count"] for name in names}


async def scraped(port: int) -> dict[str, float]:
    """The daemon's metrics, by Kafka's JMX names; those without labels."""

    def get() -> str:
        with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=10) as response:
            return str(response.read().decode())

    families = text_string_to_metric_families(await anyio.to_thread.run_sync(get))
    samples = {
        one.name: one.value for family in families for one in family.samples if not one.labels
    }
    found = {}
    for metric in METRICS:
        if metric.name in samples:
            found[f"{metric.source}:Value"] = samples[metric.name]
        if f"{metric.name}_count" in samples:
            assert samples[f"{metric.name}_count_total"] == samples[f"{metric.name}_count"]
            found[f"{metric.source}:Count"] = samples[f"{metric.name}_count"]
    return found


async def incident(cluster: LabCluster, read: Read) -> tuple[list[dict[str, float]], Any]:
    """A broker dies while topics with replicas on it exist, one is deleted meanwhile, and the
    broker returns. Returns the gauges while it is dead and at the end, and the counts."""
    view, victim = cluster.view, cluster.lab.brokers[2]
    before = await read()
    await cluster.create_topic("spread", {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    await cluster.create_topic("alone", {0: [3]})
    await cluster.create_topic("deleted", {0: [2, 3], 1: [3, 2]})
    await cluster.until_in_sync("spread", 3)
    await cluster.until_in_sync("deleted", 2)
    victim.kill()
    await cluster.until_led("spread", {0: 1, 1: 2, 2: 1})
    await cluster.until_led("deleted", {0: 2, 1: 2})
    await view.create("/admin/delete_topics/deleted")

    async def waits() -> bool:
        found = of_controller(await read())
        return (found["TopicsIneligibleToDeleteCount"], found["ReplicasToDeleteCount"]) == (1, 2)

    await until(waits, SETTLED_SECONDS_MAX, "the deletion waits for the dead broker")
    dead = of_controller(await read())
    await victim.start()
    await cluster.until_in_sync("spread", 3)

    async def gone() -> bool:
        return not await view.exists("/admin/delete_topics/deleted")

    await until(gone, SETTLED_SECONDS_MAX, "the topic is deleted")
    wanted = {"version": 1, "partitions": [{"topic": "spread", "partition": 2}]}
    await view.create("/admin/preferred_replica_election", json.dumps(wanted))
    await cluster.until_led("spread", {0: 1, 1: 2, 2: 3})

    async def elected() -> bool:
        return not await view.exists("/admin/preferred_replica_election")

    await until(elected, SETTLED_SECONDS_MAX, "the election is over")
    after = await read()
    return [dead, of_controller(after)], counts(before, after)


async def delete(cluster: LabCluster, *topics: str) -> None:
    """Delete topics, and wait until they are gone."""
    for topic in topics:
        await cluster.view.create(f"/admin/delete_topics/{topic}")

        async def gone(topic: str = topic) -> bool:
            return not await cluster.view.exists(f"/admin/delete_topics/{topic}")

        await until(gone, SETTLED_SECONDS_MAX, f"{topic} is deleted")


async def test_metrics_of_an_incident_equal_those_of_a_stock_controller(
    measured_cluster: tuple[LabCluster, int],
) -> None:
    cluster, jmx_port = measured_cluster
    assert await cluster.view.controller() == 1

    async def of_stock() -> Mapping[str, float]:
        return await jmx_values(cluster.lab.kafka, jmx_port, "kafka.controller:*")

    stock = await incident(cluster, of_stock)
    await delete(cluster, "spread", "alone")
    port = free_port()
    await cluster.controlling("--metrics-address", f"{HOST}:{port}")

    async def of_refold() -> Mapping[str, float]:
        return await scraped(port)

    refold = await incident(cluster, of_refold)
    print(stock, refold, sep="\n")
    assert refold[0] == stock[0]
    assert refold[1] == stock[1]
    # A stock broker that is not controller reports 0, as a standby does.
    zeros = of_controller(await of_stock())
    assert zeros.pop("ZkMigrationState") == 4
    assert not any(zeros.values())
    await cluster.daemons[0].stop()
    (log,) = cluster.logs()
    status, output = await run("log", "metrics", str(log), "--json")
    assert status == 0, output
