"""`refold reassign` on a real ZooKeeper without a controller."""

import json
from pathlib import Path

import pytest
from aiozk import ZKClient

from tests.controller.cli.clusters import client, make_cluster
from tools.lab import ZooKeeperServer
from tools.lab.refold import run

pytestmark = [pytest.mark.lab, pytest.mark.timeout(180)]

REQUESTS = "/big/admin/reassignment_requests"
ZNODE_BYTES = 1024 * 1024
BROKERS = range(100, 140)
TOPICS, PARTITIONS = 8, 1000


async def make_topics(znodes: ZKClient, chroot: str) -> None:
    """Create topics. Each partition is on the first broker."""
    await make_cluster(znodes, chroot)
    await znodes.ensure_path(f"{chroot}/admin/delete_topics")
    for broker in BROKERS:
        await znodes.create(f"{chroot}/brokers/ids/{broker}", '{"version":5,"endpoints":[]}')
    partitions = {str(number): [BROKERS[0]] for number in range(PARTITIONS)}
    content = json.dumps({"version": 1, "partitions": partitions})
    for topic in range(TOPICS):
        await znodes.create(f"{chroot}/brokers/topics/t{topic}", content)


async def test_request_beyond_a_megabyte_is_split(
    zookeeper: ZooKeeperServer, tmp_path: Path
) -> None:
    everywhere = list(BROKERS)
    moves = [
        {"topic": f"t{topic}", "partition": number, "replicas": everywhere}
        for topic in range(TOPICS)
        for number in range(PARTITIONS)
    ]
    file = tmp_path / "moves.json"
    file.write_text(json.dumps({"version": 1, "partitions": moves}))
    given = ("--zookeeper", f"{zookeeper.connect}/big", "--reassignment-json-file", str(file))
    async with client(zookeeper.connect) as znodes:
        await make_topics(znodes, "/big")
        status, output = await run("reassign", "--execute", *given)
        assert status == 1
        assert "submit it in parts, or use --request, which splits it" in output

        status, output = await run("reassign", "--request", "--timeout", "0", "--json", *given)
        assert status == 3, output[-2000:]
        answer = json.loads(output)
        assert {one["outcome"] for one in answer["requested"]} == {"waiting"}
        assert len(answer["rollback"]["partitions"]) == len(moves)
        asked: dict[str, dict[str, list[int]]] = {}
        children = await znodes.get_children(REQUESTS)
        for child in children:
            data, _ = await znodes.get(f"{REQUESTS}/{child}")
            assert len(data) < ZNODE_BYTES
            for topic, partitions in json.loads(data)["assignments"].items():
                asked.setdefault(topic, {}).update(partitions)
        assert len(children) == 2
        assert sum(map(len, asked.values())) == len(moves)


async def test_chroot_without_a_cluster_is_reported(zookeeper: ZooKeeperServer) -> None:
    status, output = await run("reassign", "--list", "--zookeeper", f"{zookeeper.connect}/none")
    assert status == 1
    assert "there is no Kafka cluster: /brokers/ids does not exist" in output
