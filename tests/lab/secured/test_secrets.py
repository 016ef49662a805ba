"""No secret of a daemon is in anything that the daemon or a command writes, nor in the list of
processes."""

import hashlib
import hmac
import stat
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiokafka.errors import KafkaError
from anyio import open_process

from tests.lab.secured.secured_endpoint import (
    SecuredEndpoint,
    add_scram_user,
    create_topic,
    running_endpoint,
)
from tools.lab.certificates import PASSWORD
from tools.lab.ports import HOST, free_port
from tools.lab.refold import run
from tools.lab.secured import (
    BROKER_PASSWORD,
    CLIENT,
    CLIENT_PASSWORD,
    LISTENER,
    USER,
    ZOOKEEPER_PASSWORD,
)

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

WRONG, CAROLS = "a-wrong-secret", "carol-secret"
UNUSED = {
    "password.encoder.secret": "encoder-secret",
    "listener.name.other.ssl.key.password": "other-key-secret",
    "listener.name.other.plain.sasl.jaas.config": (
        "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="x" password="other-login-secret";'
    ),
    "misspelt.password": "misspelt-secret",
}
SALTED = hashlib.pbkdf2_hmac("sha512", CAROLS.encode(), b"salt", 4096)
STORED_KEY = hashlib.sha512(hmac.digest(SALTED, b"Client Key", "sha512")).digest()
SERVER_KEY = hmac.digest(SALTED, b"Server Key", "sha512")
SECRETS: dict[str, bytes] = {
    "login to ZooKeeper": ZOOKEEPER_PASSWORD.encode(),
    "login to brokers": BROKER_PASSWORD.encode(),
    "user of PLAIN": CLIENT_PASSWORD.encode(),
    "rejected login": WRONG.encode(),
    "user of SCRAM": CAROLS.encode(),
    "salted password": SALTED,
    "salted password in Base64": b64encode(SALTED),
    "stored key": STORED_KEY,
    "stored key in Base64": b64encode(STORED_KEY),
    "server key": SERVER_KEY,
    "server key in Base64": b64encode(SERVER_KEY),
    "stores": PASSWORD.encode(),
    "encoder": b"encoder-secret",
    "other key": b"other-key-secret",
    "other login": b"other-login-secret",
    "misspelt key": b"misspelt-secret",
}


def processes(pid: int) -> Iterator[bytes]:
    """The command lines of a process and its descendants."""
    yield Path(f"/proc/{pid}/cmdline").read_bytes()
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            yield from processes(int(child))


async def fetched(url: str) -> bytes:
    process = await open_process(["curl", "--silent", "--fail", url])
    assert process.stdout is not None
    content = b"".join([chunk async for chunk in process.stdout])
    assert await process.wait() == 0
    return content


def assert_no_secret(written: dict[str, bytes]) -> None:
    found = {
        (where, what)
        for where, content in written.items()
        for what, secret in SECRETS.items()
        if secret in content
    }
    assert not found


def with_references(config: str, secrets: Path) -> str:
    """The settings, with references in place of passwords, and without a JAAS file."""
    secrets.write_text(f"store={PASSWORD}\nzookeeper={ZOOKEEPER_PASSWORD}\n")
    lines = [one for one in config.splitlines() if not one.startswith("refold.login.config=")]
    return (
        "\n".join(lines).replace(f"={PASSWORD}", f"=${{file:{secrets}:store}}")
        + f"\nrefold.zookeeper.username={USER}"
        + f"\nrefold.zookeeper.password=${{file:{secrets}:zookeeper}}"
        + "\nconfig.providers=file\nconfig.providers.file.class="
        + "org.apache.kafka.common.config.provider.FileConfigProvider\n"
    )


async def use(secured: SecuredEndpoint) -> None:
    """Logins that are accepted and rejected, and a request with a credential."""
    await create_topic(secured, "orders", (1, 2))
    for user, password, mechanism in (
        (CLIENT, WRONG, "PLAIN"),
        ("carol", CAROLS, "SCRAM-SHA-512"),
    ):
        with pytest.raises(KafkaError):
            await secured.connect(secured.port, user, password, mechanism)
    await add_scram_user(secured, "carol", SALTED)
    for user, password, mechanism in (
        (CLIENT, CLIENT_PASSWORD, "PLAIN"),
        ("carol", CAROLS, "SCRAM-SHA-512"),
    ):
        (await secured.connect(secured.port, user, password, mechanism)).close()


async def test_nothing_that_is_written_has_a_secret(tmp_path: Path) -> None:
    metrics = f"{HOST}:{free_port()}"
    async with running_endpoint(tmp_path, **UNUSED) as secured:
        assert await secured.daemon.stop() == 0
        config = with_references(secured.config.read_text(), tmp_path / "secrets.properties")
        secured.config.write_text(config)
        secured.daemon = secured.new_daemon("--metrics-address", metrics)
        await secured.daemon.start()
        await secured.until_controller()
        await use(secured)
        written = {
            "metrics": await fetched(f"http://{metrics}/metrics"),
            "processes": b"".join(processes(secured.daemon.pid)),
        }
        for command in (
            ("status", str(secured.logs), "--json"),
            ("check", "--config", str(secured.config), "--broker-id", "1001"),
        ):
            _, output = await run(*command)
            written[command[0]] = output.encode()
        assert await secured.daemon.stop() == 0
        log = str(max(one for one in secured.logs.iterdir() if one.is_dir()))
        for command in (
            ("report", log, "--out", str(tmp_path / "out.html")),
            ("report", log, "--format", "markdown", "--out", str(tmp_path / "out.text")),
            ("log", "export", log, "--out", str(tmp_path / "out.jsonl")),
            ("log", "metrics", log),
            ("events", log),
        ):
            status, output = await run(*command)
            assert status == 0, output
            written[" ".join(command)] = output.encode()
    for file in secured.logs.rglob("*"):
        assert stat.S_IMODE(file.stat().st_mode) == (0o700 if file.is_dir() else 0o600), file
    files = [*tmp_path.glob("out.*"), *(tmp_path / "refold").glob("*.out")]
    files += [one for one in secured.logs.rglob("*") if one.is_file()]
    written |= {str(one): one.read_bytes() for one in files}
    assert b"kafka_controller" in written["metrics"]
    assert f"{LISTENER}://".encode() in written["processes"]
    assert b"carol" in written[str(tmp_path / "out.jsonl")]
    assert_no_secret(written)
