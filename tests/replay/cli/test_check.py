"""`refold check --migration` on logs, on recordings and on real servers."""

import json
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest
from typer.testing import CliRunner, Result

from replay.cli.main import app
from tests.controller.cli.clusters import client
from tests.replay.migration.subjects import COPIED, KRAFT, STATE
from tests.scripted_broker import ScriptedBroker, with_settings
from tools.lab import Lab, ZooKeeperServer

RECORDING = "tests/recordings/broker-crash-2.tar.xz"


def check(*arguments: str | Path | int, environment: dict[str, str] | None = None) -> Result:
    return CliRunner().invoke(
        app, ["check", "--migration", *map(str, arguments)], env=environment or {}
    )


def report(*arguments: str | Path | int) -> dict[str, Any]:
    done = check(*arguments, "--json")
    assert done.exit_code in (0, 1), done.stderr
    return dict(json.loads(done.stdout))


def problems(found: dict[str, Any]) -> dict[str, Any]:
    """The errors and warnings by check."""
    return {one["check"]: one for one in found["findings"] if one["level"] != "ok"}


def test_log_of_the_daemon_shows_work_that_must_be_over(log: Path) -> None:
    found = report(log)
    assert problems(found)["offline partitions"]["where"] == ["t-0"]
    assert "settings" in problems(found)
    assert found["controller_epoch"] == 1
    done = check(log)
    assert done.exit_code == 1
    assert "the log of a daemon does not have /controller and /migration" in done.stdout
    assert "start the brokers with their replicas" in done.stdout


def test_moment_without_a_controller_is_refused(log: Path) -> None:
    done = check(log, "--at", 1)
    assert (done.exit_code, done.stdout) == (2, "")
    assert "is not the controller at event 1, so its log does not show the cluster" in done.stderr
    assert "or a later one with --at" in done.stderr


def test_log_of_a_stopped_daemon_is_checked_at_the_last_moment_of_its_last_term() -> None:
    log = "tests/incidents/kraft-epoch-above"
    found = report(log)
    assert (found["seq"], found["controller_epoch"]) == (145, 16)
    [note] = found["notes"]
    assert note.startswith("the daemon has not been controller since event 146")
    assert f"note: {note}" in check(log).stdout
    assert report(log, "--at", 145)["notes"] == []


def test_recording_of_a_stock_cluster_is_read() -> None:
    found = report(RECORDING)
    by_check = {one["check"]: one for one in found["findings"]}
    assert by_check["migration"]["text"] == "/migration does not exist"
    assert by_check["controller"]["level"] == "ok"
    assert found["seq"] > 0
    assert found["source"] == RECORDING


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["LOG", "--zookeeper", "localhost:1"], "has no effect with SOURCE"),
        (["LOG", "--at", "soon"], "--at"),
        (["--at", "3", "--zookeeper", "localhost:1"], "is a moment of SOURCE"),
        (["nosuch"], "refold check: nosuch"),
        (["--zookeeper", "localhost:no"], "must be HOST:PORT"),
        ([], "zookeeper.connect is not set"),
    ],
)
def test_options_that_do_not_fit_are_refused(log: Path, arguments: list[str], says: str) -> None:
    done = check(*(str(log) if one == "LOG" else one for one in arguments))
    assert (done.exit_code, done.stdout) == (2, "")
    assert says in " ".join(done.stderr.replace("│", " ").split())


@pytest.mark.parametrize("arguments", [["LOG"], ["--at", "3"]])
def test_options_of_the_migration_need_it(log: Path, arguments: list[str]) -> None:
    given = [str(log) if one == "LOG" else one for one in arguments]
    done = CliRunner().invoke(app, ["check", *given])
    assert done.exit_code == 2
    assert "applies to --migration" in done.stderr


# Real servers -----------------------------------------------------------------------------------

BROKER_SETTINGS = {
    "inter.broker.protocol.version": "3.6-IV0",
    "zookeeper.metadata.migration.enable": "true",
}


async def make_migrated(zookeeper: ZooKeeperServer, chroot: str, port: int) -> None:
    """A KRaft controller has the role; of two brokers, the first answers."""
    znodes = {
        "/controller": KRAFT,
        "/migration": COPIED,
        "/brokers/ids/1": {"version": 4, "endpoints": [f"PLAINTEXT://127.0.0.1:{port}"]},
        "/brokers/ids/2": {"version": 4, "endpoints": []},
        "/brokers/topics/t": {"version": 1, "partitions": {"0": [1, 3]}},
        "/brokers/topics/t/partitions/0/state": {**STATE, "isr": [1]},
        "/admin/reassignment_requests/request_0000000001": {},
        "/admin/reassign_partitions": {"version": 1, "partitions": []},
    }
    async with client(zookeeper.connect) as writer:
        for path, content in znodes.items():
            await writer.ensure_path(chroot + path.rpartition("/")[0])
            await writer.create(chroot + path, json.dumps(content))
        await writer.create(f"{chroot}/controller_epoch", "3")


@pytest.mark.lab
async def test_live_cluster_is_read_from_zookeeper_and_brokers(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    broker = ScriptedBroker(with_settings(BROKER_SETTINGS))
    await make_migrated(zookeeper, "/live", broker.port)
    config = tmp_path / "server.properties"
    config.write_text(f"zookeeper.connect={zookeeper.connect}/live\nprocess.roles=broker\n")
    async with broker.listening():
        done = await anyio.to_thread.run_sync(check, "--config", config, "--json")
    assert done.exit_code == 1, done.stderr
    found = problems(json.loads(done.stdout))
    assert "KRaft controller 3000 has the role" in found["controller"]["text"]
    assert "was copied" in found["migration"]["text"]
    assert "set /controller_epoch 4" in found["epoch"]["advice"]
    assert found["partition epochs"]["where"] == ["t-0"]
    assert found["reassignments"]["where"] == [
        "/admin/reassign_partitions",
        "/admin/reassignment_requests/request_0000000001",
    ]
    assert found["brokers"]["where"] == ["broker 3"]
    assert "has no listener without TLS and SASL" in found["settings"]["text"]
    assert found["settings"]["where"] == ["broker 2"]
    assert "is 3.6-IV0" in found["protocol"]["text"]


@pytest.mark.lab
def test_zookeeper_that_does_not_answer_is_reported() -> None:
    done = check("--zookeeper", "127.0.0.1:1")
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.startswith("refold check: ZooKeeper at 127.0.0.1:1: ")


@pytest.mark.lab
async def test_data_folder_of_zookeeper_is_read(lab: Lab) -> None:
    zookeeper = await lab.start_zookeeper()
    await make_migrated(zookeeper, "/kafka", 1)
    found = problems(report(zookeeper.folder / "data"))
    assert "KRaft controller 3000 has the role" in found["controller"]["text"]
    assert found["partition epochs"]["where"] == ["t-0"]
