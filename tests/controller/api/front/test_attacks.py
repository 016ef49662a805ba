"""Attacks on the endpoint, by name (docs/security.md#attacks)."""

import asyncio
import ssl
from contextlib import AsyncExitStack

import anyio
import pytest
from aiokafka.errors import SaslAuthenticationFailed, UnsupportedSaslMechanismError, for_code
from msgspec import structs

from controller.api.endpoint_security import EndpointSecurity
from controller.api.front.request_quotas import SMALL_BYTES
from controller.core.configuration import Authorization
from controller.core.values import Endpoint
from controller.security.passwords import Password
from controller.wire.client_requests import RequestHead, encode_request
from tests.controller.api.certificates import Certificates
from tests.controller.api.client import (
    Client,
    allocate_producer_ids,
    alter_partition,
    connected,
)
from tests.controller.api.conftest import NOT_WITHIN_S, Serve, ServedEndpoint
from tests.controller.api.front.test_identification import (
    LISTENER,
    SASL,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    handshake,
    log_in_plain,
    token,
)
from tests.controller.api_keys import ALLOCATE_PRODUCER_IDS, ALTER_PARTITION
from tests.scripted_broker import ScriptedBroker

LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, ENVELOPE = 4, 5, 6, 58
CREATE_ACLS, DELETE_RECORDS, ALTER_CLIENT_QUOTAS, CREATE_DELEGATION_TOKEN = 30, 21, 49, 38


@pytest.fixture
async def secured(serve: Serve) -> ServedEndpoint:
    return await serve(security={LISTENER: SASL})


def send_raw(client: Client, key: int, body: bytes = b"") -> None:
    """A request whose body does not matter."""
    head = key.to_bytes(2, "big") + bytes(2) + bytes(4) + b"\xff\xff" + body
    client.writer.write(len(head).to_bytes(4, "big") + head)


@pytest.mark.parametrize("key", [LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA, ENVELOPE])
async def test_control_request_of_a_client_closes_the_connection(
    with_broker: ServedEndpoint, serve: Serve, broker: ScriptedBroker, key: int
) -> None:
    secured = await serve(security={LISTENER: SASL})
    for served in (with_broker, secured):
        async with Client(served.port) as client:
            if served is secured:
                await log_in_plain(client, "secret")
            send_raw(client, key)
            assert await client.closed()
        assert served.events == []
    assert key not in [one.api_key for one in broker.received]


@pytest.mark.parametrize(
    "key", [CREATE_ACLS, DELETE_RECORDS, ALTER_CLIENT_QUOTAS, CREATE_DELEGATION_TOKEN]
)
async def test_admin_call_of_a_client_is_not_forwarded_with_the_rights_of_refold(
    serve: Serve, broker: ScriptedBroker, key: int
) -> None:
    """The broker would take it for refold's own request, which may do everything."""
    secured = await serve(security={LISTENER: SASL}, brokers=[broker.registered()])
    async with Client(secured.port) as client:
        await log_in_plain(client, "secret")
        send_raw(client, key)
        assert await client.closed()
    assert key not in [one.api_key for one in broker.received]


async def test_weaker_mechanism_is_refused(serve: Serve) -> None:
    """An attacker between client and server asks for PLAIN, to read the password."""
    security = EndpointSecurity(mechanisms=("SCRAM-SHA-512",), users=SASL.users)
    served = await serve(security={LISTENER: security})
    for version in (0, 1):
        async with Client(served.port) as client:
            answer = await client.ask(SASL_HANDSHAKE, version, handshake("PLAIN", version))
            assert for_code(answer.error_code) is UnsupportedSaslMechanismError
            assert await client.closed()


async def test_token_of_a_weaker_mechanism_is_refused(secured: ServedEndpoint) -> None:
    """The handshake agrees on SCRAM, and the token is that of PLAIN."""
    async with Client(secured.port) as client:
        await client.ask(SASL_HANDSHAKE, 1, handshake("SCRAM-SHA-512"))
        answer = await client.ask(SASL_AUTHENTICATE, 2, token(b"\0alice\0secret"))
        assert for_code(answer.error_code) is SaslAuthenticationFailed
        assert await client.closed()


@pytest.mark.parametrize("has_tls", [False, True])
async def test_flood_of_slow_handshakes_keeps_no_client_out(
    serve: Serve,
    certificates: Certificates,
    has_tls: bool,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """With TLS, the connections that are replaced are in its handshake."""
    tls = certificates.context() if has_tls else None
    security = certificates.security(mechanisms=SASL.mechanisms, users=SASL.users)
    served = await serve(
        security={LISTENER: security if has_tls else SASL},
        connections_max=20,
        first_request_ms=1_000,
    )
    async with Client(served.port, tls=tls) as broker:
        await log_in_plain(broker, "secret")
        await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        async with connected(300, served.port) as slow:
            with anyio.fail_after(5):
                # Neither the broker that is connected, nor a new one.
                await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
                async with Client(served.port, tls=tls) as other:
                    assert not (await log_in_plain(other, "secret")).error_code
            for one in slow:
                assert await one.closed()
        await broker.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
    found = await served.has_counted(
        "300 closed connections", lambda one: sum(one.closed.values()) == 300
    )
    closed = found.closed
    assert closed["replaced"] >= 280
    assert closed["handshake timeout"] == 300 - closed["replaced"]
    # Neither does it fill the log.
    assert "Traceback" not in capfd.readouterr().err


def of_broker(partitions: int) -> bytes:
    """The frame of an AlterPartition request of broker 1."""
    head = RequestHead(ALTER_PARTITION, 1, 1)
    return encode_request(head, "1", alter_partition(partitions))


@pytest.fixture
async def authorized(serve: Serve) -> ServedEndpoint:
    """Brokers are "broker", by an ACL, and "kafka", a super user. Alice has no rights."""
    users = {one: Password("secret") for one in ("alice", "broker", "kafka")}
    served = await serve(
        security={LISTENER: structs.replace(SASL, users=users)},
        authorization=Authorization(super_users=("User:kafka",)),
    )
    served.broker_principals = ("User:broker",)
    return served


async def assert_is_not_delayed(authorized: ServedEndpoint, broker: Client, alice: Client) -> None:
    """Alice sends a part of a large request in the broker's name, and no more."""
    large = of_broker(20_000)
    assert SMALL_BYTES * 2 < len(large) < 1 << 20
    alice.writer.write(large[: SMALL_BYTES * 2])
    await authorized.has_asked_rights_of("User:alice")
    with anyio.fail_after(2):
        await broker.ask(ALTER_PARTITION, 1, alter_partition())


@pytest.mark.parametrize("user", ["broker", "kafka"])
async def test_request_in_a_brokers_name_without_rights_does_not_delay_the_broker(
    authorized: ServedEndpoint, user: str
) -> None:
    async with Client(authorized.port) as alice, Client(authorized.port) as broker:
        await log_in_plain(alice, "secret")
        await log_in_plain(broker, "secret", user)
        await assert_is_not_delayed(authorized, broker, alice)


async def test_only_brokers_by_their_rights_may_send_the_largest_requests(
    authorized: ServedEndpoint,
) -> None:
    large = of_broker(60_000)
    assert len(large) > 1 << 20
    for user in ("broker", "kafka", "alice"):
        async with Client(authorized.port) as client:
            await log_in_plain(client, "secret", user)
            client.writer.write(large)
            if user == "alice":
                assert await client.closed()
                continue
            with anyio.fail_after(5):
                await client.receive()
    assert len(authorized.events) == 2


async def test_client_whose_rights_are_taken_away_does_not_delay_the_broker(
    authorized: ServedEndpoint,
) -> None:
    """On a connection that had them."""
    authorized.broker_principals = ("User:alice", "User:broker")
    async with Client(authorized.port) as alice, Client(authorized.port) as broker:
        await log_in_plain(alice, "secret")
        await log_in_plain(broker, "secret", "broker")
        await alice.ask(ALTER_PARTITION, 1, alter_partition())
        authorized.broker_principals = ("User:broker",)
        authorized.rights_asked.clear()
        await assert_is_not_delayed(authorized, broker, alice)


async def test_client_that_gets_the_rights_of_a_broker_is_one_from_its_next_request_on(
    authorized: ServedEndpoint,
) -> None:
    async with Client(authorized.port) as client:
        await log_in_plain(client, "secret")
        await client.ask(ALTER_PARTITION, 1, alter_partition())
        authorized.broker_principals = ("User:alice",)
        client.writer.write(of_broker(60_000))
        with anyio.fail_after(5):
            await client.receive()


@pytest.mark.parametrize("size", [SMALL_BYTES + 1, 2**31 - 1, -1])
async def test_oversized_frame_before_the_login_closes_the_connection(
    secured: ServedEndpoint, size: int
) -> None:
    for begun in (False, True):
        async with Client(secured.port) as client:
            if begun:
                await client.ask(SASL_HANDSHAKE, 1, handshake("PLAIN"))
            client.writer.write(size.to_bytes(4, "big", signed=True))
            assert await client.closed()


@pytest.mark.parametrize("size", [100 * 1024 * 1024 + 1, 2**31 - 1, -1])
async def test_oversized_frame_after_the_login_closes_the_connection(
    secured: ServedEndpoint, size: int
) -> None:
    async with Client(secured.port) as client:
        await log_in_plain(client, "secret")
        client.writer.write(size.to_bytes(4, "big", signed=True))
        assert await client.closed()


async def test_large_request_of_a_client_is_not_received_as_a_whole(
    secured: ServedEndpoint,
) -> None:
    """The request claims to be a broker's, and would have to be held in memory."""
    async with Client(secured.port) as client:
        await log_in_plain(client, "secret")
        head = RequestHead(ALLOCATE_PRODUCER_IDS, 0, 1)
        begin = head.api_key.to_bytes(2, "big") + bytes(2) + (1).to_bytes(4, "big")
        client.writer.write((64 * 1024 * 1024).to_bytes(4, "big") + begin)
        assert await client.closed()


async def test_login_of_one_listener_does_not_count_at_another(serve: Serve) -> None:
    security = {
        "CLIENTS": EndpointSecurity(mechanisms=("PLAIN",), users={"alice": Password("secret")}),
        "INTERNAL": EndpointSecurity(mechanisms=("PLAIN",), users={"broker": Password("other")}),
    }
    served = await serve(names=tuple(security), security=security)
    async with Client(served.ports["CLIENTS"]) as client:
        assert not (await log_in_plain(client, "secret")).error_code
    async with Client(served.ports["INTERNAL"]) as client:
        assert (await log_in_plain(client, "secret")).error_code
        assert await client.closed()


async def test_protocol_that_the_listener_does_not_have_is_refused(serve: Serve) -> None:
    served = await serve(names=("PLAIN", "SECURE"), security={"SECURE": SASL})
    async with Client(served.ports["SECURE"]) as client:
        client.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        assert await client.closed()
    context = ssl.create_default_context()
    for port in served.ports.values():
        with pytest.raises((ssl.SSLError, ConnectionError)):
            await asyncio.open_connection("127.0.0.1", port, ssl=context)
    assert served.events == []


async def test_request_of_a_listener_without_a_login_does_not_reach_a_secured_broker(
    serve: Serve, broker: ScriptedBroker
) -> None:
    """The broker has registered SASL for the listener that is in plain text here."""
    found = broker.registered()
    endpoint = found.endpoints[0]
    secured = Endpoint(endpoint.listener, "SASL_PLAINTEXT", endpoint.host, endpoint.port)
    served = await serve(brokers=[type(found)(found.id, found.epoch, (secured,))])
    async with Client(served.port) as client:
        send_raw(client, CREATE_ACLS)
        assert await client.closed()
    assert broker.received == []


async def test_second_answer_is_not_sent_to_another_client(secured: ServedEndpoint) -> None:
    """The client of the request has disconnected."""
    secured.answers_itself = False
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(Client(secured.port))
        await log_in_plain(first, "secret")
        first.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        (event,) = await secured.has_events(1)
    async with Client(secured.port) as second:
        await log_in_plain(second, "secret")
        secured.answer(event)
        with anyio.move_on_after(NOT_WITHIN_S) as quiet:
            await second.reader.read(1)
        assert quiet.cancelled_caught
