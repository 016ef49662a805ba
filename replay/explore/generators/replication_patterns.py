"""Patterns of replication: replicas that fail, return or fall behind, and ISRs that change while
the controller decides something else.
"""

from typing import Final

from controller.core.topic_configs import UNCLEAN
from replay.explore.generators.acts import OUTAGE_MS, ActMaker
from replay.explore.generators.faults import SURVIVES_PERCENT
from replay.explore.generators.scenarios import LAG_TIME
from replay.explore.numbers import RandomNumbers
from replay.names import broker_name
from replay.world.inputs import (
    ChangeTopicConfig,
    DeleteControllerZnode,
    ElectLeaders,
    FailLogDirectory,
    HoldLink,
    Input,
    Reassign,
    SlowDisk,
    StopBroker,
    Target,
)
from replay.world.processes import ZOOKEEPER
from replay.world.scenario import Scenario

_SLOW_MS: Final = (30, 100, 300, 1_000, 3_000)
_CLOSES_MS: Final = (500, 2_000, 5_000)
_FETCHES_AFTER_MS: Final = 1_630
"""A simulated broker begins to fetch about this time after its start, if nothing delays it."""


class ReplicationPatterns:
    """Makes them. A pattern is empty if the topics have no partition for it."""

    def __init__(self, scenario: Scenario, numbers: RandomNumbers, acts: ActMaker) -> None:
        self._numbers = numbers
        self._acts = acts
        self._controllers = [one.process for one in scenario.controllers if one.runs]
        self._brokers = [one.id for one in scenario.brokers]
        self._lag_ms = int(scenario.broker_settings.get(LAG_TIME, 30_000))

    def _replicated(self) -> tuple[str, int, tuple[int, ...]] | None:
        """A random partition; None if it has one replica only, or there is none."""
        partition = self._acts.partition()
        return partition if partition is not None and len(partition[2]) > 1 else None

    def unclean(self, at_ms: int) -> list[Input]:
        """The configuration of the topic allows the election, or an administrator requests it."""
        numbers = self._numbers
        partition = self._replicated()
        if partition is None:
            return []
        topic, number, replicas = partition
        made: list[Input] = []
        is_allowed = numbers.chance(60)
        if is_allowed:
            made.append(ChangeTopicConfig(max(0, at_ms - 500), topic, {UNCLEAN: "true"}))
        *others, last = numbers.sample(replicas, len(replicas))
        last_ms = at_ms + 400 * len(others)
        returned_ms = last_ms + numbers.choice((100, 500, 2_000))
        for place, broker in enumerate(others):
            failed_ms = at_ms + 400 * place
            made += self._acts.crash(failed_ms, broker, returned_ms - failed_ms)
        made += self._acts.crash(last_ms, last, numbers.choice((5_000, 9_000)))
        if not is_allowed:
            requested_ms = returned_ms + numbers.choice((1_000, 2_000))
            made.append(ElectLeaders(requested_ms, ((topic, number),), "unclean"))
        return made

    def returning(self, at_ms: int) -> list[Input]:
        """The preferred replica of a partition fails and returns, and the one that led meanwhile
        fails before it has caught up: its disk is slow, or it receives records late."""
        numbers = self._numbers
        partition = self._replicated()
        if partition is None:
            return []
        returning, leading = partition[2][:2]
        follower = broker_name(returning)
        down_ms = numbers.choice((500, 2_000, 4_000))
        start_ms = at_ms + down_ms
        if numbers.chance(70):
            late: Input = SlowDisk(start_ms, follower, numbers.choice((50, 200, 800)), 9_000)
        else:
            held_ms = start_ms + _FETCHES_AFTER_MS - numbers.choice((0, 1, 2, 5, 30))
            late_ms = numbers.choice((50, 300, 1_500))
            late = HoldLink(held_ms, broker_name(leading), follower, late_ms, accepts=True)
        lost_ms = start_ms + _FETCHES_AFTER_MS + numbers.choice((5, 10, 20, 60, 200))
        ends = self._acts.crash(at_ms, returning, down_ms)
        if numbers.chance(50):
            ends = [StopBroker(at_ms, returning, down_ms)]
        return [*ends, late, *self._acts.crash(lost_ms, leading, numbers.choice(OUTAGE_MS))]

    def late_shrink(self, at_ms: int) -> list[Input]:
        """A follower does not fetch, so that its leader removes it from the ISR. The leader's write
        or request arrives late, and then the leader fails, or the follower returns."""
        numbers = self._numbers
        partition = self._replicated()
        if partition is None:
            return []
        leader, *followers = partition[2]
        follower = numbers.choice(followers)
        begin_ms = max(0, at_ms - self._lag_ms)
        shrinks_ms = begin_ms + self._lag_ms
        held_ms = self._lag_ms + numbers.choice((2_000, 6_000, 20_000))
        made: list[Input] = [
            HoldLink(begin_ms, broker_name(follower), broker_name(leader), held_ms, True)
        ]
        if numbers.chance(80):
            late_ms = self._lag_ms // 2 + numbers.choice((1_000, 4_000, 12_000))
            receivers = [*self._controllers, ZOOKEEPER] if numbers.chance(30) else self._controllers
            made += [
                HoldLink(shrinks_ms - 100, broker_name(leader), one, late_ms, True)
                for one in receivers
            ]
        fails_ms = shrinks_ms + numbers.choice((100, 1_000, self._lag_ms // 2 + 500))
        if numbers.chance(80):
            made += self._acts.crash(fails_ms, leader, numbers.choice(OUTAGE_MS))
        return made

    def late_growth(self, at_ms: int) -> list[Input]:
        """A follower returns and joins the ISR, which its leader learns late. The follower lags
        meanwhile, and the other replicas fail, so that it is elected."""
        numbers = self._numbers
        partition = self._replicated()
        if partition is None:
            return []
        leader, *followers = partition[2]
        follower = numbers.choice(followers)
        joins_ms = at_ms + _FETCHES_AFTER_MS
        late_ms = numbers.choice((3_000, 6_000, 15_000))
        behind_ms = joins_ms + numbers.choice((20, 100, 400, 900))
        fail_ms = behind_ms + numbers.choice((600, 1_500, 3_000))
        answers_ms = joins_ms - numbers.choice((0, 5, 30, 200))
        made: list[Input] = [StopBroker(at_ms, follower, 0)]
        made += [
            HoldLink(answers_ms, one, broker_name(leader), late_ms, True)
            for one in (*self._controllers, ZOOKEEPER)
        ]
        made.append(HoldLink(behind_ms, broker_name(follower), broker_name(leader), late_ms, True))
        for place, other in enumerate(one for one in partition[2] if one != follower):
            outage_ms = numbers.choice(OUTAGE_MS)
            made += self._acts.crash(fail_ms + 10 * place, other, outage_ms)
        return made

    def late_write(self, at_ms: int) -> list[Input]:
        """A controller handles a request of a leader for an ISR, or another change, and what it
        writes arrives when another controller has the role."""
        numbers, partition = self._numbers, self._acts.partition()
        if partition is None or not self._controllers:
            return []
        topic, number, (leader, *_) = partition
        process = numbers.choice(self._controllers[:2])
        ms = numbers.choice((100, 300))
        if numbers.chance(60):
            # The leader's request for its new replicas arrives when the writes are held.
            made: list[Input] = [
                Reassign(at_ms, (self._acts.target(topic, number),)),
                HoldLink(at_ms, broker_name(leader), process, ms, accepts=True),
            ]
            held_ms = at_ms + numbers.between(30, ms)
        else:
            made = self._acts.make(at_ms)
            held_ms = at_ms + numbers.below(ms)
        lost_ms = at_ms + ms + numbers.choice((2, 20, 100, 300))
        late_ms = numbers.choice((500, 1_500, 3_000))
        return [
            *made,
            HoldLink(held_ms, process, ZOOKEEPER, late_ms),
            DeleteControllerZnode(lost_ms),
        ]

    def change_during_election(self, at_ms: int) -> list[Input]:
        """A follower returns, and its leader adds it to the ISR while a controller, to which
        ZooKeeper answers late, elects another leader of the partition."""
        numbers = self._numbers
        partition = self._replicated()
        if partition is None:
            return []
        topic, number, (leader, *followers) = partition
        returns_ms = max(0, at_ms - _FETCHES_AFTER_MS)
        elects_ms = at_ms + numbers.choice((-30, -5, 0, 5, 30, 100, 300))
        late_ms = numbers.choice((100, 300, 1_000))
        late = [
            HoldLink(elects_ms + numbers.choice((0, 1, 2, 5)), ZOOKEEPER, one, late_ms, True)
            for one in self._controllers
        ]
        elects: Input
        if numbers.chance(60):
            elects = StopBroker(elects_ms, leader, numbers.choice(_SLOW_MS))
        else:
            others = [one for one in self._brokers if one != leader]
            replicas = tuple(numbers.sample(others, min(len(others), len(partition[2]))))
            elects = Reassign(elects_ms, (Target(topic, number, replicas),))
        return [StopBroker(returns_ms, numbers.choice(followers), 0), elects, *late]

    def failed_logs(self, at_ms: int) -> list[Input]:
        """Logs of several leaders fail one after the other, while the controller still handles the
        notification of the first; or further logs of a broker that has noted the first ones."""
        numbers = self._numbers
        partitions = self._acts.partitions()
        if not partitions:
            return []
        made: list[Input] = []
        is_one = numbers.chance(50)
        broker = numbers.choice(self._brokers)
        led = [one for one in partitions if one[2][0] == broker]
        for _ in range(numbers.between(2, 4)):
            topic, number, (leader, *_) = numbers.choice(led if is_one and led else partitions)
            # A repaired broker starts again, so that its notification no longer matters.
            repaired_ms = None if numbers.chance(80) else numbers.choice(OUTAGE_MS)
            survives = numbers.chance(SURVIVES_PERCENT)
            failing = broker if is_one else leader
            names = ((topic, number),)
            made.append(FailLogDirectory(at_ms, failing, names, repaired_ms, survives))
            at_ms += numbers.choice((5, 500, 2_000)) if is_one else numbers.between(1, 7)
        return made

    def shutdown_of_follower(self, at_ms: int) -> list[Input]:
        """A follower that has returned, or that a reassignment adds, shuts down and serves for some
        time. Its leader's proposal of an ISR with it arrives late."""
        numbers = self._numbers
        partition = self._acts.partition()
        if partition is None:
            return []
        topic, number, replicas = partition
        leader, followers = replicas[0], list(replicas[1:])
        others = [one for one in self._brokers if one not in replicas]
        joins: Input
        if others and (not followers or numbers.chance(50)):
            follower = numbers.choice(others)
            joins = Reassign(at_ms, (Target(topic, number, (*replicas, follower)),))
            joined_ms = at_ms + numbers.choice((100, 300, 600))
        elif followers:
            follower = numbers.choice(followers)
            joins = StopBroker(at_ms, follower, 0)
            joined_ms = at_ms + _FETCHES_AFTER_MS + numbers.choice((20, 100, 300, 600))
        else:
            return []
        stop = StopBroker(joined_ms, follower, numbers.choice(_SLOW_MS), numbers.choice(_CLOSES_MS))
        held_ms = joined_ms - at_ms + numbers.choice((100, 500, 1_000))
        held = [
            HoldLink(at_ms, broker_name(leader), one, held_ms, True) for one in self._controllers
        ]
        return [joins, *held, stop]
