"""A refold daemon's session in the simulation has the outcomes that the pure server determines."""

import re

import hypothesis
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.commands import (
    CommandId,
    ReadChildren,
    ReadStats,
    ReadZnodes,
    SyncZnodes,
    WriteAtomically,
    WriteZnodes,
    ZooKeeperCommand,
)
from controller.core.events import (
    ChildrenRead,
    Event,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    WatchFired,
    ZnodesRead,
    ZnodesWritten,
)
from controller.core.operations import (
    CONNECTION_LOSS,
    OK,
    Check,
    Create,
    CreateSequential,
    Delete,
    SetData,
)
from controller.core.znodes import CONTROLLER_EPOCH
from replay.world.outcomes import carry_out
from replay.world.zookeeper import ZooKeeper
from tests.replay.world.small_world import Daemon, SmallWorld, succeeded

ID = CommandId(1, 0)
PATHS = st.sampled_from(["/a", "/a/a", "/a/b", "/a/a/a", "/b", "/b/a", "/c"])
DATA = st.binary(max_size=3)
VERSIONS = st.sampled_from([-1, -1, -1, 0, 1])
WRITES = st.lists(
    st.one_of(
        st.builds(Create, PATHS, DATA, st.booleans()),
        st.builds(CreateSequential, PATHS, DATA, st.booleans()),
        st.builds(SetData, PATHS, DATA, VERSIONS),
        st.builds(Delete, PATHS, VERSIONS),
        st.builds(Check, PATHS, VERSIONS),
    ),
    max_size=6,
).map(tuple)
MANY_PATHS = st.lists(PATHS, max_size=4, unique=True).map(tuple)
COMMANDS = st.one_of(
    st.builds(WriteZnodes, WRITES, st.sampled_from([None, 0, 0, 1])),
    st.builds(WriteAtomically, WRITES),
    st.builds(ReadZnodes, MANY_PATHS, st.booleans()),
    st.builds(ReadStats, MANY_PATHS, st.booleans()),
    st.builds(ReadChildren, PATHS, st.booleans()),
    st.builds(SyncZnodes, PATHS),
)


def comparable(events: list[Event]) -> list[object]:
    """The outcomes of one command without zxids, which depend on how writes share multis."""
    items: list[object] = []
    for event in events:
        match event:
            case ZnodesRead():
                items += zip(event.errors, event.data, event.versions, event.owners, strict=True)
            case ZnodesWritten():
                items += zip(event.errors, event.versions, strict=True)
            case ChildrenRead():
                items += [event.error, *event.children]
    return items


class RequestedWatches:
    """The watch events that a daemon asked for."""

    def __init__(self) -> None:
        self.data: set[str] = set()
        self.children: set[str] = set()

    def note(self, command: ZooKeeperCommand) -> None:
        match command:
            case ReadZnodes(watch=True) | ReadStats(watch=True):
                self.data.update(command.paths)
            case ReadChildren(watch=True):
                self.children.add(command.path)

    def has(self, fired: WatchFired) -> bool:
        path, change = fired.path, fired.change
        if change == "children":
            return path in self.children
        return path in self.data or (change != "data" and path in self.children)


def _paths(server: ZooKeeper) -> list[str]:
    """The paths without the numbers of sequential znodes, which depend on how writes share
    multis, too."""
    return sorted(re.sub(r"\d{10}$", "", path) for path in server.dump())


def start(*, is_old: bool = False) -> tuple[SmallWorld, Daemon, ZooKeeper, int]:
    """A daemon in a simulation, and the same session of a pure server; both have an epoch."""
    world = SmallWorld(is_old=is_old)
    daemon = world.daemon()
    pure = ZooKeeper()
    session = pure.create_session(daemon.driver.session_id)
    epoch = WriteAtomically((Create(CONTROLLER_EPOCH),))
    daemon.carry_out(epoch)
    carry_out(pure, session, ID, epoch, 0)
    return world, daemon, pure, session


@given(st.lists(COMMANDS, max_size=12), st.booleans())
def test_commands_have_the_outcomes_and_watch_events_of_the_pure_server(
    commands: list[ZooKeeperCommand], is_old: bool
) -> None:
    _, daemon, pure, session = start(is_old=is_old)
    asked = RequestedWatches()
    for command in commands:
        events = daemon.carry_out(command)
        expected = carry_out(pure, session, ID, command, 0)
        assert comparable(events) == comparable(list(expected))
        fired = [(one.path, one.change) for one in events if isinstance(one, WatchFired)]
        wanted = [one for one in pure.take_events(session) if asked.has(one)]
        if not is_old:
            # One-shot watches of old servers report only the first change.
            assert fired == [(one.path, one.change) for one in wanted]
        asked.note(command)
    assert _paths(daemon.world.ensemble.state) == _paths(pure)


@given(st.lists(COMMANDS, max_size=8), st.integers(0, 3), st.integers(0, 50))
@hypothesis.settings(max_examples=50)
def test_reads_after_a_sync_are_current_on_a_member_that_lags(
    commands: list[ZooKeeperCommand], transactions: int, lag_ms: int
) -> None:
    world, daemon, pure, session = start()
    world.ensemble.lag("refold 100", transactions=transactions, ms=lag_ms)
    for command in commands:
        daemon.submit(SyncZnodes("/"))
        world.wait(200)
        events = daemon.carry_out(command, wait_ms=2_000)
        expected = carry_out(pure, session, ID, command, 0)
        assert comparable(events) == comparable(list(expected))


@given(st.lists(COMMANDS, max_size=8))
@hypothesis.settings(max_examples=25)
def test_same_commands_send_the_same_bytes(commands: list[ZooKeeperCommand]) -> None:
    def run() -> list[object]:
        world = SmallWorld()
        daemon = world.daemon()
        for place, command in enumerate(commands):
            daemon.submit(command)
            if place == 3:
                world.ensemble.lose_reply("refold 100")
        world.wait(5_000)
        return list(world.delivered)

    assert run() == run()


def test_lost_reply_ends_the_connection_after_the_transaction() -> None:
    world = SmallWorld()
    daemon = world.daemon()
    daemon.take()
    world.ensemble.lose_reply("refold 100")
    write = WriteAtomically((Create("/a"),))
    lost, disconnected, connected = daemon.carry_out(write, wait_ms=1_000)
    assert isinstance(lost, ZnodesWritten)
    assert lost.errors == [CONNECTION_LOSS]
    assert isinstance(disconnected, SessionDisconnected)
    assert isinstance(connected, SessionConnected)
    assert connected.renewed
    assert world.exists("/a")
    (written,) = daemon.carry_out(WriteAtomically((Create("/b"),)))
    assert isinstance(written, ZnodesWritten)
    assert written.errors == [OK]


def test_missed_changes_are_reported_after_a_reconnect() -> None:
    world = SmallWorld()
    daemon, broker = world.daemon(), world.broker(1)
    broker.ask(Create("/a"))
    broker.ask(Create("/b"))
    daemon.carry_out(ReadZnodes(("/a", "/b", "/c"), watch=True))
    daemon.carry_out(ReadChildren("/a", watch=True))
    world.network.cut("refold 100", "zookeeper")
    for request in (SetData("/a", b"x", -1), Create("/a/x"), Delete("/b", -1), Create("/c")):
        assert succeeded(broker.ask(request))
    daemon.take()
    world.network.heal("refold 100", "zookeeper")
    world.wait(3_000)
    assert sorted((e.change, e.path) for e in daemon.take() if isinstance(e, WatchFired)) == [
        ("children", "/a"),
        ("created", "/c"),
        ("data", "/a"),
        ("deleted", "/b"),
    ]
    broker.ask(SetData("/a", b"y", -1))
    assert [(e.change, e.path) for e in daemon.take() if isinstance(e, WatchFired)] == [
        ("data", "/a")
    ]


def test_session_presumes_its_end_when_it_hears_nothing() -> None:
    world = SmallWorld()
    daemon = world.daemon()
    daemon.take()
    world.network.cut("refold 100", "zookeeper")
    world.wait(18_100)
    kinds = [type(one) for one in daemon.take()]
    assert kinds == [SessionDisconnected, SessionExpired]
    world.network.heal("refold 100", "zookeeper")
    world.wait(5_000)
    (connected,) = daemon.take()
    assert isinstance(connected, SessionConnected)
    assert not connected.renewed
    assert [one.id for one in world.ensemble.sessions.sessions_of("refold 100")] == [
        connected.session_id
    ]


def test_paused_process_reads_what_arrived_before_it_looks_at_the_clock() -> None:
    world = SmallWorld()
    daemon, broker = world.daemon(), world.broker(1)
    daemon.carry_out(WriteAtomically((Create("/mine", b"", True),)))
    daemon.pause()
    world.wait(25_000)
    assert daemon.take() == []
    assert not world.exists("/mine")
    daemon.resume()
    world.wait(1_000)
    disconnected, expired, connected = daemon.take()
    assert isinstance(disconnected, SessionDisconnected)
    assert isinstance(expired, SessionExpired)
    assert isinstance(connected, SessionConnected)
    assert broker.client.session == 2


def test_close_deletes_ephemerals_at_once_and_crash_does_not() -> None:
    world = SmallWorld()
    closing, crashing = world.daemon(100), world.daemon(101)
    closing.carry_out(WriteAtomically((Create("/a", b"", True),)))
    crashing.carry_out(WriteAtomically((Create("/b", b"", True),)))
    closing.driver.close()
    crashing.driver.crash()
    world.wait(100)
    assert closing.is_closed
    assert (world.exists("/a"), world.exists("/b")) == (False, True)
    world.wait(20_000)
    assert not world.exists("/b")
    assert not crashing.is_closed


def test_idle_session_costs_less_than_one_message_a_second() -> None:
    world = SmallWorld()
    world.daemon()
    world.broker(1)
    world.delivered.clear()
    world.wait(60_000)
    assert len(world.delivered) <= 2 * 2 * 60 / 6


def test_commands_of_one_moment_are_one_message() -> None:
    world = SmallWorld()
    daemon = world.daemon()
    world.delivered.clear()
    for number in range(5):
        daemon.submit(WriteAtomically((Create(f"/{number}"),)))
    world.wait(20)
    assert [one.link for one in world.delivered] == [
        "refold 100>zookeeper",
        "zookeeper>refold 100",
    ]


@pytest.mark.parametrize("is_old", [False, True])
def test_daemon_connects_to_servers_before_and_after_3_6(is_old: bool) -> None:
    world = SmallWorld(is_old=is_old)
    daemon = world.daemon()
    world.wait(1_000)
    (connected,) = daemon.take()
    assert isinstance(connected, SessionConnected)


def test_session_that_is_closed_before_it_is_connected_does_not_connect() -> None:
    world = SmallWorld()
    daemon = Daemon(world, "refold 100", None)
    daemon.driver.start()
    daemon.driver.close()
    world.wait(100)
    assert daemon.is_closed
    assert not daemon.take()
