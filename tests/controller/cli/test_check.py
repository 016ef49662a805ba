import json
from pathlib import Path

import pytest

from tests.controller.cli.clusters import client, make_cluster, refold
from tools.lab import Lab, ZooKeeperServer
from tools.lab.ports import free_port


def errors_in(output: str) -> list[str]:
    """The errors that `refold check --json` reports."""
    return [one["text"] for one in json.loads(output)["findings"] if one["level"] == "error"]


async def test_without_zookeeper_the_check_reports_the_connection(tmp_path: Path) -> None:
    connect = f"127.0.0.1:{free_port()}"
    config = tmp_path / "refold.toml"
    config.write_text("zookeeper.connection.timeout.ms = 500")
    status, output = await refold("check", connect, tmp_path, "--config", str(config))
    assert status == 2
    # No line is truncated.
    assert (
        "cannot connect to ZooKeeper: no session within 0.5 s: no connection to 127.0.0.1" in output
    )
    assert "check zookeeper.connect, the servers and the network" in output
    assert "Traceback" not in output


async def test_invalid_settings_are_reported(tmp_path: Path) -> None:
    status, output = await refold("check", "zk:port", tmp_path)
    assert status == 2
    assert output.startswith("refold check: zookeeper.connect=zk:port (--zookeeper): must be HOST")


@pytest.mark.lab
async def test_persistent_controller_znode_is_an_error(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    async with client(zookeeper.connect) as znodes:
        await make_cluster(znodes, "/kafka")
        await znodes.create("/kafka/controller", json.dumps({"version": 2, "brokerid": 1}))
    status, output = await refold("check", f"{zookeeper.connect}/kafka", tmp_path, "--json")
    assert status == 1
    assert errors_in(output) == ["/controller is persistent: no session holds it"]


@pytest.mark.lab
@pytest.mark.timeout(180)
async def test_cluster_that_can_be_taken_over_passes(lab: Lab, tmp_path: Path) -> None:
    zookeeper = await lab.start_zookeeper()
    await lab.start_brokers(2, chroot="/kafka", inter_broker_protocol="2.6", racks=["a", "b"])
    connect = f"{zookeeper.connect}/kafka"
    before = await zookeeper.ephemerals()
    config = tmp_path / "refold.toml"
    config.write_text('broker.rack = "a"')
    options = ("--config", str(config), "--inter-broker-protocol-version", "2.6", "--json")
    status, output = await refold("check", connect, tmp_path / "logs", *options)
    assert status == 0, output
    results = json.loads(output)["findings"]
    assert [one for one in results if one["level"] != "ok"] == []
    checked = {one["check"] for one in results}
    assert {"ZooKeeper", "chroot", "brokers", "protocol", "racks", "clock", "disk"} <= checked
    # The check has created no files.
    assert await zookeeper.ephemerals() == before
    assert not (tmp_path / "logs").exists()

    status, output = await refold("check", connect, tmp_path, *options[2:4], broker_id=1)
    assert status == 1
    assert "1 error" in output

    status, output = await refold("check", connect, tmp_path, "--json")
    assert (status, errors_in(output)) == (
        1,
        ["brokers with an inter.broker.protocol.version below 2.7: 1, 2; the daemon has 3.9-IV0"],
    )

    lab.brokers[1].pause()
    config.write_text("controller.socket.timeout.ms = 1000")
    status, output = await refold("check", connect, tmp_path, *options)
    (error,) = errors_in(output)
    assert status == 1
    assert error.startswith("broker 2: ")
