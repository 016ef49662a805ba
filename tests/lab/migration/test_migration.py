"""A cluster is handed back to stock brokers, migrates to KRaft, rolls back, and is taken again."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient, NewTopic

from tests.lab.default_clusters.cluster import BROKER_CONFIG, LATEST_PROTOCOL, DefaultLabCluster
from tools.lab import Lab
from tools.lab.migration import LabMigration
from tools.lab.refold import run
from tools.shadow.incident import ShadowOutcome, ShadowProcess, outcome_of

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

STATE_CHANGES = "state-change.log"


async def check(connect: str) -> dict[str, dict[str, Any]]:
    """The errors and warnings of `refold check --migration` by check."""
    status, output = await run("check", "--migration", "--zookeeper", connect, "--json")
    findings = json.loads(output.splitlines()[-1])["findings"]
    levels = {one["level"] for one in findings}
    assert status == int("error" in levels), output
    return {one["check"]: one for one in findings if one["level"] != "ok"}


async def add_topic(lab: Lab, topic: str) -> None:
    """Create a topic with two replicas through the brokers."""
    admin = AIOKafkaAdminClient(bootstrap_servers=lab.bootstrap)
    await admin.start()
    try:
        await admin.create_topics([NewTopic(topic, 1, 2)])
    finally:
        await admin.close()


async def test_cluster_migrates_rolls_back_and_is_taken_again(lab: Lab, tmp_path: Path) -> None:
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

        migration = await LabMigration.prepared(lab, cluster.view)
        await migration.controller.start()
        await migration.enter_by(lab.brokers[0])
        found = await check(cluster.connect)
        assert {name: one["level"] for name, one in found.items()} == {
            "migration": "warning",
            "settings": "warning",
        }
        assert "has prepared a migration" in found["migration"]["text"]
        assert found["settings"]["where"] == ["broker 2", "broker 3"]
        await migration.enter()
        found = await check(cluster.connect)
        assert {name: one["level"] for name, one in found.items()} == {
            "controller": "error",
            "migration": "warning",
        }
        assert "KRaft controller 3000 has the role" in found["controller"]["text"]
        assert "was copied" in found["migration"]["text"]
        # A change in KRaft reaches ZooKeeper.
        await add_topic(lab, "meanwhile")
        await cluster.until_in_sync("meanwhile", 2)
        # refold refuses the role.
        refused = cluster.daemon("--take-over")
        await refused.start()
        assert await refused.ended() == 2
        assert "the cluster is migrating to KRaft" in refused.last_output()

        await migration.roll_back()
        await cluster.until_stock_controller()
        assert await check(cluster.connect) == {}
        again = await cluster.controlling()
        for topic in ("before", "meanwhile"):
            await cluster.until_in_sync(topic, len((await cluster.replicas_of(topic))[0]))
        await cluster.create_topic("after", {0: [1, 2, 3]})
        assert await again.stop() == 0, again.last_output()
        await cluster.check_logs()


# A shadow -----------------------------------------------------------------------------------------

SHADOWED_CONFIG = BROKER_CONFIG | {"auto.leader.rebalance.enable": "false"}
"""As the configuration of `ShadowProcess`."""


async def started_shadows(lab: Lab, folder: Path, versioned: Path) -> list[ShadowProcess]:
    """A shadow of ZooKeeper's log and the brokers' logs, and one that watches."""
    logs = [one.folder / name for one in lab.brokers for name in ("controller.log", STATE_CHANGES)]
    followed = [option for one in logs for option in ("--follow-controller-log", str(one))]
    shadows = [
        ShadowProcess(folder / "txnlog", ["--follow-txnlog", str(versioned), *followed]),
        ShadowProcess(folder / "watches", ["--zookeeper", lab.zookeepers[0].connect]),
    ]
    for one in shadows:
        await one.start()
    return shadows


async def check_shadow(outcome: ShadowOutcome) -> None:
    """The terms of the KRaft controller are counted and not judged, no difference is reported, and
    nothing is written."""
    warnings = [one for one in outcome.messages if one["level"] != "info"]
    assert {one["code"] for one in warnings} == {"shadow_kraft"}, warnings
    assert all(one["message"].startswith("KRaft controller 3000 in ") for one in warnings)
    summary = outcome.summary
    assert [one["controller"] for one in summary["kraft_terms"]] == [3000] * len(warnings)
    assert all(one["decisions"] > 0 for one in summary["kraft_terms"])
    assert (outcome.false_differences, outcome.status) == (0, 3)
    assert outcome.is_silent
    epoch = summary["kraft_terms"][-1]["epoch"]
    status, output = await run("why", str(outcome.log), "--term", str(epoch))
    assert status == 0, output
    assert output.startswith(f"Term {epoch} of KRaft controller 3000 ended at event ")
    assert "broker 3000" not in output.lower()


async def test_shadow_next_to_a_migration_and_its_rollback_judges_the_terms_of_brokers_only(
    lab: Lab, tmp_path: Path
) -> None:
    zookeeper = await lab.start_zookeeper()
    await lab.start_brokers(3, inter_broker_protocol=LATEST_PROTOCOL, config=SHADOWED_CONFIG)
    versioned = zookeeper.folder / "data" / "version-2"
    async with DefaultLabCluster(lab, tmp_path) as cluster:
        await cluster.until_stock_controller()
        shadows = await started_shadows(lab, tmp_path, versioned)
        await cluster.create_topic("before", {0: [1, 2, 3], 1: [2, 3, 1]})
        await cluster.until_in_sync("before", 3)
        migration = await LabMigration.prepared(lab, cluster.view)
        await migration.controller.start()
        await migration.enter()
        await add_topic(lab, "meanwhile")
        await cluster.until_in_sync("meanwhile", 2)
        await migration.roll_back()
        await cluster.until_stock_controller()
        await cluster.create_topic("after", {0: [1, 2, 3]})
        await cluster.until_in_sync("after", 3)
        of_files, of_watches = [await outcome_of(one, versioned) for one in shadows]
    for outcome in (of_files, of_watches):
        await check_shadow(outcome)
    assert of_files.transactions == []
    assert of_files.summary["agreed"] > 20
    assert of_files.summary["requests"]["agreed"] > 20
    assert of_watches.summary["agreed"] > 0
