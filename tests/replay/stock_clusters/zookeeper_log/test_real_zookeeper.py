"""Files of real servers are read as the servers and ZooKeeper's tools read them."""

import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.core.operations import Check, Create, Delete, SetData
from replay.stock_clusters.zookeeper_log.restoring import ZooKeeperState
from replay.stock_clusters.zookeeper_log.source import Source, open_source
from replay.stock_clusters.zookeeper_log.transactions import OpCode
from replay.world.requests import Exists, GetChildren, Multi
from replay.znode_tree.tree import Stat, Tree
from tests.replay.stock_clusters.zookeeper_log.samples import RECORDING, tree_digest
from tests.replay.world.real_zookeeper import WORLD_ANYONE_ALL, RealSession
from tools.lab import Lab, ZooKeeperServer
from tools.setup.jars import fetch, pyspark_jars
from tools.setup.java import find_java

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

CONTAINER, TTL = 4, 5
READ_BY_ALL = struct.pack(">iii5si6s", 1, 1, 5, b"world", 6, b"anyone")
_TOOL_LINE = re.compile(r"session 0x(\w+) cxid 0x(\w+) zxid 0x(\w+) ([\w-]+)")
_TOOL_NAMES = {
    "createSession": OpCode.CREATE_SESSION,
    "closeSession": OpCode.CLOSE_SESSION,
    "create": OpCode.CREATE,
    "create2": OpCode.CREATE_2,
    "createTTL": OpCode.CREATE_TTL,
    "createContainer": OpCode.CREATE_CONTAINER,
    "delete": OpCode.DELETE,
    "deleteContainer": OpCode.DELETE_CONTAINER,
    "setData": OpCode.SET_DATA,
    "setACL": OpCode.SET_ACL,
    "multi": OpCode.MULTI,
    "error": OpCode.ERROR,
}


JAR_SETS = {"3.8.4": "kafka-3.9.1", "3.6.3": "kafka-3.3.2", "3.5.9": "zookeeper-3.5.9"}
"""The jars with a version of ZooKeeper; the latest version is pyspark's."""


def jars_of(version: str) -> Path:
    return fetch(JAR_SETS[version]) if version in JAR_SETS else pyspark_jars()


def java(version: str, *arguments: str) -> str:
    """The output of one of ZooKeeper's tools."""
    command = [str(find_java()), "-cp", f"{jars_of(version)}/*", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def transactions_by_tool(version: str, log: Path) -> Iterator[tuple[int, int, int, str]]:
    """Zxid, session, cxid and type of each transaction."""
    if version != "3.5.9":
        tool = ("org.apache.zookeeper.server.persistence.TxnLogToolkit", "-d")
    else:
        tool = ("org.apache.zookeeper.server.LogFormatter",)
    printed = java(version, *tool, str(log))
    for session, cxid, zxid, kind in _TOOL_LINE.findall(printed):
        yield int(zxid, 16), int(session, 16), int(cxid, 16), kind


def znodes_by_tool(version: str, snapshot: Path) -> dict[str, tuple[int, ...]]:
    printed = java(version, "org.apache.zookeeper.server.SnapshotFormatter", str(snapshot))
    found = {}
    for block in printed.split("----\n"):
        path, *fields = block.splitlines() or [""]
        values = dict(field.strip().split(" = ") for field in fields if " = " in field)
        if path.startswith("/") and "cZxid" in values:
            found[path] = tuple(
                int(values[name], 0)
                for name in (
                    "cZxid",
                    "mZxid",
                    "pZxid",
                    "cversion",
                    "dataVersion",
                    "aclVersion",
                    "ephemeralOwner",
                    "dataLength",
                )
            )
    return found


def znodes_of(tree: Tree) -> dict[str, tuple[int, ...]]:
    return {
        path: (
            one.czxid,
            one.mzxid,
            one.pzxid,
            one.creations,
            one.version,
            one.aversion,
            one.owner % 2**64,
            len(one.data),
        )
        for path, one in tree.dump().items()
    }


def assert_tools_agree(version: str, source: Source) -> None:
    for log in source.server.logs:
        by_tool = list(transactions_by_tool(version, log.path))
        ours = [one for one in source.transactions(log.zxid - 1)][: len(by_tool)]
        assert [(one.zxid, one.session, one.cxid % 2**32) for one in ours] == [
            (zxid, session, cxid) for zxid, session, cxid, _ in by_tool
        ]
        for one, (zxid, _, _, kind) in zip(ours, by_tool, strict=True):
            assert _TOOL_NAMES.get(kind, one.type) == one.type, hex(zxid)
    for snapshot in source.server.snapshots:
        assert znodes_by_tool(version, snapshot.path) == znodes_of(source.load(snapshot).tree)


def test_zookeepers_tool_reads_the_same_transactions() -> None:
    with open_source(RECORDING) as source:
        by_tool = [
            (zxid, _TOOL_NAMES[kind])
            for log in source.server.logs
            for zxid, _, _, kind in transactions_by_tool("3.9.5", log.path)
        ]
        assert [(one.zxid, one.type) for one in source.transactions()] == by_tool


def _text(path: str) -> bytes:
    return struct.pack(">i", len(path)) + path.encode()


def do_everything(session: RealSession, server: ZooKeeperServer) -> None:
    """Executes every kind of write, accepted and refused."""
    passing = RealSession(server.port)
    session.apply(Create("/a", b"1"))
    for number in range(40):
        session.apply(Create(f"/a/{number}", b"x" * number))
        session.apply(SetData(f"/a/{number}", b"y" * number, 0))
    for number in range(0, 40, 3):
        session.apply(Delete(f"/a/{number}", 1))
    session.apply(Create("/a", b""))
    session.apply(Delete("/none", -1))
    session.apply(Multi((Check("/a", 0), Create("/b", b""), SetData("/b", b"2", 0))))
    session.apply(Multi((Create("/c", b""), Check("/a", 9), Delete("/b", -1))))
    passing.apply(Create("/a/ephemeral", b"", ephemeral=True))
    passing.apply(Create("/b/ephemeral", b"", ephemeral=True))
    session.apply(Create("/a/mine", b"", ephemeral=True))
    flags = struct.pack(">i", CONTAINER)
    acl = struct.pack(">i", 0) + WORLD_ANYONE_ALL
    session.exchange(OpCode.CREATE_CONTAINER, _text("/container") + acl + flags)
    session.apply(Create("/container/a", b""))
    ttl = struct.pack(">iq", TTL, 3_600_000)
    session.exchange(OpCode.CREATE_TTL, _text("/ttl") + acl + ttl)
    session.exchange(OpCode.SET_ACL, _text("/b") + READ_BY_ALL + struct.pack(">i", -1))
    passing.close()
    session.apply(SetData("/a", b"last", -1))


def stats(session: RealSession, path: str = "/") -> Iterator[tuple[str, Stat]]:
    """The Stat of every znode that a client can see."""
    stat = session.apply(Exists(path)).result.stat
    assert stat is not None
    yield path, stat
    for name in session.apply(GetChildren(path)).result.children or ():
        yield from stats(session, f"{path.rstrip('/')}/{name}")


@pytest.mark.parametrize(
    ("version", "compression"),
    [
        ("3.9.5", ""),
        ("3.9.5", "gz"),
        ("3.9.5", "snappy"),
        ("3.8.4", ""),
        ("3.8.4", "gz"),
        ("3.8.4", "snappy"),
        ("3.6.3", "snappy"),
        ("3.5.9", ""),
    ],
)
async def test_folder_of_a_real_server_is_read_as_its_tools_read_it(
    lab: Lab, version: str, compression: str
) -> None:
    config = {"extendedTypesEnabled": "true", "snapCount": "60", "preAllocSize": "64"}
    if compression:
        config["snapshot.compression.method"] = compression
    server = ZooKeeperServer(lab.folder / "zookeeper", jars_of(version), config=config)
    lab.zookeepers.append(server)
    await server.start()
    session = RealSession(server.port)
    try:
        do_everything(session, server)
        seen = dict(stats(session))
    finally:
        session.abandon()
        server.kill()
    with open_source(server.folder) as source:
        assert len(source.server.logs) > 1
        names = [one.name for one in source.server.snapshots]
        assert len(names) > 1
        assert any(name.endswith(f".{compression}") for name in names) is bool(compression)
        assert_tools_agree(version, source)
        for snapshot in source.server.snapshots:
            state = follow(source, source.load(snapshot))
            assert {path: state.tree.stat(path) for path in seen} == seen
            assert state.sessions.keys() == {session.id}
            kinds = {OpCode(one.type) for one in source.transactions()}
            assert kinds >= {OpCode.CREATE_CONTAINER, OpCode.CREATE_TTL, OpCode.SET_ACL}


def follow(source: Source, state: ZooKeeperState) -> ZooKeeperState:
    """Applies the transactions after a snapshot, and compares the digests of the server."""
    for transaction in source.transactions(state.zxid):
        state.apply(transaction)
        if transaction.digest is not None and transaction.zxid >= state.exact_from:
            assert transaction.digest.value == tree_digest(state.tree), hex(transaction.zxid)
    return state
