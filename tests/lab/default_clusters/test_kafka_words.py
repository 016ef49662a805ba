"""A log of refold in Kafka's words equals what a stock controller wrote in the same incident."""

from pathlib import Path

import pytest

from tests.lab.default_clusters.cluster import DefaultLabCluster
from tests.replay.kafka_text.rendering import parsed, row_of
from tools.lab.refold import run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

FILES = ("controller.log", "state-change.log")
INCIDENT_LINES = (
    "New topics:",
    "New partition creation callback",
    "Shutting down broker",
    "Newly added brokers:",
    "Broker failure callback",
    "Removed ",
    "New broker startup callback",
    "Updated broker epochs cache:",
)
"""Beginnings of lines about the incident. Other lines depend on leaders and on time."""


async def incident(lab_cluster: DefaultLabCluster, topic: str, spared: int) -> None:
    """Creates a topic, and stops and starts a broker other than `spared`."""
    await lab_cluster.create_topic(topic, {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]})
    await lab_cluster.until_in_sync(topic, 3)
    broker = next(one for one in lab_cluster.lab.brokers if one.broker_id != spared)
    await lab_cluster.stop_in_order(broker)
    await broker.start()
    await lab_cluster.until_in_sync(topic, 3)


def written_by_controller(folder: Path) -> list[str]:
    """A stock broker's lines as controller, at INFO and above, in the order of each file."""
    lines = [
        line
        for name in FILES
        for line in (folder / name).read_text(encoding="utf-8").splitlines()
        if line.startswith("[2") and line.split("] ")[1].startswith(("INFO", "WARN", "ERROR"))
    ]
    return [one for one in lines if "[Broker id=" not in one and "fails to send request" not in one]


def rows(lines: list[str]) -> list[str]:
    """The rows of the page for lines about the incident; each line must have a row."""
    listed = [(line, row_of(parsed(line)).text) for line in lines if line.startswith("[2")]
    return [row for line, row in listed if any(f"] {one}" in line for one in INCIDENT_LINES)]


async def test_log_in_kafkas_words_has_the_lines_of_a_stock_controller(
    lab_cluster: DefaultLabCluster,
) -> None:
    stock = await lab_cluster.view.controller()
    assert stock is not None
    [controller] = [one for one in lab_cluster.lab.brokers if one.broker_id == stock]
    before = len(rows(written_by_controller(controller.folder)))
    await incident(lab_cluster, "under-kafka", stock)
    by_kafka = rows(written_by_controller(controller.folder))[before:]

    daemon = await lab_cluster.controlling()
    await lab_cluster.until_reported(daemon, "failover_done")
    await incident(lab_cluster, "under-refold", stock)
    assert await daemon.stop() == 0
    status, output = await run("log", "show", str(lab_cluster.logs()[-1]), "--format", "kafka")
    assert status == 0, output
    by_refold = rows(output.splitlines())
    assert by_refold[-len(by_kafka) :] == by_kafka
