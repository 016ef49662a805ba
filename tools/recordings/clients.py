"""Clients of a recorded cluster: a continuous producer, and an admin client."""

import asyncio
from collections.abc import Callable
from typing import Any, Self, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import KafkaError
from kafka import KafkaAdminClient

Answer = TypeVar("Answer")

_RECORD = b"x" * 300
_PAUSE_SECONDS = 0.1
_SEND_SECONDS_MAX = 5.0
_ADMIN_MS_MAX = 8_000
_BOOTSTRAP_MS_MAX = 5_000


class Writer:
    """Writes a little to each of the topics of the last call of `follow`."""

    def __init__(self, bootstrap: str) -> None:
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap, request_timeout_ms=5_000, metadata_max_age_ms=3_000
        )
        self._writing: dict[str, asyncio.Task[None]] = {}

    async def __aenter__(self) -> Self:
        await self._producer.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.follow(set())
        await self._producer.stop()

    def follow(self, topics: set[str]) -> None:
        """Write to these topics only."""
        for topic in self._writing.keys() - topics:
            self._writing.pop(topic).cancel()
        for topic in topics - self._writing.keys():
            self._writing[topic] = asyncio.create_task(self._write(topic))

    async def _write(self, topic: str) -> None:
        while True:
            try:
                async with asyncio.timeout(_SEND_SECONDS_MAX):
                    await self._producer.send_and_wait(topic, _RECORD)
            except (KafkaError, TimeoutError):
                pass  # offline partitions are part of the incident
            await asyncio.sleep(_PAUSE_SECONDS)


async def produce_idempotently(bootstrap: str, topic: str) -> None:
    """Write one record with a new idempotent producer, so that the broker needs a producer id.

    Raises KafkaError, TimeoutError.
    """
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap, enable_idempotence=True, request_timeout_ms=5_000
    )
    async with asyncio.timeout(2 * _SEND_SECONDS_MAX):
        await producer.start()
        try:
            await producer.send_and_wait(topic, _RECORD)
        finally:
            await producer.stop()


async def consume_in_group(bootstrap: str, topic: str) -> None:
    """Read one record as a member of a consumer group. Raises KafkaError, TimeoutError."""
    consumer = AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, group_id=f"readers-of-{topic}")
    async with asyncio.timeout(2 * _SEND_SECONDS_MAX):
        try:
            await consumer.start()
            await consumer.getone()
        finally:
            await consumer.stop()


async def ask(bootstrap: str, question: Callable[[KafkaAdminClient], Answer]) -> Answer:
    """The response to a new admin client. Raises KafkaError."""

    def call() -> Answer:
        config: dict[str, Any] = {
            "bootstrap_servers": bootstrap.split(","),
            "request_timeout_ms": _ADMIN_MS_MAX,
            "bootstrap_timeout_ms": _BOOTSTRAP_MS_MAX,
        }
        with KafkaAdminClient(**config) as admin:
            return question(admin)

    return await asyncio.to_thread(call)
