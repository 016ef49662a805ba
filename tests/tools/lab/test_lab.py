"""The lab with real servers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from aiokafka.client import AIOKafkaClient

from tools.lab import Lab, LabError, ZooKeeperServer
from tools.lab.cluster_view import until
from tools.setup.jars import cache_folder

pytestmark = pytest.mark.lab


async def live_brokers(bootstrap: str) -> set[int]:
    """The broker ids in the metadata of a broker."""
    client = AIOKafkaClient(bootstrap_servers=bootstrap)
    await client.bootstrap()
    try:
        return {broker.nodeId for broker in client.cluster.brokers()}
    finally:
        await client.close()


async def until_live(bootstrap: str, expected: set[int]) -> None:
    async def are_live() -> bool:
        return await live_brokers(bootstrap) == expected

    await until(are_live, 30, f"the live brokers are {expected}")


@pytest.mark.ci
async def test_zookeeper_answers(zookeeper: ZooKeeperServer) -> None:
    assert "Mode: standalone" in await zookeeper.four_letter_word("srvr")


@pytest.mark.ci
@pytest.mark.timeout(180)
async def test_killed_broker_can_be_started_again(lab: Lab) -> None:
    zookeeper = await lab.start_zookeeper()
    first, second = await lab.start_brokers(2, chroot="/kafka", inter_broker_protocol="2.6")
    await until_live(first.connect, {1, 2})
    second.kill()
    await until_live(first.connect, {1})
    await second.start()
    await until_live(first.connect, {1, 2})
    assert {"/kafka/brokers/ids/1", "/kafka/brokers/ids/2"} <= await zookeeper.ephemerals()


@pytest.mark.timeout(180)
async def test_paused_broker_loses_its_session(lab: Lab) -> None:
    zookeeper = await lab.start_zookeeper()
    first, second = await lab.start_brokers(2, config={"zookeeper.session.timeout.ms": "2000"})
    second.pause()
    await until_live(first.connect, {1})
    assert "/brokers/ids/2" not in await zookeeper.ephemerals()
    second.resume()
    await until_live(first.connect, {1, 2})


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("kafka", "zookeeper"), [("3.3.2", "3.9.5"), ("2.8.2", "3.5.9"), ("3.9.1", "3.5.9")]
)
async def test_older_versions_start(kafka: str, zookeeper: str, tmp_path: Path) -> None:
    async with Lab(tmp_path, kafka=kafka) as lab:
        server = await lab.start_zookeeper(zookeeper)
        assert f"version: {zookeeper}" in await server.four_letter_word("srvr")
        await lab.start_brokers(1)
        await until_live(lab.bootstrap, {1})


async def test_failed_start_is_reported_with_its_cause(lab: Lab) -> None:
    await lab.start_zookeeper()
    with pytest.raises(LabError, match=r"broker-1 exited while it started: .*no\.such\.protocol"):
        await lab.start_brokers(1, inter_broker_protocol="no.such.protocol")


@pytest.mark.timeout(180)
def test_command_line_starts_controls_and_stops_a_lab(tmp_path: Path) -> None:
    def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "tools.lab", *arguments, "--dir", str(tmp_path)],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[3],
        )

    started = run("up", "--brokers", "1", "--detach", "--json")
    assert started.returncode == 0, started.stderr
    try:
        assert {server["state"] for server in json.loads(started.stdout)["servers"]} == {"running"}
        # What the process in the background prints is shown as progress on standard error.
        assert "servers" not in (tmp_path / "up.log").read_text()
        assert run("pause", "broker-1").returncode == 0
        assert json.loads(run("status", "--json").stdout)["servers"][0]["state"] == "paused"
        assert run("kill", "broker-1").returncode == 0
        assert json.loads(run("status", "--json").stdout)["servers"][0]["state"] == "down"
        assert "no server broker-9 in this lab" in run("kill", "broker-9").stderr
    finally:
        assert run("down").returncode == 0
    assert "no lab is running in" in run("status").stderr


@pytest.mark.timeout(300)
async def test_servers_load_archived_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = cache_folder()
    monkeypatch.setenv("REFOLD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    for jars in fetched.glob("kafka-*"):
        (tmp_path / "cache" / jars.name).symlink_to(jars)
    async with Lab(tmp_path / "first") as lab:
        await lab.archive_classes()
    async with Lab(tmp_path / "second") as lab:
        server = await lab.start_zookeeper()
        [broker] = await lab.start_brokers(1)
        for one in (server, broker):
            mapped = Path(f"/proc/{one.pid}/maps").read_text(encoding="utf-8")
            assert f"{tmp_path}/cache/classes/" in mapped
