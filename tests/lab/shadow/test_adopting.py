"""The steps of docs/adopting.md on a stock cluster: shadow, check, take over, hand back, shadow
again, and a pair of standbys."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.lab.default_clusters.cluster import DefaultLabCluster
from tools.lab import Lab
from tools.lab.ports import HOST, free_port
from tools.lab.refold import run
from tools.shadow.incident import ShadowProcess

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

OWN_ID = 1000


async def shadowed(lab_cluster: DefaultLabCluster, folder: Path, versioned: Path) -> dict[str, Any]:
    """The summary of a shadow, while a topic is created, and a broker killed and started again."""
    shadow = ShadowProcess(folder, ["--follow-txnlog", str(versioned)])
    await shadow.start()
    await lab_cluster.create_topic(f"t-{folder.name}", {0: [1, 2, 3], 1: [2, 3, 1]})
    broker = lab_cluster.lab.brokers[2]
    broker.kill()
    await broker.start()
    await lab_cluster.until_in_sync(f"t-{folder.name}", 3)
    assert await shadow.stop() in (0, 3)
    assert [one for one in shadow.messages() if one["level"] != "info"] == []
    return shadow.summary()


async def pair_of_standbys(lab_cluster: DefaultLabCluster) -> None:
    """The standby takes the role of a killed daemon, which comes back as a standby."""
    first = await lab_cluster.controlling("--standby")
    await lab_cluster.until_reported(first, "failover_done")
    addresses = ("--listeners", f"PLAINTEXT://{HOST}:{free_port()}")
    second = lab_cluster.daemon("--standby", *addresses)
    await second.start()
    await lab_cluster.until_reported(second, "standby_ready")
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
            status, output = await run(
                *("check", "--zookeeper", zookeeper.connect, "--broker-id", str(OWN_ID)),
                *("--log-dir", str(tmp_path / "checked"), "--take-over"),
                *("--listeners", f"PLAINTEXT://{lab_cluster.daemon_address}"),
            )
            assert status == 0, output
            daemon = await lab_cluster.controlling()
            await lab_cluster.create_topic("of-refold", {0: [1, 2, 3]})
            await lab_cluster.until_in_sync("of-refold", 3)
            status, output = await run("health", "--zookeeper", zookeeper.connect, "--json")
            assert status == 0, output
            assert await daemon.stop() == 0
            await lab_cluster.until_stock_controller()
            second = await shadowed(lab_cluster, tmp_path / "second", versioned)
            await pair_of_standbys(lab_cluster)
        for summary in (first, second):
            kinds = Counter({kind: one["agreed"] for kind, one in summary["by_kind"].items()})
            assert kinds["partition_state"] > 0
            assert summary["differs"] == summary["missing"] == summary["extra"] == 0
        assert len(lab_cluster.logs()) == 4
        await lab_cluster.check_logs(["0"])
