"""Publishes the logs of a folder, and follows those that are written."""

import asyncio
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
from aiokafka import AIOKafkaProducer, TopicPartition
from aiokafka.errors import ProducerFenced
from aiokafka.structs import RecordMetadata
from anyio.to_thread import run_sync
from msgspec import Struct, structs

from eventstore import folders
from eventstore.errors import LogError, MirrorFailed, MirrorFenced, from_os
from eventstore.frames import encode
from eventstore.mirror.outbox import Message, Position, encode_position, matches_log, next_messages
from eventstore.mirror.progress import Progress, read_progress, write_progress
from eventstore.mirror.topic import (
    PART,
    PART_BYTES,
    POSITION,
    LastMessage,
    Topic,
    create_topic,
    errors_of,
    last_message,
    partitions_of,
    producer,
    still_holds,
)
from eventstore.segment import open_segment
from eventstore.verify import verify

_POLL_S: Final = 0.2
_RETRY_S: Final = 1.0
_RETRY_MAX_S: Final = 30.0
_CONCURRENT_LOGS: Final = 8


class MirrorEvent(Struct, frozen=True, rename={"kind": "what"}):
    """What happened to a log: records were published, all of it is ("whole"), it failed, it waits
    for others, or it is damaged: a record of it is not as it was written."""

    kind: str
    log: str
    text: str = ""
    records: int = 0


OnEvent = Callable[[MirrorEvent], None]


class Publisher:
    """Publishes the logs below a parent folder to a topic. It may be ended at any moment, and goes
    on behind the last record that is there."""

    def __init__(self, parent: Path, topic: Topic, on_event: OnEvent) -> None:
        self._parent = parent
        self._topic = topic
        self._on_event = on_event
        self._limiter = anyio.CapacityLimiter(_CONCURRENT_LOGS)
        self._places: list[TopicPartition] = []

    async def publish(self) -> int:
        """All there is by now; how many records that were. A log with a damage is told of, and
        nothing of it is published. Raises LogError."""
        ending = anyio.Event()
        ending.set()
        sound = [log for log in self._logs() if await run_sync(self._is_sound, log)]
        return sum([await self._publish(log, ending) for log in sound])

    async def follow(self, ending: anyio.Event) -> None:
        """All there is and will be, until `ending` is set and what is written by then is published.

        What cannot be done is told and tried again. Raises LogError where the folder is gone.
        """
        known: set[Path] = set()
        async with anyio.create_task_group() as tasks:
            while True:
                is_ending = ending.is_set()
                for log in self._logs():
                    if log not in known:
                        known.add(log)
                        tasks.start_soon(self._follow, log, ending)
                if is_ending:
                    return
                with anyio.move_on_after(_POLL_S):
                    await ending.wait()

    def _is_sound(self, log: Path) -> bool:
        """Of the topic only the last record is compared. It stands for those before it where the
        log follows its own checksum chain."""
        report = verify(log)
        for damage in report.damages:
            text = f"{damage.file}, {damage.record}: {damage.text}"
            self._on_event(MirrorEvent("damaged", str(log), text))
        return report.is_sound

    def _logs(self) -> list[Path]:
        try:
            return folders.logs_in(self._parent)
        except OSError as error:
            raise from_os(error, self._parent) from error

    async def _follow(self, log: Path, ending: anyio.Event) -> None:
        pause_s = _RETRY_S
        while True:
            try:
                async with self._limiter:
                    await self._publish(log, ending)
                return
            except LogError as error:
                # The topic may have been made anew.
                self._places = []
                self._on_event(MirrorEvent("failed", str(log), str(error)))
            if ending.is_set():
                return
            with anyio.move_on_after(pause_s):
                await ending.wait()
            pause_s = min(pause_s * 2, _RETRY_MAX_S)

    async def _publish(self, log: Path, ending: anyio.Event) -> int:
        """A log, until nothing will follow, or nothing is there and it is to end."""
        noted = read_progress(log, self._topic.name)
        key = _key(log)
        async with errors_of(self._topic), _fenced(self._topic):
            places = await self._partitions(log)
            if (
                noted is not None
                and noted.is_whole
                and await self._still_holds(log, places, key, noted)
            ):
                return 0
            async with producer(self._topic, key) as writer:
                hint = _last_message_of(noted) if noted is not None else None
                waits = partial(self._wait, log)
                last = await last_message(self._topic, places, key.encode(), hint, waits)
                publisher = await _LogPublisher.after(
                    last, self._topic, key.encode(), log, writer, len(places)
                )
                count = 0
                while True:
                    is_over = not folders.is_being_written(log)
                    is_ending = ending.is_set()
                    batch = await run_sync(next_messages, log, publisher.at)
                    if batch:
                        await publisher.send(batch)
                        count += len(batch)
                        self._on_event(MirrorEvent("published", str(log), records=len(batch)))
                    elif is_over:
                        publisher.note(is_whole=True)
                        self._on_event(MirrorEvent("whole", str(log), records=count))
                        return count
                    elif is_ending:
                        return count
                    else:
                        with anyio.move_on_after(_POLL_S):
                            await ending.wait()

    async def _partitions(self, log: Path) -> list[TopicPartition]:
        """The topic's, which is made where it is not there."""
        if not self._places:
            if await create_topic(self._topic):
                self._on_event(MirrorEvent("made", str(log), f"{self._topic.place} was made"))
            self._places = await partitions_of(self._topic)
        return self._places

    async def _still_holds(
        self, log: Path, places: list[TopicPartition], key: str, noted: Progress
    ) -> bool:
        """Whether the topic has what is noted of a log; the note is of this topic then."""
        if not await still_holds(self._topic, places, key.encode(), _last_message_of(noted)):
            return False
        if noted.servers != self._topic.servers:
            write_progress(log, structs.replace(noted, servers=self._topic.servers))
        return True

    def _wait(self, log: Path) -> None:
        text = f"{self._topic.place}: waits for the end of another producer's transaction"
        self._on_event(MirrorEvent("waits", str(log), text))


class _LogPublisher:
    """One log's way to its partition."""

    def __init__(
        self,
        topic: Topic,
        key: bytes,
        log: Path,
        writer: AIOKafkaProducer,
        partition: int,
        last: LastMessage | None,
    ) -> None:
        self._topic = topic
        self._key = key
        self._log = log
        self._writer = writer
        self._partition = partition
        self._last = last

    @classmethod
    async def after(
        cls,
        last: LastMessage | None,
        topic: Topic,
        key: bytes,
        log: Path,
        writer: AIOKafkaProducer,
        partitions: int,
    ) -> "_LogPublisher":
        """On behind what is there; a log that is new to the topic gets a partition by its key."""
        if last is None:
            return cls(topic, key, log, writer, zlib.crc32(key) % partitions, None)
        if last.record is not None and not await run_sync(matches_log, log, last.record, last.at):
            text = f"has another log under the name {key.decode()}: publish to another topic"
            raise MirrorFailed(topic.place, text)
        return cls(topic, key, log, writer, last.partition, last)

    @property
    def at(self) -> Position | None:
        """What is there by now."""
        return self._last.at if self._last is not None else None

    async def send(self, batch: list[Message]) -> None:
        """All of them, or none: one transaction."""
        sent: list[asyncio.Future[RecordMetadata]] = []
        async with self._writer.transaction():
            for message in batch:
                for body, headers in _parts(message):
                    one = await self._writer.send(
                        self._topic.name,
                        body,
                        self._key,
                        self._partition,
                        message.wall_ms,
                        headers,
                    )
                    # The transaction raises what becomes of any; asyncio would tell of each.
                    one.add_done_callback(_retrieve_exception)
                    sent.append(one)
        *_, last = sent
        self._last = LastMessage(self._partition, (await last).offset, batch[-1].at)
        self.note()

    def note(self, *, is_whole: bool = False) -> None:
        """Write down how far it is."""
        if self._last is not None:
            found = self._last
            progress = Progress(
                self._topic.name,
                found.partition,
                found.offset,
                found.at,
                is_whole,
                self._topic.servers,
            )
            write_progress(self._log, progress)


def _parts(message: Message) -> Iterator[tuple[bytes, list[tuple[str, bytes]]]]:
    """The values of a record's messages, with their headers. Only the last one says where it is."""
    body = encode(message.frame)
    at = (POSITION, encode_position(message.at))
    if len(body) <= PART_BYTES:
        yield body, [at]
        return
    starts = range(0, len(body), PART_BYTES)
    for number, start in enumerate(starts, 1):
        part = (PART, f"{number}/{len(starts)}".encode())
        is_last = number == len(starts)
        yield body[start : start + PART_BYTES], [part, at] if is_last else [part]


def _last_message_of(noted: Progress) -> LastMessage:
    return LastMessage(noted.partition, noted.offset, noted.at)


def _key(log: Path) -> str:
    """What all messages of a log have as their key."""
    with open_segment(folders.segments_of(log)[0]) as first:
        return f"{first.header.cluster_id}/{log.name}"


@asynccontextmanager
async def _fenced(topic: Topic) -> AsyncIterator[None]:
    asyncio.get_running_loop().set_exception_handler(_ignore_fencing)
    try:
        yield
    except ProducerFenced as error:
        text = "somebody else publishes the same log there: end one of the two"
        raise MirrorFenced(topic.place, text) from error


def _ignore_fencing(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """aiokafka gives the error of a fence to futures, too, that nobody asks."""
    if not isinstance(context.get("exception"), ProducerFenced):
        loop.default_exception_handler(context)


def _retrieve_exception(sent: "asyncio.Future[RecordMetadata]") -> None:
    if not sent.cancelled():
        sent.exception()
