"""Requests of brokers of each protocol version to their controller, and the results."""

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from tests.lab.default_clusters.cluster import SHUTDOWN_SECONDS_MAX, DefaultLabCluster, until_more
from tools.lab.traffic import Traffic

pytestmark = [
    pytest.mark.lab,
    pytest.mark.timeout(180),
    pytest.mark.parametrize(
        "versions",
        [
            ("3.9.1", "2.6"),
            ("3.9.1", "2.8"),
            ("3.9.1", "3.3"),
            ("3.3.2", "3.3"),
            pytest.param(("3.9.1", "3.9"), marks=pytest.mark.ci),
        ],
        ids="-at-".join,
        indirect=True,
    ),
]

FIRST_WITH_ALTER_PARTITION = 2.7
FIRST_WITH_ALLOCATED_IDS = 3.0
ASSIGNMENT = {0: [1, 2, 3], 1: [2, 3, 1], 2: [3, 1, 2]}


async def test_isr_shrinks_and_grows(lab_cluster: DefaultLabCluster) -> None:
    """At 2.6 the leader writes the ISR and notifies the controller; later it sends a request."""
    daemon = await lab_cluster.controlling()
    await lab_cluster.create_topic("lagging", ASSIGNMENT)
    await lab_cluster.until_in_sync("lagging", 3)
    before = await lab_cluster.view.states("lagging")
    # A broker that looks for the controller from now on finds the daemon.
    paused = lab_cluster.broker_not_taken_for_controller()
    sizes = {number: 3 if by == paused.broker_id else 2 for number, (by, *_) in ASSIGNMENT.items()}
    async with Traffic(lab_cluster.lab.bootstrap, "lagging") as traffic:
        await until_more(traffic)
        paused.pause()
        try:
            await lab_cluster.until_isr("lagging", sizes)
        finally:
            paused.resume()
        await lab_cluster.until_in_sync("lagging", 3)
        assert await traffic.finish() == set()
    after = await lab_cluster.view.states("lagging")
    assert after[0]["leader"] == before[0]["leader"]
    assert after[0]["leader_epoch"] == before[0]["leader_epoch"], "the broker's session ended"
    received = await lab_cluster.events("alter_partition_received")
    assert bool(received) == (float(lab_cluster.protocol) >= FIRST_WITH_ALTER_PARTITION)
    assert await daemon.stop() == 0


async def test_rolling_restart_moves_leaders_before_each_stop(
    lab_cluster: DefaultLabCluster,
) -> None:
    daemon = await lab_cluster.controlling()
    await lab_cluster.create_topic("rolled", ASSIGNMENT)
    await lab_cluster.until_in_sync("rolled", 3)
    async with Traffic(lab_cluster.lab.bootstrap, "rolled") as traffic:
        for broker in lab_cluster.lab.brokers:
            await until_more(traffic)
            seconds = await lab_cluster.stop_in_order(broker)
            assert seconds < SHUTDOWN_SECONDS_MAX
            for state in (await lab_cluster.view.states("rolled")).values():
                assert state["leader"] not in (-1, broker.broker_id)
                assert broker.broker_id not in state["isr"]
            await until_more(traffic)
            await broker.start()
            await lab_cluster.until_in_sync("rolled", 3)
        assert await traffic.finish() == set()
        assert traffic.refused == 0
    assert len(await lab_cluster.events("controlled_shutdown_received")) == len(
        lab_cluster.lab.brokers
    )
    assert await daemon.stop() == 0


async def test_idempotent_and_transactional_producers_get_their_ids(
    lab_cluster: DefaultLabCluster,
) -> None:
    daemon = await lab_cluster.controlling()
    await lab_cluster.create_topic("transactions", ASSIGNMENT)
    await lab_cluster.until_in_sync("transactions", 3)
    for broker in lab_cluster.lab.brokers:
        # Each broker needs a block of ids, and a restarted broker has lost the block of an earlier
        # controller.
        await lab_cluster.stop_in_order(broker)
        await broker.start()
        await lab_cluster.until_in_sync("transactions", 3)
        await _write_in_a_transaction(broker.connect, f"writer-{broker.broker_id}")
    assert await _committed(lab_cluster.lab.bootstrap) == {b"writer-1", b"writer-2", b"writer-3"}
    received = await lab_cluster.events("allocate_producer_ids_received")
    assert bool(received) == (float(lab_cluster.protocol) >= FIRST_WITH_ALLOCATED_IDS)
    assert await daemon.stop() == 0


async def _write_in_a_transaction(bootstrap: str, name: str) -> None:
    async with (
        AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) as producer,
        producer.transaction(),
    ):
        await producer.send_and_wait("transactions", name.encode())


async def _committed(bootstrap: str) -> set[bytes]:
    consumer = AIOKafkaConsumer(
        "transactions",
        bootstrap_servers=bootstrap,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    async with consumer:
        return {(await consumer.getone()).value for _ in range(3)}
