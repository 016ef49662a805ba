"""The limits of requests in flight, and the end of a connection with requests in flight."""

import pytest

from controller.core.commands import ReadZnodes, SyncZnodes, WriteAtomically
from controller.core.events import SessionConnected
from controller.core.operations import Create
from tests.controller.zookeeper import peer
from tests.controller.zookeeper.driven import SessionHarness

LARGE = WriteAtomically((Create("/a", bytes(600)),))


def driven(*, bulk: bool = True, **settings: object) -> SessionHarness:
    """A ready session."""
    session = SessionHarness(**settings)
    session.ready(bulk=bulk)
    return session


def test_requests_in_flight_are_limited() -> None:
    session = driven(flight_requests_max=10)
    sent = session.submit(*[SyncZnodes("/")] * 25)
    assert len(sent) == 10
    sent = session.receive(b"".join(peer.reply(one.xid) for one in sent[:4]))
    assert len(sent) == 4


@pytest.mark.parametrize(("more", "count"), [(0, 2), (1, 3)])
def test_requests_are_sent_until_the_bytes_in_flight_reach_the_limit(more: int, count: int) -> None:
    (alone,) = driven().submit(LARGE)
    opcode_bytes = 4
    session = driven(flight_bytes_max=2 * (opcode_bytes + len(alone.body)) + more)
    assert len(session.submit(*[LARGE] * 5)) == count
    session.lose()
    session.ready()
    assert len(session.submit(*[LARGE] * 5)) == count, "those of the lost connection do not count"


@pytest.mark.parametrize("bulk", [True, False], ids=["pages", "znode by znode"])
def test_partly_sent_read_is_not_continued_on_the_next_connection(bulk: bool) -> None:
    session = driven(bulk=bulk, flight_requests_max=1)
    (first,) = session.submit(ReadZnodes(("/a",) * 5000))
    body = (
        peer.multi_read_body([peer.Znode(b"x")] * 64) if bulk else peer.znode_body(peer.Znode(b""))
    )
    assert len(session.receive(peer.reply(first.xid, body))) == 1
    session.lose()
    session.events()
    assert session.ready(bulk=bulk) == []
    (connected,) = session.events()
    assert isinstance(connected, SessionConnected)
