"""Watches are reported if requested, and set again after a reconnect."""

import pytest

from controller.core.commands import CommandId, ReadChildren, ReadStats, ReadZnodes, WatchSubtree
from controller.core.events import SessionDisconnected, WatchFired, ZnodesWritten
from controller.core.operations import CONNECTION_LOSS, NO_AUTH, NO_NODE, UNIMPLEMENTED
from tests.controller.zookeeper import peer
from tests.controller.zookeeper.driven import SESSION, SessionHarness
from tests.controller.zookeeper.peer import (
    ADD_WATCH,
    MULTI_READ,
    SET_WATCHES,
    SET_WATCHES_2,
    Znode,
)

READS = pytest.mark.parametrize(
    "command",
    [ReadZnodes(("/a",), watch=True), ReadChildren("/a", watch=True)],
    ids=["data", "children"],
)


def fired(session: SessionHarness) -> list[WatchFired]:
    """The watch events reported since the last call."""
    return [one for one in session.events() if isinstance(one, WatchFired)]


def watching(*, bulk: bool = True) -> SessionHarness:
    """Watches /data (exists), /gone (missing) and the children of /parent, at zxid 50."""
    session = SessionHarness()
    session.ready(bulk=bulk)
    reads = ReadZnodes(("/data",), watch=True), ReadStats(("/gone",), watch=True)
    bodies = {4: peer.znode_body(Znode(b"x")), 8: peer.children_body([])}
    bodies[22] = peer.multi_read_body([Znode(b"x")])
    for one in session.submit(*reads, ReadChildren("/parent", watch=True)):
        error = NO_NODE if one.opcode == 3 else 0
        session.receive(peer.reply(one.xid, bodies.get(one.opcode, b""), error=error, zxid=50))
    session.events()
    return session


def test_requested_watch_event_is_reported() -> None:
    session = watching()
    changes = [("/data", "data"), ("/gone", "created"), ("/parent", "children")]
    for path, change in [*changes, ("/parent", "deleted")]:
        session.receive(peer.watch_event(path, change, 60))
        assert fired(session) == [WatchFired(path, change, 60)]


def test_unrequested_watch_event_is_dropped() -> None:
    session = watching()
    session.receive(peer.watch_event("/data", "children"))
    session.receive(peer.watch_event("/parent", "data"))
    session.receive(peer.watch_event("/other", "data"))
    session.receive(peer.watch_event("/data", "data watch removed"))
    assert fired(session) == []


def test_event_without_a_change_is_dropped() -> None:
    session = watching()
    session.receive(peer.watch_event("/data", "none"))
    assert session.events() == []


@pytest.mark.parametrize("bulk", [True, False], ids=["persistent", "one-shot"])
def test_SU_42_children_read_without_the_watch_flag_are_not_watched(bulk: bool) -> None:
    session = SessionHarness()
    session.ready(bulk=bulk)
    session.events()
    (sent,) = session.submit(ReadChildren("/parent", watch=False))
    assert sent.body.endswith(b"\0"), "the flag that asks for a one-shot watch"
    session.receive(peer.reply(sent.xid, peer.children_body([])))
    session.receive(peer.watch_event("/parent", "children"))
    assert fired(session) == []
    session.lose()
    assert session.ready(bulk=bulk) == []


@pytest.mark.parametrize("bulk", [True, False], ids=["persistent", "one-shot"])
def test_children_are_read_with_one_watch(bulk: bool) -> None:
    session = SessionHarness()
    session.ready(bulk=bulk)
    *watches, read = session.submit(ReadChildren("/parent", watch=True))
    assert [one.opcode for one in watches] == [ADD_WATCH] * bulk
    assert read.body[-1] == (not bulk), "the flag that asks for a one-shot watch"


def test_children_of_a_missing_znode_are_watched() -> None:
    session = SessionHarness()
    session.ready()
    watch, read = session.submit(ReadChildren("/new", watch=True))
    session.receive(peer.reply(watch.xid) + peer.reply(read.xid, error=NO_NODE))
    session.events()
    for change in ("created", "children"):
        session.receive(peer.watch_event("/new", change))
    assert [one.change for one in fired(session)] == ["created", "children"]


@READS
def test_missing_znode_is_not_watched_on_an_old_server(command: ReadZnodes | ReadChildren) -> None:
    """There, only the watch of exists remains on a missing znode."""
    session = SessionHarness()
    session.ready(bulk=False)
    (sent,) = session.submit(command)
    session.receive(peer.reply(sent.xid, error=NO_NODE))
    session.lose()
    assert session.ready(bulk=False) == []


@READS
def test_creation_is_not_awaited_after_a_read_without_permission(
    command: ReadZnodes | ReadChildren,
) -> None:
    session = SessionHarness()
    session.ready()
    watch, read = session.submit(command)
    session.receive(peer.reply(watch.xid))
    if read.opcode == MULTI_READ:
        session.receive(peer.reply(read.xid, peer.multi_read_body([NO_AUTH])))
    else:
        session.receive(peer.reply(read.xid, error=NO_AUTH))
    session.lose()
    (sent,) = session.ready()
    assert peer.watch_lists(sent.body)[1] == [[], [], [], ["/a"], []]


def test_persistent_watch_remains_after_it_has_fired() -> None:
    session = watching()
    for change in ("data", "data", "deleted", "created", "data"):
        session.receive(peer.watch_event("/data", change))
    assert [one.change for one in fired(session)] == ["data", "data", "deleted", "created", "data"]


def test_reconnect_sets_the_watches_again_from_the_last_seen_zxid() -> None:
    session = watching()
    session.receive(peer.watch_event("/gone", "created"))
    session.lose()
    (sent,) = session.ready(zxid=90)
    assert sent.opcode == SET_WATCHES_2
    zxid, (data, exist, child, persistent, recursive) = peer.watch_lists(sent.body)
    assert zxid == 50, "changes up to the first reply of the new connection are still reported"
    assert (data, exist, child) == (["/data", "/gone"], [], ["/parent"])
    assert (persistent, recursive) == (["/data", "/gone", "/parent"], [])


def test_server_that_does_not_set_the_watches_again_is_left() -> None:
    session = watching()
    session.lose()
    (sent,) = session.ready()
    session.events()
    session.receive(peer.reply(sent.xid, error=NO_AUTH) + peer.watch_event("/data", "data"))
    text = f"zk1:2181 did not set the watches again ({NO_AUTH})"
    assert session.events() == [SessionDisconnected(SESSION, text)]


def test_missing_znode_is_watched_again_for_its_creation() -> None:
    session = watching()
    session.receive(peer.watch_event("/parent", "deleted"))
    session.lose()
    (sent,) = session.ready()
    _, (data, exist, child, _, _) = peer.watch_lists(sent.body)
    assert (data, exist, child) == (["/data"], ["/gone", "/parent"], [])


def test_one_shot_watch_is_removed_with_its_event_on_an_old_server() -> None:
    session = watching(bulk=False)
    session.receive(peer.watch_event("/data", "data"))
    assert len(fired(session)) == 1
    session.lose()
    (sent,) = session.ready(bulk=False)
    assert sent.opcode == SET_WATCHES
    assert peer.watch_lists(sent.body) == (50, [[], ["/gone"], ["/parent"]])


def watching_both_on_an_old_server() -> SessionHarness:
    """Watches the data and the children of /a by one-shot watches."""
    session = SessionHarness()
    session.ready(bulk=False)
    commands = ReadZnodes(("/a",), watch=True), ReadChildren("/a", watch=True)
    data, children = session.submit(*commands)
    session.receive(peer.reply(data.xid, peer.znode_body(Znode(b"x"))))
    session.receive(peer.reply(children.xid, peer.children_body([])))
    return session


@pytest.mark.parametrize(
    ("change", "remaining"),
    [("data", [[], [], ["/a"]]), ("children", [["/a"], [], []])],
)
def test_event_on_an_old_server_removes_only_the_watch_that_has_fired(
    change: str, remaining: list[list[str]]
) -> None:
    session = watching_both_on_an_old_server()
    session.receive(peer.watch_event("/a", change))
    session.lose()
    (sent,) = session.ready(bulk=False)
    assert peer.watch_lists(sent.body)[1] == remaining


def test_deletion_on_an_old_server_removes_all_watches_of_the_znode() -> None:
    session = watching_both_on_an_old_server()
    session.receive(peer.watch_event("/a", "deleted"))
    session.lose()
    assert session.ready(bulk=False) == []


def test_persistent_watches_are_one_shot_watches_on_an_old_server() -> None:
    session = watching()
    session.lose()
    (sent,) = session.ready(bulk=False)
    assert peer.watch_lists(sent.body) == (50, [["/data"], ["/gone"], ["/parent"]])
    session.receive(peer.watch_event("/data", "data"))
    session.lose()
    (sent,) = session.ready(bulk=False)
    assert peer.watch_lists(sent.body) == (50, [[], ["/gone"], ["/parent"]])
    again = session.submit(ReadZnodes(("/data",), watch=True))
    assert again[0].body.endswith(b"\1")


def test_one_shot_watch_is_persistent_on_a_new_server_from_the_next_read_on() -> None:
    session = watching(bulk=False)
    session.lose()
    (sent,) = session.ready("zk2:2181")
    assert peer.watch_lists(sent.body)[1] == [["/data"], ["/gone"], ["/parent"], [], []]
    add_watch, _ = session.submit(ReadZnodes(("/data",), watch=True))
    assert (add_watch.opcode, peer.path_of(add_watch.body)) == (peer.ADD_WATCH, "/data")


def test_many_watches_are_set_again_in_several_requests() -> None:
    session = SessionHarness()
    session.ready()
    paths = tuple(f"/{'x' * 100}{n}" for n in range(5000))
    sent = session.submit(ReadZnodes(paths, watch=True))
    while sent:
        is_page = sent[0].opcode == peer.MULTI_READ
        count = len(peer.multi_read_paths(sent[0].body)) if is_page else 0
        body = peer.multi_read_body([Znode(b"")] * count) if is_page else b""
        sent = sent[1:] + session.receive(peer.reply(sent[0].xid, body))
    session.lose()
    portions = session.ready()
    assert len(portions) > 1
    assert max(len(one.body) for one in portions) < 2**19
    again = [path for one in portions for path in peer.watch_lists(one.body)[1][3]]
    assert tuple(again) == paths


def test_new_session_has_no_watches() -> None:
    session = watching()
    session.lose()
    session.connect()
    session.receive(peer.handshake(0, 0))
    assert session.ready(session=SESSION + 1) == []


def watching_subtree() -> SessionHarness:
    """Watches all below /top, at zxid 50."""
    session = SessionHarness()
    session.ready()
    (sent,) = session.submit(WatchSubtree("/top"))
    assert (sent.opcode, sent.body[-4:]) == (106, b"\0\0\0\1"), "addWatch, recursive"
    session.receive(peer.reply(sent.xid, b"\0\0\0\0", zxid=50))
    assert session.events()[-1] == ZnodesWritten(CommandId(1, 1), 0, [0], [-1])
    return session


def test_every_change_below_a_watched_subtree_is_reported() -> None:
    session = watching_subtree()
    changes = [("/top/a/b", "created"), ("/top/a/b", "data"), ("/top/a/b", "deleted")]
    for path, change in changes:
        session.receive(peer.watch_event(path, change))
    session.receive(peer.watch_event("/topmost", "data"))
    assert [(one.path, one.change) for one in fired(session)] == changes


def test_watched_znode_in_a_watched_subtree_is_reported_for_either_watch() -> None:
    session = watching_subtree()
    reads = ReadZnodes(("/top/a",), watch=True), ReadChildren("/top/b", watch=True)
    add_a, read, add_b, children = session.submit(*reads)
    session.receive(peer.reply(add_a.xid))
    session.receive(peer.reply(read.xid, peer.multi_read_body([Znode(b"x")])))
    session.receive(peer.reply(add_b.xid))
    session.receive(peer.reply(children.xid, peer.children_body([])))
    session.receive(peer.watch_event("/top/a", "children"))
    assert fired(session) == [], "neither watch asks for children of /top/a"
    session.receive(peer.watch_event("/top/b", "data"))
    assert [(one.path, one.change) for one in fired(session)] == [("/top/b", "data")]


def test_rejected_watch_of_a_subtree_is_not_set_again() -> None:
    session = SessionHarness()
    session.ready()
    session.events()
    (sent,) = session.submit(WatchSubtree("/top"))
    session.receive(peer.reply(sent.xid, error=NO_AUTH))
    assert session.events() == [ZnodesWritten(CommandId(1, 1), 0, [NO_AUTH], [-1])]
    session.lose()
    assert session.ready() == []


def test_subtree_is_not_reported_after_its_watch_ended() -> None:
    session = watching_subtree()
    (sent,) = session.submit(WatchSubtree("/top", ends=True))
    assert sent.opcode == 18, "removeWatches"
    session.receive(peer.watch_event("/top/a", "data"))
    assert fired(session) == []
    session.receive(peer.reply(sent.xid))
    session.lose()
    assert session.ready() == []


def test_subtree_is_watched_again_after_a_reconnect() -> None:
    session = watching_subtree()
    session.lose()
    (sent,) = session.ready()
    assert peer.watch_lists(sent.body)[1] == [[], [], [], [], ["/top"]]
    session.receive(peer.reply(sent.xid))
    session.receive(peer.watch_event("/top/a", "data"))
    assert [(one.path, one.change) for one in fired(session)] == [("/top/a", "data")]


def test_old_server_is_not_asked_to_watch_a_subtree() -> None:
    """An old server would close the connection."""
    session = SessionHarness()
    session.ready(bulk=False)
    session.events()
    assert session.submit(WatchSubtree("/top")) == []
    assert session.events() == [ZnodesWritten(CommandId(1, 1), 0, [UNIMPLEMENTED], [-1])]


def test_watch_of_a_subtree_during_a_handshake_is_a_lost_connection() -> None:
    """Whether this server is an old one as well is not known yet."""
    session = SessionHarness()
    session.ready(bulk=False)
    session.lose()
    session.connect("zk2:2181")
    session.events()
    session.submit(WatchSubtree("/top"))
    assert session.events() == [ZnodesWritten(CommandId(1, 1), 0, [CONNECTION_LOSS], [-1])]


def test_subtree_is_forgotten_on_an_old_server() -> None:
    session = watching_subtree()
    session.lose()
    assert session.ready(bulk=False) == []
    session.lose()
    assert session.ready("zk2:2181") == []


def test_watch_of_a_subtree_without_a_connection_is_a_lost_connection() -> None:
    """Also if the last server could not have set it."""
    session = SessionHarness()
    session.ready(bulk=False)
    session.lose()
    session.events()
    session.submit(WatchSubtree("/top"))
    assert session.events() == [ZnodesWritten(CommandId(1, 1), 0, [CONNECTION_LOSS], [-1])]
