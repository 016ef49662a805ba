"""Reads topics: everything once, or continuously."""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, Self

from aiokafka import AIOKafkaConsumer
from aiokafka.errors import UnknownTopicOrPartitionError

_CATCH_UP_SECONDS = 30.0
_KNOWN_SECONDS = 30.0
_RETRY_SECONDS = 0.2
_POLL_MS = 500


class RecordPosition(NamedTuple):
    """Where a record is."""

    topic: str
    partition: int
    offset: int


async def read_all(
    bootstrap: str, *topics: str, security: Mapping[str, Any] = MappingProxyType({})
) -> dict[RecordPosition, bytes]:
    """The values of all committed records of topics whose partitions have leaders, in the order of
    their offsets. `security` has arguments of aiokafka.

    Raises TimeoutError.
    """
    consumer = await _start_consumer(bootstrap, topics, **security)
    try:
        partitions = list(consumer.assignment())
        ends = await consumer.end_offsets(partitions)
        read: dict[RecordPosition, bytes] = {}
        async with asyncio.timeout(_CATCH_UP_SECONDS):
            while any([await consumer.position(one) < ends[one] for one in partitions]):
                read.update(await _next(consumer))
        return read
    finally:
        await consumer.stop()


class TopicReader:
    """A consumer that reads topics from their beginning, and continues until the end of the block.

    `read` has what it read, in order; a record that was read again would be in it again.
    """

    def __init__(self, bootstrap: str, topics: Sequence[str]) -> None:
        self._bootstrap = bootstrap
        self._topics = topics
        self._consumer: AIOKafkaConsumer
        self._task: asyncio.Task[None] | None = None
        self.read: list[tuple[RecordPosition, bytes]] = []

    async def __aenter__(self) -> Self:
        self._consumer = await _start_consumer(
            self._bootstrap, self._topics, metadata_max_age_ms=5_000
        )
        self._task = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._consumer.stop()

    async def _read(self) -> None:
        while True:
            self.read += await _next(self._consumer)


async def _start_consumer(bootstrap: str, topics: Sequence[str], **more: Any) -> AIOKafkaConsumer:
    """A consumer that reads topics from their beginning. A broker knows a new topic a moment after
    the controller has answered. Raises TimeoutError."""
    async with asyncio.timeout(_KNOWN_SECONDS):
        while True:
            consumer = AIOKafkaConsumer(
                *topics, bootstrap_servers=bootstrap, auto_offset_reset="earliest", **more
            )
            try:
                await consumer.start()
            except UnknownTopicOrPartitionError:
                await consumer.stop()
                await asyncio.sleep(_RETRY_SECONDS)
            except BaseException:
                await consumer.stop()
                raise
            else:
                return consumer


async def _next(consumer: AIOKafkaConsumer) -> list[tuple[RecordPosition, bytes]]:
    found = await consumer.getmany(timeout_ms=_POLL_MS)
    return [
        (RecordPosition(one.topic, one.partition, one.offset), one.value)
        for records in found.values()
        for one in records
    ]
