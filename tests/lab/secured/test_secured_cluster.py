"""A cluster whose ZooKeeper has TLS and SASL, and whose brokers have SASL_SSL only."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest
from aiokafka.conn import create_conn
from aiokafka.errors import KafkaError
from aiokafka.protocol.metadata import MetadataRequest
from anyio.to_thread import run_sync
from kazoo.security import ACL, READ_ACL_UNSAFE, make_acl

from controller.core import znodes
from controller.core.operations import OK, Create
from controller.core.values import Endpoint
from tests.controller.daemon.lab_cluster import timed
from tests.lab.secured.secured_cluster import OWN_ID, SecuredCluster
from tools.lab import KafkaBroker, Lab
from tools.lab.ports import HOST
from tools.lab.refold import run
from tools.lab.secured import BROKER_PASSWORD, USER, ZOOKEEPER_PASSWORD, SecuredFiles

pytestmark = [pytest.mark.lab, pytest.mark.timeout(240)]

OWNED = [make_acl("sasl", USER, all=True), *READ_ACL_UNSAFE]
"""Kafka's ACL of a znode that is not sensitive."""


class SecuredBrokers(SecuredCluster):
    """The cluster, a daemon that has the role, and a client with the daemon's settings."""

    def __init__(self, lab: Lab, files: SecuredFiles, folder: Path) -> None:
        super().__init__(lab, files, folder, files.broker_config())
        self.plain_zookeeper = lab.zookeepers[0].connect
        self.daemon = self.new_daemon()

    async def create_topic(self, topic: str, replicas: Sequence[int]) -> None:
        """Write a topic's znodes as a broker does that creates it automatically."""
        config = {"version": 1, "config": {}}
        content = {"version": 1, "partitions": {"0": list(replicas)}}
        async with self.client as client:
            writes = [
                Create(f"/config/topics/{topic}", json.dumps(config).encode()),
                Create(znodes.topic_path(topic), json.dumps(content).encode()),
            ]
            assert await client.write(tuple(writes)) == OK

    async def acls(self, path: str) -> list[ACL]:
        """The ACL of a znode, as another client of the same user sees it."""

        def read() -> list[ACL]:
            kazoo = self.files.kazoo()
            kazoo.start(timeout=8)
            try:
                return list(kazoo.get_acls(path)[0])
            finally:
                kazoo.stop()
                kazoo.close()

        return await run_sync(read)

    async def until_leader(self, broker: KafkaBroker, topic: str, leader: int) -> None:
        """Wait until a broker reports this leader to clients."""

        async def reported() -> bool:
            assert self.daemon.running, self.daemon.last_output()
            try:
                return await self._leader(broker, topic) == leader
            except (KafkaError, OSError):
                return False

        await timed(reported, f"{leader} leads {topic}")

    async def _leader(self, broker: KafkaBroker, topic: str) -> int | None:
        (endpoint,) = (one for one in await self.registered() if one.port == broker.port)
        security = self.settings.security.brokers.arguments(endpoint)
        connection = await create_conn(HOST, broker.port, request_timeout_ms=2000, **security)
        try:
            answer = await connection.send(MetadataRequest([topic]))
        finally:
            connection.close()
        for _, _, _, partitions in answer.topics:
            for _, _, leader, *_ in partitions:
                return int(leader)
        return None

    async def registered(self) -> list[Endpoint]:
        async with self.client as client:
            found: list[Endpoint] = []
            for name in await client.children(znodes.BROKER_IDS):
                (znode,) = await client.read((znodes.broker_path(int(name)),))
                assert znode is not None
                found += znodes.read_broker(int(name), znode.data, znode.czxid).endpoints
        return found


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[SecuredBrokers]:
    files = SecuredFiles(tmp_path / "files")
    async with Lab(tmp_path / "lab") as lab:
        # No session may do anything before its login.
        enforced = {"enforce.auth.enabled": "true", "enforce.auth.schemes": "sasl"}
        await files.start_zookeeper(lab, **enforced)
        await files.start_brokers(lab, 3, files.broker_config())
        made = SecuredBrokers(lab, files, tmp_path / "refold")
        await made.daemon.start()
        try:
            yield made
        finally:
            await made.daemon.kill_if_running()


async def test_commands_read_a_secured_cluster(cluster: SecuredBrokers) -> None:
    await cluster.until_controller(OWN_ID)
    await cluster.create_topic("orders", (1, 2, 3))
    await cluster.until_leader(cluster.lab.brokers[0], "orders", 1)
    given = ("--zookeeper", cluster.files.zookeeper_connect)
    config = str(cluster.config)
    status, output = await run("check", *given, "--config", config, "--broker-id", "1001")
    assert "no broker has a policy" in output, output
    for command in (("reassign", "--list"), ("health", "--topic", "orders")):
        status, output = await run(*command, *given, "--zk-tls-config-file", config)
        assert status == 0, output
    # The znodes may be read by everyone, but ZooKeeper requires a login.
    status, output = await run("reassign", "--list", "--zookeeper", cluster.plain_zookeeper)
    assert status != 0
    assert "requires a login by SASL" in output


async def test_commands_ask_secured_brokers(cluster: SecuredBrokers) -> None:
    """The registrations are in ZooKeeper; min.insync.replicas and releases only in brokers."""
    await cluster.until_controller()
    await cluster.create_topic("orders", (1, 2, 3))
    await cluster.until_leader(cluster.lab.brokers[0], "orders", 1)
    config = ("--config", str(cluster.config))
    status, output = await run("health", *config, "--topic", "orders", "--probe")
    assert status == 0, output
    assert "read back" in output
    assert "min.insync.replicas is not known" not in output
    zookeeper_only = cluster.config.with_name("zookeeper.properties")
    zookeeper_only.write_text(
        "".join(f"{key}={text}\n" for key, text in cluster.files.zookeeper_config().items())
        + f"refold.login.config={cluster.files.client_jaas()}\n"
    )
    _, output = await run("health", "--config", str(zookeeper_only), "--topic", "orders")
    assert "min.insync.replicas is not known" in output
    _, output = await run("check", "--migration", *config)
    assert "all brokers have inter.broker.protocol.version 3.9-IV0" in output
    _, output = await run("check", "--migration", "--config", str(zookeeper_only))
    assert "has no listener without TLS and SASL: give a broker's settings" in output


def texts_in(folder: Path) -> Mapping[Path, bytes]:
    return {one: one.read_bytes() for one in folder.rglob("*") if one.is_file()}


async def test_refold_controls_a_secured_cluster(cluster: SecuredBrokers, tmp_path: Path) -> None:
    await cluster.until_controller(OWN_ID)
    await cluster.create_topic("orders", (1, 2, 3))
    first, second, _ = cluster.lab.brokers
    await cluster.until_leader(second, "orders", 1)
    first.kill()
    await cluster.until_leader(second, "orders", 2)
    assert await cluster.acls(znodes.state_path("orders", 0)) == OWNED
    assert await cluster.daemon.stop() == 0
    await cluster.until_controller(2, 3)
    logged = texts_in(tmp_path / "refold" / "logs")
    logged[tmp_path / "refold" / "refold.out"] = (tmp_path / "refold" / "refold.out").read_bytes()
    assert any(b"orders" in one for one in logged.values())
    for secret in (ZOOKEEPER_PASSWORD, BROKER_PASSWORD):
        assert [path for path, content in logged.items() if secret.encode() in content] == []
