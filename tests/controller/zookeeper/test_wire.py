"""Frames and messages as ZooKeeper has them, and what a session does with malformed ones."""

import pytest
from kazoo.protocol import serialization as kazoo

from controller.core.commands import CommandId, ReadChildren
from controller.core.events import ChildrenRead, SessionDisconnected
from controller.core.operations import CONNECTION_LOSS
from controller.zookeeper import wire
from controller.zookeeper.session import Phase
from tests.controller.zookeeper import peer
from tests.controller.zookeeper.driven import SESSION, TIMEOUT_MS, SessionHarness


def test_connect_request_is_what_kazoo_sends() -> None:
    request = wire.connect_request(77, TIMEOUT_MS, SESSION, b"p" * 16)
    of_kazoo = bytes(kazoo.Connect(0, 77, TIMEOUT_MS, SESSION, b"p" * 16, False).serialize())
    assert request == len(of_kazoo).to_bytes(4) + of_kazoo


def test_unset_password_of_a_session_is_sent_as_an_empty_one() -> None:
    driven = SessionHarness()
    driven.connect()
    driven.receive(peer.handshake(SESSION, TIMEOUT_MS, None))
    driven.lose()
    assert driven.connect().password == b""


@pytest.mark.parametrize(
    "body",
    [
        b"\0\0\0\2\0\0\0\1a",
        b"\0\0\0\1\xff\xff\xff\xff",
        b"\0\0\0\1\0\0\0\1\xff",
    ],
    ids=["truncated", "without a name", "not UTF-8"],
)
def test_malformed_children_are_a_lost_connection(body: bytes) -> None:
    driven = SessionHarness()
    driven.ready()
    (children,) = driven.submit(ReadChildren("/a"))
    driven.events()
    driven.receive(peer.reply(children.xid, body))
    outcome, lost = driven.events()
    assert outcome == ChildrenRead(CommandId(1, 1), CONNECTION_LOSS, [])
    assert isinstance(lost, SessionDisconnected)


def test_frame_longer_than_64_mib_ends_the_connection() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.receive(wire.FRAME_BYTES_MAX.to_bytes(4))
    assert driven.session.phase is Phase.READY
    driven.lose()
    driven.ready()
    driven.receive((wire.FRAME_BYTES_MAX + 1).to_bytes(4))
    assert driven.session.phase is Phase.DISCONNECTED
