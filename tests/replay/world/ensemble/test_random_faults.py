"""Whatever happens to an ensemble, its clients recover and miss no last change."""

from collections.abc import Callable

import hypothesis
from hypothesis import given
from hypothesis import strategies as st

from controller.core.commands import CommandId, ReadZnodes
from controller.core.events import Event, SessionConnected, WatchFired, ZnodesRead
from controller.core.operations import CONNECTION_LOSS, SESSION_EXPIRED, Create, SetData
from replay.world.requests import Exists, GetData, Reply
from tests.replay.world.small_world import Broker, Daemon, SmallWorld

PATH = "/followed"

Fault = Callable[[SmallWorld], None]

PROCESSES = st.sampled_from(["refold 100", "broker 1"])
MEMBERS = st.integers(0, 2)
MS = st.sampled_from([0, 5, 300, 3_000, 25_000])
FAULTS: st.SearchStrategy[tuple[object, ...]] = st.one_of(
    st.tuples(st.just("lag"), st.one_of(MEMBERS, PROCESSES), st.integers(0, 3), MS),
    st.tuples(st.just("hang"), MS, st.one_of(st.none(), MEMBERS, PROCESSES)),
    st.tuples(st.just("kill"), MEMBERS),
    st.tuples(st.just("restart"), MEMBERS),
    st.tuples(st.just("change_leader"), MS),
    st.tuples(st.just("expire"), PROCESSES),
    st.tuples(st.just("delay_ephemerals"), PROCESSES, MS),
    st.tuples(st.just("lose_reply"), PROCESSES),
    st.tuples(st.sampled_from(["cut", "heal", "reset"]), PROCESSES, st.just("zookeeper")),
    st.tuples(st.sampled_from(["hold_messages", "release"]), PROCESSES, st.just("zookeeper")),
    st.tuples(st.sampled_from(["hold_messages", "release"]), st.just("zookeeper"), PROCESSES),
    st.tuples(st.sampled_from(["pause", "resume"]), PROCESSES),
)
STEPS = st.tuples(FAULTS, st.sampled_from([1, 50, 2_000, 20_000]))


class FollowingBroker(Broker):
    """Reads a znode whenever a one-shot watch fires or its session starts or resumes."""

    data: bytes | None = None

    def session_started(self, session: int) -> None:
        super().session_started(session)
        self.client.submit(Create("/broker", b"", True), lambda reply: None)
        self.read()

    def session_resumed(self) -> None:
        super().session_resumed()
        self.read()

    def watch_fired(self, event: WatchFired) -> None:
        super().watch_fired(event)
        self.read()

    def read(self) -> None:
        self.client.submit(Exists(PATH, watch=True), lambda reply: None)
        self.client.submit(GetData(PATH), self.has_read)

    def has_read(self, reply: Reply | None) -> None:
        if reply is not None:
            self.data = reply.result.data


class FollowingDaemon(Daemon):
    """Reads a znode whenever its watch fires or a session starts, and again without a reply."""

    data: bytes | None = None
    reading = False

    def received(self, event: Event) -> None:
        match event:
            case WatchFired() | SessionConnected(renewed=False):
                self.read()
            case SessionConnected() if not self.reading:
                self.read()
            case ZnodesRead(errors=[error], data=[data]):
                self.reading = error not in (CONNECTION_LOSS, SESSION_EXPIRED)
                self.data = data if self.reading else self.data

    def read(self) -> None:
        self.reading = True
        self.driver.submit(CommandId(1, 1), ReadZnodes((PATH,), watch=True))


def run(steps: list[tuple[tuple[object, ...], int]]) -> tuple[SmallWorld, object, object]:
    """A world after these faults, each with a time after it, and after a long calm."""
    world = SmallWorld()
    daemon, broker = FollowingDaemon(world, "refold 100", None), None
    daemon.driver.start()
    broker = FollowingBroker(world, "broker 1", 18_000)
    broker.client.start()
    admin = Broker(world, "admin", 18_000)
    admin.client.start()
    world.wait(100)
    admin.ask(Create(PATH, b"0"))
    for place, ((name, *arguments), wait_ms) in enumerate(steps):
        strike(world, str(name), arguments, {"refold 100": daemon, "broker 1": broker})
        admin.client.submit(SetData(PATH, b"%d" % place, -1), admin.replies.append)
        broker.client.submit(SetData("/mine", b"", -1), lambda reply: None)
        world.wait(wait_ms)
    for one in (daemon, broker):
        world.network.heal(one.process, "zookeeper")
        world.network.release(one.process, "zookeeper")
        world.network.release("zookeeper", one.process)
        one.resume()
    for number in range(3):
        world.ensemble.restart(number)
        world.ensemble.lag(number)
    world.wait(120_000)
    assert admin.client.is_connected
    assert daemon.driver.is_connected
    assert broker.client.is_connected
    return world, daemon.data, broker.data


def strike(
    world: SmallWorld, name: str, arguments: list[object], processes: dict[object, object]
) -> None:
    """Do one fault."""
    if name in ("pause", "resume"):
        getattr(processes[arguments[0]], name)()
    elif name == "lag":
        where, transactions, ms = arguments
        world.ensemble.lag(where, transactions=transactions, ms=ms)  # type: ignore[arg-type]
    elif hasattr(world.ensemble, name):
        getattr(world.ensemble, name)(*arguments)
    else:
        getattr(world.network, name)(*arguments)


@given(st.lists(STEPS, max_size=12))
@hypothesis.settings(max_examples=150)
def test_clients_recover_and_have_the_last_value(
    steps: list[tuple[tuple[object, ...], int]],
) -> None:
    world, daemon_has, broker_has = run(steps)
    znode = world.ensemble.state.find(PATH)
    assert znode is not None
    assert daemon_has == znode.data
    assert broker_has == znode.data
    assert not any(one.lags for one in world.ensemble.members)
    owners = {node.owner for node in world.ensemble.state.dump().values()} - {0}
    assert owners <= {one.id for one in world.ensemble.sessions.sessions_of("broker 1")}


@given(st.lists(STEPS, max_size=8))
@hypothesis.settings(max_examples=20)
def test_same_faults_have_the_same_deliveries(
    steps: list[tuple[tuple[object, ...], int]],
) -> None:
    assert run(steps)[0].delivered == run(steps)[0].delivered
