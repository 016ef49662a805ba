"""Pings keep a connection alive, and show that a server confirms the session."""

from controller.core.commands import SyncZnodes
from controller.core.events import SessionDisconnected
from controller.zookeeper.session import Phase
from tests.controller.zookeeper import peer
from tests.controller.zookeeper.driven import SESSION, TIMEOUT_MS, SessionHarness
from tests.controller.zookeeper.peer import Sent

THIRD_MS = TIMEOUT_MS // 3


def ask_to_confirm(driven: SessionHarness) -> list[Sent]:
    """Ask the server to confirm the session. Returns the requests that follow."""
    driven.session.ping(driven.now_ms)
    return peer.requests(driven.session.output(driven.now_ms))


def test_idle_session_pings_at_a_third_and_disconnects_at_two_thirds_of_the_timeout() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.events()
    assert driven.session.next_tick_ms == driven.now_ms + THIRD_MS
    assert driven.wait(THIRD_MS - 1) == []
    (ping,) = driven.wait(1)
    assert (ping.xid, ping.opcode) == (-2, peer.PING)
    assert driven.wait(100) == [], "one ping at a time"
    assert driven.session.phase is Phase.READY
    driven.wait(THIRD_MS - 100)
    assert driven.session.phase is Phase.DISCONNECTED
    (event,) = driven.events()
    assert isinstance(event, SessionDisconnected)
    assert "zk1:2181" in event.cause


def test_answered_pings_keep_the_connection() -> None:
    driven = SessionHarness()
    driven.ready()
    for _ in range(10):
        (ping,) = driven.wait(THIRD_MS)
        driven.receive(peer.reply(ping.xid))
    assert driven.session.phase is Phase.READY


def test_session_is_confirmed_until_a_third_of_the_timeout_after_the_request() -> None:
    driven = SessionHarness()
    driven.ready()
    assert driven.session.is_confirmed(driven.now_ms + THIRD_MS - 1)
    assert not driven.session.is_confirmed(driven.now_ms + THIRD_MS)
    (ping,) = driven.wait(THIRD_MS)
    asked_ms = driven.now_ms
    driven.wait(1000)
    assert not driven.session.is_confirmed(driven.now_ms), "the ping is not answered"
    driven.receive(peer.reply(ping.xid))
    assert driven.session.is_confirmed(asked_ms + THIRD_MS - 1)
    assert not driven.session.is_confirmed(asked_ms + THIRD_MS)


def test_answer_that_waited_while_the_process_was_suspended_confirms_nothing() -> None:
    driven = SessionHarness()
    driven.ready()
    (ping,) = ask_to_confirm(driven)
    driven.now_ms += TIMEOUT_MS // 2
    driven.receive(peer.reply(ping.xid))
    assert not driven.session.is_confirmed(driven.now_ms)
    (again,) = ask_to_confirm(driven)
    driven.receive(peer.reply(again.xid))
    assert driven.session.is_confirmed(driven.now_ms)


def test_session_without_a_connection_is_not_confirmed() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.lose()
    assert not driven.session.is_confirmed(driven.now_ms)


def test_session_that_is_not_established_sends_no_ping() -> None:
    driven = SessionHarness()
    assert ask_to_confirm(driven) == []
    driven.connect()
    assert ask_to_confirm(driven) == []
    (probe,) = driven.receive(peer.handshake(SESSION, TIMEOUT_MS))
    assert ask_to_confirm(driven) == []
    driven.receive(peer.reply(probe.xid))
    assert [one.opcode for one in ask_to_confirm(driven)] == [peer.PING]


def test_second_request_to_confirm_sends_no_second_ping() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.now_ms += 100
    first_ms = driven.now_ms
    (ping,) = ask_to_confirm(driven)
    driven.now_ms += 500
    assert ask_to_confirm(driven) == [], "one ping at a time"
    driven.receive(peer.reply(ping.xid))
    assert driven.session.is_confirmed(first_ms + THIRD_MS - 1)
    assert not driven.session.is_confirmed(first_ms + THIRD_MS)


def test_unanswered_ping_is_not_repeated_while_other_replies_arrive() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.wait(1000)
    (sync,) = driven.submit(SyncZnodes("/"))
    (ping,) = driven.wait(THIRD_MS)
    driven.wait(500)
    driven.receive(peer.reply(sync.xid))
    assert driven.session.next_tick_ms == driven.now_ms + 2 * THIRD_MS
    assert driven.wait(THIRD_MS) == []
    driven.receive(peer.reply(ping.xid))
    assert not driven.session.is_confirmed(driven.now_ms), "the answer is to an old ping"


def test_unanswered_ping_of_a_lost_connection_delays_no_ping_of_the_next_one() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.wait(THIRD_MS)
    driven.lose()
    driven.ready()
    assert [one.opcode for one in driven.wait(THIRD_MS)] == [peer.PING]
