"""The errors of `refold run` about a ZooKeeper that it must not use, or that does not accept it."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from anyio.to_thread import run_sync

from controller.core import znodes
from tools.lab import Lab
from tools.lab.certificates import CertificateAuthority
from tools.lab.ports import HOST, free_port
from tools.lab.refold import run
from tools.lab.secured import USER, ZOOKEEPER_PASSWORD, SecuredFiles

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120)]

WRONG = "wrong-secret"


async def refused_start(folder: Path, config: Mapping[str, str]) -> str:
    """The only reason of a daemon that refuses to start. No output has a secret."""
    file = folder / "refold.properties"
    content = {
        **config,
        "refold.broker.id": "1000",
        "refold.log.dir": str(folder / "logs"),
        "zookeeper.connection.timeout.ms": "1500",
        "refold.messages": "text",
        "refold.metrics.address": "off",
    }
    file.write_text("".join(f"{key}={text}\n" for key, text in content.items()))
    status, output = await run("run", "--config", str(file))
    assert status == 2, output
    (line,) = output.strip().splitlines()
    for secret in (ZOOKEEPER_PASSWORD, WRONG):
        assert secret not in line
    _, found, reason = line.partition("refused to start: ")
    assert found, line
    return reason


async def test_server_with_a_bad_certificate_is_not_used(tmp_path: Path) -> None:
    files = SecuredFiles(tmp_path / "files")
    strangers = CertificateAuthority(tmp_path / "strangers", "strangers")
    for identity, expected in (
        (files.authority.issue("ended", ended=True), "certificate has expired"),
        (files.authority.issue("elsewhere", "zk.example"), "IP address mismatch"),
        (strangers.issue("zookeeper"), "self-signed certificate in certificate chain"),
    ):
        async with Lab(tmp_path / identity.pem.stem) as lab:
            await files.start_zookeeper(lab, identity)
            login = {"refold.login.config": str(files.client_jaas())}
            reason = await refused_start(tmp_path, {**files.zookeeper_config(), **login})
        start = "cannot connect to ZooKeeper: no session within 1.5 s: no connection to"
        assert reason.startswith(f"{start} {files.zookeeper_connect}: its certificate cannot be")
        assert expected in reason


async def test_login_that_the_server_rejects_is_reported(tmp_path: Path) -> None:
    files = SecuredFiles(tmp_path / "files")
    async with Lab(tmp_path / "lab") as lab:
        enforced = {"enforce.auth.enabled": "true", "enforce.auth.schemes": "sasl"}
        server = await files.start_zookeeper(lab, **enforced)
        config = files.zookeeper_config()
        password = {"refold.login.config": str(files.client_jaas(WRONG))}
        reason = await refused_start(tmp_path, {**config, **password})
        assert f"{files.zookeeper_connect} rejects the login of {USER}" in reason
        settings = {"refold.zookeeper.username": "mallory", "refold.zookeeper.password": WRONG}
        reason = await refused_start(tmp_path, {**config, **settings})
        assert f"{files.zookeeper_connect} rejects the login of mallory" in reason
        without = {**config, "zookeeper.set.acl": "false"}
        reason = await refused_start(tmp_path, without)
        assert f"{files.zookeeper_connect} requires a login by SASL" in reason
        plain_port = {**without, "zookeeper.connect": server.connect}
        reason = await refused_start(tmp_path, plain_port)
        assert (
            f"no connection to {server.connect}: it closed the connection at the TLS handshake"
            in reason
        )
        without_tls = {"zookeeper.connect": files.zookeeper_connect}
        reason = await refused_start(tmp_path, without_tls)
        assert "the server closed the connection at the handshake: it does not serve, or" in reason


async def test_log_folder_that_others_may_write_is_refused(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    logs.chmod(0o775)
    async with Lab(tmp_path / "lab") as lab:
        server = await lab.start_zookeeper()
        await lab.start_brokers(1)
        config = {
            "zookeeper.connect": server.connect,
            "refold.listeners": f"PLAINTEXT://{HOST}:{free_port()}",
        }
        reason = await refused_start(tmp_path, config)
    assert reason == (
        f"cannot create an event log: {logs}: other users may write it (mode 0775): run chmod go-w,"
        " or use another folder"
    )
    assert list(logs.glob("run-*")) == []


async def test_encrypted_password_of_the_daemons_id_is_refused_by_name(tmp_path: Path) -> None:
    """Kafka's own tool stores it, as for a broker that has not started yet."""
    files = SecuredFiles(tmp_path / "files")
    key = "listener.name.secure.ssl.keystore.password"
    async with Lab(tmp_path / "lab") as lab:
        await files.start_zookeeper(lab)
        content = {
            "/brokers/ids": b"",
            "/cluster/id": b'{"version":"1","id":"c"}',
            "/config/brokers/1000": znodes.write_config({key: "encrypted"}),
        }

        def write() -> None:
            kazoo = files.kazoo()
            kazoo.start(timeout=8)
            for path, data in content.items():
                kazoo.create(path, data, makepath=True)
            kazoo.stop()
            kazoo.close()

        await run_sync(write)
        login = {"refold.login.config": str(files.client_jaas())}
        reason = await refused_start(tmp_path, {**files.zookeeper_config(), **login})
    assert reason.startswith(
        f"/config/brokers/1000 has {key}: the daemon reads these from its file"
    )
    assert f"--delete-config {key}" in reason
