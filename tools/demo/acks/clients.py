"""Single records, and the replicas that have them."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tools.demo.stage import Stage
from tools.lab import KafkaBroker
from tools.lab.broker_view import log_end_offset
from tools.lab.traffic import Acks

BROKER_CONFIG = {"zookeeper.session.timeout.ms": "9000"}
"""A broker that is paused for a third of this keeps its session for certain: its client expects a
packet from ZooKeeper within two thirds, and sends a ping after one third."""
PARTITION = 0
"""The only partition of each topic."""


@asynccontextmanager
async def producing(
    bootstrap: str, acks: Acks, *, seconds: float = 20.0
) -> AsyncIterator[AIOKafkaProducer]:
    """A producer without idempotence, which gives up a record after `seconds`."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, acks=acks, request_timeout_ms=round(seconds * 1000)
    )
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def write(producer: AIOKafkaProducer, topic: str, values: Sequence[str]) -> list[int]:
    """Write records one after the other; returns the offsets in the acknowledgements.

    Raises KafkaError if one is not acknowledged.
    """
    done = [
        await producer.send_and_wait(topic, value.encode(), partition=PARTITION) for value in values
    ]
    return [one.offset for one in done]


async def create(stage: Stage, topics: Mapping[str, Sequence[int]], **config: str) -> None:
    """Create topics with one partition; waits until it is led by its first replica and all
    replicas are in sync, and until every broker can report the end of its log."""
    for topic, replicas in topics.items():
        await stage.view.create_topic(topic, {PARTITION: replicas}, config)
    for topic, replicas in topics.items():
        await until_led(stage, topic, replicas[0], isr=replicas)
        for broker in brokers(stage, *replicas):
            await until_end(stage, broker, topic, 0)


async def until_led(
    stage: Stage, topic: str, leader: int, *, isr: Sequence[int] | None = None
) -> None:
    """Wait until this broker leads, -1 for none, and until these replicas are in sync."""

    async def led() -> bool:
        state = (await stage.view.states(topic)).get(PARTITION)
        return (
            state is not None
            and state["leader"] == leader
            and (isr is None or sorted(state["isr"]) == sorted(isr))
        )

    which = f"broker {leader}" if leader >= 0 else "no broker"
    await stage.until(led, f"{topic} is led by {which}")


async def until_end(stage: Stage, broker: KafkaBroker, topic: str, end: int) -> None:
    """Wait until the replica of a broker has all records below an offset."""

    async def reached() -> bool:
        try:
            return await log_end_offset(broker, topic) >= end
        except (KafkaError, OSError):
            return False

    await stage.until(reached, f"{broker.name} has {topic} up to offset {end}")


def brokers(stage: Stage, *ids: int) -> list[KafkaBroker]:
    """The brokers with these ids."""
    return [one for number in ids for one in stage.lab.brokers if one.broker_id == number]
