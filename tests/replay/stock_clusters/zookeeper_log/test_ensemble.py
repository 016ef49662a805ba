"""Folders of three servers: one was stopped at the end, and another one for a while."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from controller.core.operations import Create, SetData
from replay.stock_clusters.imports.importing import Selection, import_source
from replay.stock_clusters.zookeeper_log.source import open_source
from replay.stock_clusters.zookeeper_log.transactions import Transaction
from replay.world.requests import Exists
from replay.znode_tree.tree import Stat
from tests.controller.zookeeper.ensemble import ensemble
from tests.replay.stock_clusters.zookeeper_log.samples import tree_digest
from tests.replay.world.real_zookeeper import RealSession
from tests.waiting import WAIT_SECONDS
from tools.lab import Lab, ZooKeeperServer
from tools.lab.cluster_view import until

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]


async def start_ensemble(lab: Lab) -> list[ZooKeeperServer]:
    members = ensemble(lab.folder, snapCount="50", preAllocSize="64")
    lab.zookeepers += members
    async with anyio.create_task_group() as starting:
        for member in members:
            starting.start_soon(member.start)
    return members


async def leader_of(members: Sequence[ZooKeeperServer]) -> ZooKeeperServer:
    """Waits until one of the members is leader, and returns it."""

    async def leader() -> ZooKeeperServer | None:
        for member in members:
            with suppress(OSError):
                if "Mode: leader" in await member.four_letter_word("srvr"):
                    return member
        return None

    found = await until(leader, WAIT_SECONDS, "a member is leader")
    assert found is not None
    return found


def write(member: ZooKeeperServer, names: Sequence[str]) -> None:
    """Writes through one member; the session stays open."""
    session = RealSession(member.port)
    for name in names:
        session.apply(Create(name, b""))
        session.apply(SetData(name, b"x", 0))
    session.abandon()


def stat_of(member: ZooKeeperServer, name: str) -> Stat:
    session = RealSession(member.port)
    stat = session.apply(Exists(name)).result.stat
    session.close()
    assert stat is not None
    return stat


def transactions(folder: Path) -> list[Transaction]:
    with open_source(folder) as source:
        logs = source.transactions()
        found = list(logs)
        assert (logs.damages, logs.gaps) == ([], [])
    return found


async def test_server_with_most_transactions_is_imported(lab: Lab, tmp_path: Path) -> None:
    members = await start_ensemble(lab)
    first = await leader_of(members)
    write(first, ["/brokers", "/brokers/ids", *(f"/before-{number}" for number in range(40))])
    first.kill()
    others = [one for one in members if one is not first]
    second = await leader_of(others)
    write(second, [f"/without-first-{number}" for number in range(20)])
    await first.start()
    lagging = next(one for one in others if one is not second)
    write(lagging, [f"/together-{number}" for number in range(5)])
    lagging.kill()
    write(second, [f"/without-third-{number}" for number in range(20)])
    last = stat_of(second, "/without-third-19")
    for member in (first, second):
        member.kill()

    with open_source(lab.folder) as source:
        used = source.server.name
        assert used in (f"{one.name}/data/version-2" for one in (first, second))
        assert source.notes[0].startswith(f"uses {used}: ")
        assert f"leaves out {lagging.name}/data/version-2: " in source.notes[-1]
        state = source.first_state()
        logs = source.transactions(state.zxid)
        for transaction in logs:
            state.apply(transaction)
            if transaction.digest is not None and transaction.zxid >= state.exact_from:
                assert transaction.digest.value == tree_digest(state.tree), hex(transaction.zxid)
        assert (logs.damages, logs.gaps) == ([], [])
        assert state.tree.stat("/without-third-19") == last

    whole = transactions(lab.folder)
    assert {one.zxid >> 32 for one in whole} == {1, 2}
    assert_prefix(transactions(lagging.folder), whole)
    result = import_source(lab.folder, tmp_path / "log", Selection())
    assert result.gaps == result.damages == []
    assert result.to_zxid == whole[-1].zxid >= last.mzxid
    assert [one for one in result.notes if "leaves out" in one] == source.notes[1:3]


def assert_prefix(lagging: Sequence[Transaction], whole: Sequence[Transaction]) -> None:
    """Asserts that the lagging server has a prefix of the others' transactions."""
    assert lagging
    assert lagging[-1].zxid < whole[-1].zxid
    assert [*lagging] == [one for one in whole if one.zxid <= lagging[-1].zxid]
