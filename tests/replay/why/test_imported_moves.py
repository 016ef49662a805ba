"""Moves and cancellations found in the transactions of an imported log."""

from types import SimpleNamespace

import pytest

from controller.core import znodes
from controller.core.znodes import (
    CANCEL_CONTENT,
    REASSIGN_CANCEL,
    REASSIGN_PARTITIONS_EXTRA,
    Entry,
    Reassignment,
    reassignment_path,
    write_entries,
    write_reassignment,
    write_request,
)
from replay.stock_clusters.zookeeper_log.transactions import Delete, SetData
from replay.why.move import Move
from replay.why.move_history import moves_of
from replay.why.subject import Subject
from replay.why.znode_history import ZnodeHistory
from tests.replay.agreement.view import (
    TOPIC,
    Tree,
    Written,
    create,
    topic_json,
    transaction,
)

T0 = ("t", 0)
REQUEST = "/admin/reassignment_requests/request_0000000007"
MOVING = topic_json([4, 2, 1, 3], adding_replicas={"0": [4]}, removing_replicas={"0": [1, 3]})


class History:
    """The transactions of a cluster with t-0 on brokers 2, 1 and 3."""

    def __init__(self) -> None:
        self.tree = Tree()
        for path in ("/admin/reassignments/t", "/admin/reassignment_requests"):
            self.tree.put(path)
        self.tree.put(TOPIC, topic_json([2, 1, 3]))
        begun = SimpleNamespace(chroot="")
        world = SimpleNamespace(state=self.tree.state, begun=begun)
        self.history = ZnodeHistory(world, Subject("t", 0))  # type: ignore[arg-type]
        self.seq = 100

    def happen(self, *written: Written) -> int:
        """Adds a transaction; returns its zxid."""
        self.seq += 1
        event = transaction(self.tree.state.zxid + 1, *written)
        record = SimpleNamespace(seq=self.seq, wall_ns=self.seq * 1_000_000_000)
        self.history.apply(record, event)  # type: ignore[arg-type]
        return event.zxid

    def set(self, path: str, data: bytes) -> None:
        """Writes an existing znode."""
        znode = self.tree.view.find(path)
        assert znode is not None, f"{path} is not there"
        self.happen(SetData(path, data, znode.version + 1))

    def move(self) -> Move:
        """The only move in the history."""
        [move] = moves_of(self.history.facts, "t-0")
        return move


@pytest.fixture
def history() -> History:
    return History()


def record(*, legacy: bool) -> bytes:
    return write_reassignment(Reassignment((4, 2), 3, legacy, (2, 1, 3)))


def test_cancelled_move_has_its_cancellation(history: History) -> None:
    entry = write_entries({T0: Entry((4, 2))})
    history.happen(create(znodes.REASSIGN_PARTITIONS, entry))
    history.happen(create(reassignment_path(*T0), record(legacy=True)))
    history.set(TOPIC, MOVING)
    czxid = history.happen(create(REASSIGN_CANCEL, CANCEL_CONTENT))
    history.set(TOPIC, topic_json([2, 1, 3]))
    history.happen(Delete(reassignment_path(*T0)))
    move = history.move()
    assert (move.origin, move.target, move.outcome) == ((2, 1, 3), (4, 2), "rolled back")
    assert move.route == znodes.REASSIGN_PARTITIONS
    assert move.cancelled is not None
    assert (move.cancelled.by, move.cancelled.czxid) == (REASSIGN_CANCEL, czxid)
    assert move.cancelled.at.seq == 104


def test_conflicting_extra_entry_is_the_cause_of_a_rollback(history: History) -> None:
    history.happen(create(reassignment_path(*T0), record(legacy=True)))
    history.set(TOPIC, MOVING)
    extra = write_entries({T0: Entry((3, 2))})
    history.happen(create(REASSIGN_PARTITIONS_EXTRA, extra))
    history.set(TOPIC, topic_json([2, 1, 3]))
    move = history.move()
    assert move.cancelled is not None
    assert move.cancelled.text == "/admin/reassign_partitions_extra asks for 3,2 (event 103)"


def test_move_has_its_request(history: History) -> None:
    history.happen(create(REQUEST, write_request({T0: (4, 2)})))
    history.happen(create(reassignment_path(*T0), record(legacy=False)))
    history.set(TOPIC, MOVING)
    history.happen(create(REASSIGN_CANCEL, CANCEL_CONTENT))
    move = history.move()
    assert (move.request, move.outcome) == (REQUEST, "under way")


def test_earlier_removed_cancellation_is_not_the_cause(history: History) -> None:
    history.happen(create(REASSIGN_CANCEL, CANCEL_CONTENT))
    history.happen(Delete(REASSIGN_CANCEL))
    history.set(TOPIC, MOVING)
    history.set(TOPIC, topic_json([2, 1, 3]))
    move = history.move()
    assert (move.outcome, move.cancelled) == ("rolled back", None)
