"""The responses of a broker to clients: leaders, replicas, ISRs, the controller, and offsets."""

from contextlib import closing
from typing import Any, NamedTuple

from aiokafka.conn import create_conn
from aiokafka.errors import for_code
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest, OffsetResetStrategy

from tools.lab.broker import KafkaBroker
from tools.lab.ports import HOST

_ANSWER_MS_MAX = 2000

_CONSUMER = -1
_DEBUGGING = -2
"""A replica id with which any replica, also a follower, returns the end of its log
(ListOffsetsRequest.DEBUGGING_REPLICA_ID of Kafka)."""


class BrokerPartition(NamedTuple):
    """A partition; its leader is -1 if there is none."""

    leader: int
    replicas: list[int]
    isr: set[int]


async def leaders(broker: KafkaBroker, topic: str) -> dict[int, int]:
    """The leader of each partition of a topic; empty if the broker does not know the topic. Raises
    KafkaError or OSError if it does not answer."""
    known = (await _ask(broker, [topic])).get(topic, {})
    return {number: partition.leader for number, partition in known.items()}


async def topics(broker: KafkaBroker) -> dict[str, dict[int, BrokerPartition]]:
    """All topics that the broker knows, with their partitions by number. Raises as `leaders`
    does."""
    return await _ask(broker, None)


async def controller(broker: KafkaBroker) -> int | None:
    """The controller in the broker's metadata; None before a controller has sent it UpdateMetadata.
    Raises as `leaders` does."""
    answer = await _metadata(broker, [])
    known = {node_id for node_id, *_ in answer.brokers}
    return answer.controller_id if answer.controller_id in known else None


async def committed_offset(leader: KafkaBroker, topic: str, partition: int = 0) -> int:
    """The high watermark of a partition: consumers read the offsets below it. Raises as `leaders`
    does."""
    return await _latest_offset(leader, topic, partition, _CONSUMER)


async def log_end_offset(broker: KafkaBroker, topic: str, partition: int = 0) -> int:
    """The offset of the next record in the log of a leader or follower. Raises as `leaders`
    does."""
    return await _latest_offset(broker, topic, partition, _DEBUGGING)


async def _latest_offset(broker: KafkaBroker, topic: str, partition: int, replica: int) -> int:
    latest = (topic, [(partition, OffsetResetStrategy.LATEST)])
    answer = await _send(broker, OffsetRequest(replica, 0, [latest]))
    ((_, ((_, error, _, offset),)),) = answer.topics
    if error:
        raise for_code(error)()
    return int(offset)


async def _ask(
    broker: KafkaBroker, names: list[str] | None
) -> dict[str, dict[int, BrokerPartition]]:
    answer = await _metadata(broker, names)
    return {name: dict(map(_partition, found)) for _, name, _, found in answer.topics}


async def _metadata(broker: KafkaBroker, names: list[str] | None) -> Any:
    return await _send(broker, MetadataRequest(names, allow_auto_topic_creation=False))


async def _send(broker: KafkaBroker, request: Any) -> Any:
    connection = await create_conn(HOST, broker.port, request_timeout_ms=_ANSWER_MS_MAX)
    with closing(connection):
        return await connection.send(request)


def _partition(found: tuple[Any, ...]) -> tuple[int, BrokerPartition]:
    _, number, leader, replicas, isr, *_ = found
    return number, BrokerPartition(leader, list(replicas), set(isr))
