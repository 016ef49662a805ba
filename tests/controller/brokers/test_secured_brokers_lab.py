"""Connections to a real broker with TLS and every mechanism that refold has."""

import base64
import hashlib
import hmac
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controller.brokers.connection import BrokerConnection, probe
from controller.brokers.errors import Unreachable
from controller.brokers.security import BrokerSecurity
from controller.core.events import ANSWERS, SILENT
from controller.core.operations import OK, Create
from controller.core.values import Endpoint
from controller.operator.zookeeper_client import ZooKeeperClient
from controller.settings.settings import load
from controller.zookeeper.servers import parse_connect_string
from tools.lab import KafkaBroker, Lab
from tools.lab.certificates import CertificateAuthority
from tools.lab.ports import HOST
from tools.lab.secured import BROKER_PASSWORD, LISTENER, USER, SecuredFiles

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

MODULES = "org.apache.kafka.common.security"
LOGIN = f'required username="{USER}" password="{BROKER_PASSWORD}";'
LOGINS = {
    "PLAIN": f"{MODULES}.plain.PlainLoginModule {LOGIN}",
    "SCRAM-SHA-256": f"{MODULES}.scram.ScramLoginModule {LOGIN}",
    "SCRAM-SHA-512": f"{MODULES}.scram.ScramLoginModule {LOGIN}",
    "OAUTHBEARER": f"{MODULES}.oauthbearer.OAuthBearerLoginModule required "
    f'unsecuredLoginStringClaim_sub="{USER}";',
}
ITERATIONS = 4096


class SecuredBroker:
    """A broker with all mechanisms, and one listener with client certificates instead."""

    def __init__(self, files: SecuredFiles, broker: KafkaBroker, folder: Path) -> None:
        self.files = files
        self._broker = broker
        self._folder = folder

    def endpoint(self, listener: str = LISTENER, protocol: str = "SASL_SSL") -> Endpoint:
        return Endpoint(listener, protocol, HOST, self._broker.listeners[listener])

    def security(self, mechanism: str, login: str, **more: str) -> BrokerSecurity:
        """The daemon's security with this login; `more` overrides settings, with _ for dots."""
        config = {
            "zookeeper.connect": "unused",
            "refold.broker.id": "1000",
            "refold.log.dir": str(self._folder),
            "listener.security.protocol.map": f"{LISTENER}:SASL_SSL,TLS:SSL,PLAINTEXT:PLAINTEXT",
            "inter.broker.listener.name": LISTENER,
            "sasl.mechanism.inter.broker.protocol": mechanism,
            f"listener.name.{LISTENER.lower()}.{mechanism.lower()}.sasl.jaas.config": login,
            "ssl.truststore.location": str(self.files.authority.pem),
            **{key.replace("_", "."): text for key, text in more.items()},
        }
        file = self._folder / "server.properties"
        file.write_text("".join(f"{key}={text}\n" for key, text in config.items()))
        return load([], {}, file).settings.security.brokers


def credentials(algorithm: str) -> str:
    """SCRAM credentials as Kafka's ScramCredentialUtils writes them."""
    salt = b"salt of the lab"
    salted = hashlib.pbkdf2_hmac(algorithm, BROKER_PASSWORD.encode(), salt, ITERATIONS)
    client = hmac.digest(salted, b"Client Key", algorithm)
    parts = {
        "salt": salt,
        "stored_key": hashlib.new(algorithm, client).digest(),
        "server_key": hmac.digest(salted, b"Server Key", algorithm),
    }
    encoded = [f"{name}={base64.b64encode(one).decode()}" for name, one in parts.items()]
    return ",".join([*encoded, f"iterations={ITERATIONS}"])


async def create_user(connect: str) -> None:
    """Give the user SCRAM credentials, before the first broker starts."""
    scram = {"SCRAM-SHA-256": credentials("sha256"), "SCRAM-SHA-512": credentials("sha512")}
    content = json.dumps({"version": 1, "config": scram}).encode()
    writes = (
        Create("/config"),
        Create("/config/users"),
        Create(f"/config/users/{USER}", content),
    )
    async with ZooKeeperClient(parse_connect_string(connect), 6000) as client:
        assert await client.write(writes) == OK


@pytest.fixture
async def secured(tmp_path: Path) -> AsyncIterator[SecuredBroker]:
    files = SecuredFiles(tmp_path / "files")
    async with Lab(tmp_path / "lab") as lab:
        server = await lab.start_zookeeper()
        await create_user(server.connect)
        prefix = f"listener.name.{LISTENER.lower()}"
        logins = {f"{prefix}.{one.lower()}.sasl.jaas.config": LOGINS[one] for one in LOGINS}
        config = {
            **files.broker_config(),
            **logins,
            f"{prefix}.plain.sasl.jaas.config": LOGINS["PLAIN"].replace(
                ";", f' user_{USER}="{BROKER_PASSWORD}";'
            ),
            "sasl.enabled.mechanisms": ",".join(LOGINS),
            "listener.security.protocol.map": f"{LISTENER}:SASL_SSL,TLS:SSL",
            "listener.name.tls.ssl.client.auth": "required",
            "zookeeper.connect": server.connect,
            "zookeeper.ssl.client.enable": "false",
            "zookeeper.set.acl": "false",
        }
        (broker,) = await lab.start_brokers(1, listeners=[LISTENER, "TLS"], config=config)
        yield SecuredBroker(files, broker, tmp_path)


async def connected(endpoint: Endpoint, security: BrokerSecurity) -> int:
    """Connect; the number of APIs that the broker offers after the login."""
    connection = await BrokerConnection.open(endpoint, "1000", 5000, security)
    try:
        await connection.settings_of(1, ("broker.id",))
        return len(connection.highest_versions)
    finally:
        connection.close()


async def test_refold_connects_with_every_mechanism(secured: SecuredBroker) -> None:
    for mechanism, login in LOGINS.items():
        assert await connected(secured.endpoint(), secured.security(mechanism, login)) > 30
    own = secured.files.authority.issue("refold")
    tls = secured.security(
        "PLAIN",
        LOGINS["PLAIN"],
        control_plane_listener_name="TLS",
        listener_name_tls_ssl_keystore_location=str(own.pem),
    )
    assert await connected(secured.endpoint("TLS", "SSL"), tls) > 30


async def test_broker_that_cannot_be_used_is_reported(secured: SecuredBroker) -> None:
    endpoint = secured.endpoint()
    address = f"{HOST}:{endpoint.port} ({LISTENER})"
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        login = LOGINS[mechanism].replace(BROKER_PASSWORD, "wrong-secret")
        with pytest.raises(Unreachable, match=r"[Aa]uthentication failed") as raised:
            await connected(endpoint, secured.security(mechanism, login))
        assert str(raised.value).startswith(address)
        assert "wrong-secret" not in str(raised.value)
    strangers = CertificateAuthority(secured.files.folder, "strangers")
    untrusted = secured.security(
        "PLAIN", LOGINS["PLAIN"], ssl_truststore_location=str(strangers.pem)
    )
    with pytest.raises(Unreachable, match="its certificate cannot be trusted"):
        await connected(endpoint, untrusted)
    assert await probe(endpoint, "1000", 5000, untrusted) == (
        SILENT,
        f"{address}: its certificate cannot be trusted: self-signed certificate in certificate "
        "chain: the truststore does not contain the authority that issued it",
    )
    good = secured.security("PLAIN", LOGINS["PLAIN"])
    assert (await probe(endpoint, "1000", 5000, good))[0] == ANSWERS
