"""Random faults of brokers, connections, ZooKeeper and controllers."""

from collections.abc import Callable
from typing import Final, Literal

from replay.explore.numbers import RandomNumbers
from replay.names import broker_name, broker_named, is_broker
from replay.world.inputs import (
    NONE,
    SAME,
    ChangeZooKeeperLeader,
    CrashBroker,
    CrashController,
    CutConnection,
    Delay,
    DelayEphemeralDeletion,
    ExpireSession,
    FailLogDirectory,
    HangZooKeeper,
    HoldLink,
    Input,
    KillController,
    LagZooKeeper,
    LoseReply,
    PauseProcess,
    ShutDownController,
    SlowDisk,
    StartController,
    StopBroker,
    StopZooKeeperMember,
)
from replay.world.processes import ZOOKEEPER, is_refold
from replay.world.scenario import Scenario

_FOCUS_PERCENT: Final = 70
"""How often there is a focus, and how often a fault that can hit it does."""
_FOCUSED_PERCENT: Final = 60

_NEVER_PERCENT: Final = 12
_SHORT_MS: Final = (20, 100, 300, 700, 1_500)
_LONG_MS: Final = (3_000, 6_500, 9_000, 12_000, 20_000)
SURVIVES_PERCENT: Final = 40
"""How often a restart alone does not repair a log directory."""
_CLOSES_LATE_PERCENT: Final = 40
_CLOSES_MS: Final = (20, 200, 1_000, 3_000, 8_000)


def closes_after_ms(numbers: RandomNumbers) -> int:
    """How long a broker still serves after its controlled shutdown was granted; mostly 0."""
    return numbers.choice(_CLOSES_MS) if numbers.chance(_CLOSES_LATE_PERCENT) else 0


class FaultMaker:
    """Makes faults of one scenario. Most of them hit one process, if there is a `focus`: a race
    often needs several faults of the same process."""

    def __init__(self, scenario: Scenario, numbers: RandomNumbers) -> None:
        self.focus: str | None = None
        self._numbers = numbers
        self._brokers = [one.id for one in scenario.brokers]
        self._controllers = [one.process for one in scenario.controllers]
        self._running = [one.process for one in scenario.controllers if one.runs]
        self._refolds = [*filter(is_refold, self._controllers)]
        self._topics = [
            (topic.name, number)
            for topic in scenario.topics
            for number in range(len(topic.assignment))
        ]
        self._members = scenario.zookeeper_members

    def make(self, at_ms: int) -> Input:
        """A random fault."""
        return self._numbers.weighted(_WEIGHTS)(self, at_ms)

    def make_aimed(self, at_ms: int) -> list[Input]:
        """A random fault that makes a difference at one moment. If a session expires, its ephemeral
        znodes may stay."""
        made = self._numbers.weighted(_AIMED_WEIGHTS)(self, at_ms)
        if isinstance(made, ExpireSession) and self._numbers.chance(30):
            late_ms = self._numbers.choice(_LONG_MS)
            begin_ms = max(0, at_ms - 1)
            return [DelayEphemeralDeletion(begin_ms, made.process, late_ms, 1_000), made]
        return [made]

    def _duration(self) -> int:
        numbers = self._numbers
        return numbers.choice(_SHORT_MS if numbers.chance(60) else _LONG_MS)

    def _end(self) -> int | None:
        """How long a broker stays down, in milliseconds; None: to the end of the run. Operations
        that need such a broker must wait, and all others must continue without it."""
        return None if self._numbers.chance(_NEVER_PERCENT) else self._duration()

    def draw_focus(self) -> None:
        """Choose another focus, or none."""
        self.focus = None
        if self._numbers.chance(_FOCUS_PERCENT):
            self.focus = self._process()

    def _is_focused(self) -> bool:
        return self.focus is not None and self._numbers.chance(_FOCUSED_PERCENT)

    def _broker(self) -> int:
        if self.focus is not None and is_broker(self.focus) and self._is_focused():
            return broker_named(self.focus)
        return self._numbers.choice(self._brokers)

    def _process(self) -> str:
        if self.focus is not None and self._is_focused():
            return self.focus
        if self._running and self._numbers.chance(50):
            return self._numbers.choice(self._running)
        return broker_name(self._numbers.choice(self._brokers))

    def _controller(self) -> str:
        if self.focus in self._controllers and self._is_focused():
            assert self.focus is not None
            return self.focus
        return self._numbers.choice(self._running or self._controllers)

    def _link(self) -> tuple[str, str]:
        """Two processes that have connections with each other."""
        numbers = self._numbers
        one = self._process()
        if numbers.chance(50):
            return one, ZOOKEEPER
        other = broker_name(self._broker())
        return (one, other) if one != other else (one, ZOOKEEPER)

    def _successor(self) -> str:
        kind = self._numbers.below(10)
        if kind < 4:
            return SAME
        return self._numbers.choice(self._controllers) if kind < 9 else NONE

    def crash_broker(self, at_ms: int) -> Input:
        """A broker crashes, and may lose what it did not flush."""
        numbers = self._numbers
        return CrashBroker(at_ms, self._broker(), numbers.chance(30), self._end())

    def stop_broker(self, at_ms: int) -> Input:
        """A broker shuts down normally."""
        return StopBroker(at_ms, self._broker(), self._end(), closes_after_ms(self._numbers))

    def fail_log_directory(self, at_ms: int) -> Input:
        """A log directory of a broker fails."""
        numbers = self._numbers
        names = tuple(numbers.sample(self._topics, 2)) if numbers.chance(70) else ()
        repaired_ms = None if numbers.chance(50) else self._duration()
        survives = numbers.chance(SURVIVES_PERCENT)
        return FailLogDirectory(at_ms, self._broker(), names, repaired_ms, survives)

    def pause(self, at_ms: int) -> Input:
        """A process hangs for some time."""
        return PauseProcess(at_ms, self._process(), self._duration())

    def slow_disk(self, at_ms: int) -> Input:
        """The disk of a process is slow."""
        numbers = self._numbers
        latency_ms = numbers.choice((20, 100, 400))
        return SlowDisk(at_ms, self._process(), latency_ms, self._duration())

    def expire(self, at_ms: int) -> Input:
        """The session of a process expires."""
        return ExpireSession(at_ms, self._process())

    def lose_reply(self, at_ms: int) -> Input:
        """A reply of ZooKeeper to a process is lost."""
        return LoseReply(at_ms, self._process(), self._numbers.chance(50))

    def cut(self, at_ms: int) -> Input:
        """The connection between two processes is cut."""
        one, other = self._link()
        return CutConnection(at_ms, one, other, 0 if self._numbers.chance(30) else self._duration())

    def hold(self, at_ms: int) -> Input:
        """Messages from one process to another wait for some time."""
        one, other = self._link()
        if self._numbers.chance(50):
            one, other = other, one
        return HoldLink(at_ms, one, other, self._duration(), self._numbers.chance(30))

    def lag(self, at_ms: int) -> Input:
        """A ZooKeeper member applies transactions late."""
        numbers = self._numbers
        lag_ms = numbers.choice((0, 50, 500, 3_000))
        transactions = numbers.between(1, 12)
        return LagZooKeeper(at_ms, self._process(), transactions, self._duration(), lag_ms)

    def hang(self, at_ms: int) -> Input:
        """ZooKeeper hangs for some time."""
        return HangZooKeeper(at_ms, self._duration())

    def change_leader(self, at_ms: int) -> Input:
        """The ZooKeeper ensemble elects another leader."""
        return ChangeZooKeeperLeader(at_ms, self._numbers.choice((100, 500, 2_000, 7_000)))

    def stop_member(self, at_ms: int) -> Input:
        """A ZooKeeper member is down for some time."""
        return StopZooKeeperMember(at_ms, self._numbers.below(self._members), self._duration())

    def delay_ephemerals(self, at_ms: int) -> Input:
        """The ephemeral znodes of a process are deleted late."""
        return DelayEphemeralDeletion(
            at_ms, self._process(), self._duration(), self._numbers.choice(_LONG_MS)
        )

    def crash_controller(self, at_ms: int) -> Input:
        """A controller crashes before or after one of its acts."""
        numbers = self._numbers
        when: Literal["before", "after"] = "before" if numbers.chance(50) else "after"
        act = numbers.between(1, 12)
        process, successor = self._controller(), self._successor()
        return CrashController(
            at_ms, process, act, when, _successor_other_than(process, successor), self._duration()
        )

    def kill_controller(self, at_ms: int) -> Input:
        """A controller is killed; another process may take over."""
        process, successor = self._controller(), self._successor()
        return KillController(
            at_ms, process, _successor_other_than(process, successor), self._duration()
        )

    def start_controller(self, at_ms: int) -> Input:
        """A controller starts."""
        return StartController(at_ms, self._numbers.choice(self._controllers))

    def shut_down_controller(self, at_ms: int) -> Input:
        """A refold controller shuts down normally; a stock one is killed."""
        if not self._refolds:
            return self.kill_controller(at_ms)
        return ShutDownController(at_ms, self._numbers.choice(self._refolds), self._duration())

    def delay(self, at_ms: int) -> Input:
        """Some messages from one process to another are late."""
        one, other = self._link()
        if self._numbers.chance(50):
            one, other = other, one
        number = self._numbers.between(1, 400)
        return Delay(at_ms, f"{one}>{other}", number, self._duration())


def _successor_other_than(process: str, successor: str) -> str:
    return SAME if successor == process else successor


_WEIGHTS: Final[tuple[tuple[Callable[[FaultMaker, int], Input], int], ...]] = (
    (FaultMaker.crash_broker, 14),
    (FaultMaker.stop_broker, 8),
    (FaultMaker.fail_log_directory, 2),
    (FaultMaker.pause, 6),
    (FaultMaker.slow_disk, 2),
    (FaultMaker.expire, 10),
    (FaultMaker.lose_reply, 6),
    (FaultMaker.cut, 6),
    (FaultMaker.hold, 5),
    (FaultMaker.lag, 5),
    (FaultMaker.hang, 2),
    (FaultMaker.change_leader, 3),
    (FaultMaker.stop_member, 2),
    (FaultMaker.delay_ephemerals, 3),
    (FaultMaker.crash_controller, 12),
    (FaultMaker.kill_controller, 5),
    (FaultMaker.start_controller, 3),
    (FaultMaker.shut_down_controller, 4),
    (FaultMaker.delay, 4),
)

_AIMED_WEIGHTS: Final[tuple[tuple[Callable[[FaultMaker, int], Input], int], ...]] = (
    (FaultMaker.crash_broker, 8),
    (FaultMaker.stop_broker, 5),
    (FaultMaker.fail_log_directory, 1),
    (FaultMaker.pause, 6),
    (FaultMaker.slow_disk, 2),
    (FaultMaker.expire, 14),
    (FaultMaker.lose_reply, 10),
    (FaultMaker.cut, 8),
    (FaultMaker.hold, 8),
    (FaultMaker.lag, 5),
    (FaultMaker.hang, 1),
    (FaultMaker.change_leader, 3),
    (FaultMaker.stop_member, 2),
    (FaultMaker.crash_controller, 12),
    (FaultMaker.kill_controller, 6),
    (FaultMaker.start_controller, 2),
    (FaultMaker.shut_down_controller, 4),
)
"""The inputs of faults at a moment."""
