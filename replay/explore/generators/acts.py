"""Random acts of administrators, by every route."""

from collections.abc import Callable
from typing import Final, Literal

from replay.explore.generators.scenarios import NAMES, random_assignment
from replay.explore.numbers import Numbers
from replay.world.inputs import (
    CancelReassignment,
    ChangeBrokerConfig,
    ChangeTopicConfig,
    CreatePartitions,
    CreateTopic,
    DeleteControllerZnode,
    DeleteStrays,
    DeleteTopic,
    ElectLeaders,
    EndCancellation,
    Input,
    Reassign,
    Target,
)
from replay.world.scenario import Scenario

_Route = Literal["api", "znode", "extra", "request", "legacy_request"]
_ROUTES: Final[tuple[tuple[_Route, int], ...]] = (
    ("api", 4),
    ("znode", 4),
    ("extra", 2),
    ("request", 2),
)
_END_MS: Final = (300, 1_000, 4_000)


class ActMaker:
    """Makes acts, and remembers the topics that should exist after them."""

    def __init__(self, scenario: Scenario, numbers: Numbers) -> None:
        self._numbers = numbers
        self._brokers = len(scenario.brokers)
        self._ids = [one.id for one in scenario.brokers]
        self._topics = {one.name: list(one.assignment) for one in scenario.topics}

    def make(self, at_ms: int) -> list[Input]:
        """A random act, and what follows it."""
        made = self._numbers.weighted(_WEIGHTS)(self, at_ms)
        return made if made else [DeleteControllerZnode(at_ms)]

    def _partition(self) -> tuple[str, int] | None:
        existing = [name for name, partitions in self._topics.items() if partitions]
        if not existing:
            return None
        topic = self._numbers.choice(existing)
        return topic, self._numbers.below(len(self._topics[topic]))

    def reassign(self, at_ms: int) -> list[Input]:
        """A reassignment of one or two partitions; often it is cancelled or replaced soon."""
        numbers = self._numbers
        route = numbers.weighted(_ROUTES)
        targets = self._targets()
        if not targets:
            return []
        made: list[Input] = [Reassign(at_ms, targets, route)]
        soon_ms = at_ms + numbers.choice((10, 100, 400, 1_500, 4_000))
        follows = numbers.below(10)
        if follows < 3:
            made += self.cancel(soon_ms, targets)
        elif follows < 5:
            again = numbers.weighted(_ROUTES) if numbers.chance(30) else route
            other = tuple(self._target(one.topic, one.partition) for one in targets)
            made.append(Reassign(soon_ms, other, again))
        return made

    def _targets(self) -> tuple[Target, ...]:
        found: dict[tuple[str, int], Target] = {}
        for _ in range(self._numbers.between(1, 2)):
            name = self._partition()
            if name is not None:
                found[name] = self._target(*name)
        return tuple(found.values())

    def _target(self, topic: str, partition: int) -> Target:
        numbers = self._numbers
        current = self._topics[topic][partition]
        size = len(current)
        if numbers.chance(20):
            size = max(1, min(self._brokers, size + numbers.choice((-1, 1))))
        replicas = tuple(numbers.sample(self._ids, size))
        return Target(topic, partition, replicas)

    def cancel(self, at_ms: int, targets: tuple[Target, ...] = ()) -> list[Input]:
        """A cancellation by either route; the znode is deleted again later."""
        numbers = self._numbers
        names = tuple((one.topic, one.partition) for one in targets)
        if names and numbers.chance(50):
            return [CancelReassignment(at_ms, names)]
        forced = numbers.chance(20)
        end_ms = at_ms + numbers.choice(_END_MS)
        return [
            CancelReassignment(at_ms, (), "znode", forced),
            EndCancellation(end_ms),
        ]

    def cancel_now(self, at_ms: int) -> list[Input]:
        """A cancellation of whatever is under way."""
        return self.cancel(at_ms)

    def create_topic(self, at_ms: int) -> list[Input]:
        numbers = self._numbers
        topic = numbers.choice(NAMES)
        assignment = random_assignment(numbers, self._brokers, numbers.between(1, 3))
        self._topics.setdefault(topic, list(assignment))
        routes: tuple[Literal["api", "znode", "znode_with_id"], ...]
        routes = ("api", "znode_with_id", "znode")
        return [CreateTopic(at_ms, topic, assignment, {}, numbers.choice(routes))]

    def delete_topic(self, at_ms: int) -> list[Input]:
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
        name = self._partition()
        if name is None:
            return []
        numbers = self._numbers
        added = random_assignment(numbers, self._brokers, 1)
        self._topics[name[0]] += added
        routes: tuple[Literal["api", "znode"], ...] = ("api", "znode")
        return [CreatePartitions(at_ms, name[0], added, numbers.choice(routes))]

    def change_topic_config(self, at_ms: int) -> list[Input]:
        name = self._partition()
        if name is None:
            return []
        numbers = self._numbers
        unclean = {"unclean.leader.election.enable": "true"}
        configs = unclean if numbers.chance(30) else {"min.insync.replicas": "2"}
        return [ChangeTopicConfig(at_ms, name[0], {} if numbers.chance(30) else configs)]

    def change_broker_config(self, at_ms: int) -> list[Input]:
        value = str(self._numbers.between(1, 2))
        return [ChangeBrokerConfig(at_ms, None, {"min.insync.replicas": value})]

    def elect(self, at_ms: int) -> list[Input]:
        numbers = self._numbers
        name = self._partition()
        names = (name,) if name is not None and numbers.chance(50) else ()
        if numbers.chance(50):
            return [ElectLeaders(at_ms, names, "preferred", "znode")]
        return [ElectLeaders(at_ms, names, "unclean" if numbers.chance(20) else "preferred")]

    def delete_strays(self, at_ms: int) -> list[Input]:
        name = self._partition()
        if name is None:
            return []
        assigned = self._topics[name[0]][name[1]]
        others = [one for one in self._ids if one not in assigned]
        return [DeleteStrays(at_ms, self._numbers.choice(others), (name,))] if others else []

    def delete_controller(self, at_ms: int) -> list[Input]:
        return [DeleteControllerZnode(at_ms)]


_WEIGHTS: Final[tuple[tuple[Callable[[ActMaker, int], list[Input]], int], ...]] = (
    (ActMaker.reassign, 16),
    (ActMaker.cancel_now, 2),
    (ActMaker.create_topic, 4),
    (ActMaker.delete_topic, 5),
    (ActMaker.create_partitions, 3),
    (ActMaker.change_topic_config, 2),
    (ActMaker.change_broker_config, 1),
    (ActMaker.elect, 4),
    (ActMaker.delete_strays, 1),
    (ActMaker.delete_controller, 4),
)
