"""The acts of a random incident, which follow from a seed alone, in an endless order.

The plan does not know the state of the cluster at the time of an act. It stops at most one broker
at a time, and always starts the broker again.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Literal

from tests.lab.incidents.requests import Name, Targets

BROKERS = (1, 2, 3, 4)
STAYING: Mapping[str, list[list[int]]] = {
    "stays-a": [[1, 2, 3], [2, 3, 4], [3, 4, 1], [4, 1, 2]],
    "stays-b": [[3, 1, 4], [4, 2, 1]],
}
"""The topics with producers, by partition."""

SHORT_SEED = 2761
"""A seed whose first acts are of every kind."""

_TOPICS_MAX = 10
_DOWN_ACTS_MAX = 8
_STOCK_ACTS_MAX = 6
_PAUSES_SECONDS = (0.0, 0.1, 0.5, 1.0, 2.0)

Down = Literal["killed", "stopped", "paused"]
Leave = Literal["hands the role back", "is killed", "is paused"]


@dataclass(frozen=True)
class CreateTopic:
    """Creates a topic with these replicas, by partition."""

    topic: str
    assignment: list[list[int]]


@dataclass(frozen=True)
class DeleteTopic:
    """Deletes a topic that was created before."""

    topic: str


@dataclass(frozen=True)
class Reassign:
    """Requests new replicas."""

    targets: Targets


@dataclass(frozen=True)
class Cancel:
    """Requests the original replicas for a reassignment in progress, chosen by this number."""

    which: int


@dataclass(frozen=True)
class ElectPreferred:
    """Requests preferred leaders."""

    names: list[Name]


@dataclass(frozen=True)
class TakeDown:
    """Kills, stops or pauses a broker."""

    broker: int
    how: Down


@dataclass(frozen=True)
class BringBack:
    """Starts or resumes that broker."""

    broker: int


@dataclass(frozen=True)
class LeaveToStock:
    """refold gives up the role; a paused refold loses it when its session ends."""

    how: Leave


@dataclass(frozen=True)
class TakeOver:
    """refold takes the role."""


Act = (
    CreateTopic
    | DeleteTopic
    | Reassign
    | Cancel
    | ElectPreferred
    | TakeDown
    | BringBack
    | LeaveToStock
    | TakeOver
)


class RandomPlan:
    """The acts of one seed. `topics` are the topics that exist by the plan, with their sizes."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)
        self._created = 0
        self.topics: dict[str, int] = {}
        self.down: int | None = None
        self.is_stock = False
        self._waits = False
        self._back_in = 0
        self._take_over_in = 0

    def acts(self) -> Iterator[tuple[Act, float]]:
        """Every act with the seconds to wait after the act."""
        while True:
            yield self._next(), self._random.choice(_PAUSES_SECONDS)

    def _next(self) -> Act:
        self._back_in -= 1
        self._take_over_in -= 1
        if self.down is not None and self._back_in <= 0:
            return self._bring_back(self.down)
        if self.is_stock and self._take_over_in <= 0:
            self.is_stock = False
            return TakeOver()
        possible = dict(self._possible())
        [chosen] = self._random.choices(list(possible), list(possible.values()))
        return chosen()

    def _possible(self) -> Iterator[tuple[Callable[[], Act], int]]:
        """The possible next acts with their weights."""
        yield self._reassign, 6
        yield self._cancel, 6 if self._waits else 1
        yield self._elect, 2
        if len(self.topics) < _TOPICS_MAX:
            yield self._create, 5
        if self.topics:
            yield self._delete, 4
        if self.down is None:
            yield self._take_down, 6
        if not self.is_stock:
            yield self._leave, 1

    def _create(self) -> Act:
        self._created += 1
        topic = f"passes-{self._created}"
        factor = self._random.randint(1, 3)
        partitions = self._random.randint(1, 3)
        self.topics[topic] = partitions
        return CreateTopic(topic, [self._replicas(factor) for _ in range(partitions)])

    def _replicas(self, factor: int) -> list[int]:
        """Distinct brokers; a single replica is not on the stopped broker."""
        up = [one for one in BROKERS if one != self.down]
        return self._random.sample(BROKERS if factor > 1 else up, factor)

    def _delete(self) -> Act:
        topic = self._random.choice(list(self.topics))
        del self.topics[topic]
        return DeleteTopic(topic)

    def _reassign(self) -> Act:
        """Moves some partitions, more often those of the permanent topics. These keep three
        replicas, so that their producers can continue."""
        names = self._names(self._random.randint(1, 3))
        targets = {
            name: self._replicas(3 if name[0] in STAYING else self._random.randint(1, 3))
            for name in names
        }
        # Only a reassignment to the stopped broker stays in progress for a long time.
        self._waits |= any(self.down in target for target in targets.values())
        return Reassign(targets)

    def _names(self, count: int) -> list[Name]:
        staying = [(topic, one) for topic, of in STAYING.items() for one in range(len(of))]
        passing = [(topic, one) for topic, size in self.topics.items() for one in range(size)]
        chosen = self._random.choices([*staying, *passing], k=count)
        return list(dict.fromkeys(chosen))

    def _cancel(self) -> Act:
        return Cancel(self._random.randrange(1000))

    def _elect(self) -> Act:
        return ElectPreferred(self._names(4))

    def _take_down(self) -> Act:
        self.down = self._random.choice(BROKERS)
        self._back_in = self._random.randint(1, _DOWN_ACTS_MAX)
        return TakeDown(self.down, self._random.choice(("killed", "stopped", "paused")))

    def _bring_back(self, broker: int) -> Act:
        self.down = None
        self._waits = False
        return BringBack(broker)

    def _leave(self) -> Act:
        self.is_stock = True
        self._take_over_in = self._random.randint(1, _STOCK_ACTS_MAX)
        return LeaveToStock(self._random.choice(("hands the role back", "is killed", "is paused")))
