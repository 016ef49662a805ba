"""Random acts of administrators, by every route."""

from collections.abc import Callable, Sequence
from typing import Final, Literal

from controller.core import znodes
from controller.core.topic_configs import UNCLEAN
from replay.explore.generators.cluster_requests import credentials, features, producer_ids
from replay.explore.generators.faults import SURVIVES_PERCENT, closes_after_ms
from replay.explore.generators.scenarios import NAMES, random_assignment
from replay.explore.numbers import RandomNumbers
from replay.names import broker_name
from replay.world.inputs import (
    CancelReassignment,
    ChangeBrokerConfig,
    ChangeTopicConfig,
    CrashBroker,
    CreatePartitions,
    CreateTopic,
    DeleteControllerZnode,
    DeleteStrays,
    DeleteTopic,
    DeleteZnode,
    ElectLeaders,
    EndCancellation,
    ExpireSession,
    FailLogDirectory,
    HoldLink,
    Input,
    Reassign,
    StopBroker,
    Target,
    WriteZnode,
)
from replay.world.scenario import Scenario

_Route = Literal["api", "znode", "extra", "request", "legacy_request"]
_ROUTES: Final[tuple[tuple[_Route, int], ...]] = (
    ("api", 4),
    ("znode", 4),
    ("extra", 2),
    ("request", 2),
    ("legacy_request", 1),
)
_ROUTE_OF: Final[tuple[tuple[str, _Route], ...]] = (
    (znodes.REASSIGN_PARTITIONS_EXTRA, "extra"),
    (znodes.REASSIGN_PARTITIONS, "znode"),
    (znodes.REASSIGNMENT_REQUESTS, "request"),
)
"""The routes by the znodes that administrators write."""
_SHARED: Final = (
    znodes.REASSIGN_PARTITIONS,
    znodes.REASSIGN_PARTITIONS_EXTRA,
    f"{znodes.REQUEST_PREFIX}N",
    f"{znodes.TOPICS}/T",
    f"{znodes.DELETE_TOPICS}/T",
    f"{znodes.TOPIC_CONFIGS}/T",
    znodes.PREFERRED_ELECTION,
    znodes.CONTROLLER,
    znodes.PRODUCER_IDS,
)
"""Administrators or brokers write these znodes, too; as in crash points."""
_END_MS: Final = (300, 1_000, 4_000, 12_000)
_SOON_MS: Final = (1, 5, 10, 50, 100, 400, 1_500, 4_000)
_SLOW_MS: Final = (200, 1_000, 4_000, 12_000)
_JOINED_MS: Final = (100, 1_000, 1_500, 2_500)
_APART_MS: Final = (0, 100, 700, 2_000)
OUTAGE_MS: Final = (1_000, 6_000, 20_000)
_LATE_MS: Final = (6_000, 12_000, 20_000)
_MISTAKES: Final = (
    "",
    "{",
    "[]",
    '{"version":1}',
    '{"version":1,"partitions":[{"topic":"orders"}]}',
)
"""Contents that an operator may write into a znode by mistake."""
_MOVED_PERCENT: Final = 40
"""How often a target has as many new replicas as possible."""


def shared_znode(point: str) -> str | None:
    """The znode that a controller writes at a crash point, if others also write it."""
    words = point.partition(": ")[2].split(" ")
    return words[1] if len(words) > 1 and words[1] in _SHARED else None


def _added_replicas(target: Target, current: Sequence[int]) -> tuple[int, ...]:
    return tuple(broker for broker in target.replicas if broker not in current)


class ActMaker:
    """Makes acts, and remembers the topics that should exist after them."""

    def __init__(self, scenario: Scenario, numbers: RandomNumbers) -> None:
        self._numbers = numbers
        self._brokers = len(scenario.brokers)
        self._ids = [one.id for one in scenario.brokers]
        self._active_ms = scenario.active_ms
        self._controllers = [one.process for one in scenario.controllers]
        self._topics = {one.name: list(one.assignment) for one in scenario.topics}

    def make(self, at_ms: int) -> list[Input]:
        """A random act, and what follows it."""
        made = self._numbers.weighted(_WEIGHTS)(self, at_ms)
        return made if made else [DeleteControllerZnode(at_ms)]

    def about(self, point: str, at_ms: int) -> list[Input]:
        """A random act on what a controller does at a crash point: another writer of the same
        znodes."""
        numbers = self._numbers
        if znodes.CONTROLLER in point:
            made = self.delete_controller(at_ms)
        elif znodes.PRODUCER_IDS in point:
            made = self.allocate_producer_ids(at_ms)
        elif "reassign" in point or "Reassignment" in point:
            route = next((route for path, route in _ROUTE_OF if path in point), None)
            made = self.cancel_now(at_ms) if numbers.chance(30) else self.reassign(at_ms, route)
        elif "Topic" in point or znodes.topic_path("T") in point:
            kinds = (
                ActMaker.create_topic,
                ActMaker.delete_topic,
                ActMaker.create_partitions,
                ActMaker.reassign,
            )
            made = numbers.choice(kinds)(self, at_ms)
        elif "Election" in point or "election" in point:
            made = self.elect(at_ms)
        else:
            made = self.make(at_ms)
        return made or self.make(at_ms)

    def _partition(self) -> tuple[str, int] | None:
        existing = [name for name, partitions in self._topics.items() if partitions]
        if not existing:
            return None
        topic = self._numbers.choice(existing)
        return topic, self._numbers.below(len(self._topics[topic]))

    def partition(self) -> tuple[str, int, tuple[int, ...]] | None:
        """A random partition with its replicas."""
        name = self._partition()
        return (*name, self._topics[name[0]][name[1]]) if name is not None else None

    def partitions(self) -> list[tuple[str, int, tuple[int, ...]]]:
        """All partitions with their replicas."""
        return [
            (topic, number, replicas)
            for topic, assignment in self._topics.items()
            for number, replicas in enumerate(assignment)
        ]

    def reassign(self, at_ms: int, by: _Route | None = None) -> list[Input]:
        """A reassignment of one or two partitions. Often something keeps it under way: in a quiet
        cluster it takes milliseconds, and nothing else happens in that time."""
        numbers = self._numbers
        route = numbers.weighted(_ROUTES) if by is None else by
        targets = self.targets()
        if not targets:
            return []
        made: list[Input] = [Reassign(at_ms, targets, route)]
        is_slow = numbers.chance(50)
        if is_slow:
            made.append(self._slow_down(at_ms, targets))
        if is_slow or numbers.chance(40):
            made += self._acts_after(at_ms + numbers.choice(_SOON_MS), targets, route)
        return made

    def outage(self, at_ms: int) -> list[Input]:
        """Most replicas of a partition stop or fail, one after the other. Often the partition is
        being reassigned, and at least one of its new replicas has joined the ISR or has failed."""
        numbers = self._numbers
        name = self._partition()
        if name is None:
            return []
        current = self._topics[name[0]][name[1]]
        route = numbers.weighted(_ROUTES)
        targets: tuple[Target, ...] = ()
        made: list[Input] = []
        moment = at_ms
        if numbers.chance(75):
            targets = (self.target(*name),)
            made.append(Reassign(at_ms, targets, route))
            if numbers.chance(80):
                made.append(self._slow_down(at_ms, targets))
            moment += numbers.choice(_JOINED_MS)
        is_strict = bool(targets) and numbers.chance(35)
        if is_strict:
            # Too few originals in sync for a rollback, unless it ignores min.insync.replicas.
            strict = {"min.insync.replicas": "2"}
            made.insert(0, ChangeTopicConfig(max(0, at_ms - 500), name[0], strict))
        kept = numbers.sample(current, 1) if is_strict or numbers.chance(30) else []
        for broker in current:
            if broker not in kept:
                made += self._failure(moment, broker, name)
                moment += numbers.choice(_APART_MS)
        if is_strict and numbers.chance(60):
            return made + self.cancel(moment, targets, route)
        if targets and numbers.chance(30):
            return made + self._replace(moment, targets, route)
        if targets:
            return made + self._acts_after(moment, targets, route)
        return made + (self.elect(moment) if numbers.chance(50) else self.make(moment))

    def unfinished(self, at_ms: int) -> list[Input]:
        """A reassignment that stays under way is replaced, cancelled or interrupted."""
        made, moment, targets, route = self._late(at_ms)
        if not targets:
            return []
        if self._numbers.chance(40):
            return made + self._replace(moment, targets, route)
        return made + self._acts_after(moment, targets, route)

    def cancelled(self, at_ms: int) -> tuple[list[Input], int]:
        """A reassignment that stays under way is cancelled, mostly by the znode; when that is."""
        made, moment, targets, route = self._late(at_ms)
        if self._numbers.chance(25):
            return made + self.cancel(moment, targets, route), moment
        return made + self.cancel(moment), moment

    def _late(self, at_ms: int) -> tuple[list[Input], int, tuple[Target, ...], _Route]:
        """A reassignment that stays under way, because one of its new replicas does not catch up.
        Others join the ISR, and originals may fail, until the returned moment."""
        numbers = self._numbers
        target = self._widest_target()
        if target is None:
            return [], at_ms, (), "api"
        name = target.topic, target.partition
        current = self._topics[target.topic][target.partition]
        late = numbers.choice(_added_replicas(target, current) or target.replicas)
        # Only by these two routes may a client change what is under way; other entries wait.
        routes: tuple[_Route, ...] = ("api", "znode")
        route = numbers.choice(routes) if numbers.chance(60) else numbers.weighted(_ROUTES)
        late_ms = numbers.choice(_LATE_MS)
        begin_ms = max(0, at_ms - numbers.choice((0, 5, 50)))
        made: list[Input] = [
            # A dead broker stays registered for a while: a reassignment to it is accepted.
            CrashBroker(begin_ms, late, restart_after_ms=late_ms)
            if numbers.chance(50)
            else HoldLink(begin_ms, broker_name(late), broker_name(current[0]), late_ms),
            Reassign(at_ms, (target,), route),
        ]
        moment = at_ms + numbers.choice(_JOINED_MS)
        for broker in numbers.sample(current, numbers.below(3)):
            made += self._failure(moment, broker, name)
            moment += numbers.choice(_APART_MS)
        return made, moment, (target,), route

    def _failure(self, at_ms: int, broker: int, name: tuple[str, int]) -> list[Input]:
        """A broker stops, or fails and is noticed at once, or the log directory of its replica
        fails."""
        ms = self._numbers.choice(OUTAGE_MS)
        if self._numbers.chance(15):
            survives = self._numbers.chance(SURVIVES_PERCENT)
            return [FailLogDirectory(at_ms, broker, (name,), ms, survives)]
        if self._numbers.chance(60):
            return [StopBroker(at_ms, broker, ms, closes_after_ms(self._numbers))]
        return self.crash(at_ms, broker, ms)

    def crash(self, at_ms: int, broker: int, ms: int) -> list[Input]:
        """A broker fails, and is noticed at once."""
        crash = CrashBroker(at_ms, broker, self._numbers.chance(30), ms)
        return [crash, ExpireSession(at_ms, broker_name(broker))]

    def _acts_after(self, at_ms: int, targets: tuple[Target, ...], route: _Route) -> list[Input]:
        """Inputs that interfere with a reassignment that was just requested."""
        numbers, one = self._numbers, targets[0]
        follows = numbers.below(10)
        if follows < 4:
            return self.cancel(at_ms, targets, route)
        if follows < 6:
            return self._replace(at_ms, targets, route)
        if follows < 7:
            del self._topics[one.topic]
            return [DeleteTopic(at_ms, one.topic)]
        if follows < 8:
            # A target may lead then.
            later_ms = at_ms + numbers.choice((1_000, 4_000))
            current = self._topics[one.topic][one.partition]
            old = [broker for broker in current if broker not in one.replicas] or current[:1]
            stopped = old if numbers.chance(70) else old[:1]
            stops = [StopBroker(at_ms, broker, numbers.choice(_SLOW_MS)) for broker in stopped]
            return [*stops, *self._acts_after(later_ms, targets, route)]
        return [DeleteControllerZnode(at_ms)]

    def _replace(self, at_ms: int, targets: tuple[Target, ...], route: _Route) -> list[Input]:
        """Another reassignment of the partitions, to other targets or back to their replicas."""
        numbers = self._numbers
        again = numbers.weighted(_ROUTES) if numbers.chance(30) else route
        is_back = numbers.chance(30)
        others = (
            Target(one.topic, one.partition, self._topics[one.topic][one.partition])
            if is_back
            else self.target(one.topic, one.partition)
            for one in targets
        )
        return [Reassign(at_ms, tuple(others), again)]

    def _slow_down(self, at_ms: int, targets: tuple[Target, ...]) -> Input:
        """An input that delays the end of a reassignment."""
        numbers = self._numbers
        one = numbers.choice(targets)
        current = self._topics[one.topic][one.partition]
        target, leader = numbers.choice(_added_replicas(one, current) or one.replicas), current[0]
        begin_ms, ms = max(0, at_ms - numbers.choice((0, 5, 50))), numbers.choice(_SLOW_MS)
        kind = numbers.below(10)
        if kind < 4:
            return HoldLink(begin_ms, broker_name(target), broker_name(leader), ms)
        if kind < 7:
            begin_ms = max(0, at_ms - numbers.choice((0, 5, 1_000)))
            return CrashBroker(begin_ms, target, restart_after_ms=ms)
        if kind < 8:
            return StopBroker(at_ms + numbers.choice((0, 20, 500)), target, ms)
        return HoldLink(begin_ms, broker_name(leader), numbers.choice(self._controllers), ms)

    def targets(self) -> tuple[Target, ...]:
        """Random replicas for one or two partitions."""
        found: dict[tuple[str, int], Target] = {}
        for _ in range(self._numbers.between(1, 2)):
            name = self._partition()
            if name is not None:
                found[name] = self.target(*name)
        return tuple(found.values())

    def target(self, topic: str, partition: int) -> Target:
        """Random replicas for a partition."""
        numbers = self._numbers
        current = self._topics[topic][partition]
        size = len(current)
        if numbers.chance(20):
            size = max(1, min(self._brokers, size + numbers.choice((-1, 1))))
        ids = numbers.sample(self._ids, self._brokers)
        if numbers.chance(_MOVED_PERCENT):
            ids.sort(key=current.__contains__)
        return Target(topic, partition, tuple(ids[:size]))

    def _widest_target(self) -> Target | None:
        """Of some, the one with most new replicas: only then can some join while others do not."""
        targets = [target for _ in range(8) for target in self.targets()]
        return max(
            targets,
            key=lambda one: len(_added_replicas(one, self._topics[one.topic][one.partition])),
            default=None,
        )

    def cancel(
        self, at_ms: int, targets: tuple[Target, ...] = (), route: _Route = "api"
    ) -> list[Input]:
        """A cancellation by either route; the znode is deleted again later."""
        numbers = self._numbers
        names = tuple((one.topic, one.partition) for one in targets)
        if names and numbers.chance(40 if route in ("znode", "extra") else 60):
            return [CancelReassignment(at_ms, names)]
        forced = numbers.chance(20)
        end_ms = at_ms + numbers.choice(_END_MS)
        if numbers.chance(80):
            end_ms = max(at_ms + 1, min(end_ms, self._active_ms - 1))
        return [
            CancelReassignment(at_ms, (), "znode", forced),
            EndCancellation(end_ms),
        ]

    def cancel_now(self, at_ms: int) -> list[Input]:
        """A cancellation of whatever is under way."""
        return self.cancel(at_ms)

    def create_topic(self, at_ms: int) -> list[Input]:
        """Create a topic with a random assignment."""
        numbers = self._numbers
        topic = numbers.choice(NAMES)
        assignment = random_assignment(numbers, self._brokers, numbers.between(1, 3))
        self._topics.setdefault(topic, list(assignment))
        routes: tuple[Literal["api", "znode", "znode_with_id"], ...]
        routes = ("api", "znode_with_id", "znode")
        return [CreateTopic(at_ms, topic, assignment, {}, numbers.choice(routes))]

    def delete_topic(self, at_ms: int) -> list[Input]:
        """Delete a topic."""
        name = self._partition()
        if name is None:
            return []
        numbers = self._numbers
        made: list[Input] = [DeleteTopic(at_ms, name[0], "api" if numbers.chance(50) else "znode")]
        if numbers.chance(40):
            assignment = random_assignment(numbers, self._brokers, numbers.between(1, 3))
            again_ms = at_ms + numbers.choice((100, 1_000, 4_000))
            made.append(CreateTopic(again_ms, name[0], assignment))
            self._topics[name[0]] = list(assignment)
        else:
            del self._topics[name[0]]
        return made

    def create_partitions(self, at_ms: int) -> list[Input]:
        """Add partitions to a topic."""
        name = self._partition()
        if name is None:
            return []
        numbers = self._numbers
        added = random_assignment(numbers, self._brokers, 1)
        self._topics[name[0]] += added
        routes: tuple[Literal["api", "znode", "znode_without_id"], ...]
        routes = ("api", "znode", "znode_without_id")
        return [CreatePartitions(at_ms, name[0], added, numbers.choice(routes))]

    def change_topic_config(self, at_ms: int) -> list[Input]:
        """Change the configuration of a topic."""
        name = self._partition()
        if name is None:
            return []
        numbers = self._numbers
        unclean = {UNCLEAN: "true" if numbers.chance(70) else "false"}
        configs = unclean if numbers.chance(40) else {"min.insync.replicas": "2"}
        return [ChangeTopicConfig(at_ms, name[0], {} if numbers.chance(30) else configs)]

    def change_broker_config(self, at_ms: int) -> list[Input]:
        """Change the configuration of a broker, or the default of all."""
        numbers = self._numbers
        configs = {"min.insync.replicas": str(numbers.between(1, 2))}
        if numbers.chance(40):
            configs = {UNCLEAN: "true"}
            name = self._partition()
            if name is not None and numbers.chance(40):
                # The override of a topic counts more than the default of the cluster.
                override = ChangeTopicConfig(at_ms, name[0], {UNCLEAN: "false"})
                return [override, ChangeBrokerConfig(at_ms, None, configs)]
        return [ChangeBrokerConfig(at_ms, None, {} if numbers.chance(20) else configs)]

    def operate_by_hand(self, at_ms: int) -> list[Input]:
        """An operator deletes a znode under /admin, or writes a mistake into it."""
        numbers = self._numbers
        paths = [
            znodes.REASSIGN_PARTITIONS,
            znodes.REASSIGN_PARTITIONS_EXTRA,
            znodes.PREFERRED_ELECTION,
            f"{znodes.REQUEST_PREFIX}{0:010}",
        ]
        name = self._partition()
        if name is not None:
            paths.append(znodes.reassignment_path(*name))
        kind = numbers.below(10)
        if kind < 4:
            return [DeleteZnode(at_ms, numbers.choice(paths))]
        if kind < 8:
            return [WriteZnode(at_ms, numbers.choice(paths), numbers.choice(_MISTAKES))]
        if kind < 9:
            return [WriteZnode(at_ms, znodes.delete_topic_path("missing"), "")]
        cancel = WriteZnode(at_ms, znodes.REASSIGN_CANCEL, numbers.choice(_MISTAKES))
        return [cancel, EndCancellation(at_ms + numbers.choice(_END_MS))]

    def elect(self, at_ms: int, *, by_znode: bool = False) -> list[Input]:
        """Request an election, of a partition or of all."""
        numbers = self._numbers
        name = self._partition()
        names = (name,) if name is not None and numbers.chance(50) else ()
        if by_znode or numbers.chance(50):
            return [ElectLeaders(at_ms, names, "preferred", "znode")]
        return [ElectLeaders(at_ms, names, "unclean" if numbers.chance(20) else "preferred")]

    def delete_strays(self, at_ms: int) -> list[Input]:
        """Delete replicas of a partition that are not in its assignment."""
        name = self._partition()
        if name is None:
            return []
        assigned = self._topics[name[0]][name[1]]
        others = [one for one in self._ids if one not in assigned]
        return [DeleteStrays(at_ms, self._numbers.choice(others), (name,))] if others else []

    def delete_controller(self, at_ms: int) -> list[Input]:
        """Delete /controller."""
        return [DeleteControllerZnode(at_ms)]

    def allocate_producer_ids(self, at_ms: int) -> list[Input]:
        """Request blocks of producer ids."""
        return producer_ids(self._numbers, self._ids, at_ms)

    def alter_credentials(self, at_ms: int) -> list[Input]:
        """Alter SCRAM credentials."""
        return credentials(self._numbers, at_ms)

    def update_features(self, at_ms: int) -> list[Input]:
        """Update finalized features."""
        return features(self._numbers, at_ms)


_WEIGHTS: Final[tuple[tuple[Callable[[ActMaker, int], list[Input]], int], ...]] = (
    (ActMaker.reassign, 16),
    (ActMaker.cancel_now, 2),
    (ActMaker.create_topic, 4),
    (ActMaker.delete_topic, 5),
    (ActMaker.create_partitions, 3),
    (ActMaker.change_topic_config, 2),
    (ActMaker.change_broker_config, 2),
    (ActMaker.operate_by_hand, 3),
    (ActMaker.elect, 4),
    (ActMaker.delete_strays, 1),
    (ActMaker.delete_controller, 4),
    (ActMaker.allocate_producer_ids, 2),
    (ActMaker.alter_credentials, 1),
    (ActMaker.update_features, 1),
)
