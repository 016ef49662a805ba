"""Requests of clients to a real broker, with kio as their codec."""

from asyncio import IncompleteReadError
from collections.abc import Iterator, Sequence
from datetime import timedelta
from struct import unpack_from
from typing import Any, Final

from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords

from tests.controller.api.client import Client, request_schema
from tests.replay.world.broker.conformance_cluster import Name, Replica, Sent

PRODUCE: Final = 0
FETCH: Final = 1
METADATA: Final = 3
CORRUPT_MESSAGE: Final = 2
CONSUMER: Final = -1
ANY_REPLICA: Final = -3
"""A replica id with which every replica, leader or not, returns its log to its end: Kafka uses it
to move a log to another directory (FetchRequest.FUTURE_LOCAL_REPLICA_ID)."""

_PRODUCE_VERSION: Final = 8
_FETCH_VERSION: Final = 12
_OLDEST_FETCH_VERSION: Final = 10
"""In this version a consumer reads from the leader only."""
_METADATA_VERSION: Final = 8
_BYTES_MAX: Final = 1 << 20
_BATCH_HEAD: Final = 12
_PRODUCE_TIMEOUT: Final = timedelta(minutes=2)


async def produce(port: int, name: Name, acks: int, records: Sequence[int]) -> Sent | None:
    """Send one batch; None with acks 0."""
    schema = request_schema(PRODUCE, _PRODUCE_VERSION)
    data = schema.PartitionProduceData(index=name[1], records=_batch(records))
    request = schema.ProduceRequest(
        acks=acks,
        timeout=_PRODUCE_TIMEOUT,
        topic_data=(schema.TopicProduceData(name=name[0], partition_data=(data,)),),
    )
    async with Client(port) as client:
        head = client.send(PRODUCE, _PRODUCE_VERSION, request)
        if not acks:
            await client.writer.drain()
            return None
        (topic,) = (await client.answer_to(head)).responses
        (answer,) = topic.partition_responses
        error = int(answer.error_code)
        return Sent(error, answer.base_offset if not error else -1)


async def replica(port: int, name: Name) -> Replica | int:
    """All records of a replica and its high watermark, or an error code.

    The broker sends a file that it may truncate meanwhile: then the records are corrupt, or the
    response ends early.
    """
    try:
        answer = await _fetch(port, name, _FETCH_VERSION, ANY_REPLICA)
        if answer.error_code:
            return int(answer.error_code)
        return Replica(tuple(_records(answer.records or b"")), answer.high_watermark)
    except (CorruptRecordException, IncompleteReadError):
        return CORRUPT_MESSAGE


async def consume(port: int, name: Name) -> tuple[int, int]:
    """The error code of a consumer that reads from offset 0 of the leader, and how many records it
    gets."""
    answer = await _fetch(port, name, _OLDEST_FETCH_VERSION, CONSUMER)
    return int(answer.error_code), len(list(_records(answer.records or b"")))


async def _fetch(port: int, name: Name, version: int, replica_id: int) -> Any:
    schema = request_schema(FETCH, version)
    partition = schema.FetchPartition(
        partition=name[1], fetch_offset=0, partition_max_bytes=_BYTES_MAX
    )
    request = schema.FetchRequest(
        replica_id=replica_id,
        max_wait=timedelta(0),
        min_bytes=0,
        max_bytes=_BYTES_MAX,
        topics=(schema.FetchTopic(topic=name[0], partitions=(partition,)),),
        forgotten_topics_data=(),
    )
    async with Client(port) as client:
        (topic,) = (await client.ask(FETCH, version, request)).responses
        (found,) = topic.partitions
        return found


async def leader_in_metadata(port: int, name: Name) -> tuple[int, int] | None:
    """The leader of a partition and its epoch; None if the broker does not know the partition."""
    schema = request_schema(METADATA, _METADATA_VERSION)
    request = schema.MetadataRequest(
        topics=(schema.MetadataRequestTopic(name=name[0]),),
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    async with Client(port) as client:
        (topic,) = (await client.ask(METADATA, _METADATA_VERSION, request)).topics
    for found in topic.partitions:
        if found.partition_index == name[1]:
            return found.leader_id, found.leader_epoch
    return None


def _batch(records: Sequence[int]) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=_BYTES_MAX,
    )
    for place, record in enumerate(records):
        builder.append(place, timestamp=None, key=None, value=str(record).encode(), headers=[])
    return bytes(builder.build())


def _records(data: bytes) -> Iterator[tuple[int, int]]:
    """Leader epoch and id of each record. Offsets must begin at 0 and have no gaps."""
    at = expected = 0
    while at < len(data):
        _, length, leader_epoch = unpack_from(">qii", data, at)
        end = at + _BATCH_HEAD + length
        batch = MemoryRecords(data[at:end]).next_batch()
        assert batch is not None
        for record in batch:
            assert record.offset == expected
            assert record.value is not None
            yield leader_epoch, int(record.value)
            expected += 1
        at = end
