"""A session is closed on request."""

import pytest

from controller.core.commands import CommandId, SyncZnodes, WriteAtomically, WriteZnodes
from controller.core.events import ZnodesWritten
from controller.core.operations import OK, SESSION_EXPIRED, Create
from controller.zookeeper.session import Phase
from tests.controller.zookeeper import peer
from tests.controller.zookeeper.driven import SESSION, TIMEOUT_MS, SessionHarness

WRITE = WriteAtomically((Create("/a"),))


def test_close_answers_commands_in_flight_and_ends_the_others() -> None:
    driven = SessionHarness(flight_requests_max=1)
    driven.ready()
    (sync,) = driven.submit(SyncZnodes("/"), WRITE)
    driven.events()
    driven.session.close()
    (close,) = driven.wait(0)
    assert close.opcode == peer.CLOSE
    assert driven.events() == [ZnodesWritten(CommandId(1, 2), 0, [SESSION_EXPIRED], [-1])]
    driven.receive(peer.reply(sync.xid) + peer.reply(close.xid))
    assert driven.events() == [ZnodesWritten(CommandId(1, 1), 0, [OK], [-1])]
    assert driven.session.phase is Phase.CLOSED
    driven.submit(WRITE)
    assert driven.events() == [ZnodesWritten(CommandId(1, 3), 0, [SESSION_EXPIRED], [-1])]


def test_close_ends_the_rest_of_a_partly_sent_command() -> None:
    driven = SessionHarness(flight_requests_max=2)
    driven.ready()
    operations = tuple(Create(f"/{n}") for n in range(2500))
    first, second = driven.submit(WriteZnodes(operations, None))
    driven.session.close()
    (close,) = driven.wait(0)
    driven.events()
    for one, part in ((first, operations[:1000]), (second, operations[1000:2000])):
        body = peer.multi_body(part, [OK] * 1000, [0] * 1000)
        assert driven.receive(peer.reply(one.xid, body)) == [], "nothing follows the close"
    driven.receive(peer.reply(close.xid))
    assert driven.events() == [
        ZnodesWritten(CommandId(1, 1), 0, [OK] * 1000, [0] * 1000),
        ZnodesWritten(CommandId(1, 1), 1000, [OK] * 1000, [0] * 1000),
        ZnodesWritten(CommandId(1, 1), 2000, [SESSION_EXPIRED] * 500, [-1] * 500),
    ]


def test_close_during_the_version_request_waits_for_the_close_reply() -> None:
    driven = SessionHarness()
    driven.connect()
    (probe,) = driven.receive(peer.handshake(SESSION, TIMEOUT_MS))
    driven.session.close()
    (close,) = driven.receive(peer.reply(probe.xid))
    assert driven.session.phase is Phase.CLOSING
    driven.receive(peer.reply(close.xid))
    assert driven.session.phase is Phase.CLOSED


@pytest.mark.parametrize("phase", ["none", "handshake"])
def test_close_without_a_session_ends_at_once(phase: str) -> None:
    driven = SessionHarness()
    if phase == "handshake":
        driven.connect()
    driven.session.close()
    assert driven.session.phase is Phase.CLOSED


def test_server_that_disconnects_during_the_close_ends_the_session() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.submit(WRITE)
    driven.events()
    driven.session.close()
    driven.lose()
    assert driven.session.phase is Phase.CLOSED
    assert driven.events() == [ZnodesWritten(CommandId(1, 1), 0, [SESSION_EXPIRED], [-1])]


def test_second_close_waits_for_the_reply_to_the_first() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.session.close()
    (close,) = driven.wait(0)
    driven.session.close()
    assert driven.wait(0) == []
    assert driven.session.phase is Phase.CLOSING
    driven.receive(peer.reply(close.xid))
    assert driven.session.phase is Phase.CLOSED


def test_session_that_was_closed_without_a_connection_reports_no_expiration() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.lose()
    driven.events()
    driven.session.close()
    driven.wait(TIMEOUT_MS)
    assert driven.events() == []
