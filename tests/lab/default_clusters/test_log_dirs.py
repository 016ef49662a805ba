"""A broker with a failing log directory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.lab.default_clusters.cluster import BROKER_CONFIG
from tests.lab.default_clusters.conftest import with_lab_cluster
from tools.lab import Lab

pytestmark = [pytest.mark.lab, pytest.mark.timeout(90)]

TOPIC = "spread"
PARTITIONS = 6
FAILING = 2
# A broker finds a failed directory when it writes its checkpoints there.
CONFIG = BROKER_CONFIG | {"replica.high.watermark.checkpoint.interval.ms": "500"}


@pytest.mark.parametrize("protocol", ["2.6", "3.9"])
async def test_partitions_in_a_failed_log_directory_get_other_leaders(
    lab: Lab, tmp_path: Path, protocol: str
) -> None:
    await lab.start_zookeeper()
    await lab.start_brokers(3, inter_broker_protocol=protocol, config=CONFIG)
    broker = lab.brokers[FAILING - 1]
    second = broker.folder / "second"
    broker.config["log.dirs"] += f",{second}"
    await broker.restart()
    async with with_lab_cluster(lab, tmp_path, protocol=protocol) as lab_cluster:
        daemon = await lab_cluster.controlling()
        await lab_cluster.create_topic(TOPIC, {one: [FAILING, 3, 1] for one in range(PARTITIONS)})
        await lab_cluster.until_in_sync(TOPIC, 3)
        hit = {int(one.name.rpartition("-")[2]) for one in second.glob(f"{TOPIC}-*")}
        assert 0 < len(hit) < PARTITIONS
        with failing(second):
            leaders = {number: 3 if number in hit else FAILING for number in range(PARTITIONS)}
            await lab_cluster.until_led(TOPIC, leaders)
            sizes = {number: 2 if number in hit else 3 for number in range(PARTITIONS)}
            await lab_cluster.until_isr(TOPIC, sizes)
            assert broker.running, "the other directory has not failed"
            await broker.stop()
        await broker.start()
        await lab_cluster.until_in_sync(TOPIC, 3)
        assert await daemon.stop() == 0


@contextmanager
def failing(folder: Path) -> Iterator[None]:
    """A file takes the directory's place, so that no file below the directory can be written."""
    aside = folder.with_name("aside")
    folder.rename(aside)
    folder.write_text("no directory")
    try:
        yield
    finally:
        folder.unlink()
        aside.rename(folder)
