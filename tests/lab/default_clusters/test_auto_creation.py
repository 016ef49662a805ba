"""Topics that brokers create for their clients: brokers may place replicas on the daemon's id."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.controller.daemon.lab_cluster import OWN_ID, timed
from tests.lab.default_clusters.cluster import DefaultLabCluster

pytestmark = [pytest.mark.lab, pytest.mark.timeout(90)]

MANY = 40


@pytest.mark.ci
async def test_many_auto_created_topics_have_no_replica_on_the_daemon(
    lab_cluster: DefaultLabCluster,
) -> None:
    daemon = await lab_cluster.controlling()
    # From here on the brokers know the daemon.
    await lab_cluster.create_topic("before", {0: [1, 2, 3]})
    topics = [f"auto-{number}" for number in range(MANY)]
    await lab_cluster.until_auto_created(topics)
    for topic in topics:
        assert OWN_ID not in (await lab_cluster.replicas_of(topic))[0], topic
    assert any(_is_repair(one) for one in daemon.messages()), "no topic was placed on the daemon"
    assert await daemon.stop() == 0


async def test_topics_created_during_the_hand_back_are_repaired(
    lab_cluster: DefaultLabCluster,
) -> None:
    """Brokers place replicas on the daemon until they learn that it left."""
    daemon = await lab_cluster.controlling()
    await lab_cluster.create_topic("early", {0: [1, 2, 3]})
    is_running = True
    created: list[str] = []

    async def make_topics(producer: AIOKafkaProducer) -> None:
        while is_running:
            created.append(f"late-{len(created)}")
            try:
                await asyncio.wait_for(producer.send(created[-1], b"first"), 10)
            except (KafkaError, TimeoutError):
                continue

    async with AIOKafkaProducer(bootstrap_servers=lab_cluster.lab.bootstrap, acks=1) as producer:
        makers = [asyncio.create_task(make_topics(producer)) for _ in range(4)]
        await timed(lambda: _has(created, 20), "topics are created")
        assert await daemon.stop() == 0, daemon.last_output()
        await lab_cluster.until_stock_controller()
        created_before = len(created)
        await timed(
            lambda: _has(created, created_before + 8), "topics are created after the hand-back"
        )
        is_running = False
        await asyncio.gather(*makers)
    assert any(_is_repair(one) for one in daemon.messages())
    for topic in created:
        replicas = await lab_cluster.replicas_of(topic)
        assert all(OWN_ID not in one for one in replicas.values()), topic
        if replicas:
            await lab_cluster.until_in_sync(topic, 3)


async def test_topics_with_the_id_of_a_killed_daemon_are_repaired_by_the_next(
    lab_cluster: DefaultLabCluster,
) -> None:
    """Two topics have the daemon's id: one has leaders from a stock controller, the other none."""
    await lab_cluster.view.create_topic("led", {0: [1, OWN_ID, 2], 1: [OWN_ID, 2, 3]})

    async def has_states() -> bool:
        return len(await lab_cluster.view.states("led")) == 2

    await timed(has_states, "the stock controller elects leaders where brokers are alive")
    await lab_cluster.view.create_topic("stranded", {0: [OWN_ID]})
    daemon = await lab_cluster.controlling()

    async def repaired() -> bool:
        led, stranded = (
            await lab_cluster.replicas_of("led"),
            await lab_cluster.replicas_of("stranded"),
        )
        leaders = {
            state["leader"] for state in (await lab_cluster.view.states("stranded")).values()
        }
        named = {one for replicas in (*led.values(), *stranded.values()) for one in replicas}
        return OWN_ID not in named and len(leaders) == 1 and leaders < {1, 2, 3}

    await timed(repaired, "no assignment names the daemon, every partition has a leader")
    await lab_cluster.until_in_sync("led", 3)
    assert await daemon.stop() == 0


async def _has(created: list[str], count: int) -> bool:
    return len(created) >= count


def _is_repair(message: dict[str, object]) -> bool:
    return message.get("code") == "own_id_repaired"
