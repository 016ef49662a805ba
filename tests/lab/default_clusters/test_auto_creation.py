"""Topics that brokers make for their clients: they take the daemon for one of the brokers."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tests.controller.daemon.scene import OWN_ID, timed
from tests.lab.default_clusters.cluster import DefaultScene

pytestmark = [pytest.mark.lab, pytest.mark.timeout(90)]

MANY = 40


@pytest.mark.ci
async def test_many_topics_at_once_have_brokers_for_replicas(scene: DefaultScene) -> None:
    daemon = await scene.controlling()
    # Its brokers know the daemon from here on.
    await scene.create_topic("before", {0: [1, 2, 3]})
    topics = [f"auto-{number}" for number in range(MANY)]
    await scene.until_auto_created(topics)
    for topic in topics:
        assert OWN_ID not in (await scene.replicas_of(topic))[0], topic
    assert any(_is_repair(one) for one in daemon.messages()), "it was chosen for some of them"
    assert await daemon.stop() == 0


async def test_topics_made_during_the_hand_back_are_repaired(scene: DefaultScene) -> None:
    """Brokers go on placing replicas on the daemon until they hear that it leaves."""
    daemon = await scene.controlling()
    await scene.create_topic("early", {0: [1, 2, 3]})
    going_on = True
    asked: list[str] = []

    async def make_topics(producer: AIOKafkaProducer) -> None:
        while going_on:
            asked.append(f"late-{len(asked)}")
            try:
                await asyncio.wait_for(producer.send(asked[-1], b"first"), 10)
            except (KafkaError, TimeoutError):
                continue

    async with AIOKafkaProducer(bootstrap_servers=scene.lab.bootstrap, acks=1) as producer:
        makers = [asyncio.create_task(make_topics(producer)) for _ in range(4)]
        await timed(lambda: _has(asked, 20), "topics are being made")
        assert await daemon.stop() == 0, daemon.last_words()
        await scene.until_stock_controller()
        made_until_then = len(asked)
        await timed(lambda: _has(asked, made_until_then + 8), "topics are made after it")
        going_on = False
        await asyncio.gather(*makers)
    assert any(_is_repair(one) for one in daemon.messages())
    for topic in asked:
        replicas = await scene.replicas_of(topic)
        assert all(OWN_ID not in one for one in replicas.values()), topic
        if replicas:
            await scene.until_in_sync(topic, 3)


async def test_what_a_killed_daemon_left_is_repaired_by_the_next(scene: DefaultScene) -> None:
    """Of two topics with its id one got leaders from a stock controller, one can have none."""
    await scene.view.create_topic("led", {0: [1, OWN_ID, 2], 1: [OWN_ID, 2, 3]})

    async def has_states() -> bool:
        return len(await scene.view.states("led")) == 2

    await timed(has_states, "the stock controller gives leaders to what has live brokers")
    await scene.view.create_topic("stranded", {0: [OWN_ID]})
    daemon = await scene.controlling()

    async def repaired() -> bool:
        led, stranded = await scene.replicas_of("led"), await scene.replicas_of("stranded")
        leaders = {state["leader"] for state in (await scene.view.states("stranded")).values()}
        named = {one for replicas in (*led.values(), *stranded.values()) for one in replicas}
        return OWN_ID not in named and len(leaders) == 1 and leaders < {1, 2, 3}

    await timed(repaired, "no assignment names the daemon, every partition has a leader")
    await scene.until_in_sync("led", 3)
    assert await daemon.stop() == 0


async def _has(asked: list[str], count: int) -> bool:
    return len(asked) >= count


def _is_repair(message: dict[str, object]) -> bool:
    return message.get("code") == "own_id_repaired"
