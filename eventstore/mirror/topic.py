"""The topic: its messages, and the last message of a log."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import msgspec
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import (
    InvalidReplicationFactorError,
    KafkaConnectionError,
    KafkaError,
    NodeNotReadyError,
    TopicAlreadyExistsError,
    for_code,
)
from aiokafka.structs import ConsumerRecord
from msgspec import Struct

from eventstore.errors import MirrorFailed
from eventstore.frames import Frame, decode
from eventstore.mirror.outbox import PublishedPosition, decode_position

POSITION: Final = "at"
"""The header with the position after a message."""
PART: Final = "part"
"""The header of a message with one part of a record: its number from 1 on, and the total."""
PART_BYTES: Final = 512 << 10
"""A larger record is published in parts: by default brokers accept messages up to 1 MiB."""

_PARTITIONS: Final = 6
_REPLICAS: Final = 3
_LEADERS_S: Final = 30
_LEADERS_POLL_S: Final = 0.1
_LOOK_BACK: Final = 512
_FETCH_MS: Final = 500
_STOP_S: Final = 5.0
_OPEN_TRANSACTION_S_MAX: Final = 1000
"""More than brokers allow for a transaction by default (transaction.max.timeout.ms)."""
_OPEN_TRANSACTION_POLL_S: Final = 0.2
_WAIT_REPORTED_S: Final = 1.0
"""A broker returns from a commit before the messages can be read, usually for some milliseconds."""
_TRIES: Final = 50
_TRY_AGAIN_S: Final = 0.1
_TRIES_OF_NEW_TOPIC: Final = 10
"""A broker may know a new topic a little later than another one."""

Answer = TypeVar("Answer")

OnWait = Callable[[], None]
"""Called if an open transaction delays a result."""


class MirrorTopic(Struct, frozen=True):
    """A topic on a cluster. `client`: arguments for aiokafka's clients, including
    bootstrap_servers."""

    name: str
    client: Mapping[str, Any]

    @property
    def servers(self) -> str:
        """The bootstrap servers."""
        return str(self.client.get("bootstrap_servers"))

    @property
    def place(self) -> str:
        """The topic in messages to people."""
        return f"topic {self.name} at {self.servers}"


class LastMessage(Struct, frozen=True):
    """A log's last message."""

    partition: int
    offset: int
    at: PublishedPosition
    record: Frame | None = None
    """None if it is unknown, or was published in parts."""


@asynccontextmanager
async def errors_of(topic: MirrorTopic) -> AsyncIterator[None]:
    """Convert errors of Kafka's client inside the block to MirrorFailed."""
    try:
        yield
    except (KafkaError, OSError, TimeoutError) as error:
        raise MirrorFailed(topic.place, str(error) or type(error).__name__) from error


@asynccontextmanager
async def consumer(
    topic: MirrorTopic, *, isolation: str = "read_committed"
) -> AsyncIterator[AIOKafkaConsumer]:
    """A consumer without a group; it reads committed messages by default."""
    opened = AIOKafkaConsumer(
        **topic.client,
        group_id=None,
        enable_auto_commit=False,
        isolation_level=isolation,
        fetch_max_wait_ms=_FETCH_MS,
    )
    async with _started_client(opened, opened.stop):
        yield opened


@asynccontextmanager
async def producer(topic: MirrorTopic, key: str) -> AsyncIterator[AIOKafkaProducer]:
    """A transactional producer, which fences an earlier one with the same key."""
    opened = AIOKafkaProducer(
        **topic.client,
        transactional_id=f"refold-mirror-{topic.name}-{key}",
        compression_type="gzip",
        max_batch_size=256 << 10,
        linger_ms=5,
    )
    async with _started_client(opened, opened.stop):
        yield opened


@asynccontextmanager
async def _admin(topic: MirrorTopic) -> AsyncIterator[AIOKafkaAdminClient]:
    opened = AIOKafkaAdminClient(**topic.client)
    async with _started_client(opened, opened.close):
        yield opened


@asynccontextmanager
async def _started_client(
    client: AIOKafkaConsumer | AIOKafkaProducer | AIOKafkaAdminClient,
    stop: Callable[[], Awaitable[None]],
) -> AsyncIterator[None]:
    """Stop the client in any case, even if its start failed or was cancelled."""
    try:
        await client.start()
        yield
    finally:
        # A producer waits for unsent messages without a time limit, for example if no broker
        # answers.
        with anyio.move_on_after(_STOP_S, shield=True):
            await stop()


async def _retry(question: Callable[[], Awaitable[Answer]]) -> Answer:
    """The response of the cluster. aiokafka may ask a broker that is down; a retry asks another
    one. A broker that has just started is not known everywhere."""
    for _ in range(_TRIES - 1):
        with suppress(NodeNotReadyError, KafkaConnectionError, InvalidReplicationFactorError):
            return await question()
        await anyio.sleep(_TRY_AGAIN_S)
    return await question()


async def create_topic(topic: MirrorTopic) -> bool:
    """Create the topic if it does not exist; return whether it was created. It keeps all records
    unless its configuration is changed."""
    async with _admin(topic) as admin:
        if topic.name in await _retry(admin.list_topics):
            return False
        is_created = await _retry(partial(_create, admin, topic))
        with anyio.fail_after(_LEADERS_S):
            while not await _have_leaders(admin, topic):  # noqa: ASYNC110 - brokers send no such event
                await anyio.sleep(_LEADERS_POLL_S)
        return is_created


async def _create(admin: AIOKafkaAdminClient, topic: MirrorTopic) -> bool:
    """Ask the controller for the topic. False: another client has created it."""
    brokers = len((await admin.describe_cluster())["brokers"])
    configs = {"retention.ms": "-1", "cleanup.policy": "delete"}
    new = NewTopic(topic.name, _PARTITIONS, min(_REPLICAS, brokers), topic_configs=configs)
    try:
        answer = await admin.create_topics([new])
    except AttributeError:
        # aiokafka does not check whether the brokers know a controller.
        raise NodeNotReadyError("no broker knows a controller that could create it") from None
    [(_, code, *_)] = answer.topic_errors
    if code and for_code(code) is not TopicAlreadyExistsError:
        raise for_code(code)(f"{topic.name} cannot be created")
    return not code


async def partitions_of(topic: MirrorTopic) -> list[TopicPartition]:
    """The topic's partitions. Raises MirrorFailed if the topic does not exist."""
    async with _admin(topic) as admin:
        for _ in range(_TRIES_OF_NEW_TOPIC):
            found = await _describe(admin, topic)
            if found is not None:
                numbers = sorted(one["partition"] for one in found["partitions"])
                return [TopicPartition(topic.name, number) for number in numbers]
            await anyio.sleep(_TRY_AGAIN_S)
        text = "there is no such topic that this client may describe: check its name"
        raise MirrorFailed(topic.place, text)


async def ends_of(topic: MirrorTopic) -> dict[int, int]:
    """The offset after the last message, by partition. Raises MirrorFailed as `partitions_of`."""
    places = await partitions_of(topic)
    async with consumer(topic) as reader:
        ends = await reader.end_offsets(places)
        return {place.partition: ends[place] for place in places}


async def cluster_of(topic: MirrorTopic) -> str:
    """The id of the topic's Kafka cluster."""
    async with _admin(topic) as admin:
        return str((await _retry(admin.describe_cluster))["cluster_id"])


async def _have_leaders(admin: AIOKafkaAdminClient, topic: MirrorTopic) -> bool:
    found = await _describe(admin, topic)
    partitions = found["partitions"] if found is not None else []
    return bool(partitions) and all(one["leader"] >= 0 for one in partitions)


async def _describe(admin: AIOKafkaAdminClient, topic: MirrorTopic) -> dict[str, Any] | None:
    """The metadata of the topic; None if the broker that answers does not know it. All topics are
    asked about: brokers may create a topic that a request names."""
    found = [one for one in await _retry(admin.describe_topics) if one["topic"] == topic.name]
    return found[0] if found and not found[0]["error_code"] else None


async def messages(
    reader: AIOKafkaConsumer, place: TopicPartition, start: int, end: int
) -> AsyncIterator[ConsumerRecord]:
    """The messages of a partition from offset `start` up to, but not including, `end`."""
    reader.assign([place])
    reader.seek(place, start)
    while await reader.position(place) < end:
        for found in (await reader.getmany(place, timeout_ms=_FETCH_MS)).values():
            for message in found:
                if message.offset < end:
                    yield message


async def still_holds(
    topic: MirrorTopic, places: list[TopicPartition], key: bytes, noted: LastMessage
) -> bool:
    """Whether a message is still on the topic, or was removed together with all earlier ones. A
    topic that was created again, or one of another cluster, has different messages or none."""
    place = TopicPartition(topic.name, noted.partition)
    if place not in places:
        return False
    async with consumer(topic) as reader:
        begins = await reader.beginning_offsets([place])
        ends = await reader.end_offsets([place])
        if noted.offset < begins[place]:
            return True
        end = min(noted.offset + 1, ends[place])
        found = await _last_between(reader, place, noted.offset, end, key)
        return found is not None and found.at == noted.at


async def last_message(
    topic: MirrorTopic,
    places: list[TopicPartition],
    key: bytes,
    hint: LastMessage | None,
    on_wait: OnWait = lambda: None,
) -> LastMessage | None:
    """The last message of a log on these partitions; None if there is none. `hint` is an earlier
    message of it, if still valid. Raises MirrorFailed."""
    async with consumer(topic) as reader:
        reader.assign(places)
        if hint is not None and (place := TopicPartition(topic.name, hint.partition)) in places:
            ends = await readable_ends(topic, reader, [place], on_wait)
            found = await _last_between(reader, place, hint.offset, ends[place], key)
            if found is not None and found.at.order >= hint.at.order:
                return found
        ends = await readable_ends(topic, reader, places, on_wait)
        begins = await reader.beginning_offsets(places)
        for place in places:
            found = await _last_before(reader, place, begins[place], ends[place], key)
            if found is not None:
                return found
        return None


async def readable_ends(
    topic: MirrorTopic,
    reader: AIOKafkaConsumer,
    places: list[TopicPartition],
    on_wait: OnWait,
) -> dict[TopicPartition, int]:
    """The current end offsets, once everything before them can be read. Messages after an open
    transaction cannot be read until the transaction ends or the cluster aborts it, and those of a
    committed one only when the brokers have marked its end in each partition.

    Raises MirrorFailed.
    """
    async with consumer(topic, isolation="read_uncommitted") as of_all:
        ends: dict[TopicPartition, int] = await of_all.end_offsets(places)
    began, is_reported = anyio.current_time(), False
    with anyio.move_on_after(_OPEN_TRANSACTION_S_MAX):
        while True:
            readable = await reader.end_offsets(places)
            if all(readable[one] >= ends[one] for one in places):
                return ends
            if not is_reported and anyio.current_time() - began >= _WAIT_REPORTED_S:
                is_reported = True
                on_wait()
            await anyio.sleep(_OPEN_TRANSACTION_POLL_S)
    text = (
        f"a transaction of another producer has been open for {_OPEN_TRANSACTION_S_MAX} "
        "s: abort it (kafka-transactions find-hanging, abort)"
    )
    raise MirrorFailed(topic.place, text)


async def _last_before(
    reader: AIOKafkaConsumer, place: TopicPartition, begin: int, end: int, key: bytes
) -> LastMessage | None:
    """Search from the end, in growing steps."""
    size = _LOOK_BACK
    while begin < end:
        start = max(begin, end - size)
        found = await _last_between(reader, place, start, end, key)
        if found is not None:
            return found
        end, size = start, size * 4
    return None


async def _last_between(
    reader: AIOKafkaConsumer, place: TopicPartition, start: int, end: int, key: bytes
) -> LastMessage | None:
    last = None
    async for message in messages(reader, place, start, end):
        position = position_of(message)
        if message.key == key and position is not None:
            last = LastMessage(place.partition, message.offset, position, _record(message))
    return last


def position_of(message: ConsumerRecord) -> PublishedPosition | None:
    """The position after a message; None if it is not refold's, or not the last part of a
    record."""
    with suppress(msgspec.MsgspecError):
        return decode_position(header_of(message, POSITION))
    return None


def _record(message: ConsumerRecord) -> Frame | None:
    with suppress(msgspec.MsgspecError):
        return decode(message.value or b"") if not header_of(message, PART) else None
    return None


def header_of(message: ConsumerRecord, name: str) -> bytes:
    """The value of a message's header, empty if it has none."""
    return next((value for key, value in message.headers if key == name), b"")
