"""No message at any level has a password, or a key that a login can be made with."""

import hashlib
import hmac
import logging
from base64 import b64encode
from collections.abc import Iterable
from pathlib import Path

import pytest

from controller.core import znodes
from controller.core.commands import CommandId, ReadChildren, ReadZnodes
from controller.core.events import Event, ZnodesRead
from controller.core.operations import OK
from controller.daemon.session_reads import SessionReads
from controller.security.scram import ScramExchange, read_credential
from tests.controller.settings.test_endpoint_security import of_listener
from tests.controller.settings.test_security import (
    PLAIN_LOGIN,
    SCRAM_LOGIN,
    SECURE,
    SecurityFiles,
    jaas,
    loaded,
    stores,
)
from tools.lab.certificates import PASSWORD

__all__ = ["stores"]

SALTED = hashlib.pbkdf2_hmac("sha512", b"topsecret", b"salt", 4096)
STORED = hashlib.sha512(hmac.digest(SALTED, b"Client Key", "sha512")).digest()
SERVER = hmac.digest(SALTED, b"Server Key", "sha512")
CREDENTIAL = (
    f"salt={b64encode(b'salt').decode()},stored_key={b64encode(STORED).decode()},"
    f"server_key={b64encode(SERVER).decode()},iterations=4096"
)


def assert_no_message_has(caplog: pytest.LogCaptureFixture, secrets: Iterable[str]) -> None:
    logging.getLogger("controller").debug("captured")
    written = "\n".join(f"{one.getMessage()} {one.args!r}" for one in caplog.records)
    assert "captured" in written
    assert [one for one in secrets if one in written] == []


@pytest.mark.parametrize(("mechanism", "login"), [("PLAIN", PLAIN_LOGIN), ("SCRAM", SCRAM_LOGIN)])
def test_settings_are_read_without_a_password_in_a_message(
    tmp_path: Path,
    stores: SecurityFiles,
    caplog: pytest.LogCaptureFixture,
    mechanism: str,
    login: str,
) -> None:
    caplog.set_level(logging.DEBUG, logger="controller")
    chosen = "PLAIN" if mechanism == "PLAIN" else "SCRAM-SHA-512"
    content = of_listener(stores, "SASL_SSL") | {
        "listener.security.protocol.map": "CLIENTS:SASL_SSL,SECURE:SASL_SSL",
        "inter.broker.listener.name": "SECURE",
        "sasl.mechanism.inter.broker.protocol": chosen,
        f"listener.name.secure.{chosen.lower()}.sasl.jaas.config": login,
        "ssl.keystore.location": str(stores.own.pkcs12),
        "ssl.keystore.password": PASSWORD,
        "refold.login.config": str(jaas(tmp_path, "Client")),
    }
    security = loaded(tmp_path, content).security
    assert security.brokers.arguments(SECURE)["sasl_plain_password"] == "topsecret"
    assert security.zookeeper.login is not None
    assert_no_message_has(caplog, ("topsecret", PASSWORD))


async def test_credential_is_read_and_used_without_its_keys_in_a_message(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="controller")
    content = znodes.write_config({"SCRAM-SHA-512": CREDENTIAL})

    def submit(id: CommandId, command: ReadZnodes | ReadChildren) -> None:
        assert command == ReadZnodes((znodes.user_config_path("alice"),))
        reads.receive(ZnodesRead(id, 0, [OK], [content], [0], [0], [0], [0]), "zookeeper")

    def unexpected(event: Event, channel: str) -> None:
        pytest.fail(f"{event} at {channel}")

    reads = SessionReads(submit, unexpected)
    found = await reads.scram_credential("alice", "SCRAM-SHA-512")
    assert found == CREDENTIAL
    credential = read_credential(found)
    assert credential is not None
    ScramExchange("SCRAM-SHA-512", b"n,,n=alice,r=nonce").challenge(credential)
    secrets = [b64encode(one).decode() for one in (STORED, SERVER)]
    secrets += [repr(one) for one in (STORED, SERVER)]
    assert_no_message_has(caplog, secrets)
