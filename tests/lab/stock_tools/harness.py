"""The cluster of a script: four brokers, and the controller, which is a broker or refold."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka.errors import KafkaError

from tests.controller.daemon.lab_cluster import OWN_ID
from tests.lab.archived_tools import ArchivedTools
from tests.lab.default_clusters.cluster import DefaultLabCluster
from tests.lab.incidents.zookeeper_tree import Tree, ZooKeeperTree
from tools.lab import KafkaBroker, Lab
from tools.lab.broker_view import topics
from tools.lab.cluster_view import until

BROKERS = 4
STOCK = 1
"""The stock controller: the broker that started first, which no step stops."""

RACKS = ("a", "b")
RACK_OF = {broker: RACKS[broker % len(RACKS)] for broker in range(1, BROKERS + 1)}
HEAVY = "heavy"
"""Topics with this prefix have more data than a throttled reassignment moves during a run."""

SHARED_CONFIG = {
    "num.partitions": "4",
    "default.replication.factor": "2",
    "auto.leader.rebalance.enable": "false",
    "zookeeper.session.timeout.ms": "4000",
}
"""The settings that brokers and daemon have in common."""

BROKER_CONFIG = {
    **SHARED_CONFIG,
    "auto.create.topics.enable": "false",
    # The controller removes a dead broker from the ISR long before leaders would.
    "replica.lag.time.max.ms": "60000",
    # A throttle takes effect between two fetches, so fetches must be small.
    "replica.fetch.max.bytes": "10000",
    "offsets.topic.replication.factor": "2",
}

SETTLED_SECONDS_MAX = 40.0
NO_LEADER = -1
ID_OF_NOTHING = "nothing-has-this-topiA"


class Versions(NamedTuple):
    """The version of brokers and tools, and inter.broker.protocol.version."""

    kafka: str
    protocol: str


class Harness:
    """A cluster with its controller: a stock broker, or refold."""

    def __init__(
        self, lab_cluster: DefaultLabCluster, tree: ZooKeeperTree, *, under_refold: bool
    ) -> None:
        self.lab_cluster = lab_cluster
        self.lab = lab_cluster.lab
        self.tree = tree
        self.under_refold = under_refold
        self.folder = lab_cluster.lab.folder.parent / "files"
        self.folder.mkdir()
        self.tools = ArchivedTools(self.lab.kafka, self.folder)

    @property
    def controller(self) -> str:
        """host:port of the controller."""
        return self.lab_cluster.daemon_address if self.under_refold else self.broker(STOCK).connect

    @property
    def controller_id(self) -> int:
        """The broker id of the controller."""
        return OWN_ID if self.under_refold else STOCK

    def broker(self, broker: int) -> KafkaBroker:
        """The broker of this id."""
        return self.lab.brokers[broker - 1]

    def placeholders(self) -> dict[str, str]:
        """The addresses and paths of the cluster for the placeholders in a command line."""
        brokers = ",".join(self.broker(one).connect for one in (2, 3, 4))
        return {
            "brokers": brokers,
            "controller": self.controller,
            "controller_id": str(self.controller_id),
            "folder": str(self.folder),
        }

    async def topic_id(self, topic: str) -> str:
        """A topic's id, or an unknown id if the protocol version has no topic ids."""
        znode = await self.tree.read(f"/brokers/topics/{topic}")
        assert znode is not None
        return str(znode.content.get("topic_id", ID_OF_NOTHING))

    async def settled(self) -> Tree:
        """Waits until live replicas are in sync, all reassignments and deletions that can end have
        ended, and all live brokers know; returns the tree."""
        trees: list[Tree] = []
        wrong: list[str] = []

        async def nothing_is_wrong() -> bool:
            tree = await self.tree.whole()
            wrong[:] = unsettled(tree)
            for broker in _live(tree) - {OWN_ID}:
                wrong.extend(await self._not_known(broker, tree))
            trees[:] = [tree]
            return not wrong

        try:
            await until(nothing_is_wrong, SETTLED_SECONDS_MAX, "the cluster is settled")
        except TimeoutError as error:
            raise TimeoutError("\n".join([str(error), *wrong[:20]])) from None
        return trees[0]

    async def _not_known(self, broker: int, tree: Tree) -> list[str]:
        try:
            known = await topics(self.broker(broker))
        except (KafkaError, OSError, asyncio.IncompleteReadError) as error:
            return [f"broker {broker}: {error!r}"]
        known_to_it = {
            (topic, number): (view.leader, tuple(sorted(view.isr)))
            for topic, partitions in known.items()
            for number, view in partitions.items()
        }
        in_zookeeper = {
            name: (state["leader"], tuple(sorted(state["isr"])))
            for name, state in _states(tree).items()
        }
        differing = known_to_it.items() ^ _without_deletions(tree, in_zookeeper).items()
        return [f"broker {broker} does not agree on {one}" for one in sorted(map(str, differing))]


@asynccontextmanager
async def harness(
    folder: Path, versions: Versions, settings: Mapping[str, str | int] | None
) -> AsyncIterator[Harness]:
    """A new cluster with refold as controller with these settings, or with a stock controller."""
    kafka, protocol = versions
    async with Lab(folder / "cluster", kafka=kafka) as lab:
        zookeeper = await lab.start_zookeeper()
        for count in (1, BROKERS - 1):
            await lab.start_brokers(
                count, inter_broker_protocol=protocol, config=BROKER_CONFIG, racks=RACKS
            )
        async with (
            DefaultLabCluster(lab, folder, protocol=protocol) as lab_cluster,
            ZooKeeperTree(zookeeper.connect) as tree,
        ):
            await lab_cluster.until_controller(STOCK)
            if settings is not None:
                given = {**SHARED_CONFIG, "broker.rack": RACKS[0], **settings}
                daemon = await lab_cluster.controlling(settings=given)
                yield await _warm(Harness(lab_cluster, tree, under_refold=True))
                assert await daemon.stop() == 0, daemon.last_output()
            else:
                yield await _warm(Harness(lab_cluster, tree, under_refold=False))
                assert await lab_cluster.view.controller() == STOCK
        if settings is not None:
            await lab_cluster.check_logs()


async def _warm(made: Harness) -> Harness:
    await made.settled()
    await made.tools.warm_up(made.placeholders()["brokers"])
    return made


def _live(tree: Tree) -> set[int]:
    prefix = "/brokers/ids/"
    return {int(path.removeprefix(prefix)) for path in tree if path.startswith(prefix)}


def unsettled(tree: Tree) -> list[str]:
    """The operations in progress that can end."""
    wrong = []
    live = _live(tree)
    states = _states(tree)
    being_deleted = _being_deleted(tree)
    assignments = _assignments(tree)
    # The znode of a deletion is the last znode of its topic that is deleted.
    wrong += [f"{topic} is not deleted" for topic in sorted(being_deleted - assignments.keys())]
    for topic, znode in assignments.items():
        if topic.startswith(HEAVY):
            continue
        can_end = live.issuperset(_brokers_of(znode))
        if topic in being_deleted:
            wrong += [f"{topic} is not deleted"] * can_end
            continue
        if any(znode.get(one) for one in ("adding_replicas", "removing_replicas")) and can_end:
            wrong.append(f"{topic} is being reassigned")
        for key, replicas in znode["partitions"].items():
            state = states.get((topic, int(key)))
            if state is None:
                wrong.append(f"{topic}-{key} has no state")
            elif state["leader"] == NO_LEADER:
                wrong += [f"{topic}-{key} has no leader"] * bool(live & set(state["isr"]))
            elif set(state["isr"]) != live & set(replicas) or state["leader"] not in live:
                wrong.append(f"{topic}-{key} has {replicas}, {state}")
    return wrong


def _without_deletions(tree: Tree, of_partitions: Mapping[tuple[str, int], Any]) -> dict[Any, Any]:
    deleted = _being_deleted(tree)
    return {name: one for name, one in of_partitions.items() if name[0] not in deleted}


def _being_deleted(tree: Tree) -> set[str]:
    prefix = "/admin/delete_topics/"
    return {path.removeprefix(prefix) for path in tree if path.startswith(prefix)}


def _assignments(tree: Tree) -> dict[str, Any]:
    """The content of every topic znode."""
    prefix = "/brokers/topics/"
    names = [path.removeprefix(prefix) for path in tree if path.startswith(prefix)]
    return {name: tree[prefix + name].content for name in names if "/" not in name}


def _brokers_of(topic: Mapping[str, Any]) -> set[int]:
    return {broker for replicas in topic["partitions"].values() for broker in replicas}


def _states(tree: Tree) -> dict[tuple[str, int], Any]:
    states = {}
    for path, znode in tree.items():
        if path.startswith("/brokers/topics/") and path.endswith("/state"):
            _, _, _, topic, _, number, _ = path.split("/")
            states[topic, int(number)] = znode.content
    return states


def as_json(value: object) -> str:
    """A value as JSON, for a tool's file or a comparison."""
    return json.dumps(value, indent=1, sort_keys=True, default=str)
