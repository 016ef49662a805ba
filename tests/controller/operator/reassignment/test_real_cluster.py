"""`refold reassign` on a real cluster, with the daemon and with a stock controller."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from aiokafka import AIOKafkaProducer

from tests.controller.daemon.lab_cluster import OWN_ID, WAIT_SECONDS
from tests.lab.archived_tools import ArchivedTools
from tests.lab.default_clusters.cluster import DefaultLabCluster
from tests.lab.default_clusters.conftest import with_lab_cluster
from tests.lab.shared_cluster import shared_cluster
from tools.lab import Lab
from tools.lab.cluster_view import until
from tools.lab.kafka_tools import ToolResult
from tools.lab.lab import LATEST_KAFKA
from tools.lab.refold import command, run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(600)]

CHROOT = "/kafka"
SLOW = "5000"
"""Bytes per second. A move with this throttle does not complete during a test."""
RECORDS, RECORD_BYTES = 4000, 1000


class Cluster(NamedTuple):
    """A cluster of four brokers, and an operator at its command line."""

    lab_cluster: DefaultLabCluster
    folder: Path

    async def reassign(self, *arguments: str | Path) -> tuple[int, str]:
        """Run `refold reassign` by ZooKeeper. Returns exit status and output."""
        connect = self.lab_cluster.connect
        return await run("reassign", "--zookeeper", connect, *map(str, arguments))

    async def by_brokers(self, *arguments: str | Path) -> tuple[int, str]:
        """Run `refold reassign` by Kafka's APIs."""
        return await run(
            "reassign", "--bootstrap-server", self.lab_cluster.lab.bootstrap, *map(str, arguments)
        )

    def file(self, **moves: Sequence[int]) -> Path:
        """A --reassignment-json-file, `t0=(4, 1)` for t-0."""
        partitions = [
            {"topic": name[:-1], "partition": int(name[-1]), "replicas": list(one)}
            for name, one in moves.items()
        ]
        path = self.folder / f"{'-'.join(moves)}-{len(list(self.folder.iterdir()))}.json"
        path.write_text(json.dumps({"version": 1, "partitions": partitions}))
        return path

    async def create(self, topic: str, *replicas: int) -> None:
        """A topic with one partition of some megabytes, in sync."""
        await self.lab_cluster.create_topic(topic, {0: replicas})
        async with AIOKafkaProducer(bootstrap_servers=self.lab_cluster.lab.bootstrap) as producer:
            sent = [await producer.send(topic, bytes(RECORD_BYTES)) for _ in range(RECORDS)]
            await asyncio.gather(*sent)
        await self.lab_cluster.until_in_sync(topic, len(replicas))

    async def replicas(self, topic: str) -> list[int]:
        """The replicas of its only partition."""
        return (await self.lab_cluster.replicas_of(topic))[0]

    async def until_on_disk(self, topic: str, broker: int, *, there: bool) -> None:
        """Wait until a broker has files of the only partition, or none, not even files marked
        for deletion."""
        data = self.lab_cluster.lab.brokers[broker - 1].folder / "data"

        async def so() -> bool:
            return any(data.glob(f"{topic}-0*")) is there

        await until(so, WAIT_SECONDS, f"{topic}-0 on broker {broker}: {there}")

    async def by_both(self, *arguments: str | Path) -> tuple[int, str]:
        """Run `refold reassign` by ZooKeeper and Kafka's APIs."""
        return await self.reassign(
            "--bootstrap-server", self.lab_cluster.lab.bootstrap, *map(str, arguments)
        )

    async def leave_stray(self, topic: str) -> None:
        """A topic moves from brokers 1 and 4 to 1 and 3 while 4 is dead. Then 4 starts again."""
        dead = self.lab_cluster.lab.brokers[3]
        await self.create(topic, 1, 4)
        log = dead.folder / "data" / f"{topic}-0" / "00000000000000000000.log"

        async def copied() -> bool:
            return log.exists() and log.stat().st_size > RECORDS * RECORD_BYTES

        await until(copied, WAIT_SECONDS, f"{topic}-0 is copied to broker {dead.broker_id}")
        dead.kill()

        async def gone() -> bool:
            return not await self.lab_cluster.view.exists(f"/brokers/ids/{dead.broker_id}")

        await until(gone, WAIT_SECONDS, f"broker {dead.broker_id} is not registered")
        await self.lab_cluster.until_stock_controller()
        moves = self.file(**{f"{topic}0": (1, 3)})
        given = ("--reassignment-json-file", moves)
        status, output = await self.reassign("--execute", *given, "--wait")
        assert status == 0, output
        await dead.start()

    async def throttles(self, topic: str) -> dict[str, dict[str, str]]:
        """The throttles of a topic and its brokers."""
        entities = (f"topics/{topic}", *(f"brokers/{one}" for one in (1, 2, 3, 4)))
        found = {one: await self.lab_cluster.view.config(one) for one in entities}
        return {entity: one for entity, one in found.items() if one}


@pytest.fixture(scope="module")
def four_brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    config = {
        # A throttled replica can still fetch this much, once in a quota window of 11 s.
        "replica.fetch.max.bytes": "65536",
        # A deleted replica is removed from the disk at once.
        "log.segment.delete.delay.ms": "0",
    }
    with shared_cluster(tmp_path_factory.mktemp("cluster"), 4, chroot=CHROOT, config=config) as lab:
        yield lab


@pytest.fixture
async def stock(four_brokers: Lab, tmp_path: Path) -> AsyncIterator[Cluster]:
    """The cluster under a stock controller."""
    async with with_lab_cluster(four_brokers, tmp_path, chroot=CHROOT) as lab_cluster:
        folder = tmp_path / "files"
        folder.mkdir()
        yield Cluster(lab_cluster, folder)


@pytest.fixture
async def cluster(stock: Cluster) -> Cluster:
    """Under refold."""
    await stock.lab_cluster.controlling()
    return stock


@pytest.mark.ci
async def test_cancel_is_carried_out_as_kip_236_shows(cluster: Cluster) -> None:
    await cluster.create("orders", 1, 2, 3)
    moves, back = cluster.file(orders0=(4, 2, 3)), cluster.file(orders0=(1, 2, 3))
    given = ("--reassignment-json-file", moves)

    status, output = await cluster.reassign("--execute", *given, "--throttle", SLOW)
    assert status == 0, output
    assert "Successfully started partition reassignment for orders-0" in output
    assert (await cluster.throttles("orders"))["topics/orders"] == {
        "leader.replication.throttled.replicas": "0:1,0:2,0:3",
        "follower.replication.throttled.replicas": "0:4",
    }
    await cluster.until_on_disk("orders", 4, there=True)
    status, output = await cluster.reassign("--verify", *given)
    assert status == 3, output
    assert "Reassignment of partition orders-0 is still in progress." in output
    assert "orders-0: 2 of 3 replicas caught up, waits for 4 (/admin/reassign_partitions)" in output

    status, output = await cluster.reassign("--cancel", "--wait", "--preserve-throttles")
    assert status == 0, output
    assert output.splitlines()[:2] == [
        "Rolling back the current pending reassignments Map(orders-0 -> Map(replicas -> "
        "Buffer(4, 2, 3), original_replicas -> Buffer(1, 2, 3)))",
        "Successfully submitted cancellation of reassignments.",
    ]
    assert "Reassignment of partition orders-0 is completed." in output
    assert await cluster.replicas("orders") == [1, 2, 3]
    await cluster.until_on_disk("orders", 4, there=False)

    status, output = await cluster.reassign("--execute", *given)
    assert status == 1
    assert "/admin/reassign_cancel exists" in output
    status, output = await cluster.by_brokers("--execute", *given)
    assert status == 1
    assert "/admin/reassign_cancel exists" in output
    status, output = await cluster.reassign("--remove-cancel")
    assert (status, output) == (0, "Successfully remove the znode /admin/reassign_cancel.\n")

    status, output = await cluster.reassign("--verify", "--reassignment-json-file", back)
    assert status == 0, output
    assert await cluster.throttles("orders") == {}
    status, output = await cluster.reassign("--verify", *given)
    assert status == 4
    assert "but replica set is 1,2,3 rather than 4,2,3." in output


async def test_extra_reassignment_completes_while_another_is_blocked(cluster: Cluster) -> None:
    for topic in ("stuck", "again", "quick"):
        await cluster.create(topic, 1, 2)
    await cluster.reassign(
        *("--execute", "--throttle", SLOW, "--reassignment-json-file"),
        cluster.file(stuck0=(3, 4), again0=(3, 4)),
    )
    status, output = await cluster.reassign(
        "--execute", "--reassignment-json-file", cluster.file(quick0=(3, 4))
    )
    assert status == 1
    assert "add more with --execute-extra" in output

    extra = cluster.file(quick0=(3, 4), again0=(2, 1))
    given = ("--reassignment-json-file", extra)
    status, output = await cluster.reassign("--execute-extra", *given, "--wait")
    assert status == 0, output
    assert (
        "Rolling back the current pending reassignments Map(again-0 -> Map(replicas -> "
        "Buffer(3, 4), original_replicas -> Buffer(1, 2)))"
    ) in output.splitlines()
    assert "Reassignment of partition quick-0 is completed." in output
    # The throttle of a broker applies to all partitions, and one is still moving.
    assert "Clearing" not in output
    assert await cluster.replicas("quick") == [3, 4]
    assert await cluster.replicas("again") == [2, 1]
    status, output = await cluster.reassign("--list")
    assert "stuck-0" in output
    assert "quick-0" not in output

    await cluster.reassign("--cancel", "--wait")
    await cluster.reassign("--remove-cancel")
    assert await cluster.replicas("stuck") == [1, 2]
    assert await cluster.throttles("stuck") == {}


async def test_request_has_an_id_and_a_rollback_assignment(cluster: Cluster) -> None:
    await cluster.create("asked", 1, 2)
    status, output = await cluster.reassign(
        *("--request", "--json", "--throttle", SLOW, "--reassignment-json-file"),
        cluster.file(asked0=(3, 4)),
    )
    assert status == 0, output
    answer = json.loads(output)
    (one,) = answer["requested"]
    czxid = one["czxid"]
    assert one["outcome"] == "started"
    assert (await cluster.reassign("--verify", "--id", czxid))[0] == 3
    status, output = await cluster.reassign(
        "--execute", "--reassignment-json-file", cluster.file(asked0=(2, 3))
    )
    assert status == 1
    assert "asked-0: already being reassigned, by /admin/reassignments" in output

    status, output = await cluster.reassign(
        "--request", "--reassignment-json-file", cluster.file(asked0=(1, 4))
    )
    assert f"asked-0: changed, /admin/reassignments/asked/0 has czxid {czxid}" in output
    status, output = await cluster.reassign("--verify", "--id", czxid)
    assert status == 4
    assert f"Reassignment {czxid} of asked-0 is changed, to 1,4." in output
    back = cluster.folder / "back.json"
    back.write_text(json.dumps(answer["rollback"]))
    status, output = await cluster.reassign("--request", "--reassignment-json-file", back, "--wait")
    assert status == 0, output
    assert (await cluster.reassign("--verify", "--id", czxid)) == (
        0,
        f"Reassignment {czxid} is done.\n",
    )
    assert await cluster.replicas("asked") == [1, 2]
    await cluster.until_on_disk("asked", 3, there=False)
    assert await cluster.throttles("asked") == {}


async def test_kafkas_own_tool_can_be_used_over_its_api(cluster: Cluster, tmp_path: Path) -> None:
    await cluster.create("api", 1, 2)
    tools, bootstrap = ArchivedTools(LATEST_KAFKA, tmp_path), cluster.lab_cluster.lab.bootstrap

    async def kafkas(*arguments: str | Path) -> ToolResult:
        given = ("--bootstrap-server", bootstrap, *map(str, arguments))
        return await tools.run("kafka-reassign-partitions", *given)

    given = ("--reassignment-json-file", cluster.file(api0=(3, 2)))
    status, output = await cluster.by_brokers("--execute", *given, "--throttle", SLOW)
    assert status == 0, output
    listed = (await kafkas("--list")).output.split()
    status, output = await cluster.by_brokers("--list")
    assert "KiB left" in output or "MiB left" in output
    ours = [line for line in output.splitlines() if not line.startswith("  ")]
    assert "\n".join(ours).split() == listed
    assert (await cluster.by_brokers("--execute", *given))[0] == 1
    assert (await cluster.by_brokers("--verify", *given))[0] == 3
    status, output = await cluster.reassign("--list")
    assert "(the AlterPartitionReassignments API)" in output

    status, output = await cluster.by_brokers("--cancel", *given, "--wait")
    assert status == 0, output
    assert "Successfully cancelled partition reassignment for: api-0" in output
    # Its record contains the originals in their order.
    assert await cluster.replicas("api") == [1, 2]
    assert await cluster.throttles("api") == {}
    # Kafka's tool assumes that the daemon is a broker with a throttle to clear.
    words = (await kafkas("--verify", *given)).output.replace(f",{OWN_ID}", "")
    status, output = await cluster.by_brokers("--verify", *given)
    assert status == 4
    assert output.split() == words.split()


async def test_proposed_assignment_can_be_executed(cluster: Cluster) -> None:
    await cluster.create("proposed", 1, 2)
    topics = cluster.folder / "topics.json"
    topics.write_text('{"version":1,"topics":[{"topic":"proposed"}]}')
    given = ("--topics-to-move-json-file", topics, "--broker-list", "3,4", "--json")
    for way, action in (
        (cluster.reassign, "--generate"),
        (cluster.reassign, "--generate-extra"),
        (cluster.by_brokers, "--generate"),
    ):
        status, output = await way(action, *given)
        assert status == 0, output
        answer = json.loads(output)
        assert answer["current"]["partitions"][0]["replicas"] == [1, 2]
        proposal = cluster.folder / "proposal.json"
        proposal.write_text(json.dumps(answer["proposed"]))
    status, output = await cluster.by_brokers(
        "--execute", "--wait", "--reassignment-json-file", proposal
    )
    assert status == 0, output
    assert sorted(await cluster.replicas("proposed")) == [3, 4]


async def test_kip_236_actions_are_rejected_under_a_stock_controller(
    stock: Cluster,
) -> None:
    await stock.create("plain", 1, 2)
    given = ("--reassignment-json-file", stock.file(plain0=(3, 4)))
    for arguments in (("--cancel",), ("--execute-extra", *given), ("--request", *given)):
        status, output = await stock.reassign(*arguments)
        assert status == 1
        assert "a stock controller, has the role" in output
    status, output = await stock.reassign("--execute", *given, "--wait")
    assert status == 0, output
    assert "is written without original_replicas" in output
    assert await stock.replicas("plain") == [3, 4]


async def test_replica_kept_by_a_dead_broker_is_listed(stock: Cluster) -> None:
    """A stock controller does not delete the replica of a broker that was dead during the move."""
    assert (await stock.by_both("--list-strays"))[0] == 0
    await stock.leave_stray("kept")
    for way in (stock.by_both, stock.by_brokers):
        status, output = await way("--list-strays", "--json")
        assert status == 4, output
        [stray] = json.loads(output)["strays"]
        assert (stray["topic"], stray["partition"], stray["broker"]) == ("kept", 0, 4)
        assert stray["assigned"] == [1, 3]
        assert stray["bytes"] > RECORDS * RECORD_BYTES
        assert Path(stray["log_dir"]) == stock.lab_cluster.lab.brokers[3].folder / "data"
    status, output = await stock.by_both("--delete-strays")
    assert status == 1
    assert (
        "a stock controller, has the role: it does not support /admin/replica_deletions" in output
    )
    await stock.until_on_disk("kept", 4, there=True)


async def test_strays_are_deleted(stock: Cluster) -> None:
    await stock.leave_stray("stray")
    await stock.lab_cluster.controlling()
    status, output = await stock.by_both("--list-strays")
    assert status == 4, output
    assert "stray-0 on broker 4: " in output
    status, output = await stock.by_both("--delete-strays", "--timeout", "60000")
    assert status == 0, output
    assert "Asked the controller to delete from broker 4: " in output
    await stock.until_on_disk("stray", 4, there=False)
    assert await stock.lab_cluster.replicas_of("stray") == {0: [1, 3]}
    assert (await stock.by_both("--list-strays"))[0] == 0


async def test_waiting_command_can_be_interrupted(cluster: Cluster) -> None:
    await cluster.create("left", 1, 2)
    given = ("--reassignment-json-file", str(cluster.file(left0=(3, 2))))
    await cluster.reassign("--execute", *given, "--throttle", SLOW)
    waiting = await asyncio.create_subprocess_exec(
        *command(
            "reassign", "--zookeeper", cluster.lab_cluster.connect, "--verify", "--wait", *given
        ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert waiting.stdout is not None
    assert b"left-0: 1 of 2 replicas caught up" in await waiting.stdout.readline()
    waiting.send_signal(signal.SIGINT)
    _, problems = await waiting.communicate()
    assert waiting.returncode == 130
    assert b"Traceback" not in problems
    await cluster.reassign("--cancel", "--wait")
    await cluster.reassign("--remove-cancel")
