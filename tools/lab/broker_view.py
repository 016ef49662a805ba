"""What a broker believes, as it tells its clients: who leads which partition."""

from contextlib import closing
from typing import Any, NamedTuple

from aiokafka.conn import create_conn
from aiokafka.protocol.metadata import MetadataRequest

from tools.lab.broker import KafkaBroker
from tools.lab.ports import HOST

_ANSWER_MS_MAX = 2000


class PartitionView(NamedTuple):
    """A partition; its leader is -1 where there is none."""

    leader: int
    replicas: list[int]
    isr: set[int]


async def leaders(broker: KafkaBroker, topic: str) -> dict[int, int]:
    """The leader of each partition of a topic; empty for a topic that the broker does not know.
    Raises KafkaError or OSError when it does not answer."""
    known = (await _ask(broker, [topic])).get(topic, {})
    return {number: partition.leader for number, partition in known.items()}


async def topics(broker: KafkaBroker) -> dict[str, dict[int, PartitionView]]:
    """Every topic that the broker knows, its partitions by number. Raises as `leaders` does."""
    return await _ask(broker, None)


async def _ask(broker: KafkaBroker, names: list[str] | None) -> dict[str, dict[int, PartitionView]]:
    connection = await create_conn(HOST, broker.port, request_timeout_ms=_ANSWER_MS_MAX)
    with closing(connection):
        answer = await connection.send(MetadataRequest(names, allow_auto_topic_creation=False))
    return {name: dict(map(_partition, found)) for _, name, _, found in answer.topics}


def _partition(found: tuple[Any, ...]) -> tuple[int, PartitionView]:
    _, number, leader, replicas, isr, *_ = found
    return number, PartitionView(leader, list(replicas), set(isr))
