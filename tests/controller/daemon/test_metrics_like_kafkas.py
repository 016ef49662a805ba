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
from tests.controller.daemon.jmx import jmx_options, jmx_values
from tests.controller.daemon.lab_cluster import BROKER_CONFIG, LabCluster
from tools.lab import Lab
from tools.lab.cluster_view import until
from tools.lab.ports import HOST, free_port
from tools.lab.refold import run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

Key = tuple[str, frozenset[tuple[str, str]]]
"""The name of a sample, and its labels."""
Read = Callable[[], Awaitable[Mapping[str, float]]]
"""Reads the values of the controller, by Kafka's JMX names."""

CONTROLLER = "kafka.controller:type=KafkaController,name="
SETTLED_SECONDS_MAX = 60.0

COUNTED = ("TopicChange", "TopicDeletion", "LeaderElection", "ManualLeaderBalance")
"""Timers of the events of the incident."""


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


def timer_of(event: str) -> str:
    """The JMX name of a timer."""
    return f"kafka.controller:type=ControllerStats,name={event}RateAndTimeMs"


def counts(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """How often each event was handled in between."""
    names = [timer_of(one) for one in COUNTED]
    return {name: after[f"{name}:Count"] - before[f"{name}:Count"] for name in names}


async def samples_of(port: int) -> dict[Key, float]:
    """The daemon's metrics, by name and labels."""

    def get() -> str:
        with urllib.request.urlopen(f"http://{HOST}:{port}/metrics", timeout=10) as response:
            return str(response.read().decode())

    families = text_string_to_metric_families(await anyio.to_thread.run_sync(get))
    found = [one for family in families for one in family.samples]
    return {(one.name, frozenset(one.labels.items())): one.value for one in found}


async def scraped(port: int) -> dict[str, float]:
    """The daemon's metrics without labels, by Kafka's JMX names."""
    samples = {
        name: value for (name, labels), value in (await samples_of(port)).items() if not labels
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

    async def is_idle() -> bool:
        now = of_controller(await of_refold())
        return (now["ActiveBrokerCount"], now["ControllerState"]) == (3, 0)

    await until(is_idle, SETTLED_SECONDS_MAX, "the take-over is over")
    refold = await incident(cluster, of_refold)
    assert refold[0] == stock[0]
    # The watch of refold, which exists before the broker returns, also reports that the broker sets
    # its registration right after it has created it. Kafka sets its watch later.
    surplus = {name: refold[1][name] - stock[1][name] for name in stock[1]}
    assert {name: more for name, more in surplus.items() if more} == {timer_of("LeaderElection"): 1}
    # A stock broker that is not controller reports 0, as a standby does.
    zeros = of_controller(await of_stock())
    assert zeros.pop("ZkMigrationState") == 4
    assert not any(zeros.values())
    live = await samples_of(port)
    assert await cluster.daemons[0].stop() == 0
    await check_replay(cluster.logs()[0], live)


async def check_replay(log: Path, live: Mapping[Key, float]) -> None:
    """A replay counts the numbers that the daemon served after the same event."""
    seq = int(live["refold_events_total", frozenset()])
    status, output = await run(
        "log", "metrics", str(log), "--at", str(seq), "--json", with_notes=False
    )
    assert status == 0, output
    replayed = {
        (one["name"], frozenset(one["labels"].items())): one["value"]
        for one in json.loads(output)["metrics"]
    }
    assert len(replayed) > 100
    assert replayed == {key: live[key] for key in replayed}
