"""A cluster is handed back to stock brokers, migrates to KRaft, rolls back, and is taken again."""

import json
from typing import Any

import pytest

from tests.lab.default_clusters.cluster import BROKER_CONFIG, LATEST_PROTOCOL, DefaultLabCluster
from tools.lab import Lab
from tools.lab.migration import Migration
from tools.lab.refold import run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]


async def check(connect: str) -> dict[str, dict[str, Any]]:
    """The errors and warnings of `refold check --migration` by check."""
    status, output = await run("check", "--migration", "--zookeeper", connect, "--json")
    findings = json.loads(output.splitlines()[-1])["findings"]
    levels = {one["level"] for one in findings}
    assert status == int("error" in levels), output
    return {one["check"]: one for one in findings if one["level"] != "ok"}


async def test_cluster_migrates_rolls_back_and_is_taken_again(lab: Lab, tmp_path) -> None:
    await lab.start_zookeeper()
    await lab.start_brokers(3, inter_broker_protocol=LATEST_PROTOCOL, config=BROKER_CONFIG)
    async with DefaultLabCluster(lab, tmp_path) as cluster:
        await cluster.until_stock_controller()
        daemon = await cluster.controlling()
        await cluster.create_topic("before", {0: [1, 2, 3], 1: [2, 3, 1]})
        await cluster.until_in_sync("before", 3)
        found = await check(cluster.connect)
        assert list(found) == ["controller"], found
        assert "1000, which is no registered broker" in found["controller"]["text"]

        assert await daemon.stop() == 0, daemon.last_output()
        await cluster.until_stock_controller()
        assert await check(cluster.connect) == {}

        migration = await Migration.prepared(lab, cluster.view)
        await migration.controller.start()
        await migration.enter()
        found = await check(cluster.connect)
        print(json.dumps(found, indent=1))
        print(
            await cluster.view.content("/controller"),
            await cluster.view.content("/migration"),
            await cluster.view.controller_epoch(),
        )
        await migration.roll_back()
        await cluster.until_stock_controller()
        found = await check(cluster.connect)
        print(json.dumps(found, indent=1))
        again = await cluster.controlling()
        await cluster.create_topic("after", {0: [1, 2, 3]})
        assert await again.stop() == 0, again.last_output()
