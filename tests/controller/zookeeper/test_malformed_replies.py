"""Replies that do not fit their requests end the connection, and its commands with it."""

import pytest

from controller.core.commands import ReadStats, ReadZnodes, WriteAtomically, ZooKeeperCommand
from controller.core.events import SessionDisconnected, ZnodesRead, ZnodesWritten
from controller.core.operations import CONNECTION_LOSS, OK, Check
from tests.controller.zookeeper import peer
from tests.controller.zookeeper.driven import SessionHarness
from tests.controller.zookeeper.peer import Znode

READ = ReadZnodes(("/a", "/b"))
STATS = ReadStats(("/a", "/b"))
WRITE = WriteAtomically((Check("/a", 0), Check("/b", 0)))

ONE_READ = peer.multi_read_body([Znode(b"x")])
ONE_CHECKED = peer.multi_body([Check("/a", 0)], [OK], [0])
BOTH_READ = peer.multi_read_body([Znode(b"x")] * 2)
BOTH_CHECKED = peer.multi_body(WRITE.operations, [OK] * 2, [0] * 2)


@pytest.mark.parametrize(
    ("command", "body"),
    [
        pytest.param(READ, BOTH_READ[:100], id="truncated multiRead"),
        pytest.param(READ, ONE_READ, id="multiRead with one result too few"),
        pytest.param(READ, ONE_READ + bytes(4), id="multiRead with bytes after its end"),
        pytest.param(READ, BOTH_CHECKED, id="multiRead with results of a multi"),
        pytest.param(STATS, peer.stat_body(Znode(None))[:-1], id="truncated exists"),
        pytest.param(WRITE, BOTH_CHECKED[:10], id="truncated multi"),
        pytest.param(WRITE, ONE_CHECKED + bytes(4), id="multi with bytes after its end"),
        pytest.param(WRITE, BOTH_READ, id="multi with results of a multiRead"),
    ],
)
def test_reply_that_does_not_fit_its_request_is_a_lost_connection(
    command: ZooKeeperCommand, body: bytes
) -> None:
    driven = SessionHarness()
    driven.ready()
    assert_lost(driven, command, body)


@pytest.mark.parametrize("size", [0, 3, 4, 72])
def test_truncated_reply_of_an_old_server_is_a_lost_connection(size: int) -> None:
    driven = SessionHarness()
    driven.ready(bulk=False)
    assert_lost(driven, READ, peer.znode_body(Znode(b"x"))[:size])


def assert_lost(driven: SessionHarness, command: ZooKeeperCommand, body: bytes) -> None:
    """The reply with this body ends the connection and the command, which has two items."""
    sent = driven.submit(command)
    driven.events()
    driven.receive(peer.reply(sent[0].xid, body))
    outcome, lost = driven.events()
    assert isinstance(outcome, ZnodesRead | ZnodesWritten)
    assert outcome.errors == [CONNECTION_LOSS] * 2
    assert isinstance(lost, SessionDisconnected)
    assert "zk1:2181 does not follow ZooKeeper's protocol" in lost.cause
