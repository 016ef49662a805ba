"""Reads in pages, on servers that know multiRead and on those that do not."""

from collections.abc import Sequence

import pytest

from controller.core.commands import CommandId, ReadChildren, ReadStats, ReadZnodes
from controller.core.events import ChildrenRead, Event, ZnodesRead
from controller.core.operations import CONNECTION_LOSS, NO_AUTH, NO_NODE, OK
from controller.zookeeper.reads import EVENT_DATA_BYTES_MAX, PAGE_BYTES
from tests.controller.zookeeper import peer
from tests.controller.zookeeper.driven import SessionHarness
from tests.controller.zookeeper.peer import ADD_WATCH, MULTI_READ, Sent, Znode

GET_DATA, EXISTS, GET_CHILDREN = 4, 3, 8


def driven(*, bulk: bool = True, **settings: object) -> SessionHarness:
    """A ready session whose first events were removed."""
    session = SessionHarness(**settings)
    session.ready(bulk=bulk)
    session.events()
    return session


def answer_pages(session: SessionHarness, sent: list[Sent], data: bytes) -> list[int]:
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


def answer_singles(session: SessionHarness, sent: list[Sent], found: Sequence[Znode | int]) -> None:
    """Answer each getData with a znode or an error."""
    for one, znode in zip(sent, found, strict=True):
        assert one.opcode == GET_DATA
        if isinstance(znode, int):
            session.receive(peer.reply(one.xid, error=znode))
        else:
            session.receive(peer.reply(one.xid, peer.znode_body(znode)))


@pytest.mark.parametrize("bulk", [True, False], ids=["multiRead", "old server"])
def test_read_returns_data_and_stat_of_each_znode(bulk: bool) -> None:
    session = driven(bulk=bulk)
    paths = ("/a", "/b", "/c", "/d")
    sent = session.submit(ReadZnodes(paths))
    found: list[Znode | int] = [
        Znode(b"x", 5, 21, 22, 33),
        NO_NODE,
        Znode(None, 1, 2, 3),
        Znode(b"", 1, 2, 3),
    ]
    if bulk:
        assert [peer.multi_read_paths(one.body) for one in sent] == [list(paths)]
        session.receive(peer.reply(sent[0].xid, peer.multi_read_body(found)))
    else:
        assert [peer.path_of(one.body) for one in sent] == list(paths)
        answer_singles(session, sent, found)
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


def test_next_page_waits_for_the_reply_to_the_first_one() -> None:
    session = driven()
    assert len(session.submit(ReadZnodes(("/x",) * 100))) == 1
    assert session.submit(ReadStats(("/y",))) == []


def test_read_of_exactly_the_first_page_needs_no_other() -> None:
    session = driven()
    assert answer_pages(session, session.submit(ReadZnodes(("/x",) * 64)), b"x") == [64]


def test_page_that_fails_has_its_error_for_each_znode() -> None:
    session_moved = -118
    session = driven()
    (first,) = session.submit(ReadZnodes(("/x",) * 70))
    answer_pages(session, session.receive(peer.reply(first.xid, error=session_moved)), b"x")
    events = znodes_read(session.events())
    assert [one.errors for one in events] == [[session_moved] * 64, [OK] * 6]
    assert events[0].data == [None] * 64


def test_replies_of_unknown_size_are_limited_in_flight() -> None:
    """64 znodes are expected to need 256 KiB."""
    session = driven(flight_bytes_max=2**20)
    assert len(session.submit(*[ReadZnodes(("/x",) * 64)] * 10)) == 4


def test_pages_in_flight_are_limited_by_the_expected_size_of_their_replies() -> None:
    session = driven(flight_bytes_max=2**20)
    (first,) = session.submit(ReadZnodes(("/x",) * 5000))
    body = peer.multi_read_body([Znode(bytes(1000))] * 64)
    sent = session.receive(peer.reply(first.xid, body))
    expected = 1000 * sum(len(peer.multi_read_paths(one.body)) for one in sent)
    assert 2**20 <= expected < 2**20 + PAGE_BYTES, "the last page exceeds the limit"


@pytest.mark.parametrize(("size", "count"), [(50_000, 5), (300_000, 1)])
def test_large_znodes_are_read_in_small_pages(size: int, count: int) -> None:
    session = driven()
    sizes = answer_pages(session, session.submit(ReadZnodes(("/x",) * 100)), bytes(size))
    assert max(sizes[1:]) == count
    for event in znodes_read(session.events()):
        assert sum(len(one or b"") for one in event.data) <= EVENT_DATA_BYTES_MAX


def test_event_ends_before_the_znode_that_exceeds_its_limit() -> None:
    larger, half = bytes(EVENT_DATA_BYTES_MAX + 1), bytes(EVENT_DATA_BYTES_MAX // 2)
    small: list[Znode | int] = [Znode(b""), NO_NODE, Znode(b"x")]
    found = [Znode(larger), Znode(half), Znode(half), *small]
    session = driven()
    (sent,) = session.submit(ReadZnodes(("/x",) * len(found)))
    session.receive(peer.reply(sent.xid, peer.multi_read_body(found)))
    events = znodes_read(session.events())
    assert [one.data for one in events] == [[larger], [half, half, b"", None], [b"x"]]


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


@pytest.mark.parametrize("kind", [ReadZnodes, ReadStats])
def test_znode_whose_watch_fails_is_not_read_as_watched(
    kind: type[ReadZnodes | ReadStats],
) -> None:
    session = driven()
    command = kind(("/a", "/b"), watch=True)
    bodies = {
        ADD_WATCH: b"",
        MULTI_READ: peer.multi_read_body([Znode(b"")] * 2),
        EXISTS: peer.stat_body(Znode(None)),
    }
    for one in session.submit(command):
        is_refused = one.opcode == ADD_WATCH and peer.path_of(one.body) == "/a"
        error = NO_AUTH if is_refused else OK
        session.receive(peer.reply(one.xid, bodies[one.opcode], error=error))
    (event,) = znodes_read(session.events())
    assert event.errors == [NO_AUTH, OK]
    again = [one for one in session.submit(command) if one.opcode == ADD_WATCH]
    assert [peer.path_of(one.body) for one in again] == ["/a"], "its watch is tried again"


def test_refused_watch_fails_each_read_that_relies_on_it() -> None:
    """The second and third read were sent before the reply about the watch of the first."""
    session = driven()
    stats = ReadStats(("/a",), watch=True)
    watch, first, second, third = session.submit(stats, stats, ReadChildren("/a", watch=True))
    stat = peer.stat_body(Znode(None))
    session.receive(peer.reply(watch.xid, error=NO_AUTH) + peer.reply(first.xid, stat))
    session.receive(peer.reply(second.xid, error=NO_NODE))
    session.receive(peer.reply(third.xid, peer.children_body([])))
    first_read, second_read, of_children = session.events()
    assert (first_read.errors, second_read.errors) == ([NO_AUTH], [NO_AUTH])
    assert of_children == ChildrenRead(CommandId(1, 3), NO_AUTH, [])


def test_watch_that_is_refused_once_may_be_set_later() -> None:
    session = driven()
    command = ReadStats(("/a",), watch=True)
    for error in (NO_AUTH, OK, OK):
        for one in session.submit(command):
            is_watch = one.opcode == ADD_WATCH
            body = b"" if is_watch else peer.stat_body(Znode(None))
            session.receive(peer.reply(one.xid, body, error=error if is_watch else OK))
        (event,) = znodes_read(session.events())
        assert event.errors == [error]


def test_refused_watch_does_not_hide_that_the_connection_was_lost() -> None:
    session = driven()
    command = ReadStats(("/a",), watch=True)
    watch, read = session.submit(command)
    session.receive(peer.reply(watch.xid, error=NO_AUTH) + peer.reply(read.xid, error=NO_NODE))
    session.submit(command, ReadChildren("/a", watch=True))
    session.events()
    session.lose()
    of_stats, of_children, _ = session.events()
    assert of_stats.errors == [CONNECTION_LOSS]
    assert of_children.error == CONNECTION_LOSS


def test_refused_watch_does_not_count_on_a_server_without_persistent_watches() -> None:
    session = driven()
    command = ReadStats(("/a",), watch=True)
    watch, read = session.submit(command)
    session.receive(peer.reply(watch.xid, error=NO_AUTH) + peer.reply(read.xid, error=NO_NODE))
    session.lose()
    session.ready(bulk=False)
    session.events()
    (read,) = session.submit(command)
    session.receive(peer.reply(read.xid, peer.stat_body(Znode(None))))
    (event,) = znodes_read(session.events())
    assert event.errors == [OK]


def test_children_whose_watch_fails_are_an_error() -> None:
    session = driven()
    command = ReadChildren("/a", watch=True)
    watch, read = session.submit(command)
    children = peer.children_body(["b"])
    session.receive(peer.reply(watch.xid, error=NO_AUTH) + peer.reply(read.xid, children))
    assert session.events() == [ChildrenRead(CommandId(1, 1), NO_AUTH, [])]
    (read,) = session.submit(ReadChildren("/a"))
    session.receive(peer.reply(read.xid, children))
    assert session.events() == [ChildrenRead(CommandId(1, 2), OK, ["b"])], "it needs no watch"
    again = session.submit(command)
    assert [one.opcode for one in again] == [ADD_WATCH, GET_CHILDREN], "the watch is tried again"


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


@pytest.mark.parametrize("watch", [True, False])
def test_read_of_an_old_server_sets_a_watch_if_requested(watch: bool) -> None:
    sent = driven(bulk=False).submit(ReadZnodes(("/a", "/b"), watch=watch))
    assert [one.opcode for one in sent] == [GET_DATA, GET_DATA]
    assert [one.body[-1] for one in sent] == [watch, watch]


def test_stats_are_reported_in_events_of_at_most_five_hundred() -> None:
    session = driven()
    for one in session.submit(ReadStats(("/a",) * 501)):
        session.receive(peer.reply(one.xid, peer.stat_body(Znode(None))))
    assert [len(one.errors) for one in znodes_read(session.events())] == [500, 1]


def test_znodes_of_an_old_server_are_reported_when_their_replies_have_the_size_of_a_page() -> None:
    session = driven(bulk=False)
    frame_bytes = 16 + len(peer.znode_body(Znode(b"")))
    page = Znode(bytes(PAGE_BYTES - frame_bytes))
    smaller = Znode(bytes(PAGE_BYTES - frame_bytes - 1))
    found: list[Znode | int] = [smaller, NO_NODE, smaller, NO_NODE, page, NO_NODE]
    reported = []
    for one, znode in zip(session.submit(ReadZnodes(("/a",) * 6)), found, strict=True):
        answer_singles(session, [one], [znode])
        events = [event for event in session.events() if isinstance(event, ZnodesRead)]
        reported.append([len(event.errors) for event in events])
    assert reported == [[], [2], [], [2], [1], [1]]


def test_received_single_replies_survive_a_lost_connection() -> None:
    session = driven(bulk=False)
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
