"""Produces records to a topic and reads them back: whether a topic works (docs/health.md)."""

import asyncio
import logging
import random
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from uuid import uuid4

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaConnectionError, KafkaError
from msgspec import Struct, structs

RECORDS: Final = 2
_NONE: Final = -1
_SECONDS_MAX: Final = 20
_REQUEST_MS_MAX: Final = 10_000
"""The producer retries for this time, and then reports the broker's error."""
_FAILURES: Final = (KafkaError, OSError, ValueError, TimeoutError)


class ProbeRecord(Struct, frozen=True):
    """A record that was produced with acks=all. Times are in ms; `read_ms` is counted from the
    request to read it. `fault`: why it was not written, or not read back; "" for none. `offset`
    is -1 if it was not written, and so is `partition` if none was chosen."""

    partition: int
    offset: int
    written_ms: int
    read_ms: int
    fault: str = ""


def warning(topic: str) -> str:
    """The changes that the probe makes to a topic."""
    return (
        f"the probe writes {RECORDS} records of about 60 bytes to topic {topic}; they stay there, "
        "and consumers read them"
    )


async def probe(topic: str, bootstrap: str, options: dict[str, Any]) -> list[ProbeRecord]:
    """Produce records to an existing topic and read each one at its offset. `options` are arguments
    of aiokafka's clients. Failures are part of the records and raise nothing."""
    # aiokafka would log unreachable servers on standard error; the records report them.
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    values = [f"refold health --probe {uuid4()} {one}".encode() for one in range(RECORDS)]
    written = await _produce(topic, bootstrap, options, values)
    if written[-1].fault:
        return written
    try:
        async with asyncio.timeout(_SECONDS_MAX):
            return await _read_back(topic, bootstrap, options, written, values)
    except _FAILURES as error:
        fault = f"not read back: {_reason(error)}"
        return [structs.replace(one, fault=fault) for one in written]


async def _produce(
    topic: str, bootstrap: str, options: dict[str, Any], values: Sequence[bytes]
) -> list[ProbeRecord]:
    """The records that were written, up to the first one that was not."""
    found: list[ProbeRecord] = []
    partition = _NONE
    try:
        producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            acks="all",
            **{"request_timeout_ms": _REQUEST_MS_MAX, **options},
        )
        async with asyncio.timeout(_SECONDS_MAX), _started(producer, bootstrap):
            everywhere = await producer.partitions_for(topic)
            for value in values:
                # As the producer's own partitioner does; here it is known for a record that fails.
                available = producer.client.cluster.available_partitions_for_topic(topic)
                partition = random.choice(sorted(available or everywhere))
                begun = time.monotonic()
                done = await producer.send_and_wait(topic, value, partition=partition)
                found.append(ProbeRecord(partition, done.offset, _ms_since(begun), 0, ""))
    except _FAILURES as error:
        found = [structs.replace(one, fault="not read back") for one in found]
        found.append(ProbeRecord(partition, _NONE, 0, 0, f"not written: {_reason(error)}"))
    return found


@asynccontextmanager
async def _started(
    client: AIOKafkaProducer | AIOKafkaConsumer, bootstrap: str
) -> AsyncIterator[None]:
    """A client that is connected; also one that cannot connect is closed. Raises ConnectionError,
    and errors of the client."""
    try:
        try:
            await client.start()
        except KafkaConnectionError:
            # The text of aiokafka is the representation of Python values.
            text = f"no broker could be asked at {bootstrap} (--bootstrap-server, --command-config)"
            raise ConnectionError(text) from None
        yield
    finally:
        await client.stop()


async def _read_back(
    topic: str,
    bootstrap: str,
    options: dict[str, Any],
    written: Sequence[ProbeRecord],
    values: Sequence[bytes],
) -> list[ProbeRecord]:
    found = []
    consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False, **options)
    async with _started(consumer, bootstrap):
        for one, value in zip(written, values, strict=True):
            begun = time.monotonic()
            place = TopicPartition(topic, one.partition)
            consumer.assign([place])
            consumer.seek(place, one.offset)
            record = await consumer.getone(place)
            is_same = (record.offset, record.value) == (one.offset, value)
            fault = "" if is_same else f"offset {record.offset} has another record"
            found.append(structs.replace(one, read_ms=_ms_since(begun), fault=fault))
    return found


def _ms_since(begun: float) -> int:
    return round((time.monotonic() - begun) * 1000)


def _reason(error: BaseException) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return f"no response within {_SECONDS_MAX} s"
    return str(error) or type(error).__name__
