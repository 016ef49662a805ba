"""Publishes the logs in a folder, and follows those that are being written."""

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
from eventstore.mirror.outbox import (
    Message,
    PublishedPosition,
    encode_position,
    matches_log,
    next_messages,
)
from eventstore.mirror.progress import MirrorProgress, read_progress, write_progress
from eventstore.mirror.topic import (
    PART,
    PART_BYTES,
    POSITION,
    LastMessage,
    MirrorTopic,
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
    """The result for a log: "published" records, "whole" (published completely), "failed", "waits"
    for another producer, "made" (the topic was created), "damaged" (a record was changed), or
    "withheld" (it cannot be redacted, or not yet).
    """

    kind: str
    log: str
    text: str = ""
    records: int = 0


OnEvent = Callable[[MirrorEvent], None]


class Publisher:
    """Publishes the logs below a parent folder to a topic. It may be stopped at any time, and
    continues after the last published record."""

    def __init__(self, parent: Path, topic: MirrorTopic, on_event: OnEvent) -> None:
        self._parent = parent
        self._topic = topic
        self._on_event = on_event
        self._limiter = anyio.CapacityLimiter(_CONCURRENT_LOGS)
        self._places: list[TopicPartition] = []

    async def publish(self) -> int:
        """Publish everything that is stored now; return the number of records. A damaged log is
        reported and not published. Raises LogError."""
        ending = anyio.Event()
        ending.set()
        sound = [log for log in self._logs() if await run_sync(self._verify_log, log)]
        return sum([await self._publish(log, ending) for log in sound])

    async def follow(self, ending: anyio.Event) -> None:
        """Publish continuously, until `ending` is set and everything written by then is published.

        Failures are reported and retried. Raises LogError if the folder was deleted.
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

    def _verify_log(self, log: Path) -> bool:
        """Report damages; returns whether there are none. Only the last record on the topic is
        compared. This record represents all earlier records only if the log is consistent with its
        own checksum chain.
        """
        return report_damages(log, self._on_event)

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
                # The topic may have been created again.
                self._places = []
                self._on_event(MirrorEvent("failed", str(log), str(error)))
            if ending.is_set():
                return
            with anyio.move_on_after(pause_s):
                await ending.wait()
            pause_s = min(pause_s * 2, _RETRY_MAX_S)

    async def _publish(self, log: Path, ending: anyio.Event) -> int:
        """Publish a log until it is complete, or until `ending` is set and everything is
        published."""
        noted = read_progress(log, self._topic.name)
        key = _key(log)
        async with errors_of(self._topic), _fencing_errors_of(self._topic):
            places = await self._partitions(log)
            if (
                noted is not None
                and noted.is_whole
                and await self._confirm_progress(log, places, key, noted)
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
                    batch = await run_sync(next_messages, log, publisher.position)
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
        """The partitions of the topic, which is created if necessary."""
        if not self._places:
            if await create_topic(self._topic):
                self._on_event(MirrorEvent("made", str(log), f"{self._topic.place} was created"))
            self._places = await partitions_of(self._topic)
        return self._places

    async def _confirm_progress(
        self, log: Path, places: list[TopicPartition], key: str, noted: MirrorProgress
    ) -> bool:
        """Update the note's servers if the topic contains its last message. Returns whether it
        does."""
        if not await still_holds(self._topic, places, key.encode(), _last_message_of(noted)):
            return False
        if noted.servers != self._topic.servers:
            write_progress(log, structs.replace(noted, servers=self._topic.servers))
        return True

    def _wait(self, log: Path) -> None:
        text = f"{self._topic.place}: waiting for another producer's transaction to end"
        self._on_event(MirrorEvent("waits", str(log), text))


def report_damages(log: Path, on_event: OnEvent) -> bool:
    """Report each damage of a log; returns whether there is none."""
    report = verify(log)
    for damage in report.damages:
        text = f"{damage.file}, {damage.record}: {damage.text}"
        on_event(MirrorEvent("damaged", str(log), text))
    return report.is_sound


class _LogPublisher:
    """Publishes one log to its partition."""

    def __init__(
        self,
        topic: MirrorTopic,
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
        topic: MirrorTopic,
        key: bytes,
        log: Path,
        writer: AIOKafkaProducer,
        partitions: int,
    ) -> "_LogPublisher":
        """Continue after the last published message. The partition of a new log is chosen by its
        key."""
        if last is None:
            return cls(topic, key, log, writer, zlib.crc32(key) % partitions, None)
        if last.record is not None and not await run_sync(matches_log, log, last.record, last.at):
            text = f"has a different log with the name {key.decode()}: publish to another topic"
            raise MirrorFailed(topic.place, text)
        return cls(topic, key, log, writer, last.partition, last)

    @property
    def position(self) -> PublishedPosition | None:
        """The position after the last published message."""
        return self._last.at if self._last is not None else None

    async def send(self, batch: list[Message]) -> None:
        """Publish all messages in one transaction."""
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
                    # The transaction raises all errors; otherwise asyncio would log each of them.
                    one.add_done_callback(_retrieve_exception)
                    sent.append(one)
        *_, last = sent
        self._last = LastMessage(self._partition, (await last).offset, batch[-1].at)
        self.note()

    def note(self, *, is_whole: bool = False) -> None:
        """Write the progress note."""
        if self._last is not None:
            found = self._last
            progress = MirrorProgress(
                self._topic.name,
                found.partition,
                found.offset,
                found.at,
                is_whole,
                self._topic.servers,
            )
            write_progress(self._log, progress)


def _parts(message: Message) -> Iterator[tuple[bytes, list[tuple[str, bytes]]]]:
    """The messages of a record, with their headers. Only the last one has the position."""
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


def _last_message_of(noted: MirrorProgress) -> LastMessage:
    return LastMessage(noted.partition, noted.offset, noted.at)


def _key(log: Path) -> str:
    """The key of all messages of a log."""
    with open_segment(folders.segments_of(log)[0]) as first:
        return f"{first.header.cluster_id}/{log.name}"


@asynccontextmanager
async def _fencing_errors_of(topic: MirrorTopic) -> AsyncIterator[None]:
    asyncio.get_running_loop().set_exception_handler(_ignore_fencing)
    try:
        yield
    except ProducerFenced as error:
        text = "another process publishes the same log there: stop one of the two"
        raise MirrorFenced(topic.place, text) from error


def _ignore_fencing(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """aiokafka also sets fencing errors on futures that nothing awaits."""
    if not isinstance(context.get("exception"), ProducerFenced):
        loop.default_exception_handler(context)


def _retrieve_exception(sent: "asyncio.Future[RecordMetadata]") -> None:
    if not sent.cancelled():
        sent.exception()
