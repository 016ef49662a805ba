"""Logins of a session, driven by bytes and ticks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kazoo.protocol import serialization as kazoo

from controller.core.commands import CommandId, ReadChildren, ReadZnodes, WriteZnodes
from controller.core.events import SessionConnected, ZnodesWritten
from controller.core.operations import CONNECTION_LOSS, NO_AUTH, NO_NODE, OK, Create
from controller.security.errors import SecurityError
from controller.security.jaas import parse_entry
from controller.zookeeper import wire
from controller.zookeeper.digest_md5 import digest_login, login_of, sasl_login
from controller.zookeeper.errors import LoginFailed
from controller.zookeeper.login import LOGIN_REQUIRED, SaslLogin
from controller.zookeeper.session import Phase
from tests.controller.zookeeper import peer
from tests.controller.zookeeper.driven import SESSION, TIMEOUT_MS, SessionHarness
from tests.controller.zookeeper.peer import Sent

AUTH_FAILED = -115
GREETING = peer.handshake(SESSION, TIMEOUT_MS)


class ScriptedExchange:
    """An exchange that answers "challenge" with "response", and accepts "proof"."""

    def respond(self, challenge: bytes) -> bytes | None:
        if challenge == b"challenge":
            return b"response"
        if challenge != b"proof":
            raise LoginFailed("does not prove that it knows the password")
        return None


SASL = SaslLogin("kafka", ScriptedExchange)
DIGEST = digest_login("kafka", "topsecret")


def sasl_reply(request: Sent, token: bytes | None) -> bytes:
    return peer.reply(request.xid, peer.sasl_body(token))


def logged_in(driven: SessionHarness) -> list[Sent]:
    """Connect and log in by SASL; the requests that follow."""
    driven.connect()
    (first,) = driven.receive(GREETING)
    assert (first.opcode, first.body) == (peer.SASL, peer.sasl_body(b""))
    (second,) = driven.receive(sasl_reply(first, b"challenge"))
    assert (second.opcode, second.body) == (peer.SASL, peer.sasl_body(b"response"))
    return driven.receive(sasl_reply(second, b"proof"))


def test_nothing_is_sent_before_the_login_is_complete() -> None:
    driven = SessionHarness(login=SASL)
    driven.connect()
    driven.receive(GREETING)
    assert driven.submit(WriteZnodes((Create("/a"),), None)) == []
    assert driven.events() == [ZnodesWritten(CommandId(1, 1), 0, [CONNECTION_LOSS], [-1])]
    driven = SessionHarness(login=SASL)
    (probe,) = logged_in(driven)
    assert probe.opcode == peer.MULTI_READ
    driven.receive(peer.reply(probe.xid))
    assert driven.events() == [SessionConnected(SESSION, TIMEOUT_MS, "zk1:2181", False)]


def test_every_connection_of_a_session_logs_in() -> None:
    driven = SessionHarness(login=SASL)
    (probe,) = logged_in(driven)
    driven.receive(peer.reply(probe.xid))
    driven.lose()
    (probe,) = logged_in(driven)
    assert probe.opcode == peer.MULTI_READ


def test_old_session_is_closed_after_the_login() -> None:
    driven = SessionHarness(login=SASL)
    (probe,) = logged_in(driven)
    driven.receive(peer.reply(probe.xid))
    driven.wait(TIMEOUT_MS)
    assert driven.session.phase is Phase.DISCONNECTED
    (close,) = logged_in(driven)
    assert close.opcode == peer.CLOSE
    driven.receive(peer.reply(close.xid))
    assert driven.connect().session_id == 0


def test_rejected_login_ends_the_connection_and_names_the_user() -> None:
    driven = SessionHarness(login=SASL)
    driven.connect()
    (first,) = driven.receive(GREETING)
    driven.receive(peer.reply(first.xid, error=AUTH_FAILED))
    assert driven.session.phase is Phase.DISCONNECTED
    assert driven.session.fault.startswith("zk1:2181 rejects the login of kafka (ZooKeeper code")
    assert driven.connect().session_id == SESSION


@pytest.mark.parametrize(
    ("token", "fault"),
    [
        (b"", "zk1:2181 does not authenticate itself in the login of kafka"),
        (None, "zk1:2181 does not authenticate itself in the login of kafka"),
        (b"another challenge", "zk1:2181 does not prove that it knows the password"),
    ],
)
def test_server_that_does_not_authenticate_itself_is_left(token: bytes | None, fault: str) -> None:
    driven = SessionHarness(login=SASL)
    driven.connect()
    (first,) = driven.receive(GREETING)
    (second,) = driven.receive(sasl_reply(first, b"challenge"))
    assert driven.receive(sasl_reply(second, token)) == []
    assert driven.session.phase is Phase.DISCONNECTED
    assert driven.session.fault == fault
    assert driven.events() == []


def test_truncated_sasl_message_ends_the_connection() -> None:
    driven = SessionHarness(login=SASL)
    driven.connect()
    (first,) = driven.receive(GREETING)
    assert driven.receive(peer.reply(first.xid, b"\0\0\0\5proo")) == []
    assert driven.session.phase is Phase.DISCONNECTED
    assert "does not follow ZooKeeper's protocol: SASL message" in driven.session.fault


@pytest.mark.parametrize("body", [b"", peer.sasl_body(b"challenge"), peer.sasl_body(b"proof")])
def test_server_cannot_skip_sasl_with_a_reply_to_another_scheme(body: bytes) -> None:
    driven = SessionHarness(login=SASL)
    driven.connect()
    driven.receive(GREETING)
    assert driven.receive(peer.reply(wire.AUTH_XID, body)) == []
    assert driven.session.phase is Phase.DISCONNECTED


REPLIES = st.builds(
    lambda xid, error, token: peer.reply(xid, peer.sasl_body(token), error=error),
    st.sampled_from([-8, -4, -2, -1, 1, 2, 3]),
    st.sampled_from([OK, OK, AUTH_FAILED, LOGIN_REQUIRED]),
    st.sampled_from([b"", b"challenge", b"noise"]),
)


@given(st.lists(REPLIES, max_size=6))
def test_server_without_the_password_never_gets_another_request(replies: list[bytes]) -> None:
    driven = SessionHarness(login=SASL)
    driven.connect()
    sent = driven.receive(GREETING)
    for one in replies:
        sent += driven.receive(one)
        sent += driven.wait(100)
    assert {one.opcode for one in sent} <= {peer.SASL}
    assert driven.events() == []


def test_reply_to_another_request_does_not_complete_a_login_by_digest() -> None:
    driven = SessionHarness(login=DIGEST)
    driven.connect()
    driven.receive(GREETING)
    assert driven.receive(peer.reply(1)) == []
    assert driven.session.phase is Phase.DISCONNECTED


def test_unexpected_reply_to_a_login_ends_the_connection() -> None:
    driven = SessionHarness(login=DIGEST)
    driven.connect()
    (auth,) = driven.receive(GREETING)
    (probe,) = driven.receive(peer.reply(auth.xid))
    driven.receive(peer.reply(probe.xid))
    driven.receive(peer.reply(wire.AUTH_XID))
    assert driven.session.phase is Phase.DISCONNECTED


def test_server_that_requires_a_login_is_left_without_one() -> None:
    driven = SessionHarness()
    driven.connect()
    (probe,) = driven.receive(GREETING)
    driven.receive(peer.reply(probe.xid, error=LOGIN_REQUIRED))
    assert driven.session.fault == "zk1:2181 requires a login by SASL"
    assert driven.events() == []


def test_digest_login_sends_what_kazoo_sends() -> None:
    driven = SessionHarness(login=DIGEST)
    driven.connect()
    (auth,) = driven.receive(GREETING)
    assert (auth.xid, auth.opcode) == (wire.AUTH_XID, kazoo.Auth.type)
    assert auth.body == bytes(kazoo.Auth(0, "digest", "kafka:topsecret").serialize())
    (probe,) = driven.receive(peer.reply(auth.xid))
    assert probe.opcode == peer.MULTI_READ


def test_rejected_digest_ends_the_connection() -> None:
    driven = SessionHarness(login=DIGEST)
    driven.connect()
    (auth,) = driven.receive(GREETING)
    driven.receive(peer.reply(auth.xid, error=AUTH_FAILED))
    assert "rejects the login of kafka" in driven.session.fault
    assert "topsecret" not in driven.session.fault + repr(DIGEST)


@given(st.binary())
def test_sasl_messages_are_as_kazoo_has_them(token: bytes) -> None:
    request = wire.sasl_request(token)
    assert request[:4] == kazoo.SASL.type.to_bytes(4)
    assert request[4:] == bytes(kazoo.SASL(token).serialize())
    frame = bytes(wire.HEADER_BYTES) + request[4:]
    assert wire.read_sasl_token(frame) == kazoo.SASL.deserialize(frame, wire.HEADER_BYTES)[0]


def test_silent_login_ends_after_the_connect_timeout() -> None:
    driven = SessionHarness(login=SASL)
    driven.connect()
    driven.receive(GREETING)
    due_ms = driven.session.next_tick_ms
    assert due_ms == driven.now_ms + 2000
    driven.wait(1999)
    assert driven.session.phase is Phase.AUTHENTICATING
    driven.wait(1)
    assert driven.session.phase is Phase.DISCONNECTED
    assert driven.session.fault == "zk1:2181 did not answer the login"


def test_denied_znodes_are_noted_by_path() -> None:
    driven = SessionHarness()
    driven.ready()
    missing, children = driven.submit(ReadChildren("/none"), ReadChildren("/config/users"))
    driven.receive(peer.reply(missing.xid, error=NO_NODE))
    driven.receive(peer.reply(children.xid, error=NO_AUTH))
    (read,) = driven.submit(ReadZnodes(("/a", "/b", "/none"), watch=False))
    body = peer.multi_read_body([peer.Znode(b""), NO_AUTH, NO_NODE])
    driven.receive(peer.reply(read.xid, body))
    operations = (Create("/c"), Create("/d/e"))
    (write,) = driven.submit(WriteZnodes(operations, None))
    (rest,) = driven.receive(peer.reply(write.xid, peer.multi_body(operations, [OK, NO_AUTH], [])))
    driven.receive(peer.reply(rest.xid, peer.multi_body(operations[:1], [OK], [0])))
    assert driven.session.take_denied() == ["/config/users", "/b", "/d/e"]
    assert driven.session.take_denied() == []


# DIGEST-MD5 ----------------------------------------------------------------------------------


CHALLENGE = b'realm="zk-sasl-md5",nonce="abc",charset=utf-8,algorithm=md5-sess,qop="auth,auth-int"'


def test_password_is_not_in_a_response() -> None:
    response = sasl_login("kafka", "topsecret").begin().respond(CHALLENGE)
    assert response is not None
    assert b'username="kafka"' in response
    assert b'digest-uri="zookeeper/zk-sasl-md5"' in response
    assert b"qop=auth," in response
    assert b"topsecret" not in response


@pytest.mark.parametrize(
    "challenge", [b"noise", b"rspauth=00", b'realm="r",nonce="n",qop="auth-conf"', b"\xff"]
)
def test_malformed_challenge_fails_the_login(challenge: bytes) -> None:
    with pytest.raises(LoginFailed):
        sasl_login("kafka", "topsecret").begin().respond(challenge)


def test_proof_of_a_server_that_does_not_know_the_password_is_rejected() -> None:
    exchange = sasl_login("kafka", "topsecret").begin()
    exchange.respond(CHALLENGE)
    with pytest.raises(LoginFailed, match="does not prove that it knows the password"):
        exchange.respond(b"rspauth=0123456789abcdef0123456789abcdef")


LOGIN_MODULE = "org.apache.zookeeper.server.auth.DigestLoginModule"


@pytest.mark.parametrize(
    ("entry", "reported"),
    [
        ("com.sun.security.auth.module.Krb5LoginModule required;", "no Kerberos"),
        (f"{LOGIN_MODULE} required username=a;", "needs a username and a password"),
        ("x.DigestLoginModule required username=a password=b;", f"only {LOGIN_MODULE}"),
    ],
)
def test_login_module_that_cannot_be_used_is_refused(entry: str, reported: str) -> None:
    with pytest.raises(SecurityError, match=reported):
        login_of(parse_entry(entry, "key"), "key")
