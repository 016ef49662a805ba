"""A producer, and a consumer that checks whether acknowledged records are lost."""

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal, Self

from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError

from tools.lab.topic_reader import read_all

_PAUSE_SECONDS = 0.005

Acks = Literal[0, 1, "all"]


class Traffic:
    """Writes numbered records to one topic, from the start of the block until `finish`.

    `sent` counts all records, `acknowledged` those that the leader (acks=1) or all in-sync replicas
    (acks=all) have acknowledged, `refused` those that the producer gave up. With acks=0 a record
    counts as acknowledged when it was sent. A record is sent every `pause_seconds`. `security` has
    arguments of aiokafka.
    """

    def __init__(
        self,
        bootstrap: str,
        topic: str,
        *,
        acks: Acks = "all",
        idempotent: bool = True,
        pause_seconds: float = _PAUSE_SECONDS,
        security: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._pause_seconds = pause_seconds
        self._security = security
        self._producer = AIOKafkaProducer(
            bootstrap_servers=bootstrap,
            acks=acks,
            enable_idempotence=idempotent,
            linger_ms=5,
            request_timeout_ms=30_000,
            metadata_max_age_ms=5_000,
            **security,
        )
        self._acknowledged: set[int] = set()
        self._sending: set[asyncio.Task[None]] = set()
        self._task: asyncio.Task[None] | None = None
        self._stopping = False
        self.sent = 0
        self.refused = 0
        self.reasons: set[str] = set()
        """The names of the errors for which records were given up."""
        self._measured_from = self._last_at = time.monotonic()
        self._ended_at: float | None = None
        self._longest = 0.0
        self._copies: Counter[int] = Counter()

    def measure_stalls(self) -> None:
        """Reset `longest_stall`, which then covers the time from now on."""
        self._longest = 0.0
        self._measured_from = time.monotonic()

    @property
    def longest_stall(self) -> float:
        """The longest time without an acknowledgement, in seconds, until now or `finish`."""
        end = time.monotonic() if self._ended_at is None else self._ended_at
        return max(self._longest, end - max(self._last_at, self._measured_from))

    @property
    def acknowledged(self) -> int:
        """The number of records acknowledged so far."""
        return len(self._acknowledged)

    async def __aenter__(self) -> Self:
        await self._producer.start()
        self._task = asyncio.create_task(self._produce())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._stopping = True
        if self._task is not None:
            await self._task
        await self._producer.stop()

    async def _produce(self) -> None:
        while not self._stopping:
            task = asyncio.create_task(self._send(self.sent))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)
            self.sent += 1
            await asyncio.sleep(self._pause_seconds)
        self._ended_at = time.monotonic()
        if self._sending:
            await asyncio.wait(self._sending)

    async def _send(self, number: int) -> None:
        try:
            await self._producer.send_and_wait(self._topic, str(number).encode())
        except KafkaError as error:
            self.refused += 1
            self.reasons.add(type(error).__name__)
        else:
            self._acknowledged.add(number)
            self._note_acknowledgement()

    def _note_acknowledgement(self) -> None:
        now = time.monotonic()
        if self._ended_at is None:
            since = max(self._last_at, self._measured_from)
            self._longest = max(self._longest, now - since)
            self._last_at = now

    async def stop(self) -> None:
        """Send no new records, and wait until each one is acknowledged or given up."""
        self._stopping = True
        assert self._task is not None
        await self._task

    async def finish(self) -> set[int]:
        """Stop producing and read all records; returns the acknowledged records that are
        missing."""
        await self.stop()
        values = (await read_all(self._bootstrap, self._topic, security=self._security)).values()
        self._copies = Counter(int(value) for value in values)
        return self._acknowledged - self._copies.keys()

    @property
    def duplicated(self) -> int:
        """The number of records of which `finish` found more than one copy."""
        return sum(count > 1 for count in self._copies.values())
