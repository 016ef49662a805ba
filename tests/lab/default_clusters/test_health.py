"""`refold health` on clusters of stock brokers."""

import json
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.lab.default_clusters.cluster import DefaultLabCluster
from tools.lab.refold import run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

TOPIC = "of-health"
NOT_REGISTERED = {"3": "not registered"}


async def health(
    lab_cluster: DefaultLabCluster, *options: str, topic: str = TOPIC
) -> tuple[int, dict[str, Any]]:
    """The exit status and the report about the topic."""
    status, output = await run(
        "health", "--zookeeper", lab_cluster.connect, "--topic", topic, "--json", *options
    )
    return status, json.loads(output.splitlines()[-1])


async def test_states_of_a_topic_and_a_probe(lab_cluster: DefaultLabCluster) -> None:
    """The brokers need two replicas in sync (`BROKER_CONFIG`); ZooKeeper does not have that."""
    await lab_cluster.create_topic(TOPIC, {0: [1, 2], 1: [2, 3], 2: [3, 1], 3: [1]})
    await lab_cluster.until_isr(TOPIC, {0: 2, 1: 2, 2: 2, 3: 1})
    status, well = await health(lab_cluster, "--probe")
    assert (status, well["worst"], well["well"]) == (0, None, 4)
    assert well["notes"] == []
    assert [(one["fault"], one["offset"] >= 0) for one in well["probe"]] == [("", True)] * 2
    [lost] = [one for one in lab_cluster.lab.brokers if one.broker_id == 3]
    await lost.stop()
    await lab_cluster.until_isr(TOPIC, {0: 2, 1: 1, 2: 1, 3: 1})
    status, report = await health(lab_cluster)
    assert status == 1
    states = {one["partition"]: one["states"] for one in report["partitions"]}
    assert states == {
        0: [],
        1: ["under-min-isr", "under-replicated"],
        2: ["under-min-isr", "under-replicated", "not-preferred"],
        # With one replica, producers with acks=all are accepted nevertheless (Kafka 3.7).
        3: [],
    }
    missing = {one["partition"]: one["missing"] for one in report["partitions"]}
    assert missing == {0: {}, 1: NOT_REGISTERED, 2: NOT_REGISTERED, 3: {}}
    status, _ = await health(lab_cluster, "--fail-on", "offline")
    assert status == 0


async def test_probe_of_an_offline_topic_reports_the_error_of_the_brokers(
    lab_cluster: DefaultLabCluster,
) -> None:
    await lab_cluster.create_topic("of-health-lost", {0: [3]})
    [lost] = [one for one in lab_cluster.lab.brokers if one.broker_id == 3]
    lost.kill()
    await lab_cluster.until_led("of-health-lost", {0: -1})
    status, report = await health(lab_cluster, "--probe", topic="of-health-lost")
    assert (status, report["worst"]) == (1, "offline")
    [partition] = report["partitions"]
    assert partition["waits_for"] == NOT_REGISTERED
    assert [(one["partition"], one["fault"]) for one in report["probe"]] == [
        (0, "not written: [Error 5] LeaderNotAvailableError")
    ]


async def test_brokers_of_a_daemon_are_asked_for_their_own_setting(
    lab_cluster: DefaultLabCluster,
) -> None:
    """A partition with one replica accepts producers with acks=all, since brokers of 3.7."""
    topic = "of-health-by-daemon"
    with TemporaryDirectory() as folder:
        # The path of a socket has at most 107 bytes.
        socket = f"{folder}/status"
        await lab_cluster.controlling(settings={"refold.status.socket": socket})
        await lab_cluster.create_topic(topic, {0: [1, 2], 1: [3]})
        await lab_cluster.until_isr(topic, {0: 2, 1: 1})
        status, output = await run("health", "--daemon", socket, "--topic", topic, "--json")
        report = json.loads(output.splitlines()[-1])
        assert (status, report["notes"], report["well"]) == (0, [], 2)
