"""The metadata that a broker returns to clients: leaders, replicas, ISRs and the controller."""

from contextlib import closing
from typing import Any, NamedTuple

from aiokafka.conn import create_conn
from aiokafka.protocol.metadata import MetadataRequest

from tools.lab.broker import KafkaBroker
from tools.lab.ports import HOST

_ANSWER_MS_MAX = 2000


class PartitionView(NamedTuple):
    """A partition; its leader is -1 if there is none."""

    leader: int
    replicas: list[int]
    isr: set[int]


async def leaders(broker: KafkaBroker, topic: str) -> dict[int, int]:
    """The leader of each partition of a topic; empty if the broker does not know the topic. Raises
    KafkaError or OSError if it does not answer."""
    known = (await _ask(broker, [topic])).get(topic, {})
    return {number: partition.leader for number, partition in known.items()}


async def topics(broker: KafkaBroker) -> dict[str, dict[int, PartitionView]]:
    """All topics that the broker knows, with their partitions by number. Raises as `leaders`
    does."""
    return await _ask(broker, None)


async def controller(broker: KafkaBroker) -> int | None:
    """The controller in the broker's metadata; None before a controller has sent it UpdateMetadata.
    Raises as `leaders` does."""
    answer = await _metadata(broker, [])
    known = {node_id for node_id, *_ in answer.brokers}
    return answer.controller_id if answer.controller_id in known else None


async def _ask(broker: KafkaBroker, names: list[str] | None) -> dict[str, dict[int, PartitionView]]:
    answer = await _metadata(broker, names)
    return {name: dict(map(_partition, found)) for _, name, _, found in answer.topics}


async def _metadata(broker: KafkaBroker, names: list[str] | None) -> Any:
    connection = await create_conn(HOST, broker.port, request_timeout_ms=_ANSWER_MS_MAX)
    with closing(connection):
        return await connection.send(MetadataRequest(names, allow_auto_topic_creation=False))


def _partition(found: tuple[Any, ...]) -> tuple[int, PartitionView]:
    _, number, leader, replicas, isr, *_ = found
    return number, PartitionView(leader, list(replicas), set(isr))
