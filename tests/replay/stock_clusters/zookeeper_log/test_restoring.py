"""Transactions are applied as a server applies them, to an empty tree and a fuzzy snapshot."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.snapshot_file import SnapshotDigest, SnapshotReader
from replay.stock_clusters.zookeeper_log.transactions import (
    OPEN_ACL,
    Check,
    CloseSession,
    Create,
    CreateContainer,
    CreateSession,
    CreateTtl,
    Delete,
    Error,
    Multi,
    OpCode,
    SetAcl,
    SetData,
    Transaction,
)
from replay.znode_tree.owners import CONTAINER_OWNER, ttl_owner
from replay.znode_tree.paths import parent_of
from replay.znode_tree.tree import Tree, Znode
from tests.replay.stock_clusters.zookeeper_log.samples import at, create, error, multi, patient
from tests.replay.stock_clusters.zookeeper_log.test_snapshot_file import snapshot_bytes
from tools.zookeeper_log.generated_history import transactions as made_up

CREATE, SET_DATA, DELETE = OpCode.CREATE, OpCode.SET_DATA, OpCode.DELETE


def after(*transactions: Transaction) -> ZooKeeperState:
    state = ZooKeeperState()
    for one in transactions:
        state.apply(one)
    return state


def znodes(state: ZooKeeperState) -> dict[str, Znode]:
    return state.tree.dump()


def test_create_is_counted_in_the_parent() -> None:
    state = after(at(1, CREATE, create("/a", 1, b"x")), at(2, CREATE, create("/a/b", 1)))
    assert state.tree.get("/a") == Znode(b"x", 1, 1, 1001, 1001, 0, 1, 0, 2)
    assert state.tree.children("/a") == ("b",)
    assert state.zxid == 2


def test_create_without_a_count_adds_one() -> None:
    state = after(at(1, CREATE, create("/a", 5)), at(2, CREATE, create("/b", -1)))
    assert state.tree.get("/").creations == 6


def test_set_data_sets_the_version_of_the_transaction() -> None:
    state = after(at(1, CREATE, create("/a", 1)), at(4, SET_DATA, SetData("/a", b"x", 7)))
    assert state.tree.get("/a") == Znode(b"x", 1, 4, 1001, 1004, 7, 0, 0, 1)


def test_set_acl_sets_the_aversion_and_later_writes_keep_it() -> None:
    state = after(
        at(1, CREATE, create("/a", 1)),
        at(2, OpCode.SET_ACL, SetAcl("/a", OPEN_ACL, 3)),
        at(3, SET_DATA, SetData("/a", b"x", 1)),
        at(4, CREATE, create("/a/b", 1)),
    )
    assert state.tree.get("/a").aversion == 3
    assert state.tree.stat("/a").aversion == 3


def test_reconfig_writes_the_config_znode() -> None:
    state = after(at(1, OpCode.RECONFIG, SetData("/zookeeper/config", b"server.1=a", 1)))
    assert state.tree.get("/zookeeper/config").data == b"server.1=a"


def test_refused_multi_does_nothing() -> None:
    refused = multi(
        2,
        (CREATE, create("/a", 1)),
        (OpCode.ERROR, Error(-103)),
        (OpCode.ERROR, Error(-2)),
    )
    assert znodes(after(refused, error(3))) == znodes(ZooKeeperState())


def test_multi_applies_all_operations() -> None:
    state = after(
        multi(
            1,
            (CREATE, create("/a", 1)),
            (OpCode.CHECK, Check("/a", 1)),
            (SET_DATA, SetData("/a", b"x", 1)),
            (CREATE, create("/b", 2)),
            (DELETE, Delete("/b")),
        )
    )
    assert state.tree.get("/a").data == b"x"
    assert state.tree.children("/") == ("a", "zookeeper")


@pytest.mark.parametrize("paths", [("/e",), None])
def test_ephemerals_are_deleted_with_their_session_listed_or_not(
    paths: tuple[str, ...] | None,
) -> None:
    opened = at(1, OpCode.CREATE_SESSION, CreateSession(6000))
    created = at(2, CREATE, create("/e", 1, ephemeral=True))
    assert after(opened, created).sessions == {7: 6000}
    assert after(opened, created).tree.ephemerals(7) == ("/e",)
    state = after(opened, created, at(3, OpCode.CLOSE_SESSION, CloseSession(paths)))
    assert state.sessions == {}
    assert znodes(state).keys() == znodes(ZooKeeperState()).keys()
    assert state.tree.get("/").pzxid == 3


def test_containers_and_ttls_outlive_sessions_and_have_children() -> None:
    state = after(
        at(1, OpCode.CREATE_CONTAINER, CreateContainer("/c", None, OPEN_ACL, 1)),
        at(2, OpCode.CREATE_TTL, CreateTtl("/t", None, OPEN_ACL, 2, 5000)),
        at(3, OpCode.CREATE_2, create("/c/a", 1)),
    )
    assert state.tree.get("/c").owner == CONTAINER_OWNER == -0x8000000000000000
    assert state.tree.get("/t").owner == -0xFFFFFFFFFFEC78 == ttl_owner(5000)
    assert [state.tree.stat(path).ephemeral_owner for path in ("/c", "/t")] == [0, 0]
    assert state.tree.create("/t/a", b"", 0, False, 4, 0) == "/t/a"
    gone = at(5, OpCode.DELETE_CONTAINER, Delete("/c/a"))
    state.apply(gone)
    state.apply(at(6, OpCode.DELETE_CONTAINER, Delete("/c")))
    assert "/c" not in znodes(state)


# A snapshot with later changes


def test_create_of_an_existing_znode_only_advances_the_parent() -> None:
    state = after(at(5, CREATE, create("/a", 3, b"new")))
    state.apply(at(2, CREATE, create("/a", 1, b"old")))
    assert state.tree.get("/a").data == b"new"
    assert (state.tree.get("/").creations, state.tree.get("/").pzxid) == (3, 5)
    state.apply(at(6, CREATE, create("/a", 4)))
    assert (state.tree.get("/").creations, state.tree.get("/").pzxid) == (4, 6)
    assert state.tree.get("/a").data == b"new"


def test_delete_of_a_missing_znode_advances_the_parent() -> None:
    state = after(at(5, CREATE, create("/a", 1)))
    state.apply(at(7, DELETE, Delete("/b")))
    assert state.tree.get("/").pzxid == 7
    state.apply(at(6, DELETE, Delete("/b")))
    assert state.tree.get("/").pzxid == 7


def test_delete_removes_the_children_of_a_later_znode() -> None:
    state = after(at(5, CREATE, create("/a", 2)), at(6, CREATE, create("/a/b", 1)))
    state.apply(at(3, DELETE, Delete("/a")))
    assert state.tree.children("/") == ("zookeeper",)
    state.apply(at(5, CREATE, create("/a", 2)))
    state.apply(at(6, CREATE, create("/a/b", 1)))
    assert state.tree.children("/a") == ("b",)


@pytest.mark.parametrize(
    "missing",
    [
        at(1, CREATE, create("/a/b", 1)),
        at(1, SET_DATA, SetData("/a", b"", 1)),
        at(1, DELETE, Delete("/a/b")),
        at(1, OpCode.SET_ACL, SetAcl("/a", OPEN_ACL, 1)),
        at(1, OpCode.CLOSE_SESSION, CloseSession(("/a/b",))),
    ],
)
def test_write_to_a_missing_znode_is_ignored(missing: Transaction) -> None:
    assert znodes(after(missing)) == znodes(ZooKeeperState())


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(["create", "ephemeral", "set", "delete", "close"]),
        st.sampled_from(["/a", "/a/x", "/a/y", "/b", "/b/x"]),
    ),
    min_size=1,
    max_size=25,
)


def history(requests: list[tuple[str, str]]) -> list[Transaction]:
    """The log of a server that receives these requests: only those that succeed are in it."""
    tree, found = Tree(), []
    for zxid, (what, path) in enumerate(requests, 1):
        has_parent = path[:2] in tree.dump() or len(path) == 2
        is_there, is_free = path in tree.dump(), not tree.children(path)
        parent = path[:2] if len(path) > 2 else "/"
        if what in ("create", "ephemeral") and has_parent and not is_there:
            if tree.get(parent).owner:
                continue
            ephemeral = what == "ephemeral"
            tree.create(path, b"", 7 if ephemeral else 0, False, zxid, 1000 + zxid)
            count = tree.get(parent).creations
            found.append(at(zxid, CREATE, create(path, count, ephemeral=ephemeral)))
        elif what == "set" and is_there:
            tree.set_data(path, b"%d" % zxid, -1, zxid, 1000 + zxid)
            version = tree.get(path).version
            found.append(at(zxid, SET_DATA, SetData(path, b"%d" % zxid, version)))
        elif what == "delete" and is_there and is_free:
            tree.delete(path, -1, zxid)
            found.append(at(zxid, DELETE, Delete(path)))
        elif what == "close":
            paths = tree.ephemerals(7)
            for one in paths:
                tree.delete(one, -1, zxid)
            found.append(at(zxid, OpCode.CLOSE_SESSION, CloseSession(paths)))
    return found


def fuzzy(states: list[dict[str, Znode]], picks: list[int]) -> tuple[dict[str, Znode], int]:
    """A snapshot of a tree that changes while a server writes it, with the index of the last state.
    Each znode has the content at the time when it is read. A child is included only if its parent
    had it when the parent was read and the child still exists."""
    times = sorted(one % len(states) for one in picks)
    taken: dict[str, Znode] = {}

    def walk(path: str) -> None:
        now = states[times.pop(0) if len(times) > 1 else times[0]]
        if path not in now:
            return
        taken[path] = now[path]
        below = path.rstrip("/") + "/"
        for child in sorted(one for one in now if one.startswith(below) and one != path):
            if "/" not in child[len(below) :]:
                walk(child)

    walk("/")
    return taken, times[0]


@patient
@given(OPERATIONS, st.lists(st.integers(0, 1000), min_size=12, max_size=12), st.data())
def test_fuzzy_snapshot_with_later_transactions_becomes_exact(
    requests: list[tuple[str, str]], picks: list[int], data: st.DataObject
) -> None:
    transactions = history(requests)
    states = [{**znodes(ZooKeeperState())}]
    state = ZooKeeperState()
    for one in transactions:
        state.apply(one)
        states.append(znodes(state))
    begin = data.draw(st.integers(0, len(transactions)))
    zxid = transactions[begin - 1].zxid if begin else 0
    taken, last = fuzzy(states[begin:], picks)
    last_zxid = transactions[begin + last - 1].zxid if begin + last else 0
    nodes = [(path, -1, one) for path, one in taken.items()]
    digest = SnapshotDigest(last_zxid, 2, 5)
    tail = data.draw(st.sampled_from([{}, {"last_zxid": last_zxid}, {"digest": digest}]))
    content = snapshot_bytes("", {}, {}, nodes, **tail)
    restored = ZooKeeperState.load(io.BytesIO(content), "snapshot.1", zxid)
    for one in transactions[begin:]:
        restored.apply(one)
        # Servers before 3.6 write no zxid, so later deletions cannot be recognised.
        if tail and one.zxid >= restored.exact_from:
            place = transactions.index(one) + 1
            assert znodes(restored) == states[place]
    assert znodes(restored) == states[-1]


@pytest.mark.parametrize("tail", [{"last_zxid": 4}, {"digest": SnapshotDigest(4, 2, 5)}])
def test_state_without_a_later_deleted_znode_is_not_exact_before_the_deletion(
    tail: dict[str, Any],
) -> None:
    """/a was deleted after the root was written and before /a: no znode has the deletion's zxid."""
    before = after(at(1, CREATE, create("/a", 1)), at(2, CREATE, create("/b", 2)))
    nodes = [(path, -1, before.tree.get(path)) for path in ("/", "/b")]
    content = snapshot_bytes("", {}, {}, nodes, **tail)
    assert ZooKeeperState.load(io.BytesIO(content), "snapshot.2", 2).exact_from == 4
    without_zxid = snapshot_bytes("", {}, {}, nodes)
    assert ZooKeeperState.load(io.BytesIO(without_zxid), "snapshot.2", 2).exact_from == 2


def test_snapshot_has_sessions_and_its_zxid() -> None:
    nodes = [("/", -1, Znode(b"", 0, 0, 0, 0, 0, 1, 0, 9)), ("/e", -1, Znode(*NODE_OF_SESSION_7))]
    content = snapshot_bytes("", {7: 6000}, {}, nodes)
    state = ZooKeeperState.load(io.BytesIO(content), "snapshot.8", 8)
    assert (state.sessions, state.zxid, state.exact_from) == ({7: 6000}, 8, 9)
    assert state.tree.ephemerals(7) == ("/e",)
    assert SnapshotReader(io.BytesIO(content), "snapshot.8").sessions == {7: 6000}


NODE_OF_SESSION_7 = (b"", 5, 5, 0, 0, 0, 0, 7, 5)


def has(state: ZooKeeperState, path: str) -> bool:
    """Whether a znode exists: a multi may create a znode and write to it."""
    return parent_of(path) == "/" or path.rpartition("/")[2] in state.tree.children(parent_of(path))


def test_generated_incident_is_as_a_server_would_log_it() -> None:
    state = ZooKeeperState()
    for zxid, one in enumerate(made_up(12_000, partitions=10), 1):
        assert one.zxid == zxid
        content = one.content
        for operation in content.operations if isinstance(content, Multi) else (content,):
            match operation:
                case Check(path, version) | SetData(path, _, version) if has(state, path):
                    assert version == state.tree.get(path).version + 1
                case Create(path, _, _, _, parent_cversion):
                    assert parent_cversion == state.tree.get(parent_of(path)).creations + 1
        state.apply(one)
    assert state.tree.children("/brokers/ids") == ("1", "2", "3")
    assert len(state.sessions) == 3
