"""The steps of docs/adopting.md on a stock cluster: shadow, check, take over, hand back, shadow
again, and a pair of standbys. The page says what this test leaves out."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from tests.lab.default_clusters.cluster import DefaultLabCluster
from tools.lab import Lab
from tools.lab.cluster_view import until
from tools.lab.ports import HOST, free_port
from tools.lab.refold import run
from tools.shadow.incident import ShadowProcess

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

OWN_ID = 1000
BROKER_LOGS = ("controller.log", "state-change.log")


async def done(*arguments: str) -> str:
    """The output of a command that succeeds."""
    status, output = await run(*arguments)
    assert status == 0, f"{arguments}: exit {status}: {output}"
    return output


async def delete_topic(lab_cluster: DefaultLabCluster, bootstrap: str, topic: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        await admin.delete_topics([topic])
    finally:
        await admin.close()

    async def is_gone() -> bool:
        return await lab_cluster.view.topic(topic) is None

    await until(is_gone, 60, f"{topic} is deleted")


async def move_replicas(lab_cluster: DefaultLabCluster, topic: str, folder: Path) -> None:
    """Move partition 0 from brokers 1,2 to 2,3."""
    file = folder / "moves.json"
    move = {"topic": topic, "partition": 0, "replicas": [2, 3]}
    file.write_text(json.dumps({"version": 1, "partitions": [move]}))
    options = ("--execute", "--reassignment-json-file", str(file))
    await done("reassign", "--bootstrap-server", lab_cluster.lab.bootstrap, *options)

    async def is_moved() -> bool:
        return await lab_cluster.replicas_of(topic) == {0: [2, 3]}

    await until(is_moved, 60, f"{topic} is moved")


async def shadowed(lab_cluster: DefaultLabCluster, folder: Path, versioned: Path) -> dict[str, Any]:
    """The summary of a shadow, while a topic is created, another one moved and deleted, and a
    broker killed and started again."""
    logs = [one.folder / name for one in lab_cluster.lab.brokers for name in BROKER_LOGS]
    followed = [option for one in logs for option in ("--follow-controller-log", str(one))]
    shadow = ShadowProcess(folder, ["--follow-txnlog", str(versioned), *followed])
    await shadow.start()
    name = folder.name
    await lab_cluster.create_topic(f"t-{name}", {0: [1, 2, 3], 1: [2, 3, 1]})
    await lab_cluster.create_topic(f"moved-{name}", {0: [1, 2]})
    await move_replicas(lab_cluster, f"moved-{name}", folder)
    await delete_topic(lab_cluster, lab_cluster.lab.bootstrap, f"moved-{name}")
    broker = lab_cluster.lab.brokers[2]
    broker.kill()
    await broker.start()
    await lab_cluster.until_in_sync(f"t-{name}", 3)
    assert await shadow.stop() in (0, 3)
    assert [one for one in shadow.messages() if one["level"] != "info"] == []
    return shadow.summary()


async def shadowed_by_refolds_rules(folder: Path, versioned: Path) -> None:
    """On a copy of the files. A deviation may differ: status 1."""
    copied = folder / "version-2"
    shutil.copytree(versioned, copied)
    shadow = ShadowProcess(folder / "rules", ["--follow-txnlog", str(copied), "--rules", "refold"])
    await shadow.start()
    assert await shadow.stop() in (0, 1, 3)
    assert shadow.summary()["agreed"] > 0


async def used(lab_cluster: DefaultLabCluster, topic: str) -> None:
    """Create the topic, write to it, and delete it. The cluster has no new state."""
    await lab_cluster.create_topic(topic, {0: [1, 2, 3]})
    await lab_cluster.until_in_sync(topic, 3)
    async with AIOKafkaProducer(bootstrap_servers=lab_cluster.daemon_address) as producer:
        await producer.send_and_wait(topic, b"of-refold")
    await delete_topic(lab_cluster, lab_cluster.daemon_address, topic)
    await done("health", "--zookeeper", lab_cluster.connect, "--json")


async def pair_of_standbys(lab_cluster: DefaultLabCluster) -> None:
    """The standby takes the role of a killed daemon, which comes back as a standby."""
    first = await lab_cluster.controlling("--standby")
    await lab_cluster.until_reported(first, "failover_done")
    addresses = ("--listeners", f"PLAINTEXT://{HOST}:{free_port()}")
    second = lab_cluster.daemon("--standby", *addresses)
    await second.start()
    await lab_cluster.until_reported(second, "standby_ready")

    async def is_listed() -> bool:
        output = await done("status", str(first.log_dir))
        return f"broker id {OWN_ID}, running since" in output

    await until(is_listed, 30, "the status of the active daemon lists the standby")
    first.kill()
    await first.ended()
    with lab_cluster.brokers_paused():
        await lab_cluster.until_reported(second, "failover_done")
    await lab_cluster.create_topic("of-the-standby", {0: [2, 3, 1]})
    again = lab_cluster.daemon("--standby")
    await again.start()
    await lab_cluster.until_reported(again, "standby_ready")
    assert [await again.stop(), await second.stop()] == [0, 0]
    await lab_cluster.until_stock_controller()


async def test_steps_of_an_adoption(tmp_path: Path) -> None:
    async with Lab(tmp_path / "cluster") as lab:
        zookeeper = await lab.start_zookeeper()
        await lab.start_brokers(3, config={"auto.leader.rebalance.enable": "false"})
        versioned = zookeeper.folder / "data" / "version-2"
        async with DefaultLabCluster(lab, tmp_path) as lab_cluster:
            await lab_cluster.until_stock_controller()
            first = await shadowed(lab_cluster, tmp_path / "first", versioned)
            await shadowed_by_refolds_rules(tmp_path / "of-refold", versioned)
            await done(
                *("check", "--zookeeper", zookeeper.connect, "--broker-id", str(OWN_ID)),
                *("--log-dir", str(tmp_path / "checked"), "--take-over"),
                *("--listeners", f"PLAINTEXT://{lab_cluster.daemon_address}"),
            )
            await done("health", "--zookeeper", zookeeper.connect)
            daemon = await lab_cluster.controlling()
            taken = await lab_cluster.until_reported(daemon, "failover_done")
            await used(lab_cluster, "of-refold")
            assert await daemon.stop() == 0
            await lab_cluster.until_stock_controller()
            [log] = lab_cluster.logs()
            assert "of-refold-0" in await done("why", str(log), "--partition", "of-refold-0")
            await done("health", str(log), "--at", str(taken["event"]))
            second = await shadowed(lab_cluster, tmp_path / "second", versioned)
            await pair_of_standbys(lab_cluster)
        for summary in (first, second):
            kinds = Counter({kind: one["agreed"] for kind, one in summary["by_kind"].items()})
            assert kinds["partition_state"] > 0
            assert summary["differs"] == summary["missing"] == summary["extra"] == 0
        assert len(lab_cluster.logs()) == 4
        await lab_cluster.check_logs(["0"])
