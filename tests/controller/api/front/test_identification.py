"""Logins of clients at the endpoint. aiokafka, a client of Kafka, is the oracle."""

import base64
import hashlib
import hmac
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from aiokafka.conn import AIOKafkaConnection, create_conn
from aiokafka.errors import (
    IllegalSaslStateError,
    KafkaConnectionError,
    SaslAuthenticationFailed,
    UnsupportedSaslMechanismError,
    for_code,
)
from kio.schema.errors import ErrorCode

from controller.api.endpoint_security import EndpointSecurity
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.api_requests.received_request import ClientIdentity
from controller.core.configuration import Authorization
from controller.security.passwords import Password
from controller.wire.aiokafka_request import AiokafkaRequest
from controller.wire.client_requests import RequestHead, encode_request
from tests.controller.api.certificates import Certificates
from tests.controller.api.client import (
    API_VERSIONS,
    METADATA,
    Client,
    allocate_producer_ids,
    api_versions,
    request_schema,
)
from tests.controller.api.conftest import OWN_ID, Serve, ServedEndpoint
from tests.controller.api_keys import ALLOCATE_PRODUCER_IDS
from tools.lab.certificates import CertificateAuthority

SASL_HANDSHAKE = 17
ACLS = (29, 30, 31)
QUOTAS = (48, 49)
DESCRIBE_SCRAM = 50
FIND_COORDINATOR = 10
DESCRIBE_CONFIGS = 32
DESCRIBE_LOG_DIRS = 35
SASL_AUTHENTICATE = 36
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
SASL = EndpointSecurity(
    mechanisms=MECHANISMS, users={"alice": Password("secret")}, failure_delay_ms=1
)
LISTENER = "PLAINTEXT"


def credential(mechanism: str, password: str) -> str:
    """The content that Kafka writes to /config/users (ScramFormatter)."""
    name = "sha256" if mechanism == "SCRAM-SHA-256" else "sha512"
    salted = hashlib.pbkdf2_hmac(name, password.encode(), b"salt", 4096)
    stored = hashlib.new(name, hmac.digest(salted, b"Client Key", name)).digest()
    fields = {
        "salt": b"salt",
        "stored_key": stored,
        "server_key": hmac.digest(salted, b"Server Key", name),
    }
    encoded = {key: base64.b64encode(value).decode() for key, value in fields.items()}
    return ",".join(f"{key}={value}" for key, value in encoded.items()) + ",iterations=4096"


@pytest.fixture
async def secured(serve: Serve) -> ServedEndpoint:
    """An endpoint with SASL_PLAINTEXT, at which alice has the password secret."""
    served = await serve(security={LISTENER: SASL})
    for mechanism in MECHANISMS[1:]:
        served.credentials["alice", mechanism] = credential(mechanism, "secret")
    return served


async def logged_in(served: ServedEndpoint, mechanism: str, password: str, **more: Any) -> Any:
    login = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "sasl_plain_password": password,
    }
    return await create_conn("127.0.0.1", served.port, **(login | more))


async def principal_of_request(
    served: ServedEndpoint, connection: AIOKafkaConnection
) -> ClientIdentity | None:
    """The principal that the controller sees as the sender of a request."""

    def header(correlation_id: int, client_id: str) -> bytes:
        head = RequestHead(ALLOCATE_PRODUCER_IDS, 0, correlation_id)
        return encode_request(head, client_id, allocate_producer_ids())[4:]

    with anyio.fail_after(5):
        try:
            await connection.send(AiokafkaRequest(header))
        finally:
            connection.close()
        return (await served.first(AllocateProducerIdsReceived)).client


async def test_request_after_a_login_has_the_principal(secured: ServedEndpoint) -> None:
    for mechanism in MECHANISMS:
        secured.events.clear()
        connection = await logged_in(secured, mechanism, "secret")
        found = await principal_of_request(secured, connection)
        assert found == ClientIdentity("User:alice", "127.0.0.1")


async def test_wrong_password_or_user_is_refused(secured: ServedEndpoint) -> None:
    for mechanism in MECHANISMS:
        for user, password in (("alice", "guess"), ("eve", "secret")):
            with pytest.raises(SaslAuthenticationFailed):
                await logged_in(secured, mechanism, password, sasl_plain_username=user)
    secured.credentials["alice", "SCRAM-SHA-256"] = credential("SCRAM-SHA-256", "new")
    with pytest.raises(SaslAuthenticationFailed):
        # A change counts for the next login.
        await logged_in(secured, "SCRAM-SHA-256", "secret")
    assert secured.events == []


async def test_mechanism_that_is_not_enabled_is_refused(serve: Serve) -> None:
    served = await serve(security={LISTENER: EndpointSecurity(mechanisms=MECHANISMS[1:])})
    with pytest.raises(UnsupportedSaslMechanismError):
        await logged_in(served, "PLAIN", "secret")
    async with Client(served.port) as client:
        answer = await client.ask(SASL_HANDSHAKE, 1, handshake("PLAIN"))
        assert answer.error_code is ErrorCode.unsupported_sasl_mechanism
        assert answer.mechanisms == MECHANISMS[1:]
        assert await client.closed()


def handshake(mechanism: str, version: int = 1) -> Any:
    return request_schema(SASL_HANDSHAKE, version).SaslHandshakeRequest(mechanism=mechanism)


def token(content: bytes) -> Any:
    return request_schema(SASL_AUTHENTICATE, 2).SaslAuthenticateRequest(auth_bytes=content)


PASSWORD = token(b"\0alice\0secret")


async def log_in_plain(client: Client, password: str, user: str = "alice") -> Any:
    """The response to a login."""
    await client.ask(SASL_HANDSHAKE, 1, handshake("PLAIN"))
    return await client.ask(SASL_AUTHENTICATE, 2, token(f"\0{user}\0{password}".encode()))


async def test_versions_may_be_asked_once_before_the_login(secured: ServedEndpoint) -> None:
    async with Client(secured.port) as client:
        answer = await client.ask(API_VERSIONS, 3, api_versions())
        offered = {one.api_key for one in answer.api_keys}
        assert {SASL_HANDSHAKE, SASL_AUTHENTICATE, ALLOCATE_PRODUCER_IDS} <= offered
        client.send(API_VERSIONS, 3, api_versions())
        assert await client.closed()


async def test_request_before_the_login_closes_the_connection(secured: ServedEndpoint) -> None:
    for begun in (False, True):
        async with Client(secured.port) as client:
            if begun:
                await client.ask(SASL_HANDSHAKE, 1, handshake("PLAIN"))
            client.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
            assert await client.closed()
    assert secured.events == []


async def test_second_handshake_is_an_illegal_state(secured: ServedEndpoint) -> None:
    async with Client(secured.port) as client:
        await client.ask(SASL_HANDSHAKE, 1, handshake("PLAIN"))
        answer = await client.ask(SASL_HANDSHAKE, 1, handshake("PLAIN"))
        assert for_code(answer.error_code) is IllegalSaslStateError
        assert await client.closed()


async def test_sasl_after_the_login_is_an_illegal_state(secured: ServedEndpoint) -> None:
    async with Client(secured.port) as client:
        await client.ask(SASL_HANDSHAKE, 1, handshake("PLAIN"))
        assert not (await client.ask(SASL_AUTHENTICATE, 2, PASSWORD)).error_code
        for key, version, request in (
            (SASL_HANDSHAKE, 1, handshake("PLAIN")),
            (SASL_AUTHENTICATE, 2, PASSWORD),
        ):
            answer = await client.ask(key, version, request)
            assert for_code(answer.error_code) is IllegalSaslStateError
        # The login still counts.
        assert (await client.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())).error_code == 0


async def test_identity_of_another_user_is_refused(secured: ServedEndpoint) -> None:
    for mechanism, first in (
        ("PLAIN", b"admin\0alice\0secret"),
        ("SCRAM-SHA-256", b"n,a=admin,n=alice,r=nonce"),
    ):
        async with Client(secured.port) as client:
            await client.ask(SASL_HANDSHAKE, 1, handshake(mechanism))
            answer = await client.ask(SASL_AUTHENTICATE, 2, token(first))
            assert for_code(answer.error_code) is SaslAuthenticationFailed
            assert await client.closed()


async def test_replayed_scram_proof_is_refused(secured: ServedEndpoint) -> None:
    """A recorded login: its proof belongs to another nonce of the server."""
    mechanism, nonce = "SCRAM-SHA-256", ""
    for recorded in (True, False):
        async with Client(secured.port) as client:
            await client.ask(SASL_HANDSHAKE, 1, handshake(mechanism))
            first = token(b"n,,n=alice,r=nonce")
            challenge = (await client.ask(SASL_AUTHENTICATE, 2, first)).auth_bytes.decode()
            if recorded:
                nonce = challenge.split(",")[0][2:]
                final = proof(challenge, "secret")
            answer = await client.ask(SASL_AUTHENTICATE, 2, token(final))
            assert bool(answer.error_code) is not recorded
            assert recorded or nonce not in challenge


def proof(challenge: str, password: str) -> bytes:
    """The last message of a client for that challenge."""
    bare = f"c=biws,{challenge.split(',')[0]}"
    text = f"n=alice,r=nonce,{challenge},{bare}".encode()
    salted = hashlib.pbkdf2_hmac("sha256", password.encode(), b"salt", 4096)
    key = hmac.digest(salted, b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(key).digest(), text, "sha256")
    sent = bytes(one ^ other for one, other in zip(key, signature, strict=True))
    return f"{bare},p={base64.b64encode(sent).decode()}".encode()


async def test_large_frame_before_the_login_closes_the_connection(serve: Serve) -> None:
    security = EndpointSecurity(mechanisms=("PLAIN",), receive_bytes_max=100)
    served = await serve(security={LISTENER: security})
    async with Client(served.port) as client:
        client.writer.write((101).to_bytes(4, "big"))
        assert await client.closed()


async def test_login_that_takes_too_long_ends(serve: Serve) -> None:
    served = await serve(security={LISTENER: SASL}, first_request_ms=200)
    async with Client(served.port) as client:
        await client.ask(SASL_HANDSHAKE, 1, handshake("PLAIN"))
        assert await client.closed()


async def test_request_for_a_broker_is_not_forwarded(secured: ServedEndpoint) -> None:
    async with Client(secured.port) as client:
        await client.ask(SASL_HANDSHAKE, 1, handshake("PLAIN"))
        await client.ask(SASL_AUTHENTICATE, 2, PASSWORD)
        offered = await client.ask(API_VERSIONS, 3, api_versions())
        coordinators = request_schema(FIND_COORDINATOR, 0)
        find_coordinator = coordinators.FindCoordinatorRequest(key="group")
        # Kafka's clients and tools fail if no version is offered, and do not ask another broker.
        to_any_broker = {METADATA, *ACLS, *QUOTAS, DESCRIBE_SCRAM}
        assert to_any_broker <= {one.api_key for one in offered.api_keys}
        client.send(FIND_COORDINATOR, 0, find_coordinator)
        assert await client.closed()


# TLS --------------------------------------------------------------------------------------------


async def over_tls(served: ServedEndpoint, context: ssl.SSLContext) -> Any:
    arguments: Mapping[str, Any] = {"security_protocol": "SSL", "ssl_context": context}
    return await create_conn("127.0.0.1", served.port, **arguments)


async def test_principal_is_made_of_the_name_in_the_certificate(
    serve: Serve, certificates: Certificates
) -> None:
    rules = {
        "A": "DEFAULT",
        "B": "RULE:^CN=bob$/bob/,RULE:^CN=(.*)$/$1/U",
        "C": "RULE:^CN=bob$/bob/",
    }
    security = {
        name: certificates.security(client_auth="required", principal_rules=text)
        for name, text in rules.items()
    }
    served = await serve(names=tuple(rules), security=security)
    for name, principal in (("A", "User:CN=alice"), ("B", "User:ALICE")):
        served.events.clear()
        served.port = served.ports[name]
        connection = await over_tls(served, certificates.context(certificates.alice.pem))
        assert await principal_of_request(served, connection) == ClientIdentity(
            principal, "127.0.0.1"
        )
    served.events.clear()
    served.port = served.ports["C"]
    with pytest.raises(KafkaConnectionError):
        # No rule matches.
        await over_tls(served, certificates.context(certificates.alice.pem))
    assert served.events == []


async def test_clients_without_a_certificate_are_anonymous_or_refused(
    serve: Serve, certificates: Certificates
) -> None:
    modes = ("requested", "required")
    security = {one: certificates.security(client_auth=one) for one in modes}
    served = await serve(names=modes, security=security)
    connection = await over_tls(served, certificates.context())
    found = await principal_of_request(served, connection)
    assert found == ClientIdentity("User:ANONYMOUS", "127.0.0.1")
    served.events.clear()
    served.port = served.ports["required"]
    for own in (certificates.stranger.pem, None):
        with pytest.raises((KafkaConnectionError, OSError)):
            await over_tls(served, certificates.context(own))
    assert served.events == []


async def test_login_over_tls_has_the_principal_of_the_login(
    serve: Serve, certificates: Certificates
) -> None:
    security = certificates.security(mechanisms=MECHANISMS, users=SASL.users)
    served = await serve(security={LISTENER: security})
    tls = {"security_protocol": "SASL_SSL", "ssl_context": certificates.context()}
    connection = await logged_in(served, "PLAIN", "secret", **tls)
    found = await principal_of_request(served, connection)
    assert found == ClientIdentity("User:alice", "127.0.0.1")


async def test_new_certificate_is_used_without_a_restart(
    serve: Serve, certificates: Certificates, tmp_path: Path
) -> None:
    served = await serve(security={LISTENER: certificates.security()})
    (await over_tls(served, certificates.context())).close()
    other = CertificateAuthority(tmp_path / "next")
    certificates.server.pem.write_bytes(other.issue("refold").pem.read_bytes())
    with pytest.raises((KafkaConnectionError, ssl.SSLError)):
        await over_tls(served, certificates.context())
    (await over_tls(served, ssl.create_default_context(cafile=str(other.pem)))).close()


async def test_plain_text_on_a_tls_listener_is_refused(
    serve: Serve, certificates: Certificates
) -> None:
    served = await serve(security={LISTENER: certificates.security()})
    async with Client(served.port) as client:
        client.send(API_VERSIONS, 3, api_versions())
        # An alert of TLS, then the end.
        assert len(await client.reader.read()) < 16


async def test_slow_tls_handshake_ends(serve: Serve, certificates: Certificates) -> None:
    served = await serve(security={LISTENER: certificates.security()}, first_request_ms=200)
    async with Client(served.port) as client:
        assert await client.closed()


# The daemon's own settings -----------------------------------------------------------------------


async def test_settings_of_the_daemon_are_for_super_users(serve: Serve) -> None:
    schema = request_schema(DESCRIBE_CONFIGS, 4)
    resource = schema.DescribeConfigsResource(
        resource_type=4, resource_name=str(OWN_ID), configuration_keys=None
    )
    configs = schema.DescribeConfigsRequest(resources=(resource,))
    log_dirs = request_schema(DESCRIBE_LOG_DIRS, 4).DescribeLogDirsRequest(topics=None)
    for user, error in (
        ("User:ANONYMOUS", ErrorCode.none),
        ("User:admin", ErrorCode.cluster_authorization_failed),
    ):
        served = await serve(authorization=Authorization(super_users=(user,)))
        async with Client(served.port) as client:
            answer = await client.ask(DESCRIBE_CONFIGS, 4, configs)
            assert answer.results[0].error_code is error
            answer = await client.ask(DESCRIBE_LOG_DIRS, 4, log_dirs)
            assert answer.error_code is error
            assert bool(answer.results) is (error is ErrorCode.none)
