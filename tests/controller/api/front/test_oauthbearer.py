"""Logins by OAUTHBEARER with Kafka's unsecured tokens. aiokafka is the oracle."""

import base64
import json
import time
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from controller.api.endpoint_security import EndpointSecurity
from controller.brokers.security import UnsecuredToken
from controller.core.api_requests.received_request import ClientIdentity
from controller.security.errors import LoginRejected
from controller.security.oauthbearer import FAILED, InvalidToken, Token, TokenRules, read_token
from tests.controller.api.client import Client, allocate_producer_ids, request_schema
from tests.controller.api.conftest import Serve, ServedEndpoint
from tests.controller.api.front.test_identification import (
    LISTENER,
    SASL_AUTHENTICATE,
    SASL_HANDSHAKE,
    handshake,
    logged_in,
    principal_of_request,
)
from tests.controller.api_keys import ALLOCATE_PRODUCER_IDS

NOW_MS = 1_000_000.0
NOW_S = NOW_MS / 1000
CLAIMS = {"sub": "alice", "iat": NOW_S, "exp": NOW_S + 60}


def encoded(content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


def token(claims: Any, header: Any = None, signature: str = "") -> str:
    return f"{encoded(header or {'alg': 'none'})}.{encoded(claims)}.{signature}"


def message(text: str, as_whom: str = "", more: str = "") -> bytes:
    whom = f"a={as_whom}" if as_whom else ""
    return f"n,{whom},\x01auth=Bearer {text}\x01{more}\x01".encode()


@pytest.fixture
async def secured(serve: Serve) -> ServedEndpoint:
    return await serve(
        security={LISTENER: EndpointSecurity(mechanisms=("OAUTHBEARER",), failure_delay_ms=1)}
    )


async def test_client_with_an_unsecured_token_is_its_subject(secured: ServedEndpoint) -> None:
    provider = UnsecuredToken({"sub": "alice"}, 60)
    connection = await logged_in(secured, "OAUTHBEARER", "", sasl_oauth_token_provider=provider)
    found = await principal_of_request(secured, connection)
    assert found == ClientIdentity("User:alice", "127.0.0.1")


async def test_expired_token_is_refused_by_kafkas_exchange(secured: ServedEndpoint) -> None:
    old = token({"sub": "alice", "exp": 1})
    schema = request_schema(SASL_AUTHENTICATE, 2)
    async with Client(secured.port) as client:
        await client.ask(SASL_HANDSHAKE, 1, handshake("OAUTHBEARER"))
        request = schema.SaslAuthenticateRequest(auth_bytes=message(old))
        answer = await client.ask(SASL_AUTHENTICATE, 2, request)
        assert (answer.error_code, answer.auth_bytes) == (
            ErrorCode.none,
            b'{"status":"invalid_token"}',
        )
        request = schema.SaslAuthenticateRequest(auth_bytes=FAILED)
        answer = await client.ask(SASL_AUTHENTICATE, 2, request)
        assert answer.error_code is ErrorCode.sasl_authentication_failed
        assert answer.error_message == '{"status":"invalid_token"}'
        assert await client.closed()
    assert secured.events == []


async def test_login_ends_with_the_token(serve: Serve) -> None:
    schema = request_schema(SASL_AUTHENTICATE, 2)
    for limit_ms, expected_s in ((0, 30), (5_000, 5), (90_000, 30)):
        security = EndpointSecurity(
            mechanisms=("OAUTHBEARER",), session_ms={"OAUTHBEARER": limit_ms}
        )
        served = await serve(security={LISTENER: security})
        text = token({"sub": "alice", "exp": time.time() + 30})
        async with Client(served.port) as client:
            await client.ask(SASL_HANDSHAKE, 1, handshake("OAUTHBEARER"))
            request = schema.SaslAuthenticateRequest(auth_bytes=message(text))
            answer = await client.ask(SASL_AUTHENTICATE, 2, request)
        assert expected_s - 10 < answer.session_lifetime.total_seconds() <= expected_s


async def test_client_that_ignores_the_refusal_is_not_logged_in(secured: ServedEndpoint) -> None:
    schema = request_schema(SASL_AUTHENTICATE, 2)
    async with Client(secured.port) as client:
        await client.ask(SASL_HANDSHAKE, 1, handshake("OAUTHBEARER"))
        request = schema.SaslAuthenticateRequest(auth_bytes=message(token({"sub": "alice"})))
        await client.ask(SASL_AUTHENTICATE, 2, request)
        client.send(ALLOCATE_PRODUCER_IDS, 0, allocate_producer_ids())
        assert await client.closed()
    assert secured.events == []


def test_valid_token_has_its_user_and_its_end() -> None:
    found = read_token(message(token(CLAIMS)), TokenRules(), NOW_MS)
    assert found == Token("alice", NOW_MS + 60_000)
    rules = TokenRules(principal_claim="who", scope_claim="may", required_scope=("a", "b"))
    for scope in ("b a c", ["a", "b"]):
        claims = {"who": "bob", "may": scope, "exp": NOW_S + 1}
        text = message(token(claims), "bob", "other=x\x01")
        assert read_token(text, rules, NOW_MS).user == "bob"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (token(CLAIMS, signature="abc"), "signed"),
        (token(CLAIMS, {"alg": "HS256"}), "signed"),
        (token(CLAIMS, {"typ": "JWT"}), "signed"),
        (token(CLAIMS).rstrip("."), "parts"),
        (f"{token(CLAIMS)}.", "parts"),
        ("a.b.", "JSON"),
        (token([1]), "object"),
        (token({**CLAIMS, "sub": ""}), "claim sub"),
        (token({**CLAIMS, "sub": 7}), "claim sub"),
        (token({"sub": "alice"}), "claim exp"),
        (token({**CLAIMS, "exp": True}), "not a number"),
        (token({**CLAIMS, "exp": float("inf")}), "not a number"),
        (token({**CLAIMS, "exp": NOW_S}), "expired"),
        (token({**CLAIMS, "iat": NOW_S + 1}), "future"),
    ],
)
def test_token_that_kafka_refuses_is_refused(text: str, why: str) -> None:
    with pytest.raises(InvalidToken, match=why) as raised:
        read_token(message(text), TokenRules(), NOW_MS)
    assert raised.value.answer == '{"status":"invalid_token"}'


def test_clock_skew_and_scope_are_followed() -> None:
    rules = TokenRules(clock_skew_ms=2_000)
    assert read_token(message(token({**CLAIMS, "iat": NOW_S + 1})), rules, NOW_MS)
    early = {"sub": "alice", "iat": NOW_S - 1, "exp": NOW_S - 1}
    with pytest.raises(InvalidToken, match="before it is issued"):
        read_token(message(token(early)), rules, NOW_MS)
    with pytest.raises(InvalidToken) as raised:
        read_token(message(token(CLAIMS)), TokenRules(required_scope=("a", "b")), NOW_MS)
    assert raised.value.answer == '{"status":"insufficient_scope","scope":"a b"}'


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff",
        b"n,,\x01\x01",
        b"y,,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        message(token(CLAIMS), "root"),
    ],
)
def test_message_that_is_none_or_wants_another_identity_is_refused(text: bytes) -> None:
    with pytest.raises(LoginRejected) as raised:
        read_token(text, TokenRules(), NOW_MS)
    assert not isinstance(raised.value, InvalidToken)
