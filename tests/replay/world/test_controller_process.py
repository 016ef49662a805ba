"""One controller as a process of the simulation."""

import pytest
from msgspec import structs

from controller.core import znodes
from controller.core.api_requests.reassignments import ListPartitionReassignmentsReceived
from controller.core.commands import (
    Issued,
    LeaderAndIsrRequest,
    Notice,
    Stop,
    WriteZnodes,
    target_of,
)
from controller.core.configuration import Configuration
from controller.core.events import (
    REFUSES,
    SILENT,
    BrokerProbed,
    ChannelFault,
    Recorded,
    SessionExpired,
    VersionsOffered,
)
from replay.explore.generators.scenarios import generic
from replay.world.cluster import Cluster
from replay.world.inputs import ShutDownController
from replay.world.messages import ControllerRequest, ControllerResponse
from replay.world.network import Connection, Message
from replay.world.observer import Observer
from tests.replay.world.controller_world import CONFIGURATION, ID, TIME_OUT_S, SmallWorld

LEADERS = [1, 2, 1]


class RecordingObserver(Observer):
    """Notes starts, ends and acts."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.acts: list[str] = []

    def run_started(self, process: str) -> None:
        self.lines.append(f"{process} started")

    def run_ended(self, process: str, reason: str) -> None:
        self.lines.append(f"{process} ended: {reason}")

    def controller_acted(self, process: str, act: int, what: str) -> None:
        assert act == len(self.acts) + 1
        self.acts.append(what)


class RequestSender:
    """Sends one request to a controller."""

    def __init__(self, world: SmallWorld) -> None:
        self.responses: list[ControllerResponse] = []
        world.network.connect("admin", world.controller.process, self)

    def connected(self, connection: Connection) -> None:
        request = ListPartitionReassignmentsReceived(0, 0, None)
        connection.send(ControllerRequest(7, request))

    def received(self, connection: Connection, message: Message) -> None:
        assert isinstance(message, ControllerResponse)
        self.responses.append(message)

    def disconnected(self, connection: Connection | None) -> None: ...


def leaders(world: SmallWorld) -> list[int | None]:
    return [world.leader(partition) for partition in range(3)]


def events(world: SmallWorld) -> list[Recorded]:
    return [recorded for history in world.controller.histories for recorded, _ in history]


def commands(world: SmallWorld) -> list[Issued]:
    return [one for run in world.controller.histories for _, issued in run for one in issued]


def test_controller_elects_leaders_and_informs_brokers() -> None:
    world = SmallWorld()
    world.start()
    assert world.role_of() == ID
    assert leaders(world) == LEADERS
    for broker in world.brokers.values():
        assert any(isinstance(one.request, LeaderAndIsrRequest) for one in broker.requests)
    offered = [one for one in events(world) if isinstance(one.event, VersionsOffered)]
    assert len(offered) == 2


def test_stock_controller_elects_leaders() -> None:
    world = SmallWorld(Configuration(broker_id=1, is_broker=True, rules="kafka"))
    world.start()
    assert world.role_of() == 1
    assert leaders(world) == LEADERS


def test_events_are_numbered_and_never_go_back_in_time() -> None:
    world = SmallWorld()
    world.start()
    found = events(world)
    assert [one.seq for one in found] == list(range(1, len(found) + 1))
    times = [one.wall_ns for one in found]
    assert times == sorted(times)


def test_killed_controller_waits_for_its_session_and_takes_the_role_again() -> None:
    watcher = RecordingObserver()
    world = SmallWorld(observer=watcher)
    world.start()
    world.controller.kill()
    world.run(1)
    world.controller.start()
    world.run(2)
    assert not world.controller.is_running
    world.run(8)
    assert world.data(znodes.CONTROLLER_EPOCH) == b"2"
    assert watcher.lines == ["refold 100 started", "refold 100 ended: kill", "refold 100 started"]


def acts_of_a_start() -> list[str]:
    watcher = RecordingObserver()
    SmallWorld(observer=watcher).start()
    return watcher.acts


def test_acts_are_single_writes_and_requests() -> None:
    assert acts_of_a_start().count("LeaderAndIsrRequest to broker 1") == 1
    assert acts_of_a_start()[0] == "write"


@pytest.mark.parametrize("act", range(1, len(acts_of_a_start()) + 1))
@pytest.mark.parametrize("is_before", [True, False])
def test_controller_crashed_at_an_act_does_that_act_or_not_and_nothing_more(
    act: int, is_before: bool
) -> None:
    expected = acts_of_a_start()[: act - is_before]
    watcher = RecordingObserver()
    world = SmallWorld(observer=watcher)
    crashed: list[int] = []
    world.controller.crash_at(act, lambda: crashed.append(act), is_before=is_before)
    world.start()
    assert crashed == [act]
    assert watcher.acts == expected
    assert watcher.lines == ["refold 100 started", "refold 100 ended: crash"]
    world.controller.start()
    world.run(12)
    assert leaders(world) == LEADERS


def test_crash_between_two_writes_of_one_command_keeps_the_first() -> None:
    """Writes that depend on each other are separate transactions."""
    world = SmallWorld()
    acts = acts_of_a_start()
    many = []
    for act in range(1, len(acts) + 1):
        world = SmallWorld()
        world.controller.crash_at(act, lambda: None, is_before=True)
        world.start()
        last = commands(world)[-1].command
        many.append(isinstance(last, WriteZnodes) and len(last.operations) > 1)
        parents = world.data(znodes.partitions_path("t")) is not None
        states = world.leader(0) is not None
        assert parents or not states
    assert any(many)


def test_paused_controller_loses_its_session_and_gives_up_nothing_that_it_lacks() -> None:
    world = SmallWorld()
    world.start()
    world.controller.pause()
    world.run(10)
    assert world.role_of() is None
    seen = len(events(world))
    world.controller.resume()
    assert len(events(world)) == seen
    world.run(5)
    assert any(isinstance(one.event, SessionExpired) for one in events(world))
    assert world.role_of() == ID


def test_term_that_has_ended_sends_nothing() -> None:
    world = SmallWorld()
    world.start()
    requests = [len(one.requests) for one in world.brokers.values()]
    world.controller.pause()
    world.brokers[2].crash()
    world.run(30)
    world.controller.resume()
    world.run(0.004)
    assert [len(one.requests) for one in world.brokers.values()] == requests


def test_controller_that_is_shut_down_gives_up_the_role_and_stays_down() -> None:
    watcher = RecordingObserver()
    world = SmallWorld(observer=watcher)
    world.start()
    world.controller.shut_down()
    world.run(10)
    assert world.role_of() is None
    assert watcher.lines == ["refold 100 started", "refold 100 ended: "]


@pytest.mark.parametrize("restart_ms", [0, 1, 500, 4_000])
def test_controller_that_is_shut_down_starts_again_after_its_exit(restart_ms: int) -> None:
    shut_down = ShutDownController(8_000, "refold 100", restart_ms)
    times: dict[str, int] = {}

    class Times(RecordingObserver):
        def run_started(self, process: str) -> None:
            times["started"] = cluster.scheduler.now_us

        def run_ended(self, process: str, reason: str) -> None:
            times["ended"] = cluster.scheduler.now_us

    cluster = Cluster(generic(standby=(False,)), (shut_down,), Times())
    while cluster.scheduler.now_us < 20_000_000 and cluster.step():
        pass
    assert times["ended"] > 8_000_000
    waited_us = times["started"] - times["ended"]
    assert restart_ms * 1_000 <= waited_us < (restart_ms + 1_000) * 1_000


def test_controller_on_a_disk_that_hangs_gives_up_and_is_started_again() -> None:
    watcher = RecordingObserver()
    world = SmallWorld(observer=watcher)
    world.start()
    world.controller.set_append_ms(10_000)
    world.brokers[2].crash()
    world.run(20)
    assert world.role_of() is None
    world.controller.set_append_ms(1)
    world.run(10)
    assert world.role_of() == ID
    assert watcher.lines[:2] == [
        "refold 100 started",
        "refold 100 ended: one append to the log took too long",
    ]


def test_stop_is_the_last_command_of_a_run() -> None:
    world = SmallWorld()
    world.start()
    world.controller.shut_down()
    world.run(10)
    assert isinstance(commands(world)[-1].command, Stop)


def test_broker_that_does_not_answer_gets_the_request_again() -> None:
    world = SmallWorld()
    world.brokers[2].answers = False
    world.start()
    assert len(world.brokers[2].requests) == 1
    world.run(TIME_OUT_S)
    assert len(world.brokers[2].requests) == 2
    assert world.brokers[2].requests[0].request == world.brokers[2].requests[1].request
    world.brokers[2].answers = True
    world.run(2 * TIME_OUT_S)
    faults = [one.event.kind for one in events(world) if isinstance(one.event, ChannelFault)]
    assert faults == ["unreachable", "recovered"]


def test_unreachable_broker_is_reported_after_one_second() -> None:
    world = SmallWorld()
    world.network.cut("refold 100", "broker 2")
    world.start()
    found = [one for one in events(world) if isinstance(one.event, ChannelFault)]
    assert [one.channel.rpartition(":")[0] for one in found] == ["broker:2"]
    world.network.heal("refold 100", "broker 2")
    world.run(2)
    assert world.brokers[2].requests


def test_request_is_answered_with_the_number_of_its_sender() -> None:
    world = SmallWorld()
    world.start()
    askers = [RequestSender(world), RequestSender(world)]
    world.run(1)
    for asker in askers:
        ((number, response),) = [(one.number, one.response) for one in asker.responses]
        assert number == 7
        assert getattr(response, "error", None) == 0


def test_response_of_a_lost_connection_is_dropped() -> None:
    world = SmallWorld()
    world.start()
    asker = RequestSender(world)
    world.run(0.0016)
    world.network.reset("admin", "refold 100")
    world.run(1)
    assert asker.responses == []


def test_broker_that_gives_way_to_its_own_late_registration_is_reported() -> None:
    """KB 16.5: the session ends, and ZooKeeper deletes its znode only later. The
    broker finds the znode in its next session, and no session deletes and creates it again."""
    world = SmallWorld(structs.replace(CONFIGURATION, registration_check_ms=3_000))
    world.start()
    world.zookeeper.delay_ephemerals("broker 2", 5_000)
    world.zookeeper.expire("broker 2")
    world.run(4)
    assert world.data(znodes.broker_path(2)) is not None
    assert leaders(world) == LEADERS
    world.run(20)
    assert world.data(znodes.broker_path(2)) is None
    assert leaders(world) == [1, 1, 1]
    stuck = [one.command for one in commands(world) if target_of(one.command) == "/brokers/ids/2"]
    assert [one.code for one in stuck if isinstance(one, Notice)] == ["broker_not_registered"]


def test_broker_that_has_crashed_is_probed_and_not_reported() -> None:
    world = SmallWorld(structs.replace(CONFIGURATION, registration_check_ms=3_000))
    world.start()
    world.brokers[2].crash()
    world.run(40)
    assert leaders(world) == [1, 1, 1]
    probed = [one.event for one in events(world) if isinstance(one.event, BrokerProbed)]
    assert {one.result for one in probed} == {REFUSES}
    assert not [one for one in commands(world) if target_of(one.command) == "/brokers/ids/2"]


def test_probe_of_a_paused_broker_ends_without_an_answer() -> None:
    world = SmallWorld(structs.replace(CONFIGURATION, registration_check_ms=3_000))
    world.start()
    world.network.pause("broker 2")
    world.zookeeper.expire("broker 2")
    world.run(30)
    probed = [one.event for one in events(world) if isinstance(one.event, BrokerProbed)]
    assert {one.result for one in probed} == {SILENT}
