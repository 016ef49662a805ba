"""An authority that is taken out of the truststore of the endpoint, while the daemon runs."""

import socket
import ssl
from pathlib import Path

import pytest
from aiokafka.conn import create_conn
from aiokafka.errors import KafkaError
from anyio.to_thread import run_sync

from controller.security.stores import StoreSettings
from controller.security.tls import TlsSettings, client_context
from tests.controller.daemon.lab_cluster import timed
from tests.lab.secured.secured_endpoint import SecuredEndpoint, running_endpoint
from tools.lab.certificates import CertificateAuthority, Identity
from tools.lab.ports import HOST
from tools.lab.secured import BROKER_PASSWORD, LISTENER, USER

pytestmark = [pytest.mark.lab, pytest.mark.timeout(300)]

REFUSED = (
    "its certificate cannot be trusted: self-signed certificate in certificate chain: the "
    "truststore does not contain the authority that issued it"
)


def context_of(client: Identity, secured: SecuredEndpoint) -> ssl.SSLContext:
    trusted = StoreSettings("ssl.truststore", secured.files.authority.pem)
    return client_context(TlsSettings("ssl", StoreSettings("ssl.keystore", client.pem), trusted))


async def log_in(secured: SecuredEndpoint, client: Identity) -> None:
    """A client with this certificate logs in, as a broker does."""
    connection = await create_conn(
        HOST,
        secured.port,
        request_timeout_ms=60_000,
        security_protocol="SASL_SSL",
        ssl_context=context_of(client, secured),
        sasl_mechanism="PLAIN",
        sasl_plain_username=USER,
        sasl_plain_password=BROKER_PASSWORD,
    )
    connection.close()


def is_refused(secured: SecuredEndpoint, client: Identity) -> bool:
    """Whether the endpoint closes a connection with this certificate at the handshake."""
    context = context_of(client, secured)
    with socket.create_connection((HOST, secured.port), timeout=30) as plain:
        try:
            with context.wrap_socket(plain, server_hostname=HOST) as connection:
                return connection.recv(1) == b""
        except (ssl.SSLError, ConnectionError):
            return True


async def test_clients_of_an_authority_that_was_taken_out_are_refused(tmp_path: Path) -> None:
    old = CertificateAuthority(tmp_path / "old", "old-authority")
    trusted = tmp_path / "trusted.pem"
    trusted.write_bytes(old.pem.read_bytes())
    of_listener = f"listener.name.{LISTENER.lower()}"
    settings = {
        f"{of_listener}.ssl.client.auth": "required",
        f"{of_listener}.ssl.truststore.location": str(trusted),
    }
    async with running_endpoint(tmp_path, **settings) as secured:
        new = secured.files.authority.pem.read_bytes()
        trusted.write_bytes(new + old.pem.read_bytes())
        of_old, of_new = old.issue("old-client"), secured.files.authority.issue("new-client")
        for client in (of_old, of_new):
            await log_in(secured, client)
        trusted.write_bytes(new)
        assert await run_sync(is_refused, secured, of_old)
        with pytest.raises((KafkaError, OSError)):
            await log_in(secured, of_old)
        await log_in(secured, of_new)

        async def is_reported() -> bool:
            return REFUSED in str(secured.daemon.messages())

        await timed(is_reported, "the daemon reports the refused client")
