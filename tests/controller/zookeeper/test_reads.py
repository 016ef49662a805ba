"""Reads in pages, on servers that know multiRead and on those that do not."""

from controller.core.commands import CommandId, ReadChildren, ReadStats, ReadZnodes
from controller.core.events import ChildrenRead, Event, ZnodesRead
from controller.core.operations import CONNECTION_LOSS, NO_AUTH, NO_NODE, OK
from controller.zookeeper.reads import EVENT_DATA_BYTES_MAX
from tests.controller.zookeeper import peer
from tests.controller.zookeeper.driven import Driven
from tests.controller.zookeeper.peer import ADD_WATCH, MULTI_READ, Sent, Znode

GET_DATA, EXISTS = 4, 3


def driven(**settings: object) -> Driven:
    """A ready session whose first events were removed."""
    session = Driven(**settings)
    session.ready()
    session.events()
    return session


def answer_pages(session: Driven, sent: list[Sent], data: bytes) -> list[int]:
    """Answer every multiRead with znodes with this data. Returns the sizes of the pages."""
    sizes = []
    while sent:
        paths = peer.multi_read_paths(sent[0].body)
        sizes.append(len(paths))
        body = peer.multi_read_body([Znode(data)] * len(paths))
        sent = sent[1:] + session.receive(peer.reply(sent[0].xid, body))
    return sizes


def znodes_read(events: list[Event]) -> list[ZnodesRead]:
    """The read events, which must be consecutive pages."""
    found = [one for one in events if isinstance(one, ZnodesRead)]
    assert found == events
    at = 0
    for one in found:
        assert one.offset == at
        at += len(one.errors)
    return found


def test_read_returns_data_and_stat_of_each_znode() -> None:
    session = driven()
    (sent,) = session.submit(ReadZnodes(("/a", "/b", "/c", "/d")))
    assert peer.multi_read_paths(sent.body) == ["/a", "/b", "/c", "/d"]
    body = peer.multi_read_body(
        [Znode(b"x", 5, 21, 22, 33), NO_NODE, Znode(None, 1, 2, 3), Znode(b"", 1, 2, 3)]
    )
    session.receive(peer.reply(sent.xid, body))
    assert session.events() == [
        ZnodesRead(
            CommandId(1, 1),
            0,
            errors=[OK, NO_NODE, OK, OK],
            data=[b"x", None, None, b""],
            versions=[5, -1, 1, 1],
            czxids=[21, -1, 2, 2],
            mzxids=[22, -1, 3, 3],
            owners=[33, -1, 0, 0],
        )
    ]


def test_first_page_is_small_and_its_reply_determines_the_size_of_the_others() -> None:
    session = driven()
    sent = session.submit(ReadZnodes(tuple(f"/{n}" for n in range(5000))))
    assert len(sent) == 1
    sizes = answer_pages(session, sent, bytes(100))
    assert sizes[0] == 64
    assert max(sizes) == 1000
    assert sum(len(one.errors) for one in znodes_read(session.events())) == 5000


def test_large_znodes_are_read_in_small_pages() -> None:
    session = driven()
    sizes = answer_pages(session, session.submit(ReadZnodes(("/x",) * 300)), bytes(50_000))
    assert max(sizes[1:]) * 50_000 < EVENT_DATA_BYTES_MAX
    for event in znodes_read(session.events()):
        assert sum(len(one or b"") for one in event.data) <= EVENT_DATA_BYTES_MAX


def test_lost_connection_ends_the_unanswered_pages() -> None:
    session = driven()
    (first,) = session.submit(ReadZnodes(tuple(f"/{n}" for n in range(30_000))))
    session.receive(peer.reply(first.xid, peer.multi_read_body([Znode(b"x")] * 64)))
    session.lose()
    events = session.events()[:-1]
    errors = [error for one in znodes_read(events) for error in one.errors]
    assert errors == [OK] * 64 + [CONNECTION_LOSS] * (30_000 - 64)


def test_watch_is_set_once_per_session_before_the_read() -> None:
    session = driven()
    sent = session.submit(ReadZnodes(("/a", "/b"), watch=True))
    assert [one.opcode for one in sent] == [ADD_WATCH, ADD_WATCH, MULTI_READ]
    replies = [peer.reply(sent[0].xid), peer.reply(sent[1].xid)]
    replies.append(peer.reply(sent[2].xid, peer.multi_read_body([Znode(b""), NO_NODE])))
    session.receive(b"".join(replies))
    again = session.submit(ReadZnodes(("/a", "/b"), watch=True), ReadStats(("/a",), watch=True))
    assert [one.opcode for one in again] == [MULTI_READ, EXISTS]


def test_znode_whose_watch_fails_is_not_read_as_watched() -> None:
    session = driven()
    sent = session.submit(ReadZnodes(("/a", "/b"), watch=True))
    replies = [peer.reply(sent[0].xid, error=NO_AUTH), peer.reply(sent[1].xid)]
    replies.append(peer.reply(sent[2].xid, peer.multi_read_body([Znode(b""), Znode(b"")])))
    session.receive(b"".join(replies))
    (event,) = znodes_read(session.events())
    assert event.errors == [NO_AUTH, OK]
    again = session.submit(ReadZnodes(("/a", "/b"), watch=True))
    assert [(one.opcode, peer.path_of(one.body)) for one in again[:-1]] == [(ADD_WATCH, "/a")]


def test_stats_have_no_data() -> None:
    session = driven()
    first, second = session.submit(ReadStats(("/a", "/b")))
    assert first.opcode == EXISTS
    session.receive(peer.reply(first.xid, peer.stat_body(Znode(None, 3, 4, 5, 6))))
    session.receive(peer.reply(second.xid, error=NO_NODE))
    (event,) = znodes_read(session.events())
    assert (event.errors, event.data) == ([OK, NO_NODE], [None, None])
    assert (event.versions, event.czxids, event.mzxids, event.owners) == (
        [3, -1],
        [4, -1],
        [5, -1],
        [6, -1],
    )


def test_old_server_is_read_znode_by_znode() -> None:
    session = Driven()
    session.ready(bulk=False)
    session.events()
    first, second = session.submit(ReadZnodes(("/a", "/b"), watch=True))
    assert [first.opcode, second.opcode] == [GET_DATA, GET_DATA]
    assert first.body.endswith(b"\1")
    session.receive(peer.reply(first.xid, peer.znode_body(Znode(b"x", 7))))
    session.receive(peer.reply(second.xid, error=NO_NODE))
    (event,) = znodes_read(session.events())
    assert (event.errors, event.data, event.versions) == ([OK, NO_NODE], [b"x", None], [7, -1])


def test_received_single_replies_survive_a_lost_connection() -> None:
    session = Driven()
    session.ready(bulk=False)
    session.events()
    first, _ = session.submit(ReadZnodes(("/a", "/b")))
    session.receive(peer.reply(first.xid, peer.znode_body(Znode(b"x"))))
    session.lose()
    events = znodes_read(session.events()[:-1])
    assert [error for one in events for error in one.errors] == [OK, CONNECTION_LOSS]


def test_completed_command_has_no_second_outcome_when_the_connection_ends() -> None:
    session = driven(flight_requests_max=1)
    (sent,) = session.submit(ReadZnodes(("/a",)))
    body = peer.multi_read_body([Znode(b"x")])
    session.receive(peer.reply(sent.xid, body) + peer.reply(99))
    assert len(session.events()) == 2, "its outcome and the loss"


def test_children_of_a_missing_znode_are_an_error() -> None:
    session = driven()
    (sent,) = session.submit(ReadChildren("/a"))
    session.receive(peer.reply(sent.xid, error=NO_NODE))
    assert session.events() == [ChildrenRead(CommandId(1, 1), NO_NODE, [])]
