"""`refold run --mirror` to a topic of the controlled cluster, which is unavailable for a while."""

import json
from pathlib import Path

import pytest

from eventstore.reader import LogReader
from tests.controller.daemon.lab_cluster import LabCluster
from tools.lab.refold import run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

TOPIC = "kept-logs"


def content(log: Path) -> list[object]:
    with LogReader(log) as reader:
        return [reader.header, *reader.records(), reader.closing]


async def test_all_logged_records_are_on_the_topic(lab_cluster: LabCluster, tmp_path: Path) -> None:
    """The daemon is killed with its mirror. Later it is shut down while two of three brokers are
    late."""
    bootstrap = lab_cluster.lab.bootstrap
    settings = {"refold.mirror.topic": TOPIC}
    logs = tmp_path / "logs"
    first = await lab_cluster.controlling("--mirror", bootstrap, log_dir=logs, settings=settings)
    await lab_cluster.create_topic("before", {0: [1, 2, 3]})
    first.kill()
    await first.ended()
    second = await lab_cluster.controlling("--mirror", bootstrap, log_dir=logs, settings=settings)
    for broker in lab_cluster.lab.brokers[1:]:
        broker.kill()
    await lab_cluster.until_led("before", {0: 1})
    for broker in lab_cluster.lab.brokers[1:]:
        await broker.start()
    await lab_cluster.until_in_sync("before", 3)
    assert await second.stop() == 0
    third = await lab_cluster.controlling("--mirror", bootstrap, log_dir=logs, settings=settings)
    await lab_cluster.until_logged(
        third, "the log is mirrored completely", str(lab_cluster.logs()[1])
    )
    assert await third.stop() == 0
    where = ("--bootstrap-server", bootstrap, "--topic", TOPIC)
    status, listed = await run("log", "fetch", *where, "--list", "--json")
    assert status == 0, listed
    names = [json.loads(line)["name"] for line in listed.splitlines()]
    assert names == [log.name for log in lab_cluster.logs()]
    status, output = await run("log", "fetch", *where, "--out", str(tmp_path / "out"))
    assert status == 0, output
    for log in lab_cluster.logs()[:2]:
        assert content(tmp_path / "out" / log.name) == content(log)
    assert await run("log", "mirror", str(logs), *where) == (0, "0 records published\n")
    # No output of the Kafka client at each attempt, and none about the end of the mirror.
    said = (tmp_path / "refold.out").read_text().splitlines()
    assert [line for line in said if "Traceback" in line or "Unable" in line] == []
