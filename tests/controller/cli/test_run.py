import asyncio
import json
import re
import signal
from pathlib import Path

import anyio
import pytest
from aiozk import ZKClient

from tests.controller.cli.clusters import (
    OWN_ID,
    client,
    daemon_of,
    make_cluster,
    refold,
    until_controller,
)
from tests.scripted_broker import ScriptedBroker, never, with_settings
from tools.lab import Lab, ZooKeeperServer
from tools.lab.cluster_view import until
from tools.lab.ports import free_port
from tools.lab.refold import run

WAITING = (
    f"/controller holds this daemon's id {OWN_ID}: waiting up to 6 s for the session of "
    "its previous run to expire"
)

INCIDENTAL = (
    "metrics are served",
    "does not answer yet, nothing was changed",
    # The path of a test's folder may be too long.
    "no status socket",
)


def zookeeper_settings(folder: Path, content: str = "") -> str:
    """Settings with a short timeout for ZooKeeper."""
    file = folder / "server.properties"
    file.write_text(f"zookeeper.session.timeout.ms=4000\n{content}")
    return str(file)


async def refused(connect: str, folder: Path, content: str = "", *, broker_id: int = OWN_ID) -> str:
    """The output of `refold run` when it refuses to start, without a log."""
    config = zookeeper_settings(folder, content)
    status, output = await refold(
        "run", connect, folder / "logs", "--config", config, broker_id=broker_id
    )
    assert status == 2, output
    assert "Traceback" not in output
    assert not (folder / "logs").exists()
    *before, line = output.splitlines()
    messages = [json.loads(one)["message"] for one in before]
    found = [one for one in messages if not any(text in one for text in INCIDENTAL)]
    assert found in ([], [WAITING])
    return line


async def test_invalid_settings_are_reported_in_one_line_each() -> None:
    options = ("--broker-id", "one", "--inter-broker-protocol-version", "4.0")
    status, output = await run("run", "--zookeeper", "zk:port", *options)
    assert status == 2
    assert [line.split(": ")[1].split("=")[0] for line in output.splitlines()] == [
        "zookeeper.connect",
        "broker.id",
        "refold.log.dir is not set",
        "inter.broker.protocol.version",
    ]


async def test_unreachable_zookeeper_refuses_the_start(tmp_path: Path) -> None:
    line = await refused(f"127.0.0.1:{free_port()}", tmp_path)
    assert "cannot connect to ZooKeeper" in line
    assert json.loads(line)["level"] == "error"


async def test_daemon_that_does_not_wait_for_zookeeper_says_how_long_it_tries(
    tmp_path: Path,
) -> None:
    status, output = await refold("run", f"127.0.0.1:{free_port()}", tmp_path / "logs")
    assert status == 2
    messages = [json.loads(line)["message"] for line in output.splitlines()]
    [first] = [one for one in messages if "does not answer yet" in one]
    assert re.search(r"; the daemon continues trying for up to \d+ s$", first)


async def test_exposed_log_folder_refuses_the_start_before_zookeeper_is_asked(
    tmp_path: Path,
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    logs.chmod(0o777)
    status, output = await refold("run", "127.0.0.1:1", logs)
    assert (status, "cannot create an event log: " in output) == (2, True), output
    assert list(logs.iterdir()) == []


async def test_daemon_that_waits_for_zookeeper_says_so_and_ends_at_a_signal(folder: Path) -> None:
    config = zookeeper_settings(folder)
    options = ("--config", config, "--wait-for-zookeeper")
    connect = f"127.0.0.1:{free_port()}"
    async with daemon_of(connect, folder / "logs", *options) as daemon:
        await daemon.start()

        async def waits() -> bool:
            return "does not answer, nothing was changed" in daemon.last_output()

        await until(waits, 30, "the daemon waits for ZooKeeper")
        first, second = [one["message"] for one in daemon.messages()][:2]
        assert first.startswith(
            f"ZooKeeper {connect} does not answer yet, nothing was changed: no connection to "
            f"{connect}: "
        )
        assert first.endswith("; the daemon continues trying until it answers")
        assert "no session within 4 s: " in second
        assert await daemon.stop() == 0
    assert not (folder / "logs").exists()


async def test_unsupported_plugin_refuses_the_start(tmp_path: Path) -> None:
    line = await refused("127.0.0.1:1", tmp_path, "create.topic.policy.class.name=org.example.P")
    assert "create.topic.policy.class.name=org.example.P" in line


@pytest.mark.lab
async def test_wrong_chroot_refuses_the_start(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    assert "/absent does not exist" in await refused(f"{zookeeper.connect}/absent", tmp_path)
    assert "no Kafka cluster below /" in await refused(zookeeper.connect, tmp_path)


@pytest.mark.lab
@pytest.mark.parametrize(
    ("chroot", "path", "content", "ephemeral", "reason"),
    [
        ("/t1", "/brokers/ids/1000", {"version": 5, "host": "h", "port": 1}, True, "in /brokers"),
        ("/t2", "/controller", {"version": 2, "brokerid": 1000}, True, "another daemon holds"),
        ("/t3", "/controller", {"version": 2, "brokerid": 1}, False, "/controller is persistent"),
        (
            "/t4",
            "/controller",
            {"version": 2, "brokerid": 3000, "kraftControllerEpoch": 5},
            False,
            "kraftControllerEpoch 5",
        ),
        (
            "/t5",
            "/migration",
            {
                "version": 0,
                "kraft_controller_id": 3000,
                "kraft_controller_epoch": 1,
                "kraft_metadata_offset": -1,
                "kraft_metadata_epoch": -1,
            },
            False,
            "3000 migrates",
        ),
        ("/t7", "/migration", {}, False, "a migration may be in progress"),
        ("/t6", "/brokers/ids/1", {"version": 4, "host": "h", "port": 1}, True, "below 2.7: 1;"),
    ],
)
async def test_cluster_state_that_forbids_a_start_refuses_it(
    zookeeper: ZooKeeperServer,
    tmp_path: Path,
    chroot: str,
    path: str,
    content: dict[str, object],
    ephemeral: bool,
    reason: str,
) -> None:
    async with client(zookeeper.connect) as znodes:
        await make_cluster(znodes, chroot)
        await znodes.create(chroot + path, json.dumps(content), ephemeral=ephemeral)
        assert reason in await refused(zookeeper.connect + chroot, tmp_path)


@pytest.mark.lab
async def test_policy_of_a_broker_refuses_the_start(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    broker = ScriptedBroker(with_settings({"create.topic.policy.class.name": "a.B"}))
    chroot = "/policies"
    connect = zookeeper.connect + chroot
    async with client(zookeeper.connect) as znodes, broker.listening():
        await make_cluster(znodes, chroot)
        await register(znodes, f"{chroot}/brokers/ids/7", broker)
        reason = "broker 7 has create.topic.policy.class.name=a.B"
        assert reason in await refused(connect, tmp_path)
        status, output = await refold("check", connect, tmp_path, "--json")
        assert (status, reason in output) == (1, True)


@pytest.mark.lab
async def test_different_min_insync_replicas_of_a_broker_are_reported_and_do_not_refuse_the_start(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    broker = ScriptedBroker(with_settings({"min.insync.replicas": "2"}))
    chroot, expected = "/minimum", "min.insync.replicas is 2 on broker 7 and 1 for the daemon"
    connect = zookeeper.connect + chroot
    options = ("--config", zookeeper_settings(tmp_path, "min.insync.replicas=1\n"))
    async with (
        client(zookeeper.connect) as znodes,
        broker.listening(),
        daemon_of(connect, tmp_path / "logs", *options) as daemon,
    ):
        await make_cluster(znodes, chroot)
        await register(znodes, f"{chroot}/brokers/ids/7", broker)
        _, output = await refold("check", connect, tmp_path, *options, "--json")
        assert expected in output
        await daemon.start()
        await until_controller(znodes, chroot, OWN_ID)
        warnings = [one["message"] for one in daemon.messages() if one["level"] == "warning"]
        assert any(expected in one for one in warnings), warnings
        assert await daemon.stop() == 0


@pytest.mark.lab
async def test_broker_that_does_not_answer_is_reported_and_does_not_refuse_the_start(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    chroot = "/silent"
    options = ("--config", zookeeper_settings(tmp_path))
    async with (
        client(zookeeper.connect) as znodes,
        daemon_of(zookeeper.connect + chroot, tmp_path / "logs", *options) as daemon,
    ):
        await make_cluster(znodes, chroot)
        await register(znodes, f"{chroot}/brokers/ids/7", ScriptedBroker(never))
        await daemon.start()
        await until_controller(znodes, chroot, OWN_ID)
        warnings = [one["message"] for one in daemon.messages() if one["level"] == "warning"]
        assert any("the policies of broker 7 are unknown: " in one for one in warnings), warnings
        assert await daemon.stop() == 0


async def register(znodes: ZKClient, path: str, broker: ScriptedBroker) -> None:
    """Register a broker for the session of the client."""
    content = {
        "version": 5,
        "host": None,
        "port": -1,
        "endpoints": [f"PLAINTEXT://127.0.0.1:{broker.port}"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
    }
    await znodes.create(path, json.dumps(content), ephemeral=True)


@pytest.mark.lab
async def test_start_waits_for_the_session_of_a_killed_run(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    """As with a supervisor that restarts the process at once after kill -9."""
    connect = f"{zookeeper.connect}/again"
    options = ("--config", zookeeper_settings(tmp_path))
    async with (
        client(zookeeper.connect) as znodes,
        daemon_of(connect, tmp_path / "logs", *options) as daemon,
    ):
        await make_cluster(znodes, "/again")
        await daemon.start()
        await until_controller(znodes, "/again", OWN_ID)
        daemon.kill()
        await daemon.ended()
        await daemon.start()

        async def is_elected_again() -> bool:
            return bool(await znodes.get_data("/again/controller_epoch") == b"2")

        await until(is_elected_again, 20, "the role again")
        assert await daemon.stop() == 0
        assert not await znodes.exists("/again/controller")
    log = str(max((tmp_path / "logs").iterdir()))
    # The znode was gone when the daemon first read it.
    _, output = await run("log", "show", log, "--format", "kafka-0.8")
    assert "conflicted ephemeral node" not in output
    _, output = await run("log", "show", log, "--format", "kafka")
    assert "Error while creating ephemeral" not in output
    assert (await run("replay", log))[0] == 0


@pytest.mark.lab
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_signal_ends_the_wait_for_the_session_of_a_killed_run(
    zookeeper: ZooKeeperServer, folder: Path, number: signal.Signals
) -> None:
    chroot = f"/{number.name}"
    options = ("--config", zookeeper_settings(folder))
    async with (
        client(zookeeper.connect) as znodes,
        daemon_of(zookeeper.connect + chroot, folder / "logs", *options) as daemon,
    ):
        await make_cluster(znodes, chroot)
        content = json.dumps({"version": 2, "brokerid": OWN_ID})
        await znodes.create(f"{chroot}/controller", content, ephemeral=True)
        await daemon.start()

        async def is_waiting() -> bool:
            return WAITING in [one["message"] for one in daemon.messages()]

        await until(is_waiting, 20, "the wait")
        _, output = await status_of(folder / "logs")
        assert json.loads(output)["role"] == "waiting for the end of its previous session"
        assert await daemon.stop(number) == 0
        assert [one["message"] for one in daemon.messages()] == [
            WAITING,
            "stopped by a signal before the start; nothing was changed",
        ]
        assert not (folder / "logs").exists()


async def status_of(path: Path) -> tuple[int, str]:
    """The result of `refold status --json`."""
    return await run("status", str(path), "--json")


@pytest.mark.lab
async def test_status_shows_a_running_a_suspended_and_a_killed_daemon(
    zookeeper: ZooKeeperServer, folder: Path
) -> None:
    logs = folder / "logs"
    options = ("--config", zookeeper_settings(folder))
    async with (
        client(zookeeper.connect) as znodes,
        daemon_of(f"{zookeeper.connect}/status", logs, *options) as daemon,
    ):
        await make_cluster(znodes, "/status")
        await daemon.start()

        async def is_active() -> bool:
            return '"role":"active"' in (await status_of(logs))[1]

        await until(is_active, 45, "the role")
        code, output = await status_of(logs)
        found = json.loads(output)
        assert (code, found["term"], found["zookeeper"]["is_connected"]) == (0, 1, True)
        _, stat = await znodes.get("/status/controller")
        assert int(found["zookeeper"]["session"], 16) == stat.ephemeral_owner
        assert found["log"]["folder"] == str(next(logs.glob("run-*")))
        # Clients that do not read do not hold the daemon up.
        (path,) = logs.glob("status-*.sock")
        silent = [await asyncio.open_unix_connection(path) for _ in range(20)]
        assert (await status_of(path))[0] == 0
        for _, writer in silent:
            writer.close()
        daemon.pause()
        code, output = await status_of(logs)
        assert (code, "has not answered within 5 s" in output) == (1, True), output
        daemon.resume()
        daemon.kill()
        await daemon.ended()
        code, output = await status_of(logs)
        assert (code, "left from one that was killed" in output) == (1, True), output
        await daemon.start()

        async def answers() -> bool:
            return (await status_of(logs))[0] == 0

        await until(answers, 20, "the status of the next run")
        assert not path.exists()
        assert await daemon.stop() == 0
        assert not list(logs.glob("*.sock"))


@pytest.mark.lab
async def test_daemon_that_waits_for_zookeeper_has_a_status(folder: Path) -> None:
    options = ("--config", zookeeper_settings(folder), "--wait-for-zookeeper")
    async with daemon_of(f"127.0.0.1:{free_port()}", folder / "logs", *options) as daemon:
        await daemon.start()

        async def waits() -> bool:
            return '"role":"waiting for ZooKeeper"' in (await status_of(folder / "logs"))[1]

        await until(waits, 30, "the daemon waits for ZooKeeper")
        assert await daemon.stop() == 0
    assert not (folder / "logs").exists()


@pytest.mark.lab
async def test_second_sigterm_exits_at_once(zookeeper: ZooKeeperServer, tmp_path: Path) -> None:
    connect = f"{zookeeper.connect}/twice"
    async with (
        client(zookeeper.connect) as znodes,
        daemon_of(connect, tmp_path / "logs") as daemon,
    ):
        await make_cluster(znodes, "/twice")
        await daemon.start()
        await until_controller(znodes, "/twice", OWN_ID)
        # The role cannot be handed back without ZooKeeper, so that the first signal takes effect
        # slowly.
        zookeeper.pause()
        try:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(daemon.stop(), 1)
            with anyio.fail_after(5):
                assert await daemon.stop() == -signal.SIGTERM
        finally:
            zookeeper.resume()


@pytest.mark.lab
@pytest.mark.ci
@pytest.mark.timeout(180)
async def test_sigterm_hands_the_role_back_to_a_stock_broker(lab: Lab, tmp_path: Path) -> None:
    zookeeper = await lab.start_zookeeper()
    (broker,) = await lab.start_brokers(1, chroot="/kafka", inter_broker_protocol="2.6")
    options = ("--config", str(broker.folder / "server.properties"), "--take-over")
    async with (
        client(zookeeper.connect) as znodes,
        daemon_of(f"{zookeeper.connect}/kafka", tmp_path / "logs", *options) as daemon,
    ):
        await daemon.start()
        await until_controller(znodes, "/kafka", OWN_ID)
        assert await daemon.stop() == 0
        await until_controller(znodes, "/kafka", broker.broker_id)
    (log,) = (tmp_path / "logs").iterdir()
    status, output = await run("log", "verify", str(log))
    assert (status, "not closed" in output) == (0, False), output
