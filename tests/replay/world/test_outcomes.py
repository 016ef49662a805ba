"""The events that the fold receives when the simulated ZooKeeper executes its commands."""

import pytest

from controller.core.commands import (
    CommandId,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    SyncZnodes,
    WriteAtomically,
    WriteZnodes,
)
from controller.core.events import ChildrenRead, WatchFired, ZnodesRead, ZnodesWritten
from controller.core.operations import (
    BAD_VERSION,
    FENCED,
    NO_NODE,
    NODE_EXISTS,
    OK,
    RUNTIME_INCONSISTENCY,
    SESSION_EXPIRED,
    Check,
    Create,
    Delete,
    SetData,
)
from controller.core.znodes import CONTROLLER_EPOCH
from replay.world.outcomes import carry_out
from replay.world.zookeeper import ZooKeeper

ID = CommandId(7, 1)


@pytest.fixture
def world() -> ZooKeeper:
    """A simulated ZooKeeper with /controller_epoch at version 1."""
    world = ZooKeeper()
    session = world.create_session()
    world.apply(session, Create(CONTROLLER_EPOCH, b"1"), 0)
    world.apply(session, SetData(CONTROLLER_EPOCH, b"2", 0), 0)
    return world


@pytest.fixture
def session(world: ZooKeeper) -> int:
    return world.create_session()


def test_reads_are_split_into_pages_and_missing_znodes_have_an_error(
    world: ZooKeeper, session: int
) -> None:
    world.apply(session, Create("/a", b"x", ephemeral=True), 0)
    created = world.zxid

    first, second = carry_out(
        world, session, ID, ReadZnodes(("/a", "/none", CONTROLLER_EPOCH)), 0, page=2
    )

    assert first == ZnodesRead(
        command=ID,
        offset=0,
        errors=[OK, NO_NODE],
        data=[b"x", None],
        versions=[0, -1],
        czxids=[created, -1],
        mzxids=[created, -1],
        owners=[session, -1],
    )
    assert isinstance(second, ZnodesRead)
    assert (second.offset, second.data, second.versions) == (2, [b"2"], [1])


def test_stats_have_no_data(world: ZooKeeper, session: int) -> None:
    (outcome,) = carry_out(world, session, ID, ReadStats((CONTROLLER_EPOCH,)), 0)
    assert isinstance(outcome, ZnodesRead)
    assert (outcome.data, outcome.versions) == ([None], [1])


def test_no_items_have_one_empty_outcome(world: ZooKeeper, session: int) -> None:
    assert carry_out(world, session, ID, WriteZnodes((), None), 0) == [ZnodesWritten(ID, 0, [], [])]


def test_children_are_sorted(world: ZooKeeper, session: int) -> None:
    for path in ("/p", "/p/2", "/p/10", "/p/1"):
        world.apply(session, Create(path), 0)
    assert carry_out(world, session, ID, ReadChildren("/p"), 0) == [
        ChildrenRead(ID, OK, ["1", "10", "2"])
    ]
    assert carry_out(world, session, ID, ReadChildren("/none"), 0) == [
        ChildrenRead(ID, NO_NODE, [])
    ]


def test_watch_is_persistent_and_fires_for_creation(world: ZooKeeper, session: int) -> None:
    carry_out(world, session, ID, ReadStats(("/a",), watch=True), 0)
    carry_out(world, session, ID, ReadStats(("/a",), watch=True), 0)
    world.apply(session, Create("/a"), 0)
    world.apply(session, SetData("/a", b"", -1), 0)
    assert world.take_events(session) == [
        WatchFired("/a", "created", world.zxid - 1),
        WatchFired("/a", "data", world.zxid),
    ]


def test_guarded_writes_are_independent(world: ZooKeeper, session: int) -> None:
    world.apply(session, Create("/a"), 0)
    writes = WriteZnodes(
        (
            Create("/b"),
            Create("/a"),
            SetData("/a", b"x", 0),
            SetData("/a", b"y", 0),
            Delete("/c", 0),
        ),
        epoch_version=1,
    )
    assert carry_out(world, session, ID, writes, 0) == [
        ZnodesWritten(ID, 0, [OK, NODE_EXISTS, OK, BAD_VERSION, NO_NODE], [0, -1, 1, -1, -1])
    ]


def test_writes_of_an_older_epoch_are_fenced(world: ZooKeeper, session: int) -> None:
    before = world.dump()
    writes = WriteZnodes((Create("/a"), Create(CONTROLLER_EPOCH)), epoch_version=0)
    assert carry_out(world, session, ID, writes, 0) == [
        ZnodesWritten(ID, 0, [FENCED, FENCED], [-1, -1])
    ]
    assert world.dump() == before


def test_guarded_writes_without_the_epoch_znode_are_fenced(world: ZooKeeper, session: int) -> None:
    world.apply(session, Delete(CONTROLLER_EPOCH, -1), 0)
    writes = WriteZnodes((Create("/a"),), epoch_version=1)
    assert carry_out(world, session, ID, writes, 0) == [ZnodesWritten(ID, 0, [FENCED], [-1])]


def test_writes_without_a_guard_need_no_epoch(world: ZooKeeper, session: int) -> None:
    writes = WriteZnodes((Create("/a"), SetData("/a", b"", 0)), epoch_version=None)
    assert carry_out(world, session, ID, writes, 0, page=1) == [
        ZnodesWritten(ID, 0, [OK], [0]),
        ZnodesWritten(ID, 1, [OK], [1]),
    ]


def test_failed_atomic_write_changes_nothing(world: ZooKeeper, session: int) -> None:
    before = world.dump()
    write = WriteAtomically((Create("/a"), Check(CONTROLLER_EPOCH, 0), Create("/b")))
    assert carry_out(world, session, ID, write, 0) == [
        ZnodesWritten(
            ID, 0, [RUNTIME_INCONSISTENCY, BAD_VERSION, RUNTIME_INCONSISTENCY], [-1, -1, -1]
        )
    ]
    assert world.dump() == before


def test_atomic_write_returns_the_new_versions(world: ZooKeeper, session: int) -> None:
    write = WriteAtomically((Create("/a"), SetData(CONTROLLER_EPOCH, b"3", 1)))
    assert carry_out(world, session, ID, write, 0) == [ZnodesWritten(ID, 0, [OK, OK], [0, 2])]


def test_sync_has_one_outcome(world: ZooKeeper, session: int) -> None:
    assert carry_out(world, session, ID, SyncZnodes("/a"), 0) == [ZnodesWritten(ID, 0, [OK], [-1])]


def test_ended_session_gets_outcomes_with_an_error(world: ZooKeeper, session: int) -> None:
    world.end_session(session)
    write = WriteAtomically((Create("/a"), Create("/b")))
    assert carry_out(world, session, ID, write, 0) == [
        ZnodesWritten(ID, 0, [SESSION_EXPIRED, SESSION_EXPIRED], [-1, -1])
    ]
    guarded = WriteZnodes((Create("/a"),), epoch_version=1)
    assert carry_out(world, session, ID, guarded, 0) == [
        ZnodesWritten(ID, 0, [SESSION_EXPIRED], [-1])
    ]
    assert carry_out(world, session, ID, ReadChildren("/", watch=True), 0) == [
        ChildrenRead(ID, SESSION_EXPIRED, [])
    ]
