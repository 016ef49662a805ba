"""One incident, scripted: every step waits until ZooKeeper stands as it has to stand.

Nothing is left to chance: whoever is controller meets the same events in the same order, so that
what stands in ZooKeeper at the end can be compared znode by znode. Broker 1 holds no replicas; a
stock controller runs there.
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
    # The controller takes a dead broker out of the ISR long before leaders would.
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
class Picture:
    """How a partition has to stand in ZooKeeper."""

    replicas: list[int]
    leader: int
    isr: set[int]
    adding: list[int] = field(default_factory=list)
    removing: list[int] = field(default_factory=list)


class ScriptedIncident:
    """Plays the incident in a cluster of BROKERS; `steps` holds the tree after each step.

    `moves_leaders_first`: the controller does not drop an added replica that leads without another
    leader in its place (the deviation leader-moved-first).
    """

    def __init__(
        self, lab: Lab, tree: ZooKeeperTree, say: Say, *, moves_leaders_first: bool
    ) -> None:
        self.steps: dict[str, Tree] = {}
        self._moves_leaders_first = moves_leaders_first
        self._lab = lab
        self._tree = tree
        self._say = say
        self._pictures: dict[Name, Picture] = {}

    async def play(self) -> None:
        """Every step. Raises TimeoutError that names the step and what does not stand there."""
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
        await self._step("broker 5 comes back, one is completed", self._complete_one)
        await self._step("added replicas lead", self._elect_added)
        await self._step("reassignments are cancelled and replaced", self._cancel_and_replace)
        await self._step("broker 4 comes back, the topic is gone", self._finish_deletion)
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
        names = names or tuple(self._pictures)
        await self._request(PREFERRED_ELECTION, election_request(names))
        await self._until_gone(PREFERRED_ELECTION)
        for name in names:
            self._pictures[name].leader = self._pictures[name].replicas[0]

    async def _delete_doomed(self) -> None:
        await self._tree.create("/admin/delete_topics/doomed")
        # The last one in sync stays in the ISR.
        self._pictures["doomed", 0] = Picture([3, 4], NO_LEADER, {3})
        self._pictures["doomed", 1] = Picture([4, 2], NO_LEADER, {2})

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
            picture = self._pictures[name]
            origin = picture.replicas
            picture.replicas = target + [one for one in origin if one not in target]
            picture.adding = [one for one in target if one not in origin]
            picture.removing = [one for one in origin if one not in target]

    async def _complete_one(self) -> None:
        # Kafka's controller looks at a request when its znode is created. It watches for that again
        # when a reassignment ends and there is no request.
        await self._tree.delete(REASSIGN_PARTITIONS)
        await self._start(5)
        self._pictures["moved", 0] = Picture([3, 5], 3, {3, 5})

    async def _elect_added(self) -> None:
        await self._elect_preferred(("led-by-new", 0), ("left-alone", 0))

    async def _cancel_and_replace(self) -> None:
        """In ZooKeeper a cancellation is a request back to the origin."""
        targets: Targets = {
            ("cancelled", 0): [2, 3],
            ("led-by-new", 0): [2, 3],
            ("replaced", 0): [3, 5],
            ("left-alone", 0): [3, 4],
        }
        await self._request(REASSIGN_PARTITIONS, reassignment_request(targets))
        self._pictures["cancelled", 0] = Picture([2, 3], 2, {2, 3})
        self._pictures["led-by-new", 0] = Picture([2, 3], 2, {2, 3})
        self._pictures["replaced", 0] = Picture([3, 5], 3, {3, 5})
        # Its leader, 5, is dropped, and 4 is down.
        leader = 3 if self._moves_leaders_first else NO_LEADER
        self._pictures["left-alone", 0] = Picture([3, 4, 2], leader, {2, 3}, [4], [2])

    async def _finish_deletion(self) -> None:
        for name in [one for one in self._pictures if one[0] == "doomed"]:
            del self._pictures[name]
        await self._start(4)
        if self._moves_leaders_first:
            self._pictures["left-alone", 0] = Picture([3, 4], 3, {3, 4})
        else:
            # There is nobody whom 4 could follow.
            self._pictures["left-alone", 0].isr.discard(4)
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
        # At the latest now it has a leader, which 4 can follow.
        self._pictures["left-alone", 0] = Picture([3, 4], 3, {3, 4})
        await self._until_gone(REASSIGN_PARTITIONS)

    # What has to stand there ----------------------------------------------------------------------

    def _expect_new(self, topic: str, number: int, replicas: list[int]) -> None:
        self._pictures[topic, number] = Picture(replicas, replicas[0], set(replicas))

    def _expect_lost(self, broker: int) -> None:
        """The next of the assignment that is in sync leads."""
        for picture in self._pictures.values():
            picture.isr.discard(broker)
            if picture.leader == broker:
                picture.leader = next(one for one in picture.replicas if one in picture.isr)

    def _expect_back(self, broker: int) -> None:
        for picture in self._pictures.values():
            if broker in picture.replicas:
                picture.isr.add(broker)

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
        """What does not stand as it has to, in words."""
        topics = {topic: None for topic, _ in self._pictures}
        found = await self._tree.children("/brokers/topics")
        wrong = [f"topic {one} should be gone" for one in found if one not in topics]
        for (topic, number), picture in self._pictures.items():
            path = f"/brokers/topics/{topic}"
            assignment = await self._tree.read(path)
            state = await self._tree.read(f"{path}/partitions/{number}/state")
            if assignment is None or state is None:
                wrong.append(f"{topic}-{number} is not there")
                continue
            actual = _picture(assignment.content, number, state.content)
            if actual != picture:
                wrong.append(f"{topic}-{number} should be {picture}, is {actual}")
        return wrong

    # Means ----------------------------------------------------------------------------------------

    def _server(self, broker: int) -> KafkaBroker:
        return self._lab.brokers[broker - 1]

    def _has_data(self, broker: int, topic: str) -> bool:
        """Whether a broker's data of a topic is there, and not only waits to be removed."""
        data = self._server(broker).folder / "data"
        return any(one.name.removeprefix(f"{topic}-").isdigit() for one in data.iterdir())

    async def _request(self, path: str, content: Any) -> None:
        """Create a request once the controller watches for it."""
        zookeeper = self._lab.zookeepers[0]

        async def watched() -> bool:
            return path in (await zookeeper.four_letter_word("wchp")).split()

        await until(watched, STEP_SECONDS_MAX, f"the controller watches {path}")
        await self._tree.create(path, content)

    async def _until_gone(self, path: str) -> None:
        async def gone() -> bool:
            return await self._tree.read(path) is None

        await until(gone, STEP_SECONDS_MAX, f"{path} is gone")


def _picture(assignment: Any, number: int, state: Any) -> Picture:
    key = str(number)
    return Picture(
        replicas=assignment["partitions"].get(key, []),
        leader=state["leader"],
        isr=set(state["isr"]),
        adding=assignment.get("adding_replicas", {}).get(key, []),
        removing=assignment.get("removing_replicas", {}).get(key, []),
    )
