"""A controller's reads from an imported ZooKeeper, and the watches that fire."""

import pytest
from msgspec import structs

from controller.core.commands import (
    CommandId,
    Issued,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    Reason,
    SyncZnodes,
)
from controller.core.events import ChildrenRead, ZnodesRead, ZnodesWritten
from controller.core.operations import NO_NODE, OK
from controller.core.znodes import CONTROLLER, REASSIGN_PARTITIONS
from replay.stock_clusters.zookeeper_log.transactions import (
    Check,
    CloseSession,
    Delete,
    Error,
    SetData,
)
from replay.znode_view import ControllerWatches, Read
from tests.replay.agreement.view import (
    OTHER,
    STATE,
    TOPIC,
    Tree,
    create,
    transaction,
)

ID = CommandId(3, 0)
PARTITIONS = f"{TOPIC}/partitions"


@pytest.fixture(params=["", "/prod/k1"])
def tree(request: pytest.FixtureRequest) -> Tree:
    made = Tree(request.param)
    made.put(STATE, b"1")
    made.put(STATE, b"2")
    made.put(f"{PARTITIONS}/1")
    return made


def answered(
    tree: Tree, command: Read, overlay: object = None, listed: object = None
) -> ZnodesRead | ChildrenRead | ZnodesWritten:
    issued = Issued(ID, 1, command, Reason("test"))
    return tree.view.answer(issued, command, overlay or {}, listed)  # type: ignore[arg-type]


def test_last_content_of_znodes_is_read(tree: Tree) -> None:
    found = answered(tree, ReadZnodes((STATE, OTHER)))
    assert isinstance(found, ZnodesRead)
    assert (found.command, found.errors) == (ID, [OK, NO_NODE])
    assert (found.data, found.versions) == ([b"2", None], [1, -1])
    znode = tree.view.find(STATE)
    assert znode is not None
    assert found.czxids == [znode.czxid, -1]
    assert found.mzxids == [znode.mzxid, -1]
    stats = answered(tree, ReadStats((STATE,)))
    assert isinstance(stats, ZnodesRead)
    assert (stats.data, stats.versions) == ([None], [1])


def test_children_are_sorted(tree: Tree) -> None:
    found = answered(tree, ReadChildren(PARTITIONS))
    assert found == ChildrenRead(ID, OK, ["0", "1"])
    assert answered(tree, ReadChildren("/gone")) == ChildrenRead(ID, NO_NODE, [])


def test_children_in_a_log_replace_those_in_the_tree(tree: Tree) -> None:
    listed = ("7", "2")
    assert answered(tree, ReadChildren(PARTITIONS), listed=listed) == ChildrenRead(
        ID, OK, ["2", "7"]
    )


def test_overlay_has_znodes_as_they_were_when_they_were_read(tree: Tree) -> None:
    there = tree.view.find(STATE)
    found = answered(tree, ReadZnodes((STATE, OTHER)), {STATE: None, OTHER: there})
    assert isinstance(found, ZnodesRead)
    assert found.errors == [NO_NODE, OK]


def test_sync_succeeds(tree: Tree) -> None:
    assert answered(tree, SyncZnodes("/")) == ZnodesWritten(ID, 0, [OK], [-1])


def test_path_outside_of_the_chroot_is_ignored() -> None:
    view = Tree("/prod").view
    assert view.in_kafka("/prod/controller") == "/controller"
    assert view.in_kafka("/production/controller") is None
    assert view.in_kafka("/controller") is None
    assert Tree().view.in_kafka("/controller") == "/controller"


@pytest.mark.parametrize(
    ("written", "changes"),
    [
        ([create("/k/a")], [("/a", "created"), ("/", "children")]),
        ([SetData("/k/a/b", b"", 1)], [("/a/b", "data")]),
        ([Delete("/k/a/b")], [("/a/b", "deleted"), ("/a", "children")]),
        (
            [Check("/k/c", 1), create("/k/a/b"), SetData("/k/a/b", b"", 1)],
            [("/a/b", "created"), ("/a", "children"), ("/a/b", "data")],
        ),
        ([Check("/k/c", 1), Error(-101)], []),
        ([create("/k/a"), Error(-103)], []),
        ([Error(-101)], []),
        ([create("/other")], []),
    ],
)
def test_changes_of_a_transaction_are_those_below_the_chroot(
    written: list[object], changes: list[tuple[str, str]]
) -> None:
    view = Tree("/k").view
    assert view.changes(transaction(9, *written)) == changes  # type: ignore[arg-type]


def test_closed_session_deletes_its_ephemeral_znodes() -> None:
    tree = Tree()
    tree.put("/brokers/ids")
    broker = structs.replace(create("/brokers/ids/1"), is_ephemeral=True)
    tree.state.apply(transaction(tree.state.zxid + 1, broker, session=5))
    end = transaction(tree.state.zxid + 1, CloseSession(None), session=5)
    assert tree.view.changes(end) == [("/brokers/ids/1", "deleted"), ("/brokers/ids", "children")]


# Watches --------------------------------------------------------------------------------------


def armed(tree: Tree, *commands: Read) -> ControllerWatches:
    made = ControllerWatches()
    for one in commands:
        made.set_for_read(one, tree.view)
    return made


def test_watch_fires_once() -> None:
    tree = Tree()
    tree.put(STATE)
    watches = armed(tree, ReadZnodes((STATE,), watch=True))
    changes = [(STATE, "data"), (STATE, "data")]
    assert watches.fire(changes) == changes[:1]
    assert watches.fire(changes) == []
    watches.set_for_read(ReadZnodes((STATE,), watch=True), tree.view)
    assert watches.fire([(STATE, "deleted")]) == [(STATE, "deleted")]


def test_read_without_a_watch_fires_nothing() -> None:
    tree = Tree()
    tree.put(STATE)
    reads = (ReadZnodes((STATE,)), ReadStats((STATE,)), ReadChildren(TOPIC))
    assert armed(tree, *reads).fire([(STATE, "data"), (TOPIC, "children")]) == []


def test_missing_znode_is_watched_only_by_its_stat() -> None:
    watches = armed(Tree(), ReadZnodes((STATE,), watch=True), ReadStats((OTHER,), watch=True))
    assert watches.fire([(STATE, "created"), (OTHER, "created")]) == [(OTHER, "created")]


def test_watch_of_children_fires_for_children_and_deletion_of_the_parent() -> None:
    tree = Tree()
    tree.put(STATE)
    listing = ReadChildren(TOPIC, watch=True)
    assert armed(tree, listing).fire([(TOPIC, "data"), (TOPIC, "children")]) == [
        (TOPIC, "children")
    ]
    watches = armed(tree, listing)
    assert watches.fire([(TOPIC, "deleted")]) == [(TOPIC, "deleted")]
    assert watches.fire([(TOPIC, "children")]) == []


def test_deleted_reassignment_request_is_available() -> None:
    tree = Tree("")
    tree.put(REASSIGN_PARTITIONS, b"1")
    before = tree.view.find(REASSIGN_PARTITIONS)
    tree.view.changes(transaction(7, Delete(REASSIGN_PARTITIONS)))
    assert tree.view.deleted_since(6) == {REASSIGN_PARTITIONS: before}
    assert tree.view.deleted_since(7) == {}


def test_controller_znode_deleted_by_hand_is_available() -> None:
    tree = Tree("")
    tree.state.apply(
        transaction(1, structs.replace(create(CONTROLLER), is_ephemeral=True), session=5)
    )
    before = tree.view.find(CONTROLLER)
    assert tree.view.role_of(5) == {}
    tree.view.changes(transaction(7, Delete(CONTROLLER)))
    assert tree.view.role_of(5) == {CONTROLLER: before}
    assert tree.view.role_of(6) == {}
