"""Clients that know only the daemon's address."""

import re

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from tests.controller.daemon.lab_cluster import OWN_ID
from tests.lab.default_clusters.cluster import DefaultLabCluster, tool
from tools.lab.refold import Refold

pytestmark = [pytest.mark.lab, pytest.mark.timeout(90)]

TOPIC = "of-clients"
RECORDS = [b"one", b"two", b"three"]


@pytest.fixture
async def daemon(lab_cluster: DefaultLabCluster) -> Refold:
    """A daemon that is controller and known to the brokers."""
    daemon = await lab_cluster.controlling()
    if not await lab_cluster.replicas_of(TOPIC):
        await lab_cluster.create_topic(TOPIC, {0: [1, 2, 3], 1: [2, 3, 1]})
    await lab_cluster.until_in_sync(TOPIC, 3)
    return daemon


@pytest.mark.ci
async def read_after_a_restart(address: str) -> bytes | None:
    """The first record that the next consumer of the group reads, after a further one."""
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        await producer.send_and_wait(TOPIC, b"later")
    consumer = AIOKafkaConsumer(
        TOPIC, bootstrap_servers=address, group_id="readers", enable_auto_commit=False
    )
    async with consumer:
        return (await consumer.getone()).value


async def test_python_client_produces_consumes_and_administers(
    lab_cluster: DefaultLabCluster, daemon: Refold
) -> None:
    async with AIOKafkaProducer(
        bootstrap_servers=lab_cluster.daemon_address, acks="all", enable_idempotence=True
    ) as producer:
        for one in RECORDS:
            await producer.send_and_wait(TOPIC, one)
    consumer = AIOKafkaConsumer(
        TOPIC,
        bootstrap_servers=lab_cluster.daemon_address,
        group_id="readers",
        auto_offset_reset="earliest",
    )
    async with consumer:
        read = [(await consumer.getone()).value for _ in RECORDS]
        await consumer.commit()
    assert sorted(read) == sorted(RECORDS)
    assert await read_after_a_restart(lab_cluster.daemon_address) == b"later"
    admin = AIOKafkaAdminClient(bootstrap_servers=lab_cluster.daemon_address)
    await admin.start()
    try:
        cluster = await admin.describe_cluster()
        assert {one["node_id"] for one in cluster["brokers"]} == {1, 2, 3, OWN_ID}
        assert cluster["controller_id"] == OWN_ID
        assert TOPIC in await admin.list_topics()
        assert ("readers", "consumer") in await admin.list_consumer_groups()
        offsets = await admin.list_consumer_group_offsets("readers")
        assert sum(one.offset for one in offsets.values()) == len(RECORDS)
    finally:
        await admin.close()
    assert await daemon.stop() == 0


async def test_kafkas_tools_produce_consume_and_list(
    lab_cluster: DefaultLabCluster, daemon: Refold
) -> None:
    address = ("--bootstrap-server", lab_cluster.daemon_address)
    written = "".join(f"line {number}\n" for number in range(5))
    await tool(
        lab_cluster.lab,
        "kafka.tools.ConsoleProducer",
        *(*address, "--topic", "of-tools"),
        given=written,
    )
    read = await tool(
        lab_cluster.lab,
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *(*address, "--topic", "of-tools", "--from-beginning", "--max-messages", "5"),
    )
    assert sorted(read.splitlines()) == written.splitlines()
    topics = "org.apache.kafka.tools.TopicCommand"
    listed = await tool(lab_cluster.lab, topics, *address, "--list")
    assert {TOPIC, "of-tools"} <= set(listed.split())
    described = await tool(lab_cluster.lab, topics, *address, "--describe", "--topic", TOPIC)
    assert "PartitionCount: 2" in described
    assert re.findall(r"Leader: (\d)", described) == ["1", "2"]
    assert await daemon.stop() == 0


async def test_settings_are_described_as_those_of_a_broker(
    lab_cluster: DefaultLabCluster, daemon: Refold
) -> None:
    arguments = (
        "--bootstrap-server",
        lab_cluster.daemon_address,
        "--describe",
        "--entity-type",
        "brokers",
    )
    named = (*arguments, "--entity-name", str(OWN_ID))
    output = await tool(lab_cluster.lab, "kafka.admin.ConfigCommand", *named, "--all")
    synonym = f"synonyms={{STATIC_BROKER_CONFIG:broker.id={OWN_ID}}}"
    assert f"broker.id={OWN_ID} sensitive=false {synonym}" in output
    assert "delete.topic.enable=true" in output
    assert "broker.rack=null" in output
    # No setting is dynamic, and only dynamic settings are printed without --all.
    assert "=" not in await tool(lab_cluster.lab, "kafka.admin.ConfigCommand", *named)
    assert await daemon.stop() == 0


async def test_standby_in_the_bootstrap_list_refers_clients_to_brokers(
    lab_cluster: DefaultLabCluster,
) -> None:
    """Before its first take-over a standby knows no broker to which it could forward a request. A
    response without the APIs that a client needs would make the client fail."""
    standby = lab_cluster.daemon()
    await standby.start()
    await lab_cluster.until_reported(standby, "standing_by")
    addresses = [lab_cluster.daemon_address, lab_cluster.lab.brokers[0].connect]
    topics = "org.apache.kafka.tools.TopicCommand"
    arguments = ("--bootstrap-server", ",".join(addresses), "--list")
    for _ in range(3):  # The client chooses the first address at random.
        await tool(lab_cluster.lab, topics, *arguments)
        async with AIOKafkaProducer(bootstrap_servers=addresses) as producer:
            await producer.send_and_wait("of-a-standby", b"one")
    assert not [one for one in standby.messages() if one["level"] != "info"]
    assert await standby.stop() == 0
