"""Transactions are derived from what a session sees that watches a cluster."""

import json
from collections.abc import Sequence

import pytest

from controller.zookeeper.observations import (
    Observation,
    WatchBegun,
    WatchComplete,
    WatchLost,
    WatchResumed,
    ZnodeGone,
    ZnodeSeen,
)
from replay.shadow.watched import WatchedTransactions
from replay.stock_clusters.zookeeper_log.merging import UnwatchedChanges
from replay.stock_clusters.zookeeper_log.transactions import (
    Check,
    CloseSession,
    Create,
    CreateSession,
    Delete,
    Error,
    Multi,
    SetData,
    Transaction,
)

CONTROLLER, BROKER, OTHER = 11, 12, 13
"""Sessions."""
STATE = "/brokers/topics/t/partitions/0/state"
TOPIC = "/brokers/topics/t"
EPOCH_VERSION = 4
GUARD = Check("/controller_epoch", EPOCH_VERSION + 1)


def state(leader: int, epoch: int = 3) -> bytes:
    content = {"controller_epoch": epoch, "leader": leader, "version": 1, "leader_epoch": 0}
    return json.dumps(content | {"isr": [leader]}).encode()


def topic(*partitions: list[int]) -> bytes:
    numbered = {str(number): one for number, one in enumerate(partitions)}
    return json.dumps({"version": 1, "partitions": numbered}).encode()


def seen(
    path: str, data: bytes, version: int, zxid: int, created: int = 1, owner: int = 0
) -> ZnodeSeen:
    return ZnodeSeen(1000 + zxid, path, data, version, created, zxid, owner)


def gone(path: str, zxid: int) -> ZnodeGone:
    return ZnodeGone(1000 + zxid, path, zxid)


FIRST: Sequence[Observation] = (
    WatchBegun(77, "zk:2181"),
    seen("/brokers", b"", 0, 1),
    seen("/brokers/ids", b"", 0, 2, 2),
    seen("/brokers/topics", b"", 0, 3, 3),
    seen("/brokers/ids/1", b"{}", 1, 9, 9, CONTROLLER),
    seen("/controller", b'{"version":2,"brokerid":1}', 0, 10, 10, CONTROLLER),
    seen("/controller_epoch", b"3", EPOCH_VERSION, 10, 4),
    seen(TOPIC, topic([1]), 0, 11, 11),
    seen(STATE, state(1), 0, 12, 12),
    WatchComplete(),
)


class Session:
    """The observations; `found` are the transactions with their sessions and operations."""

    def __init__(self, first: Sequence[Observation] = FIRST) -> None:
        self._new = list(first)
        self.watched = WatchedTransactions(self)
        self.watched.begin()
        self.state = self.watched.state()
        self._now = 0.0

    def pull(self) -> Sequence[Observation]:
        new, self._new = self._new, []
        return new

    def put_back(self, observations: Sequence[Observation]) -> None:
        self._new += observations

    def see(self, *observations: Observation) -> None:
        self._new += observations

    def found(self) -> list[Transaction | UnwatchedChanges]:
        found = [*self.watched.read(100, self._now)]
        self._now += 1
        return [*found, *self.watched.read(100, self._now)]

    def transactions(self) -> list[tuple[int, int, object]]:
        return [
            (one.zxid, one.session, one.content)
            for one in self.found()
            if isinstance(one, Transaction)
        ]


@pytest.fixture
def session() -> Session:
    return Session()


def test_first_state_has_all_znodes(session: Session) -> None:
    assert session.state.zxid == 12
    assert session.state.tree.get(STATE).data == state(1)
    assert session.state.sessions.keys() == {CONTROLLER}
    assert session.transactions() == []


def test_partition_state_is_written_by_the_controller_of_its_epoch(session: Session) -> None:
    session.see(seen(STATE, state(2), 1, 20, 12))
    [(zxid, owner, content)] = session.transactions()
    assert (zxid, owner) == (20, CONTROLLER)
    assert isinstance(content, Multi)
    assert content.operations == (GUARD, SetData(STATE, state(2), 1))


def test_changes_of_one_transaction_come_together_in_the_order_of_zxids(session: Session) -> None:
    session.see(
        seen(STATE, state(2), 1, 22, 12),
        gone("/admin/delete_topics/x", 21),
        seen("/brokers/topics/u/partitions/0", b"", 0, 21, 21),
        seen("/brokers/topics/u/partitions", b"", 0, 21, 21),
    )
    found = session.transactions()
    assert [zxid for zxid, _, _ in found] == [21, 22]
    content = found[0][2]
    assert isinstance(content, Multi)
    assert len(content.operations) == 3


def test_transaction_waits_for_its_other_znodes(session: Session) -> None:
    session.see(seen(STATE, state(2), 1, 20, 12))
    assert [*session.watched.read(100, 0.0)] == []
    assert not session.watched.is_at_end
    assert len([*session.watched.read(100, 0.6)]) == 1
    assert session.watched.is_at_end


def test_overwritten_versions_are_unseen(session: Session) -> None:
    session.see(seen(STATE, state(2), 4, 20, 12))
    assert len(session.transactions()) == 1
    assert (session.watched.unseen_versions, session.watched.unseen_zxids) == (3, {20})


def test_version_that_follows_is_no_unseen_one(session: Session) -> None:
    session.see(seen(STATE, state(2), 1, 20, 12))
    session.see(seen(STATE, state(1), 2, 21, 12))
    assert len(session.transactions()) == 2
    assert (session.watched.unseen_versions, session.watched.unseen_zxids) == (0, set())


def test_end_of_a_brokers_session_deletes_its_znodes(session: Session) -> None:
    session.see(gone("/controller", 20), gone("/brokers/ids/1", 20))
    assert session.transactions() == [
        (20, CONTROLLER, CloseSession(("/controller", "/brokers/ids/1")))
    ]


def test_deleted_controller_znode_alone_is_no_end_of_a_session(session: Session) -> None:
    session.see(gone("/controller", 20))
    assert session.transactions() == [(20, 0, Delete("/controller"))]


def test_registration_begins_a_session(session: Session) -> None:
    session.see(seen("/brokers/ids/2", b"{}", 1, 20, 20, BROKER))
    (_, _, begun), (_, _, first), (zxid, owner, registered) = session.transactions()
    assert isinstance(begun, CreateSession)
    assert isinstance(first, Error)
    assert (zxid, owner) == (20, BROKER)
    assert isinstance(registered, Multi)
    assert [type(one) for one in registered.operations] == [Create, SetData]


def test_next_controller_writes_with_its_epoch(session: Session) -> None:
    session.see(gone("/controller", 20), gone("/brokers/ids/1", 20))
    session.see(
        seen("/controller", b'{"version":2,"brokerid":2}', 0, 21, 21, OTHER),
        seen("/controller_epoch", b"4", EPOCH_VERSION + 1, 21, 4),
        seen(STATE, state(2, epoch=4), 1, 22, 12),
    )
    _, elected, written = session.transactions()
    assert elected[:2] == (21, OTHER)
    assert isinstance(elected[2], Multi)
    assert elected[2].types == (15, 5)
    assert written[1] == OTHER
    assert isinstance(written[2], Multi)
    assert written[2].operations[0] == Check("/controller_epoch", EPOCH_VERSION + 2)


def test_kraft_controller_without_a_session_writes_with_its_epoch(session: Session) -> None:
    """The KRaft controller replaces the znode of the broker by a persistent one."""
    kraft = b'{"version":2,"brokerid":3000,"kraftControllerEpoch":5}'
    session.see(
        seen("/controller", kraft, 0, 21, 21),
        seen("/controller_epoch", b"4", EPOCH_VERSION + 1, 21, 4),
        seen(STATE, state(2, epoch=4), 1, 22, 12),
    )
    *_, elected, written = session.transactions()
    assert elected[:2] == (21, 0)
    assert isinstance(elected[2], Multi)
    assert written[:2] == (22, 0)
    assert isinstance(written[2], Multi)
    assert written[2].operations[0] == Check("/controller_epoch", EPOCH_VERSION + 2)


def test_created_topic_and_added_partitions_are_input(session: Session) -> None:
    """A reassignment is the controller's."""
    session.see(seen("/brokers/topics/u", topic([1]), 0, 20, 20))
    session.see(seen(TOPIC, topic([1], [2]), 1, 21, 11))
    session.see(seen(TOPIC, topic([2], [2]), 2, 22, 11))
    created, added, reassigned = [content for _, _, content in session.transactions()]
    assert isinstance(created, Create)
    assert isinstance(added, SetData)
    assert isinstance(reassigned, Multi)
    assert reassigned.operations[0] == GUARD


@pytest.mark.parametrize(
    ("path", "is_controllers"),
    [
        ("/admin/delete_topics/t", True),
        ("/isr_change_notification/isr_change_0", True),
        ("/config/topics/t", True),
        ("/config/changes/config_change_0", False),
        ("/cluster/x", False),
    ],
)
def test_deletions_that_only_a_controller_makes(
    session: Session, path: str, is_controllers: bool
) -> None:
    session.see(seen(path, b"", 0, 20, 20))
    session.transactions()
    session.see(gone(path, 21))
    [(_, owner, content)] = session.transactions()
    assert isinstance(content, Multi) is is_controllers
    assert (owner == CONTROLLER) is (is_controllers or path.startswith("/config/"))


def test_znode_that_was_created_again_is_deleted_first(session: Session) -> None:
    session.see(seen(STATE, state(2), 0, 30, 30))
    contents = [content for _, _, content in session.transactions()]
    assert [type(one.operations[1]) for one in contents if isinstance(one, Multi)] == [
        Delete,
        Create,
    ]
    assert session.watched.unseen_zxids == {30}


def test_new_session_is_a_gap_and_its_observations_are_left(session: Session) -> None:
    session.see(*FIRST)
    [first, second] = session.found()
    assert isinstance(first, UnwatchedChanges)
    assert first == second
    after = f"{first.after:#x}"
    assert str(first) == (
        f"the changes after zxid {after} were not seen, because the session ended"
    )
    following = WatchedTransactions(session)
    following.begin()
    assert (following.is_complete, following.session) == (True, 77)


def test_cluster_is_known_up_to_the_loss_of_the_connection(session: Session) -> None:
    assert session.watched.known_ms is None
    session.see(WatchLost("connection reset", 5000), WatchLost("the session expired", 9000))
    session.found()
    assert session.watched.known_ms == 5000


def test_resumed_session_knows_the_cluster_when_the_changes_meanwhile_were_read(
    session: Session,
) -> None:
    session.see(WatchLost("connection reset", 5000), WatchResumed())
    [*session.watched.read(100, 1.0)]
    assert session.watched.known_ms == 5000
    session.see(seen(STATE, state(2), 1, 20, 12))
    assert len([*session.watched.read(100, 3.0), *session.watched.read(100, 4.0)]) == 1
    assert session.watched.known_ms is None


def test_connection_that_is_lost_again_is_known_up_to_the_first_loss(session: Session) -> None:
    session.see(WatchLost("connection reset", 5000), WatchResumed())
    [*session.watched.read(100, 1.0)]
    session.see(WatchLost("connection reset", 6000))
    [*session.watched.read(100, 1.5), *session.watched.read(100, 9.0)]
    assert session.watched.known_ms == 5000


def test_new_session_knows_the_cluster(session: Session) -> None:
    session.see(WatchLost("the session expired", 5000), *FIRST)
    session.found()
    assert session.watched.known_ms is None
