"""connections.max.reauth.ms: clients log in again on the same connection, or are disconnected
(KIP-368)."""

import asyncio
from datetime import timedelta
from typing import Any

import pytest
from aiokafka.errors import IllegalSaslStateError, SaslAuthenticationFailed, for_code

from controller.api.endpoint_security import EndpointSecurity
from controller.security.passwords import Password
from tests.controller.api.client import Client, allocate_producer_ids, request_schema
from tests.controller.api.conftest import Serve, ServedEndpoint
from tests.controller.api.front.test_identification import (
    LISTENER,
    MECHANISMS,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    handshake,
    token,
)
from tests.controller.api_keys import ALLOCATE_PRODUCER_IDS

SESSION_MS = 300
PASSWORD = token(b"\0alice\0secret")


def security(session_ms: int) -> EndpointSecurity:
    users = {"alice": Password("secret"), "bob": Password("other")}
    return EndpointSecurity(
        mechanisms=MECHANISMS, users=users, failure_delay_ms=1, session_ms={"PLAIN": session_ms}
    )


async def log_in(client: Client, password: Any = PASSWORD, version: int = 2) -> Any:
    assert not (await client.ask(SASL_HANDSHAKE, 1, handshake("PLAIN"))).error_code
    return await client.ask(SASL_AUTHENTICATE, version, password)


async def is_served(client: Client) -> None:
    answer = await client.ask(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
    assert answer.error_code == 0


@pytest.fixture
async def with_short_sessions(serve: Serve) -> ServedEndpoint:
    return await serve(security={LISTENER: security(SESSION_MS)})


async def test_client_learns_how_long_its_login_counts(
    with_short_sessions: ServedEndpoint, serve: Serve
) -> None:
    async with Client(with_short_sessions.port) as client:
        answer = await log_in(client)
        assert answer.session_lifetime == timedelta(milliseconds=SESSION_MS)
    unlimited = await serve(security={LISTENER: security(0)})
    async with Client(unlimited.port) as client:
        assert (await log_in(client)).session_lifetime == timedelta(0)


async def test_request_after_that_time_closes_the_connection(
    with_short_sessions: ServedEndpoint,
) -> None:
    async with Client(with_short_sessions.port) as client:
        await log_in(client)
        await is_served(client)
        await asyncio.sleep(SESSION_MS / 1000 + 0.05)  # The session expires.
        client.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        assert await client.closed()
    assert len(with_short_sessions.events) == 1
    await with_short_sessions.has_counted(
        "the expired session", lambda one: one.closed.get("session expired") == 1
    )


async def test_client_that_logs_in_again_stays(with_short_sessions: ServedEndpoint) -> None:
    async with Client(with_short_sessions.port) as client:
        await log_in(client)
        await asyncio.sleep(SESSION_MS / 2000)  # The session has not expired.
        answer = await log_in(client)
        assert answer.session_lifetime == timedelta(milliseconds=SESSION_MS)
        await asyncio.sleep(SESSION_MS / 1500)  # The first session would have expired.
        await is_served(client)
    await with_short_sessions.has_counted(
        "a login and its renewal", lambda one: (one.logins, one.renewals) == (1, 1)
    )


async def test_expired_login_can_be_renewed(with_short_sessions: ServedEndpoint) -> None:
    """As in Kafka, where only other requests close the connection."""
    async with Client(with_short_sessions.port) as client:
        await log_in(client)
        await asyncio.sleep(SESSION_MS / 1000 + 0.05)  # The session expires.
        assert not (await log_in(client)).error_code
        await is_served(client)


async def test_second_new_login_within_a_second_is_an_illegal_state(serve: Serve) -> None:
    served = await serve(security={LISTENER: security(60_000)})
    async with Client(served.port) as client:
        await log_in(client)
        await log_in(client)
        answer = await client.ask(SASL_HANDSHAKE, 1, handshake("PLAIN"))
        assert for_code(answer.error_code) is IllegalSaslStateError
        await is_served(client)


async def test_new_login_of_another_user_is_refused(with_short_sessions: ServedEndpoint) -> None:
    async with Client(with_short_sessions.port) as client:
        await log_in(client)
        answer = await log_in(client, token(b"\0bob\0other"))
        assert for_code(answer.error_code) is SaslAuthenticationFailed
        assert answer.error_message == (
            "Cannot change principals during re-authentication from User.alice: User.bob"
        )
        assert await client.closed()
    await with_short_sessions.has_counted(
        "the failed renewal", lambda one: one.failed_renewals == 1
    )


async def test_new_login_by_another_mechanism_is_refused(
    with_short_sessions: ServedEndpoint,
) -> None:
    async with Client(with_short_sessions.port) as client:
        await log_in(client)
        client.send(SASL_HANDSHAKE, 1, handshake("SCRAM-SHA-256"))
        await client.receive()
        assert await client.closed()


async def test_new_login_that_stops_ends(serve: Serve) -> None:
    served = await serve(security={LISTENER: security(60_000)}, first_request_ms=300)
    async with Client(served.port) as client:
        await log_in(client)
        await client.ask(SASL_HANDSHAKE, 1, handshake("PLAIN"))
        assert await client.closed()


async def test_older_client_is_not_sent_the_time(with_short_sessions: ServedEndpoint) -> None:
    old = request_schema(SASL_AUTHENTICATE, 0)
    password = old.SaslAuthenticateRequest(auth_bytes=PASSWORD.auth_bytes)
    async with Client(with_short_sessions.port) as client:
        assert not (await log_in(client, password, version=0)).error_code
