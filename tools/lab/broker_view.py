"""What a broker believes, as it tells its clients: who leads which partition."""

from contextlib import closing

from aiokafka.conn import create_conn
from aiokafka.protocol.metadata import MetadataRequest

from tools.lab.broker import KafkaBroker
from tools.lab.ports import HOST

_ANSWER_MS_MAX = 2000


async def leaders(broker: KafkaBroker, topic: str) -> dict[int, int]:
    """The leader of each partition of a topic, -1 where there is none; empty for a topic that the
    broker does not know. Raises KafkaError or OSError when it does not answer."""
    connection = await create_conn(HOST, broker.port, request_timeout_ms=_ANSWER_MS_MAX)
    with closing(connection):
        answer = await connection.send(MetadataRequest([topic], allow_auto_topic_creation=False))
    return {
        number: leader
        for _, name, _, partitions in answer.topics
        if name == topic
        for _, number, leader, *_ in partitions
    }
