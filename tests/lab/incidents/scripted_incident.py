"""One scripted incident: every step waits until ZooKeeper has the required state.

Every controller meets the same events in the same order, so that the final states can be compared
znode by znode. Broker 1 has no replicas; a stock controller runs there.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from controller.core.znodes import PREFERRED_ELECTION, REASSIGN_PARTITIONS
from tests.lab.incidents.requests import Name, Targets, election_request, reassignment_request
from tests.lab.incidents.zookeeper_tree import Tree, ZooKeeperTree
from tools.lab import KafkaBroker, Lab
from tools.lab.cluster_view import until

BROKERS = 5
BROKER_CONFIG = {
    "auto.create.topics.enable": "false",
    "auto.leader.rebalance.enable": "false",
    # The controller removes a dead broker from the ISR long before leaders would.
    "zookeeper.session.timeout.ms": "9000",
    "replica.lag.time.max.ms": "60000",
}
STEP_SECONDS_MAX = 60.0
NO_LEADER = -1

TOPICS: dict[str, list[list[int]]] = {
    "kept": [[2, 3, 4], [3, 4, 5], [4, 5, 2], [5, 2, 3]],
    "grown": [[3, 4]],
    "doomed": [[3, 4], [4, 2]],
    "moved": [[2, 3]],
    "cancelled": [[2, 3]],
    "replaced": [[2, 3]],
    "led-by-new": [[2, 3]],
    "left-alone": [[3, 2]],
}

Say = Callable[[str], None]


@dataclass
class RequiredState:
    """The required state of a partition in ZooKeeper."""

    replicas: list[int]
    leader: int
    isr: set[int]
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)


class ScriptedIncident:
    """Executes the incident in a cluster of BROKERS; `steps` has the tree after each step.

    `moves_leaders_first`: the controller does not drop an added replica that leads before another
    replica leads (the deviation leader-moved-first).
    """

    def __init__(
        self, lab: Lab, tree: ZooKeeperTree, say: Say, *, moves_leaders_first: bool
    ) -> None:
        self.steps: dict[str, Tree] = {}
        self._moves_leaders_first = moves_leaders_first
        self._lab = lab
        self._tree = tree
        self._say = say
        self._required: dict[Name, RequiredState] = {}

    async def play(self) -> None:
        """Executes every step. Raises TimeoutError with the step and the differences."""
        await self._step("topics are created", self._create_topics)
        await self._step("broker 3 is killed", lambda: self._kill(3))
        await self._step("broker 3 comes back", lambda: self._start(3))
        await self._step(
            "preferred election", lambda: self._elect_preferred(("kept", 1), ("grown", 0))
        )
        await self._step("broker 4 is killed", lambda: self._kill(4))
        await self._step("broker 5 is killed", lambda: self._kill(5))
        await self._step("a topic with a replica on a dead broker is deleted", self._delete_doomed)
        await self._step("reassignments to dead brokers", self._reassign)
        await self._step("broker 5 comes back, one reassignment is completed", self._complete_one)
        await self._step("added replicas lead", self._elect_added)
        await self._step("reassignments are cancelled and replaced", self._cancel_and_replace)
        await self._step("broker 4 comes back, the topic is deleted", self._finish_deletion)
        await self._step("partitions are added", self._add_partitions)
        await self._step("broker 2 shuts down in order", self._stop_2)
        await self._step("broker 2 comes back", lambda: self._start(2))
        await self._step("preferred election of all", lambda: self._elect_preferred())

    # Steps --------------------------------------------------------------------------------------

    async def _create_topics(self) -> None:
        for topic, assignment in TOPICS.items():
            await self._tree.create(f"/config/topics/{topic}", {"version": 1, "config": {}})
            partitions = {str(number): one for number, one in enumerate(assignment)}
            content = {"version": 1, "partitions": partitions}
            await self._tree.create(f"/brokers/topics/{topic}", content)
            for number, replicas in enumerate(assignment):
                self._expect_new(topic, number, replicas)

    async def _kill(self, broker: int) -> None:
        self._server(broker).kill()
        self._expect_lost(broker)

    async def _start(self, broker: int) -> None:
        await self._server(broker).start()
        self._expect_back(broker)

    async def _elect_preferred(self, *names: Name) -> None:
        names = names or tuple(self._required)
        await self._request(PREFERRED_ELECTION, election_request(names))
        await self._until_gone(PREFERRED_ELECTION)
        for name in names:
            self._required[name].leader = self._required[name].replicas[0]

    async def _delete_doomed(self) -> None:
        await self._tree.create("/admin/delete_topics/doomed")
        # The last replica in sync stays in the ISR.
        self._required["doomed", 0] = RequiredState([3, 4], NO_LEADER, {3})
        self._required["doomed", 1] = RequiredState([4, 2], NO_LEADER, {2})

        async def deleted() -> bool:
            return not any(self._has_data(one, "doomed") for one in (2, 3))

        await until(deleted, STEP_SECONDS_MAX, "brokers 2 and 3 have deleted their replicas")

    async def _reassign(self) -> None:
        targets: Targets = {
            ("moved", 0): [3, 5],
            ("cancelled", 0): [3, 4],
            ("replaced", 0): [5, 4],
            ("led-by-new", 0): [5, 4],
            ("left-alone", 0): [5, 4],
        }
        await self._request(REASSIGN_PARTITIONS, reassignment_request(targets))
        for name, target in targets.items():
            required = self._required[name]
            origin = required.replicas
            required.replicas = target + [one for one in origin if one not in target]
            required.adding = [one for one in target if one not in origin]
            required.removing = [one for one in origin if one not in target]

    async def _complete_one(self) -> None:
        # Kafka's controller reads a request when its znode is created. When a reassignment ends
        # and no request exists, the controller watches for the creation again.
        await self._tree.delete(REASSIGN_PARTITIONS)
        await self._start(5)
        self._required["moved", 0] = RequiredState([3, 5], 3, {3, 5})

    async def _elect_added(self) -> None:
        await self._elect_preferred(("led-by-new", 0), ("left-alone", 0))

    async def _cancel_and_replace(self) -> None:
        """In ZooKeeper a cancellation is a request for the original replicas."""
        targets: Targets = {
            ("cancelled", 0): [2, 3],
            ("led-by-new", 0): [2, 3],
            ("replaced", 0): [3, 5],
            ("left-alone", 0): [3, 4],
        }
        await self._request(REASSIGN_PARTITIONS, reassignment_request(targets))
        self._required["cancelled", 0] = RequiredState([2, 3], 2, {2, 3})
        self._required["led-by-new", 0] = RequiredState([2, 3], 2, {2, 3})
        self._required["replaced", 0] = RequiredState([3, 5], 3, {3, 5})
        # Its leader, 5, is dropped, and 4 is down.
        leader = 3 if self._moves_leaders_first else NO_LEADER
        self._required["left-alone", 0] = RequiredState([3, 4, 2], leader, {2, 3}, [4], [2])

    async def _finish_deletion(self) -> None:
        for name in [one for one in self._required if one[0] == "doomed"]:
            del self._required[name]
        await self._start(4)
        if self._moves_leaders_first:
            self._required["left-alone", 0] = RequiredState([3, 4], 3, {3, 4})
        else:
            # 4 has no leader to follow.
            self._required["left-alone", 0].isr.discard(4)
        await self._until_gone("/admin/delete_topics/doomed")
        assert not self._has_data(4, "doomed")

    async def _add_partitions(self) -> None:
        znode = await self._tree.read("/brokers/topics/grown")
        assert znode is not None
        added = {1: [4, 5], 2: [5, 3]}
        partitions = znode.content["partitions"] | {str(one): added[one] for one in added}
        content = znode.content | {"partitions": partitions}
        await self._tree.set("/brokers/topics/grown", content, znode.version)
        for number, replicas in added.items():
            self._expect_new("grown", number, replicas)

    async def _stop_2(self) -> None:
        await self._server(2).stop()
        self._expect_lost(2)
        # From here on it has a leader, which 4 can follow.
        self._required["left-alone", 0] = RequiredState([3, 4], 3, {3, 4})
        await self._until_gone(REASSIGN_PARTITIONS)

    # The required state --------------------------------------------------------------------------

    def _expect_new(self, topic: str, number: int, replicas: list[int]) -> None:
        self._required[topic, number] = RequiredState(replicas, replicas[0], set(replicas))

    def _expect_lost(self, broker: int) -> None:
        """The first replica of the assignment that is in sync becomes leader."""
        for required in self._required.values():
            required.isr.discard(broker)
            if required.leader == broker:
                required.leader = next(one for one in required.replicas if one in required.isr)

    def _expect_back(self, broker: int) -> None:
        for required in self._required.values():
            if broker in required.replicas:
                required.isr.add(broker)

    async def _step(self, what: str, act: Callable[[], Awaitable[None]]) -> None:
        began = time.monotonic()
        await act()
        wrong: list[str] = []

        async def as_expected() -> bool:
            wrong[:] = await self._wrong()
            return not wrong

        try:
            await until(as_expected, STEP_SECONDS_MAX, what)
        except TimeoutError as error:
            raise TimeoutError("\n".join([str(error), *wrong])) from None
        self.steps[what] = await self._tree.whole()
        self._say(f"{what} ({time.monotonic() - began:.1f} s)")

    async def _wrong(self) -> list[str]:
        """The differences from the required state."""
        topics = {topic: None for topic, _ in self._required}
        found = await self._tree.children("/brokers/topics")
        wrong = [f"topic {one} should be deleted" for one in found if one not in topics]
        for (topic, number), required in self._required.items():
            path = f"/brokers/topics/{topic}"
            assignment = await self._tree.read(path)
            state = await self._tree.read(f"{path}/partitions/{number}/state")
            if assignment is None or state is None:
                wrong.append(f"{topic}-{number} does not exist")
                continue
            actual = _state_of(assignment.content, number, state.content)
            if actual != required:
                wrong.append(f"{topic}-{number} should be {required}, is {actual}")
        return wrong

    # Servers and znodes -------------------------------------------------------------------------

    def _server(self, broker: int) -> KafkaBroker:
        return self._lab.brokers[broker - 1]

    def _has_data(self, broker: int, topic: str) -> bool:
        """Whether a broker has data of a topic that is not marked for deletion."""
        data = self._server(broker).folder / "data"
        return any(one.name.removeprefix(f"{topic}-").isdigit() for one in data.iterdir())

    async def _request(self, path: str, content: Any) -> None:
        """Creates a request when the controller watches for it."""
        zookeeper = self._lab.zookeepers[0]

        async def watched() -> bool:
            return path in (await zookeeper.four_letter_word("wchp")).split()

        await until(watched, STEP_SECONDS_MAX, f"the controller watches {path}")
        await self._tree.create(path, content)

    async def _until_gone(self, path: str) -> None:
        async def gone() -> bool:
            return await self._tree.read(path) is None

        await until(gone, STEP_SECONDS_MAX, f"{path} is deleted")


def _state_of(assignment: Any, number: int, state: Any) -> RequiredState:
    key = str(number)
    return RequiredState(
        replicas=assignment["partitions"].get(key, []),
        leader=state["leader"],
        isr=set(state["isr"]),
        adding=assignment.get("adding_replicas", {}).get(key, []),
        removing=assignment.get("removing_replicas", {}).get(key, []),
    )
