"""A recorded incident of a stock cluster matches ZooKeeper's digests and its final tree."""

import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from replay.stock_clusters.zookeeper_log.source import Source, open_source
from replay.stock_clusters.zookeeper_log.transactions import (
    CloseSession,
    Create,
    CreateSession,
    Multi,
    OpCode,
)
from tests.replay.stock_clusters.zookeeper_log.samples import RECORDING, tree_digest


@pytest.fixture(scope="module")
def source() -> Iterator[Source]:
    with open_source(RECORDING) as source:
        yield source


@pytest.fixture(scope="module")
def final() -> Any:
    with tarfile.open(RECORDING) as tar:
        member = tar.extractfile("chaos-5/final.json")
        assert member is not None
        return json.load(member)


def test_source_has_the_logs_and_snapshots_of_a_server(source: Source) -> None:
    assert source.server.name == "chaos-5/zookeeper/version-2"
    assert [one.zxid for one in source.server.logs] == [0x1, 0x13C]
    assert [one.zxid for one in source.server.snapshots] == [0, 0x13B]
    kinds = Counter(one.kind for one in source.broker_logs)
    assert kinds.keys() == {"controller.log", "state-change.log", "control-requests.log"}


def test_every_transaction_is_read(source: Source) -> None:
    logs = source.transactions()
    transactions = list(logs)
    assert [one.zxid for one in transactions] == [*range(1, 722)]
    assert (logs.damages, logs.gaps, logs.repeated) == ([], [], 0)
    assert Counter(OpCode(one.type) for one in transactions) == {
        OpCode.MULTI: 387,
        OpCode.ERROR: 146,
        OpCode.CREATE: 101,
        OpCode.SET_DATA: 50,
        OpCode.CREATE_SESSION: 20,
        OpCode.CLOSE_SESSION: 15,
        OpCode.DELETE: 2,
    }
    assert transactions[0].content == CreateSession(15_000)
    closed = [one.content for one in transactions if isinstance(one.content, CloseSession)]
    assert all(one.paths is not None for one in closed)


def test_election_is_a_multi(source: Source) -> None:
    multis = [one for one in source.transactions() if isinstance(one.content, Multi)]
    elections = [one for one in multis if is_election(one.content)]
    assert elections
    for one in elections:
        create, epoch = one.content.operations
        assert create.is_ephemeral
        assert epoch.path.endswith("/controller_epoch")
        assert epoch.version == int(epoch.data)


def is_election(multi: Multi) -> bool:
    first = multi.operations[0]
    return isinstance(first, Create) and first.path.endswith("/controller") and not multi.error


@pytest.mark.parametrize("snapshot", [0, 1])
def test_digest_after_each_transaction_matches_zookeepers(source: Source, snapshot: int) -> None:
    state, compared = source.load(source.server.snapshots[snapshot]), 0
    for transaction in source.transactions(state.zxid):
        state.apply(transaction)
        if transaction.digest is not None:
            compared += 1
            assert transaction.digest.value == tree_digest(state.tree), hex(transaction.zxid)
    assert compared > 300


@pytest.mark.parametrize("snapshot", [0, 1])
def test_tree_equals_the_final_one(source: Source, snapshot: int, final: Any) -> None:
    state = source.load(source.server.snapshots[snapshot])
    end = int(final["zxid_after"], 16)
    for transaction in source.transactions(state.zxid):
        if transaction.zxid <= end:
            state.apply(transaction)
    assert state.zxid == end
    stats = ("version", "czxid", "mzxid", "pzxid", "cversion", "ctime", "mtime")
    expected = {
        path: [znode["data"] or "", int(str(znode["ephemeralOwner"]), 16)]
        + [znode[name] for name in stats]
        for path, znode in final["znodes"].items()
    }
    found = {}
    for path, znode in state.tree.dump().items():
        stat = state.tree.stat(path)
        numbers = [getattr(stat, name) for name in stats]
        found[path] = [znode.data.decode(), znode.owner, *numbers]
    assert found == expected
