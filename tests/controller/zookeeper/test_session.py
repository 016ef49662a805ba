"""The life cycle of a session, driven by bytes and ticks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.commands import (
    CommandId,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    SyncZnodes,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.events import (
    ChildrenRead,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    WatchFired,
    ZnodesRead,
    ZnodesWritten,
)
from controller.core.operations import CONNECTION_LOSS, OK, SESSION_EXPIRED, Create
from controller.zookeeper import wire
from controller.zookeeper.session import Phase
from tests.controller.zookeeper import peer
from tests.controller.zookeeper.driven import SESSION, TIMEOUT_MS, SessionHarness

WRITE = WriteAtomically((Create("/a"),))
XIDS = st.sampled_from([-8, -2, -1, 2, 3, 4, 5, 6, 7])


def test_first_connection_requests_a_new_session() -> None:
    driven = SessionHarness()
    assert (driven.session.server, driven.session.fault) == ("", "")
    greeting = driven.connect()
    assert (greeting.session_id, greeting.password, greeting.last_zxid) == (0, bytes(16), 0)
    driven = SessionHarness()
    driven.ready()
    assert driven.reported[0].channel == "zookeeper:abc"
    assert driven.events() == [SessionConnected(SESSION, TIMEOUT_MS, "zk1:2181", False)]


def test_second_connection_requests_the_same_session() -> None:
    driven = SessionHarness()
    driven.ready()
    (sent,) = driven.submit(WRITE)
    driven.receive(peer.reply(sent.xid, peer.multi_body([Create("/a")], [0], [0]), zxid=77))
    driven.lose()
    greeting = driven.connect("zk2:2181")
    assert (greeting.session_id, greeting.password) == (SESSION, b"p" * 16)
    assert greeting.last_zxid == 77
    driven.lose()
    driven.events()
    driven.ready("zk2:2181")
    assert driven.events() == [SessionConnected(SESSION, TIMEOUT_MS, "zk2:2181", True)]


def test_replies_in_pieces_are_assembled() -> None:
    driven = SessionHarness()
    driven.ready()
    first, second = driven.submit(ReadChildren("/a"), ReadChildren("/b"))
    data = peer.reply(first.xid, peer.children_body(["y", "x"]))
    data += peer.reply(second.xid, peer.children_body([]))
    driven.events()
    for at in range(len(data)):
        driven.receive(data[at : at + 1])
    assert driven.events() == [
        ChildrenRead(CommandId(1, 1), OK, ["x", "y"]),
        ChildrenRead(CommandId(1, 2), OK, []),
    ]


def test_server_that_does_not_greet_is_abandoned_after_the_connect_timeout() -> None:
    driven = SessionHarness()
    driven.connect()
    driven.wait(1999)
    assert driven.session.phase is Phase.HANDSHAKE
    driven.wait(1)
    assert driven.session.phase is Phase.DISCONNECTED
    assert driven.session.fault == "zk1:2181 did not answer the handshake"
    assert driven.events() == []


def test_SU_39_lost_connection_ends_all_commands_and_repeats_none() -> None:
    driven = SessionHarness(flight_requests_max=1)
    driven.ready()
    driven.events()
    in_flight = driven.submit(WRITE, SyncZnodes("/"), ReadZnodes(("/x", "/y")), ReadChildren("/"))
    assert len(in_flight) == 1
    driven.lose()
    write, sync, read, children, lost = driven.events()
    assert write == ZnodesWritten(CommandId(1, 1), 0, [CONNECTION_LOSS], [-1])
    assert sync == ZnodesWritten(CommandId(1, 2), 0, [CONNECTION_LOSS], [-1])
    assert isinstance(read, ZnodesRead)
    assert read.errors == [CONNECTION_LOSS] * 2
    assert children == ChildrenRead(CommandId(1, 4), CONNECTION_LOSS, [])
    assert lost == SessionDisconnected(SESSION, "broken")
    assert driven.ready() == []


def test_commands_without_a_connection_end_at_once() -> None:
    driven = SessionHarness()
    driven.submit(WRITE)
    driven.ready()
    driven.lose()
    driven.submit(WRITE)
    lost = [one for one in driven.events() if isinstance(one, ZnodesWritten)]
    assert [one.errors for one in lost] == [[CONNECTION_LOSS]] * 2


@pytest.mark.parametrize("ready", [False, True])
def test_commands_without_items_need_no_server(ready: bool) -> None:
    driven = SessionHarness()
    if ready:
        driven.ready()
        driven.events()
    sent = driven.submit(ReadZnodes(()), ReadStats(()), WriteZnodes((), 0), WriteAtomically(()))
    assert sent == []
    assert driven.events() == [
        ZnodesRead(CommandId(1, 1), 0, [], [], [], [], [], []),
        ZnodesRead(CommandId(1, 2), 0, [], [], [], [], [], []),
        ZnodesWritten(CommandId(1, 3), 0, [], []),
        ZnodesWritten(CommandId(1, 4), 0, [], []),
    ]


def test_request_that_was_not_sent_before_the_loss_is_not_sent_on_the_next_connection() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.session.submit(CommandId(1, 1), WRITE)
    driven.session.disconnected("broken")
    assert driven.connect().session_id == SESSION, "the handshake is the only request"


def test_part_of_a_reply_is_discarded_with_its_connection() -> None:
    driven = SessionHarness()
    driven.ready()
    (sync,) = driven.submit(SyncZnodes("/"))
    driven.receive(peer.reply(sync.xid)[:-1])
    driven.lose()
    driven.events()
    driven.ready("zk2:2181")
    assert driven.events() == [SessionConnected(SESSION, TIMEOUT_MS, "zk2:2181", True)]


@pytest.mark.parametrize(("chroot", "root"), [("", "/"), ("/kafka", "/kafka")])
def test_version_request_reads_the_root_of_the_cluster(chroot: str, root: str) -> None:
    driven = SessionHarness(chroot=chroot)
    driven.connect()
    (probe,) = driven.receive(peer.handshake(SESSION, TIMEOUT_MS))
    assert peer.multi_read_paths(probe.body) == [root]


def test_session_that_does_without_bulk_requests_treats_each_server_as_an_old_one() -> None:
    driven = SessionHarness(bulk=False)
    driven.connect()
    assert driven.receive(peer.handshake(SESSION, TIMEOUT_MS)) == []
    assert driven.session.phase is Phase.READY
    assert len(driven.submit(ReadZnodes(("/a", "/b")))) == 2, "a request per znode"


def test_old_server_is_detected_without_an_event() -> None:
    driven = SessionHarness()
    driven.ready(bulk=False)
    assert driven.events() == [SessionConnected(SESSION, TIMEOUT_MS, "zk1:2181", False)]
    driven.lose()
    driven.connect()
    assert driven.receive(peer.handshake(SESSION, TIMEOUT_MS)) == []
    assert driven.session.phase is Phase.READY


def test_session_expired_by_the_server_is_replaced_by_a_new_one() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.lose()
    driven.events()
    driven.connect()
    driven.receive(peer.handshake(0, 0))
    assert driven.session.phase is Phase.DISCONNECTED
    assert driven.events() == [SessionExpired(SESSION)]
    assert driven.connect().session_id == 0
    driven.lose()
    driven.ready(session=0xDEF)
    assert driven.events() == [SessionConnected(0xDEF, TIMEOUT_MS, "zk1:2181", False)]


def test_session_that_was_never_reported_expires_without_an_event() -> None:
    driven = SessionHarness()
    driven.connect()
    driven.receive(peer.handshake(SESSION, TIMEOUT_MS))
    driven.lose()
    driven.connect()
    driven.receive(peer.handshake(0, 0))
    assert driven.connect().session_id == 0
    assert driven.events() == []


@pytest.mark.parametrize("expired", [False, True])
def test_server_that_refuses_a_new_session_is_left_without_an_event(expired: bool) -> None:
    driven = SessionHarness()
    if expired:
        driven.ready()
        driven.wait(TIMEOUT_MS)
        driven.connect()
        driven.receive(peer.handshake(0, 0))
        driven.events()
    driven.connect()
    driven.receive(peer.handshake(0, 0))
    assert driven.session.phase is Phase.DISCONNECTED
    assert driven.session.fault == "zk1:2181 says that the session is over"
    assert driven.events() == []


def test_handshake_with_another_session_is_reported_as_a_new_session() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.lose()
    driven.events()
    driven.ready(session=0xDEF)
    assert driven.events() == [SessionConnected(0xDEF, TIMEOUT_MS, "zk1:2181", False)]


def test_new_session_does_not_name_the_last_transaction_of_the_old_one() -> None:
    """A server that has not seen it would refuse the connection."""
    driven = SessionHarness()
    driven.ready()
    (sent,) = driven.submit(SyncZnodes("/"))
    driven.receive(peer.reply(sent.xid, zxid=77))
    driven.wait(TIMEOUT_MS)
    greeting = driven.connect()
    assert (greeting.session_id, greeting.last_zxid) == (SESSION, 0), "only to close it"
    driven.receive(peer.handshake(0, 0))
    greeting = driven.connect()
    assert (greeting.session_id, greeting.last_zxid) == (0, 0)


def test_SU_40_end_of_the_session_ends_commands_in_flight_and_later_ones_work() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.submit(SyncZnodes("/"), ReadChildren("/a"), WRITE)
    driven.events()
    driven.wait(TIMEOUT_MS)
    assert driven.events() == [
        ZnodesWritten(CommandId(1, 1), 0, [SESSION_EXPIRED], [-1]),
        ChildrenRead(CommandId(1, 2), SESSION_EXPIRED, []),
        ZnodesWritten(CommandId(1, 3), 0, [SESSION_EXPIRED], [-1]),
        SessionExpired(SESSION),
    ]
    driven.connect()
    driven.receive(peer.handshake(0, 0))
    driven.ready(session=0xDEF)
    (again,) = driven.submit(WRITE)
    driven.receive(peer.reply(again.xid, peer.multi_body([Create("/a")], [OK], [0])))
    assert driven.events() == [
        SessionConnected(0xDEF, TIMEOUT_MS, "zk1:2181", False),
        ZnodesWritten(CommandId(1, 4), 0, [OK], [0]),
    ]


def test_session_without_any_server_expires_after_its_timeout() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.lose()
    driven.events()
    assert driven.wait(TIMEOUT_MS // 3) == []
    driven.wait(TIMEOUT_MS * 2 // 3 - 1)
    assert driven.events() == []
    assert driven.session.fault == "broken"
    assert driven.session.next_tick_ms == driven.now_ms + 1
    driven.wait(1)
    assert driven.reported[0].channel == "zookeeper:abc"
    assert driven.events() == [SessionExpired(SESSION)]
    driven.wait(TIMEOUT_MS)
    assert driven.events() == []


def test_late_bytes_of_a_lost_connection_do_not_prolong_the_session() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.lose()
    driven.events()
    driven.wait(TIMEOUT_MS - 1)
    driven.receive(peer.reply(wire.PING_XID))
    driven.wait(1)
    assert driven.events() == [SessionExpired(SESSION)]


def test_incomplete_handshake_does_not_prolong_the_session() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.lose()
    driven.events()
    driven.wait(TIMEOUT_MS - 1)
    driven.connect()
    driven.receive(peer.handshake(SESSION, TIMEOUT_MS)[:-1])
    driven.wait(1)
    assert driven.events() == [SessionExpired(SESSION)]


def test_session_that_presumes_no_expiration_waits_for_a_server() -> None:
    driven = SessionHarness(presumes_expiration=False)
    driven.ready()
    driven.events()
    driven.wait(2 * TIMEOUT_MS)
    assert driven.events() == [
        SessionDisconnected(SESSION, "nothing heard from zk1:2181 for 12000 ms")
    ]
    assert driven.session.next_tick_ms is None
    driven.wait(2 * TIMEOUT_MS)
    assert driven.events() == []
    assert driven.connect().session_id == SESSION
    driven.receive(peer.handshake(0, 0))
    assert driven.events() == [SessionExpired(SESSION)]


def test_session_assumed_expired_is_closed_before_a_new_one_starts() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.lose()
    driven.wait(TIMEOUT_MS)
    driven.events()
    assert driven.connect().session_id == SESSION
    (close,) = driven.receive(peer.handshake(SESSION, TIMEOUT_MS))
    assert close.opcode == peer.CLOSE
    driven.receive(peer.reply(close.xid))
    assert driven.session.phase is Phase.DISCONNECTED
    assert driven.connect().session_id == 0
    assert driven.events() == []


def test_session_assumed_expired_may_have_expired() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.lose()
    driven.wait(TIMEOUT_MS)
    driven.connect()
    driven.receive(peer.handshake(0, 0))
    assert driven.connect().session_id == 0
    assert [one for one in driven.events() if isinstance(one, SessionExpired)] == [
        SessionExpired(SESSION)
    ]


def test_paused_event_loop_reads_before_it_expires_the_session() -> None:
    driven = SessionHarness()
    driven.ready()
    (sent,) = driven.submit(SyncZnodes("/"))
    driven.events()
    driven.now_ms += TIMEOUT_MS * 2
    driven.receive(peer.reply(sent.xid))
    driven.wait(0)
    assert driven.events() == [ZnodesWritten(CommandId(1, 1), 0, [OK], [-1])]
    assert driven.session.phase is Phase.READY


def test_paused_event_loop_without_received_bytes_expires_the_session() -> None:
    driven = SessionHarness()
    driven.ready()
    driven.submit(SyncZnodes("/"))
    driven.events()
    driven.wait(TIMEOUT_MS)
    assert driven.events() == [
        ZnodesWritten(CommandId(1, 1), 0, [SESSION_EXPIRED], [-1]),
        SessionExpired(SESSION),
    ]
    assert driven.session.phase is Phase.DISCONNECTED


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 400 Bad Request\r\n\r\n",
        peer.reply(99),
        b"\0\0\0\3abc",
        b"\0\0\0\0",
        peer.reply(-1, b"\0"),
        peer.reply(wire.AUTH_XID),
        peer.reply(-1, b"\0\0\0\1\0\0\0\3\xff\xff\xff\xff"),
    ],
)
def test_peer_that_does_not_speak_zookeeper_is_reported_and_abandoned(data: bytes) -> None:
    driven = SessionHarness()
    driven.ready()
    driven.submit(SyncZnodes("/"))
    driven.events()
    driven.receive(data)
    outcome, lost = driven.events()
    assert outcome == ZnodesWritten(CommandId(1, 1), 0, [CONNECTION_LOSS], [-1])
    assert isinstance(lost, SessionDisconnected)
    assert "zk1:2181 does not follow ZooKeeper's protocol" in lost.cause


@given(
    opening=st.booleans(),
    frames=st.lists(
        st.one_of(
            st.binary(max_size=80),
            st.builds(lambda xid, body: peer.reply(xid, body)[4:], XIDS, st.binary(max_size=80)),
        ),
        max_size=6,
    ),
)
def test_any_bytes_cause_at_most_a_lost_connection(opening: bool, frames: list[bytes]) -> None:
    driven = SessionHarness()
    if opening:
        driven.connect()
    else:
        driven.ready()
        commands = [ReadZnodes(("/a", "/b")), ReadChildren("/"), ReadStats(("/a",)), WRITE]
        driven.submit(*commands, WriteZnodes((Create("/a"), Create("/b")), 0))
    for frame in frames:
        driven.receive(len(frame).to_bytes(4) + frame)
    driven.wait(TIMEOUT_MS * 2)
    outcomes = [one for one in driven.events() if isinstance(one, ZnodesWritten)]
    if not opening:
        assert sum(len(one.errors) for one in outcomes) == 3


def test_chroot_is_added_to_every_path_and_removed_from_every_event() -> None:
    driven = SessionHarness(chroot="/kafka")
    driven.ready()
    _, children = driven.submit(ReadChildren("/", watch=True))
    assert peer.path_of(children.body) == "/kafka"
    driven.receive(peer.reply(children.xid - 1) + peer.reply(children.xid, peer.children_body([])))
    (write,) = driven.submit(WriteAtomically((Create("/a"),)))
    assert peer.multi_operations(write.body) == [Create("/kafka/a")]
    driven.events()
    driven.receive(peer.watch_event("/kafka", "children", 9))
    assert driven.events() == [WatchFired("/", "children", 9)]
