"""Random clusters of the 0.8 design, and what happens to them.

As in the search of the controller's design, most inputs fall close to one of a few moments, and
most faults hit the same process: races need several things at once.
"""

from collections.abc import Callable
from typing import Final

from msgspec import structs

from controller.kafka_0_8 import znodes
from replay.explore.generators.faults import FaultMaker
from replay.explore.generators.scenarios import NAMES
from replay.explore.numbers import RandomNumbers
from replay.names import broker_name
from replay.world.inputs import (
    CrashBroker,
    CreateTopic,
    CutConnection,
    DelayEphemeralDeletion,
    DeleteTopic,
    ExpireSession,
    HoldLink,
    Input,
    LoseReply,
    PauseProcess,
    Reassign,
    StopBroker,
    Target,
    WriteZnode,
)
from replay.world.kafka_0_8.networked.inputs import AddBrokers, Input08, RemoveBrokers
from replay.world.processes import ADMIN, ZOOKEEPER
from replay.world.scenario import BrokerSpec, Load, Scenario, TopicSpec

_ACTIVE_MS: Final = 18_000
_QUIET_MS: Final = 90_000
_START_MS: Final = 3_000
"""When the first input may happen: all partitions have leaders."""
_LOAD: Final = Load(acks=(-1, 1, 0), records_per_second=12)
_ZOOKEEPERS: Final = (("3.9", 1), ("3.5", 1))
"""Before 3.6, watches fire once, and znodes are read one by one."""
_BROKER_SETTINGS: Final = {
    "replica.lag.time.max.ms": "4000",
    "replica.fetch.wait.max.ms": "300",
    "replica.high.watermark.checkpoint.interval.ms": "700",
    "zookeeper.session.timeout.ms": "6000",
}
_FACTORS: Final = ((3, 6), (2, 4), (1, 1))
_SPREAD_MS: Final = (0, 5, 30, 200, 1_000, 3_000)
_NEAR_MS: Final = (1, 3, 10, 30, 100, 400, 1_500)
_DOWN_MS: Final = (0, 300, 1_000, 5_000, 9_000)
_FAULTS_PERCENT: Final = 55
_PATTERN_PERCENT: Final = 50


def draw_run(numbers: RandomNumbers) -> tuple[Scenario, tuple[Input08, ...]]:
    """A cluster, and its inputs in the order of their times."""
    scenario = random_scenario(numbers.split())
    return scenario, tuple(random_inputs(scenario, numbers.split()))


def random_scenario(numbers: RandomNumbers) -> Scenario:
    """3 to 5 brokers, and 1 or 2 topics with up to 6 partitions."""
    brokers = numbers.between(3, 5)
    topics = tuple(
        TopicSpec(name, _assignment(numbers, brokers, numbers.between(1, 3)))
        for name in NAMES[: numbers.between(1, 2)]
    )
    return Scenario(
        name="random",
        seed=numbers.below(1 << 32),
        zookeeper=numbers.weighted(_ZOOKEEPERS),
        zookeeper_members=numbers.weighted(((3, 3), (1, 1))),
        brokers=tuple(BrokerSpec(number) for number in range(1, brokers + 1)),
        broker_settings=_BROKER_SETTINGS,
        topics=topics,
        controllers=(),
        load=_LOAD,
        active_ms=_ACTIVE_MS,
        quiet_ms=_QUIET_MS,
    )


def _assignment(
    numbers: RandomNumbers, brokers: int, partitions: int
) -> tuple[tuple[int, ...], ...]:
    factor = numbers.weighted(_FACTORS)
    return tuple(tuple(numbers.sample(range(1, brokers + 1), factor)) for _ in range(partitions))


def random_inputs(scenario: Scenario, numbers: RandomNumbers) -> list[Input08]:
    """Faults, commands of administrators and patterns, in the order of their times."""
    maker = _Maker(scenario, numbers)
    moments = [
        numbers.between(_START_MS, scenario.active_ms - 1) for _ in range(numbers.between(1, 4))
    ]
    made: list[Input08] = []
    if numbers.chance(_PATTERN_PERCENT):
        made += maker.pattern(numbers.choice(moments))
    for _ in range(numbers.between(1 if made else 2, 10)):
        moment = numbers.choice(moments) + numbers.below(1 + numbers.choice(_SPREAD_MS))
        made += maker.make(scenario.nearest_active_ms(moment))
    kept = [one for one in made if one.at_ms < scenario.active_ms]
    return sorted(kept, key=lambda one: one.at_ms)


class _Maker:
    """Makes the inputs of one scenario."""

    def __init__(self, scenario: Scenario, numbers: RandomNumbers) -> None:
        self._numbers = numbers
        self._brokers = [one.id for one in scenario.brokers]
        self._topics = {one.name: one.assignment for one in scenario.topics}
        self._faults = FaultMaker(scenario, numbers)
        self._faults.draw_focus()

    def make(self, at_ms: int) -> list[Input08]:
        """A fault or a command."""
        if self._numbers.chance(_FAULTS_PERCENT):
            return [_on_this_disk(self._numbers.weighted(_FAULTS)(self._faults, at_ms))]
        made = self._numbers.weighted(_COMMANDS)(self, at_ms)
        if self._numbers.chance(15):
            made.append(LoseReply(at_ms, ADMIN, self._numbers.chance(50)))
        return made

    def pattern(self, at_ms: int) -> list[Input08]:
        """A few inputs that belong together."""
        return self._numbers.weighted(_PATTERNS)(self, at_ms)

    def _partition(self) -> tuple[str, int]:
        topic = self._numbers.choice(list(self._topics))
        return topic, self._numbers.below(len(self._topics[topic]))

    def _replicas(self) -> tuple[int, ...]:
        return tuple(self._numbers.sample(self._brokers, self._numbers.weighted(_FACTORS)))

    def _time_after(self, at_ms: int) -> int:
        return at_ms + self._numbers.choice(_NEAR_MS)

    # Commands

    def create(self, at_ms: int) -> list[Input08]:
        numbers = self._numbers
        topic = numbers.choice(NAMES[:3])
        assignment = tuple(self._replicas() for _ in range(numbers.between(1, 2)))
        self._topics.setdefault(topic, assignment)
        return [CreateTopic(at_ms, topic, assignment)]

    def delete(self, at_ms: int) -> list[Input08]:
        """A deletion; often the topic is created again."""
        topic = self._partition()[0]
        made: list[Input08] = [DeleteTopic(at_ms, topic)]
        if self._numbers.chance(60):
            assignment = self._topics[topic]
            if self._numbers.chance(50):
                assignment = tuple(self._replicas() for _ in assignment)
            made.append(CreateTopic(self._time_after(at_ms), topic, assignment))
        return made

    def reassign(self, at_ms: int) -> list[Input08]:
        return [Reassign(at_ms, (Target(*self._partition(), self._replicas()),))]

    def remove_brokers(self, at_ms: int) -> list[Input08]:
        """A broker is stopped and removed, and often comes back."""
        numbers = self._numbers
        broker = numbers.choice(self._brokers)
        made: list[Input08] = [RemoveBrokers(self._time_after(at_ms), (broker,))]
        down_ms = numbers.choice(_DOWN_MS)
        made.insert(0, StopBroker(at_ms, broker, down_ms))
        if numbers.chance(50):
            made.append(AddBrokers(at_ms + numbers.choice(_DOWN_MS), (broker,)))
        return made

    def add_brokers(self, at_ms: int) -> list[Input08]:
        return [AddBrokers(at_ms, (self._numbers.choice(self._brokers),))]

    def mistake(self, at_ms: int) -> list[Input08]:
        """A znode that no command writes: an unreadable request, a partition that is no number, new
        replicas that are unreadable or unknown."""
        numbers = self._numbers
        topic, number = self._partition()
        queue = znodes.state_path(numbers.choice(self._brokers))
        mistakes = (
            (f"{queue}/request-9999999999", "{"),
            (f"{znodes.topic_path(topic)}/first", ""),
            (znodes.reassigned_path(topic, number), ""),
            (znodes.reassigned_path(topic, number), "1,99"),
        )
        return [WriteZnode(at_ms, *numbers.choice(mistakes))]

    # Patterns

    def follower_restarts_before_the_leader_dies(self, at_ms: int) -> list[Input08]:
        """A member of the ISR begins to follow again, and the leader ends soon after."""
        numbers = self._numbers
        replicas = self._replicas_of_some_partition()
        leader, follower = replicas[0], replicas[-1]
        begins: tuple[Input08, ...] = (
            StopBroker(at_ms, follower, 0),
            CrashBroker(at_ms, follower, restart_after_ms=0),
            ExpireSession(at_ms, broker_name(follower)),
        )
        dies_ms = at_ms + numbers.choice((1_000, 1_050, 1_300, 1_600, 2_500))
        made = [numbers.choice(begins), self._end(dies_ms, leader)]
        if numbers.chance(50):
            one, other = broker_name(leader), broker_name(follower)
            made.insert(0, CutConnection(max(0, at_ms - 1), one, other, 3_000))
        return made

    def _replicas_of_some_partition(self) -> tuple[int, ...]:
        topic, number = self._partition()
        return self._topics[topic][number]

    def _end(self, at_ms: int, broker: int) -> Input08:
        down_ms = self._numbers.choice(_DOWN_MS)
        if self._numbers.chance(60):
            return StopBroker(at_ms, broker, down_ms)
        return CrashBroker(at_ms, broker, restart_after_ms=down_ms)

    def bounce_with_requests(self, at_ms: int) -> list[Input08]:
        """A broker is down or paused while topics are deleted, created and moved."""
        numbers = self._numbers
        broker = numbers.choice(self._brokers)
        down_ms = numbers.choice((700, 2_000, 5_000, 9_000))
        made: list[Input08] = [
            PauseProcess(at_ms, broker_name(broker), down_ms)
            if numbers.chance(30)
            else CrashBroker(at_ms, broker, restart_after_ms=down_ms)
        ]
        for _ in range(numbers.between(1, 3)):
            command = numbers.choice((_Maker.delete, _Maker.create, _Maker.reassign))
            made += command(self, self._time_after(at_ms))
        return made

    def interrupted_move(self, at_ms: int) -> list[Input08]:
        """The leader of a partition that is being reassigned ends, or loses a reply."""
        numbers = self._numbers
        topic, number = self._partition()
        leader = self._topics[topic][number][0]
        made: list[Input08] = [Reassign(at_ms, (Target(topic, number, self._replicas()),))]
        for _ in range(numbers.between(1, 2)):
            later_ms = self._time_after(at_ms)
            if numbers.chance(40):
                made.append(LoseReply(later_ms, broker_name(leader), numbers.chance(60)))
            elif numbers.chance(50):
                made.append(self._end(later_ms, leader))
            else:
                made.append(ExpireSession(later_ms, broker_name(leader)))
        if numbers.chance(40):
            again = Target(topic, number, self._replicas())
            made.append(Reassign(at_ms + numbers.choice((1_500, 4_000)), (again,)))
        return made

    def interrupted_isr_change(self, at_ms: int) -> list[Input08]:
        """A follower lags or returns, the leader loses the reply to its next write, and ends."""
        numbers = self._numbers
        replicas = self._replicas_of_some_partition()
        leader, follower = replicas[0], replicas[-1]
        down_ms = numbers.choice((300, 5_500, 9_000))
        slow: tuple[Input08, ...] = (
            HoldLink(at_ms, broker_name(follower), broker_name(leader), down_ms),
            HoldLink(at_ms, broker_name(leader), broker_name(follower), down_ms),
            CrashBroker(at_ms, follower, restart_after_ms=down_ms),
            CutConnection(at_ms, broker_name(leader), broker_name(follower), down_ms),
        )
        made = [numbers.choice(slow)]
        lost_ms = at_ms if numbers.chance(70) else at_ms + down_ms
        made.append(LoseReply(lost_ms, broker_name(leader), numbers.chance(50)))
        if numbers.chance(70):
            made.append(self._end(at_ms + numbers.between(4_000, 8_500), leader))
        return made

    def follower_restarts_while_it_joins(self, at_ms: int) -> list[Input08]:
        """A follower has caught up after a time outside of the ISR, and starts again while the
        leader's write of the ISR is on the way. The leader ends soon after."""
        numbers = self._numbers
        replicas = self._replicas_of_some_partition()
        leader, follower = replicas[0], replicas[-1]
        down_ms = int(_BROKER_SETTINGS["replica.lag.time.max.ms"]) + 1_500
        joins_ms = at_ms + down_ms + numbers.choice((1_000, 1_010, 1_015))
        hold_ms = numbers.choice((1_300, 1_600, 2_000))
        again_ms = joins_ms + numbers.choice((30, 100, 300))
        return [
            StopBroker(at_ms, follower, down_ms),
            HoldLink(joins_ms, broker_name(leader), ZOOKEEPER, hold_ms),
            CrashBroker(again_ms, follower, restart_after_ms=0),
            CutConnection(again_ms, broker_name(leader), broker_name(follower), 3_000),
            self._end(joins_ms + hold_ms + numbers.choice((50, 100, 300)), leader),
        ]

    def trouble_of_sessions(self, at_ms: int) -> list[Input08]:
        """A broker loses its session, once or twice; its ephemeral znodes stay, a reply is lost."""
        numbers = self._numbers
        process = broker_name(numbers.choice(self._brokers))
        made: list[Input08] = [ExpireSession(at_ms, process)]
        if numbers.chance(70):
            late_ms = numbers.choice((100, 3_000, 9_000, 20_000))
            made.insert(0, DelayEphemeralDeletion(max(0, at_ms - 5), process, late_ms, 9_000))
        if numbers.chance(60):
            made.append(LoseReply(at_ms, process, numbers.chance(75)))
        if numbers.chance(50):
            made.append(ExpireSession(at_ms + numbers.between(20, 1_300), process))
        return made

    def leader_cut_off(self, at_ms: int) -> list[Input08]:
        """A leader loses its followers, and about when it removes them from the ISR it loses
        ZooKeeper until its session has ended. Producers can still reach it."""
        numbers = self._numbers
        replicas = self._replicas_of_some_partition()
        leader = broker_name(replicas[0])
        alone_ms = numbers.choice((9_000, 14_000))
        made: list[Input08] = []
        for follower in replicas[1:]:
            made.append(HoldLink(at_ms, leader, broker_name(follower), alone_ms))
            made.append(HoldLink(at_ms, broker_name(follower), leader, alone_ms))
        removes_ms = at_ms + int(_BROKER_SETTINGS["replica.lag.time.max.ms"])
        lost_ms = removes_ms + numbers.between(-500, 2_500)
        made.append(CutConnection(lost_ms, leader, ZOOKEEPER, numbers.choice((4_000, 9_000))))
        if numbers.chance(60):
            made.append(ExpireSession(lost_ms + numbers.choice(_NEAR_MS), leader))
        return made

    def paused_candidate(self, at_ms: int) -> list[Input08]:
        """A leader ends, and so does its successor, while a third replica is paused between its
        reads and its transaction."""
        numbers = self._numbers
        leader, *others = self._replicas_of_some_partition()
        made = [self._end(at_ms, leader)]
        if len(others) > 1:
            paused, elected = numbers.sample(others, 2)
            elected_ms = at_ms + numbers.choice((0, 1_000)) + numbers.between(0, 12)
            pause_ms = numbers.choice((2_000, 4_500))
            made.append(PauseProcess(elected_ms, broker_name(paused), pause_ms))
            ends_ms = elected_ms + numbers.between(200, pause_ms)
            made.append(ExpireSession(ends_ms, broker_name(elected)))
        return made

    def created_again_unseen(self, at_ms: int) -> list[Input08]:
        """A topic is deleted and created again while the leader, or the first candidate, has read
        the old znodes and is about to write."""
        numbers = self._numbers
        topic = numbers.choice(NAMES[:3])
        hold_ms = numbers.choice((500, 2_000, 4_500))
        if topic in self._topics:
            assignment = self._topics[topic]
            replicas = numbers.choice(assignment)
            leader, follower = broker_name(replicas[0]), broker_name(replicas[-1])
            lag_ms = int(_BROKER_SETTINGS["replica.lag.time.max.ms"])
            held_ms = at_ms + lag_ms + numbers.between(-1_500, 1_500)
            made: list[Input08] = [HoldLink(at_ms, follower, leader, lag_ms + 5_000)]
            made.append(HoldLink(held_ms, ZOOKEEPER, leader, hold_ms))
        else:
            assignment = (self._replicas(),)
            held_ms = at_ms + numbers.between(2, 12)
            made = [CreateTopic(at_ms, topic, assignment)]
            made.append(HoldLink(held_ms, broker_name(assignment[0][0]), ZOOKEEPER, hold_ms))
        deleted_ms = held_ms + numbers.choice((20, 100, 300))
        created_ms = deleted_ms + numbers.choice((10, 50, 200))
        if numbers.chance(50):
            assignment = tuple(self._replicas() for _ in assignment)
        made.append(DeleteTopic(deleted_ms, topic))
        made.append(CreateTopic(created_ms, topic, assignment))
        return made


def _on_this_disk(one: Input) -> Input:
    """Machines do not fail in this simulation."""
    if isinstance(one, CrashBroker):
        return structs.replace(one, loses_unflushed=False)
    return one


_FAULTS: Final[tuple[tuple[Callable[[FaultMaker, int], Input], int], ...]] = (
    (FaultMaker.crash_broker, 14),
    (FaultMaker.stop_broker, 9),
    (FaultMaker.pause, 6),
    (FaultMaker.expire, 10),
    (FaultMaker.lose_reply, 8),
    (FaultMaker.cut, 7),
    (FaultMaker.hold, 5),
    (FaultMaker.lag, 5),
    (FaultMaker.hang, 2),
    (FaultMaker.change_leader, 3),
    (FaultMaker.stop_member, 2),
    (FaultMaker.delay_ephemerals, 4),
    (FaultMaker.delay, 4),
)
_COMMANDS: Final[tuple[tuple[Callable[[_Maker, int], list[Input08]], int], ...]] = (
    (_Maker.create, 3),
    (_Maker.delete, 4),
    (_Maker.reassign, 6),
    (_Maker.remove_brokers, 1),
    (_Maker.add_brokers, 1),
    (_Maker.mistake, 1),
)
_PATTERNS: Final[tuple[tuple[Callable[[_Maker, int], list[Input08]], int], ...]] = (
    (_Maker.follower_restarts_before_the_leader_dies, 2),
    (_Maker.bounce_with_requests, 4),
    (_Maker.interrupted_move, 4),
    (_Maker.interrupted_isr_change, 3),
    (_Maker.follower_restarts_while_it_joins, 2),
    (_Maker.trouble_of_sessions, 4),
    (_Maker.leader_cut_off, 3),
    (_Maker.paused_candidate, 3),
    (_Maker.created_again_unseen, 3),
)
