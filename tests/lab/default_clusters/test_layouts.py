"""A cluster below a chroot, with a separate listener for clients, and with racks."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient

from tests.controller.daemon.lab_cluster import OWN_ID
from tests.lab.default_clusters.cluster import (
    BROKER_CONFIG,
    SHUTDOWN_SECONDS_MAX,
    DefaultLabCluster,
)
from tests.lab.default_clusters.conftest import with_lab_cluster
from tests.lab.shared_cluster import shared_cluster
from tools.lab import Lab
from tools.lab.ports import HOST
from tools.lab.refold import Refold

pytestmark = [pytest.mark.lab, pytest.mark.timeout(90)]

CHROOT = "/kafka/one"
RACKS = ("a", "b", "c")
BROKERS, CLIENTS = "BROKERS", "CLIENTS"
SETTINGS = {
    "listener.security.protocol.map": f"{BROKERS}:PLAINTEXT,{CLIENTS}:PLAINTEXT",
    "inter.broker.listener.name": BROKERS,
    "broker.rack": RACKS[0],
}


@pytest.fixture(scope="module")
def laid_out(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """Three brokers in different racks, with the first listener for their own requests."""
    with shared_cluster(
        tmp_path_factory.mktemp("cluster"),
        3,
        chroot=CHROOT,
        listeners=(BROKERS, CLIENTS),
        racks=RACKS,
        config=BROKER_CONFIG,
    ) as lab:
        yield lab


@pytest.fixture
async def lab_cluster(laid_out: Lab, tmp_path: Path) -> AsyncIterator[DefaultLabCluster]:
    async with with_lab_cluster(laid_out, tmp_path, chroot=CHROOT) as made:
        yield made


@pytest.fixture
async def daemon(lab_cluster: DefaultLabCluster) -> Refold:
    """A daemon that is controller and known to the brokers."""
    daemon = await lab_cluster.controlling(settings=SETTINGS)
    await lab_cluster.create_topic(
        f"before-{lab_cluster.daemon_address.rpartition(':')[2]}", {0: [1, 2, 3]}
    )
    return daemon


async def test_clients_reach_the_daemon_on_their_listener(
    lab_cluster: DefaultLabCluster, daemon: Refold
) -> None:
    bootstrap = f"{HOST}:{lab_cluster.listeners[CLIENTS]}"
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, enable_idempotence=True) as producer:
        await producer.send_and_wait("of-a-client", b"a record")
    consumer = AIOKafkaConsumer(
        "of-a-client", bootstrap_servers=bootstrap, auto_offset_reset="earliest"
    )
    async with consumer:
        assert (await consumer.getone()).value == b"a record"
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    cluster = await admin.describe_cluster()
    await admin.close()
    ports = {broker.broker_id: broker.listeners[CLIENTS] for broker in lab_cluster.lab.brokers}
    assert {one["node_id"]: one["port"] for one in cluster["brokers"]} == {
        **ports,
        OWN_ID: lab_cluster.listeners[CLIENTS],
    }
    assert cluster["controller_id"] == OWN_ID
    assert await daemon.stop() == 0


async def test_controlled_shutdown_succeeds_below_a_chroot(
    lab_cluster: DefaultLabCluster, daemon: Refold
) -> None:
    """The broker sends its request to the listener of the brokers, below the chroot."""
    await lab_cluster.create_topic("led", {0: [1, 2, 3], 1: [2, 3, 1]})
    await lab_cluster.until_in_sync("led", 3)
    first = lab_cluster.lab.brokers[0]
    assert await lab_cluster.stop_in_order(first) < SHUTDOWN_SECONDS_MAX
    assert [one["leader"] for one in (await lab_cluster.view.states("led")).values()] == [2, 2]
    await first.start()
    await lab_cluster.until_in_sync("led", 3)
    assert await daemon.stop() == 0


async def test_auto_created_topics_are_spread_over_racks(
    lab_cluster: DefaultLabCluster, daemon: Refold
) -> None:
    """Brokers with racks create no topic for a client while another broker has no rack."""
    topics = [f"racked-{number}" for number in range(10)]
    async with AIOKafkaProducer(
        bootstrap_servers=f"{HOST}:{lab_cluster.listeners[CLIENTS]}"
    ) as producer:
        for topic in topics:
            await producer.send_and_wait(topic, b"first")
    for topic in topics:
        await lab_cluster.until_in_sync(topic, 3)
        assert sorted((await lab_cluster.replicas_of(topic))[0]) == [1, 2, 3]
    assert await daemon.stop() == 0
