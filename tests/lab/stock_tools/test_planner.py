"""No request places a replica on the daemon's id, although planners take it for an empty broker."""

import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from kio.schema.errors import ErrorCode

from tests.controller.api.client import METADATA, Client
from tests.controller.daemon.lab_cluster import OWN_ID, timed
from tests.lab.archived_tools import ArchivedTools
from tests.lab.default_clusters.cluster import DefaultLabCluster
from tests.lab.default_clusters.conftest import with_lab_cluster
from tests.lab.incidents.zookeeper_tree import Tree, ZooKeeperTree
from tests.lab.stock_tools.admin_requests import (
    ALTER_REASSIGNMENTS,
    ALTER_REASSIGNMENTS_VERSION,
    CREATE_PARTITIONS,
    CREATE_PARTITIONS_VERSION,
    CREATE_TOPICS,
    CREATE_TOPICS_VERSION,
    METADATA_VERSION,
    alter_reassignments,
    create_partitions,
    create_topics,
    metadata,
)
from tools.lab import Lab
from tools.lab.refold import run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(120), pytest.mark.asyncio(loop_scope="module")]

EMPTY_BROKER = OWN_ID
KNOWN = "known"
INTERNAL = ("__consumer_offsets", "__transaction_state")


class Mix(NamedTuple):
    """The cluster and clients for a route."""

    lab_cluster: DefaultLabCluster
    tree: ZooKeeperTree
    client: Client
    folder: Path

    async def create(self, topic: str) -> None:
        """Creates a topic that has no replica on the daemon."""
        await self.lab_cluster.create_topic(topic, {0: [1, 2, 3], 1: [2, 3, 1]})

    async def tool(self, name: str, *arguments: str) -> tuple[int, str]:
        """The exit status and the output of one of Kafka's tools."""
        tools = ArchivedTools(self.lab_cluster.lab.kafka, self.folder)
        result = await tools.run(
            name, "--bootstrap-server", self.lab_cluster.lab.bootstrap, *arguments
        )
        return result.status, result.output + result.problems

    def file(self, content: object) -> str:
        """Writes a file for a tool; returns its path."""
        path = self.folder / "file.json"
        path.write_text(json.dumps(content))
        return str(path)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def controlled(
    shared_lab: Lab, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[DefaultLabCluster]:
    """A cluster with refold as controller, whose node brokers and clients know."""
    async with with_lab_cluster(shared_lab, tmp_path_factory.mktemp("lab_cluster")) as lab_cluster:
        await lab_cluster.controlling()
        await lab_cluster.create_topic(KNOWN, {0: [1, 2, 3]})
        yield lab_cluster
        daemon = lab_cluster.daemons[-1]
        assert await daemon.stop() == 0, daemon.last_output()


@pytest_asyncio.fixture(loop_scope="module")
async def mix(controlled: DefaultLabCluster, tmp_path: Path) -> AsyncIterator[Mix]:
    async with (
        ZooKeeperTree(controlled.connect) as tree,
        Client(_port(controlled.daemon_address)) as client,
    ):
        yield Mix(controlled, tree, client, tmp_path)


def _port(address: str) -> int:
    return int(address.partition(":")[2])


Route = Callable[[Mix], Awaitable[None]]


async def an_assignment_for_a_new_topic(mix: Mix) -> None:
    requested = {
        "alone": {0: [EMPTY_BROKER]},
        "among": {0: [1, EMPTY_BROKER, 2]},
        "fine": {0: [1, 2]},
    }
    answer = await mix.client.ask(CREATE_TOPICS, CREATE_TOPICS_VERSION, create_topics(requested))
    assert {one.name: one.error_code for one in answer.topics} == {
        "alone": ErrorCode.invalid_replica_assignment,
        "among": ErrorCode.invalid_replica_assignment,
        "fine": ErrorCode.none,
    }
    assert all(str(OWN_ID) in one.error_message for one in answer.topics if one.name != "fine")


async def more_replicas_than_brokers(mix: Mix) -> None:
    answer = await mix.client.ask(
        CREATE_TOPICS, CREATE_TOPICS_VERSION, create_topics({"four": 4, "three": 3})
    )
    assert {one.name: one.error_code for one in answer.topics} == {
        "four": ErrorCode.invalid_replication_factor,
        "three": ErrorCode.none,
    }


async def many_topics_of_the_controllers_choice(mix: Mix) -> None:
    request = create_topics({f"chosen-{number}": 3 for number in range(60)}, partitions=3)
    answer = await mix.client.ask(CREATE_TOPICS, CREATE_TOPICS_VERSION, request)
    assert {one.error_code for one in answer.topics} == {ErrorCode.none}


async def an_assignment_for_an_added_partition(mix: Mix) -> None:
    await mix.create("grown")
    request = create_partitions("grown", 3, [[1, 2, EMPTY_BROKER]])
    answer = await mix.client.ask(CREATE_PARTITIONS, CREATE_PARTITIONS_VERSION, request)
    assert answer.results[0].error_code == ErrorCode.invalid_replica_assignment
    request = create_partitions("grown", 30)
    answer = await mix.client.ask(CREATE_PARTITIONS, CREATE_PARTITIONS_VERSION, request)
    assert answer.results[0].error_code == ErrorCode.none


async def a_reassignment(mix: Mix) -> None:
    await mix.create("moved")
    request = alter_reassignments(
        {("moved", 0): [1, 2, EMPTY_BROKER], ("moved", 1): [EMPTY_BROKER]}
    )
    answer = await mix.client.ask(ALTER_REASSIGNMENTS, ALTER_REASSIGNMENTS_VERSION, request)
    errors = {one.error_code for topic in answer.responses for one in topic.partitions}
    assert errors == {ErrorCode.invalid_replica_assignment}


async def a_reassignment_in_zookeeper(mix: Mix) -> None:
    await mix.create("requested-by-znode")
    move = {"topic": "requested-by-znode", "partition": 0, "replicas": [EMPTY_BROKER, 2, 3]}
    await mix.tree.create("/admin/reassign_partitions", {"version": 1, "partitions": [move]})

    await until_gone(mix, "/admin/reassign_partitions")


async def more_reassignments_in_zookeeper(mix: Mix) -> None:
    await mix.create("requested-later")
    moves = [
        {"topic": "requested-later", "partition": number, "replicas": replicas}
        for number, replicas in enumerate(([EMPTY_BROKER, 2, 3], [EMPTY_BROKER]))
    ]
    extra = "/admin/reassign_partitions_extra"
    await mix.tree.create(extra, {"version": 1, "partitions": moves})
    await until_gone(mix, extra)
    await until_gone(mix, "/admin/reassign_partitions")


async def a_request_in_zookeeper(mix: Mix) -> None:
    await mix.create("requested")
    requested = {"requested": {"0": [EMPTY_BROKER, 2, 3], "1": [EMPTY_BROKER]}}
    request = "/admin/reassignment_requests/request_0000000100"
    await mix.tree.create(request, {"version": 1, "assignments": requested})
    await until_gone(mix, request)


async def refold_reassign(mix: Mix) -> None:
    await mix.create("by-refold")
    move = {"topic": "by-refold", "partition": 0, "replicas": [1, 2, EMPTY_BROKER]}
    file = mix.file({"version": 1, "partitions": [move]})
    by_zookeeper = ("--zookeeper", mix.lab_cluster.connect)
    for action, by in (
        ("--execute", by_zookeeper),
        ("--execute-extra", by_zookeeper),
        ("--request", by_zookeeper),
        ("--execute", ("--bootstrap-server", mix.lab_cluster.daemon_address)),
    ):
        status, output = await run("reassign", action, *by, "--reassignment-json-file", file)
        assert status == 1, output
        assert f"broker {OWN_ID} " in output.lower()


async def a_topic_znode_by_hand(mix: Mix) -> None:
    await mix.lab_cluster.view.create_topic("by-hand", {0: [EMPTY_BROKER, 1, 2], 1: [EMPTY_BROKER]})


async def a_partition_added_by_hand(mix: Mix) -> None:
    await mix.create("added-by-hand")
    znode = await mix.tree.read("/brokers/topics/added-by-hand")
    assert znode is not None
    partitions = znode.content["partitions"] | {"2": [3, EMPTY_BROKER, 1], "3": [EMPTY_BROKER]}
    await mix.tree.set(
        "/brokers/topics/added-by-hand", {**znode.content, "partitions": partitions}, znode.version
    )


async def replicas_to_be_added_by_hand(mix: Mix) -> None:
    await mix.create("adding-by-hand")
    path = "/brokers/topics/adding-by-hand"
    znode = await mix.tree.read(path)
    assert znode is not None
    partitions = znode.content["partitions"] | {"0": [1, 2, 3, EMPTY_BROKER]}
    adding = {"0": [EMPTY_BROKER], "1": [EMPTY_BROKER]}
    content = {**znode.content, "partitions": partitions, "adding_replicas": adding}
    await mix.tree.set(path, content, znode.version)


async def internal_topics(mix: Mix) -> None:
    """A broker creates these topics when the first client asks for a coordinator."""
    address = mix.lab_cluster.daemon_address
    async with AIOKafkaConsumer(KNOWN, bootstrap_servers=address, group_id="first"):
        pass
    async with (
        AIOKafkaProducer(bootstrap_servers=address, transactional_id="first") as producer,
        producer.transaction(),
    ):
        await producer.send_and_wait(KNOWN, b"first")
    await timed(lambda: named(mix, INTERNAL), "brokers chose the daemon for all of them")


async def a_topic_that_clients_make(mix: Mix) -> None:
    names = [f"made-{number}" for number in range(30)]
    async with AIOKafkaProducer(bootstrap_servers=mix.lab_cluster.daemon_address) as producer:
        for name in names:
            await producer.send_and_wait(name, b"first")


async def a_tool_that_creates(mix: Mix) -> None:
    status, output = await mix.tool(
        "kafka-topics", "--create", "--topic", "by-tool", "--replica-assignment", f"{OWN_ID}:1"
    )
    assert status == 1, output
    assert "InvalidReplicaAssignmentException" in output


async def a_tool_that_proposes_it(mix: Mix) -> None:
    await mix.create("proposed")
    to_move = mix.file({"version": 1, "topics": [{"topic": "proposed"}]})
    brokers = f"{OWN_ID},1,2"
    status, output = await mix.tool(
        "kafka-reassign-partitions",
        *("--generate", "--topics-to-move-json-file", to_move, "--broker-list", brokers),
    )
    assert status == 0, output
    proposal = json.loads(output.partition("Proposed partition reassignment configuration")[2])
    assert all(OWN_ID in one["replicas"] for one in proposal["partitions"])
    status, output = await mix.tool(
        "kafka-reassign-partitions",
        *("--execute", "--reassignment-json-file", mix.file(proposal)),
    )
    assert status == 1, output
    assert f"Broker {OWN_ID} is the controller" in output


ROUTES: tuple[Route, ...] = (
    an_assignment_for_a_new_topic,
    more_replicas_than_brokers,
    many_topics_of_the_controllers_choice,
    an_assignment_for_an_added_partition,
    a_reassignment,
    a_reassignment_in_zookeeper,
    more_reassignments_in_zookeeper,
    a_request_in_zookeeper,
    refold_reassign,
    a_topic_znode_by_hand,
    a_partition_added_by_hand,
    replicas_to_be_added_by_hand,
    internal_topics,
    a_topic_that_clients_make,
    a_tool_that_creates,
    a_tool_that_proposes_it,
)


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.__name__)
async def test_route_places_no_replica_on_the_daemon(mix: Mix, route: Route) -> None:
    await route(mix)
    await until_daemon_has_no_replica(mix)


@pytest.mark.ci
async def test_planner_can_use_the_other_brokers(mix: Mix) -> None:
    """The planner reads the metadata and moves replicas to the node with the fewest replicas."""
    for number in range(4):
        await mix.create(f"planned-{number}")
    refused = await plan_and_ask(mix, without=())
    assert set(refused.values()) == {ErrorCode.invalid_replica_assignment}
    await until_daemon_has_no_replica(mix)
    taken = await plan_and_ask(mix, without=(OWN_ID,))
    assert set(taken.values()) == {ErrorCode.none}
    await until_daemon_has_no_replica(mix)


async def test_replicas_placed_on_a_killed_daemon_are_repaired(mix: Mix) -> None:
    """Brokers take the killed daemon for alive until the next controller sends them UpdateMetadata.
    No controller is notified of a state that was written by hand."""
    broker = mix.lab_cluster.lab.brokers[0]
    names = [f"orphan-{number}" for number in range(20)]
    mix.lab_cluster.daemons[-1].kill()
    async with Client(_port(broker.connect)) as client:
        await client.ask(METADATA, METADATA_VERSION, metadata(names))
    tree = await mix.tree.whole()
    on_it = [name for name in names if has_daemon(f"/brokers/topics/{name}", tree)]
    assert on_it
    await mix.lab_cluster.until_stock_controller()
    await until_all_are_led(mix)
    await an_isr_by_hand(mix)
    await mix.lab_cluster.controlling()
    await until_daemon_has_no_replica(mix)
    for topic in (on_it[0], KNOWN):
        await mix.lab_cluster.until_in_sync(topic, 3)


async def an_isr_by_hand(mix: Mix) -> None:
    path = f"/brokers/topics/{KNOWN}/partitions/0/state"
    znode = await mix.tree.read(path)
    assert znode is not None
    in_sync = [*znode.content["isr"], EMPTY_BROKER]
    await mix.tree.set(path, {**znode.content, "isr": in_sync}, znode.version)


async def plan_and_ask(mix: Mix, without: tuple[int, ...]) -> dict[tuple[str, int], ErrorCode]:
    """Requests two replicas of each partition on the emptiest nodes; returns the answers."""
    seen = await mix.client.ask(METADATA, METADATA_VERSION, metadata())
    nodes = sorted({one.node_id for one in seen.brokers} - set(without))
    assert (OWN_ID in nodes) == (not without)
    partitions = {
        (topic.name, one.partition_index): one.replica_nodes
        for topic in seen.topics
        for one in topic.partitions
        if topic.name.startswith("planned-")
    }
    held = Counter(broker for replicas in partitions.values() for broker in replicas)
    emptiest = sorted(nodes, key=lambda node: held[node])[:2]
    targets = dict.fromkeys(partitions, emptiest)
    answer = await mix.client.ask(
        ALTER_REASSIGNMENTS, ALTER_REASSIGNMENTS_VERSION, alter_reassignments(targets)
    )
    return {
        (topic.name, one.partition_index): one.error_code
        for topic in answer.responses
        for one in topic.partitions
    }


async def named(mix: Mix, topics: Sequence[str]) -> bool:
    """Whether the daemon was among the replicas of each topic."""
    messages = mix.lab_cluster.daemons[-1].messages()
    found = {one["subject"] for one in messages if one.get("code") == "own_id_repaired"}
    return found.issuperset(f"/brokers/topics/{topic}" for topic in topics)


async def until_gone(mix: Mix, path: str) -> None:
    """Waits until refold has processed a request in ZooKeeper."""

    async def gone() -> bool:
        return await mix.tree.read(path) is None

    await timed(gone, f"{path} is deleted")


async def until_all_are_led(mix: Mix) -> None:
    """Waits until every partition has a leader."""

    async def led() -> bool:
        return not leaderless(await mix.tree.whole())

    await timed(led, "all partitions have leaders")


async def until_daemon_has_no_replica(mix: Mix) -> None:
    """Waits until every partition has a leader, and no znode has the daemon as a replica."""
    wrong: list[str] = []

    async def right() -> bool:
        tree = await mix.tree.whole()
        wrong[:] = [path for path in tree if has_daemon(path, tree)] + leaderless(tree)
        return not wrong

    try:
        await timed(right, "no replica is on the daemon's id, and all partitions have leaders")
    except TimeoutError as error:
        raise AssertionError(f"{error}: {wrong}") from None


def has_daemon(path: str, tree: Tree) -> bool:
    """Whether a topic's or partition's znode has the daemon as a replica, leader or in the ISR."""
    if not path.startswith("/brokers/topics/"):
        return False
    content = tree[path].content
    if not isinstance(content, Mapping):
        return False
    if path.endswith("/state"):
        return OWN_ID in (content["leader"], *content["isr"])
    lists = ("partitions", "adding_replicas", "removing_replicas")
    return any(OWN_ID in replicas for one in lists for replicas in _values(content, one))


def _values(content: Mapping[str, Any], name: str) -> list[list[int]]:
    return list(content.get(name, {}).values())


def leaderless(tree: Tree) -> list[str]:
    """The partitions without a leader."""
    states = {path: znode.content for path, znode in tree.items() if path.endswith("/state")}
    missing = [
        path
        for topic, znode in tree.items()
        if topic.count("/") == 3 and topic.startswith("/brokers/topics/")
        for number in znode.content["partitions"]
        if (path := f"{topic}/partitions/{number}/state") not in states
    ]
    return missing + [path for path, state in states.items() if state["leader"] < 0]
