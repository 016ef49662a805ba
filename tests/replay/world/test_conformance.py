"""The simulated ZooKeeper and a real server have the same replies and watch events."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from msgspec import structs

from controller.core.events import WatchFired
from controller.core.operations import Check, Create, Delete, SetData
from replay.world.ensemble.sessions import TICK_MS, Session, Sessions
from replay.world.requests import (
    AddWatch,
    CreateSequential,
    Exists,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    OperationResult,
    Reply,
    Request,
    SetWatches,
    Sync,
)
from replay.world.zookeeper import ZooKeeper
from replay.znode_tree.tree import Stat
from tests.replay.world.real_zookeeper import RealSession
from tools.lab import Lab

pytestmark = pytest.mark.lab

SESSIONS = 3


def weighted(*weights: tuple[int, st.SearchStrategy[Any]]) -> st.SearchStrategy[Any]:
    """One of the strategies, by weight: `st.one_of` ignores repeated strategies."""
    strategies = [strategy for weight, strategy in weights for _ in range(weight)]
    return st.integers(0, len(strategies) - 1).flatmap(lambda place: strategies[place])


GOOD_PATHS = ["/a", "/a/a", "/a/b", "/a/a/a", "/b", "/b/a"]
BAD_PATHS = ["/a/", "//a", "/a//b", "/.", "/..", "/a/../b", "/a/./b", "/...", "/a\x01", "/\ue000"]
PATHS = weighted((9, st.sampled_from(GOOD_PATHS)), (1, st.sampled_from(BAD_PATHS)))
DATA = st.binary(max_size=3)
VERSIONS = st.sampled_from([-1, -1, -1, -1, 0, 1, 2])
OFTEN = st.sampled_from([True, True, False])
SELDOM = st.sampled_from([False, False, True])
WRITE = weighted(
    (6, st.builds(Create, PATHS, DATA, SELDOM)),
    (2, st.builds(CreateSequential, PATHS, DATA, SELDOM)),
    (4, st.builds(SetData, PATHS, DATA, VERSIONS)),
    (2, st.builds(Delete, PATHS, VERSIONS)),
)
READ = st.one_of(
    st.builds(Exists, PATHS, OFTEN),
    st.builds(GetData, PATHS, OFTEN),
    st.builds(GetChildren, PATHS, OFTEN),
)
WRITE_IN_MULTI = weighted((5, WRITE), (1, st.builds(Check, PATHS, VERSIONS)))
READ_IN_MULTI = st.one_of(st.builds(GetData, PATHS), st.builds(GetChildren, PATHS))
REQUESTS = weighted(
    (8, WRITE),
    (5, READ),
    (3, st.builds(Multi, st.lists(WRITE_IN_MULTI, max_size=4).map(tuple))),
    (1, st.builds(MultiRead, st.lists(READ_IN_MULTI, max_size=3).map(tuple))),
    (2, st.builds(AddWatch, PATHS, st.booleans())),
    (1, st.builds(Sync, PATHS)),
)
UNROOTED: tuple[Request, ...] = (
    Create("/"),
    Create("none"),
    Create(""),
    CreateSequential("none"),
    SetData("none", b"", -1),
    Delete("/", -1),
    Delete("/zookeeper", -1),
    Delete("none", -1),
    Exists("none"),
    GetData("none"),
    GetChildren("none"),
    Multi((Check("none", -1),)),
)
SEED: tuple[Request, ...] = (
    Create("/a"),
    Create("/a/a"),
    Create("/b", ephemeral=True),
    AddWatch("/a"),
    AddWatch("/a/a", recursive=True),
)
LIFETIME = 20
"""The number of requests before a session or connection may end, so that watches exist."""

NO_ZXID = -1
"""The zxid of an event that setWatches fires."""

_EXAMPLES, _STEPS = 12, 100


class Conformance(RuleBasedStateMachine):
    """Sessions that exist in both, with the same ids and the same root."""

    port: int
    operations = 0
    roots = count()

    def __init__(self) -> None:
        super().__init__()
        self.world = ZooKeeper()
        self.lived = 0
        self.sessions = [self.new_session() for _ in range(SESSIONS)]
        self.root = f"/example-{next(self.roots)}"
        reply = self.sessions[0].apply(Create(self.root))
        self.world.apply(self.sessions[0].id, Create(self.root), 0)
        self.zxid_before = reply.zxid - self.world.zxid

    def new_session(self) -> RealSession:
        session = RealSession(self.port)
        self.world.create_session(session.id)
        return session

    def teardown(self) -> None:
        with ExitStack() as stack:
            for session in self.sessions:
                stack.callback(session.close)

    @initialize()
    def first_requests(self) -> None:
        for request in UNROOTED:
            self.compare(self.sessions[0], request)
        for request in SEED:
            self.compare(self.sessions[0], rooted(request, self.root))

    @rule(which=st.integers(0, SESSIONS - 1), request=REQUESTS)
    def request(self, which: int, request: Request) -> None:
        self.lived += 1
        type(self).operations += 1
        self.compare(self.sessions[which], rooted(request, self.root))

    @rule(
        which=st.integers(0, SESSIONS - 1),
        transactions=st.integers(0, 20),
        paths=st.lists(st.sampled_from(GOOD_PATHS), min_size=5, max_size=10),
    )
    def set_watches(self, which: int, transactions: int, paths: list[str]) -> None:
        """Set watches again as of `transactions` ago; each list has a fifth of the paths."""
        type(self).operations += 1
        lists = [tuple(self.root + one for one in paths[place::5]) for place in range(5)]
        session, since = self.sessions[which], self.world.zxid - transactions
        answered = session.apply(SetWatches(since + self.zxid_before, *lists))
        assert self.comparable(answered) == self.world.apply(
            session.id, SetWatches(since, *lists), 0
        )
        for each in self.sessions:
            assert self.server_events(each) == self.world_events(each)

    @precondition(lambda self: self.lived >= LIFETIME)
    @rule(which=st.integers(0, SESSIONS - 1))
    def end_session(self, which: int) -> None:
        self.lived = 0
        session = self.sessions[which]
        session.close()
        self.world.end_session(session.id)
        self.sessions[which] = self.new_session()
        for other in self.sessions:
            # The order of deleted ephemerals depends on the server's hash set.
            assert sorted(self.server_events(other)) == sorted(self.world_events(other))

    @precondition(lambda self: self.lived >= LIFETIME)
    @rule(which=st.integers(0, SESSIONS - 1))
    def lose_connection(self, which: int) -> None:
        self.lived = 0
        session = self.sessions[which]
        session.reconnect()
        self.world.disconnect(session.id)

    def compare(self, session: RealSession, request: Request) -> None:
        answered = self.comparable(session.apply(request))
        assert answered == as_on_the_wire(request, self.world.apply(session.id, request, 0))
        for each in self.sessions:
            assert self.server_events(each) == self.world_events(each)

    def server_events(self, session: RealSession) -> list[tuple[str, str, int]]:
        """Watch events since the last call. They arrive before the reply of a later request."""
        session.apply(Sync(self.root))
        return [self.comparable_event(one) for one in session.take_events()]

    def world_events(self, session: RealSession) -> list[tuple[str, str, int]]:
        events = self.world.take_events(session.id)
        return [(one.path, one.change, one.zxid) for one in events]

    def comparable_event(self, event: WatchFired) -> tuple[str, str, int]:
        zxid = event.zxid if event.zxid == NO_ZXID else event.zxid - self.zxid_before
        return event.path, event.change, zxid

    def comparable(self, reply: Reply) -> Reply:
        results = tuple(self.comparable_result(one) for one in reply.results)
        return Reply(reply.zxid - self.zxid_before, results)

    def comparable_result(self, result: OperationResult) -> OperationResult:
        stat = result.stat
        return structs.replace(result, stat=stat and comparable_stat(stat, self.zxid_before))


def comparable_stat(stat: Stat, zxid_before: int) -> Stat:
    """A server's Stat relative to that zxid, and without times."""
    return stat._replace(
        czxid=stat.czxid - zxid_before,
        mzxid=stat.mzxid - zxid_before,
        pzxid=stat.pzxid - zxid_before,
        ctime=0,
        mtime=0,
    )


def rooted(request: Any, root: str) -> Any:
    """The request below another root."""
    match request:
        case Multi(operations=operations):
            return Multi(tuple(rooted(one, root) for one in operations))
        case MultiRead(reads=reads):
            return MultiRead(tuple(rooted(one, root) for one in reads))
        case _:
            return structs.replace(request, path=root + request.path)


def as_on_the_wire(request: Request, reply: Reply) -> Reply:
    """A reply without what only the simulation returns: children's stats in a multiRead."""
    if not isinstance(request, MultiRead):
        return reply
    results = [
        structs.replace(result, stat=None) if isinstance(one, GetChildren) else result
        for one, result in zip(request.reads, reply.results, strict=True)
    ]
    return structs.replace(reply, results=tuple(results))


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a real server, without disk flushes and with short session time-outs."""
    lab = Lab(tmp_path_factory.mktemp("zookeeper"))
    try:
        config = {"forceSync": "no", "minSessionTimeout": "500"}
        yield anyio.run(lambda: lab.start_zookeeper(config=config)).port
    finally:
        lab.close()


def compare_operations(port: int, operations: int) -> None:
    """Runs the machine until this many random operations were compared."""
    Conformance.port, Conformance.operations = port, 0
    while Conformance.operations < operations:
        run_state_machine_as_test(
            Conformance,
            settings=settings(
                max_examples=_EXAMPLES,
                stateful_step_count=_STEPS,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )


@pytest.mark.ci
@pytest.mark.timeout(300)
def test_thousand_operations_have_the_same_replies_and_events(port: int) -> None:
    compare_operations(port, 1_000)


@pytest.mark.timeout(300)
def test_ten_thousand_operations_have_the_same_replies_and_events(port: int) -> None:
    compare_operations(port, 10_000)


async def test_sessions_expire_at_the_tick_that_the_simulation_computes(lab: Lab) -> None:
    """The server's clock is CLOCK_MONOTONIC, as Python's."""
    port = (await lab.start_zookeeper(config={"tickTime": f"{TICK_MS}"})).port
    watching = RealSession(port)
    watching.apply(Create("/expiries"))
    watching.apply(AddWatch("/expiries", recursive=True))
    expected: dict[str, int] = {}
    for number in range(4):
        dying = RealSession(port, timeout_ms=4_000 + 500 * number)
        path = f"/expiries/{number}"
        dying.apply(Create(path, b"", True))
        session = Session(dying.id, "", 4_000 + 500 * number, 0)
        Sessions().touch(session, now_ms())
        expected[path] = session.expires_ms
        dying.abandon()
        time.sleep(0.9)  # The sessions expire at different ticks.
    watching.await_events(len(expected))
    expired: dict[str, int] = {}
    while len(expired) < 4:
        for event in watching.await_events(1):
            if event.change == "deleted":
                expired[event.path] = now_ms()
    watching.close()
    late = [expired[path] - at for path, at in expected.items()]
    assert all(0 <= one < 500 for one in late), (late, expected, expired)


def now_ms() -> int:
    return time.monotonic_ns() // 1_000_000


def test_session_that_times_out_ends_as_in_the_simulation(port: int) -> None:
    world = ZooKeeper()
    watching, dying = RealSession(port), RealSession(port, timeout_ms=500)
    for session in (watching, dying):
        world.create_session(session.id)
    requests: list[tuple[RealSession, Request]] = [
        (watching, Create("/expiry")),
        (watching, AddWatch("/expiry")),
        (dying, Create("/expiry/a", b"", True)),
        (dying, Create("/expiry/b", b"", True)),
    ]
    for session, request in requests:
        session.apply(request)
        world.apply(session.id, request, 0)
    zxid_before = watching.apply(Sync("/expiry")).zxid - world.zxid
    assert len(watching.take_events()) == len(world.take_events(watching.id)) == 2

    dying.abandon()
    world.end_session(dying.id)

    expected = world.take_events(watching.id)
    fired = watching.await_events(len(expected))
    assert [(one.path, one.change, one.zxid - zxid_before) for one in fired] == [
        (one.path, one.change, one.zxid) for one in expected
    ]
    stat = watching.apply(Exists("/expiry")).result.stat
    assert stat is not None
    expected_stat = world.apply(watching.id, Exists("/expiry"), 0).result.stat
    assert comparable_stat(stat, zxid_before) == expected_stat
    watching.close()
