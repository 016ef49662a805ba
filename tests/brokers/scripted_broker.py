"""A broker on loopback that does what a test says, and remembers what it was asked."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from struct import pack, unpack_from

import anyio

from controller.core.values import Endpoint
from tools.lab.ports import free_port

API_VERSIONS = 18
OFFERED = {4: (0, 7), 5: (0, 4), 6: (0, 8), API_VERSIONS: (0, 4)}


@dataclass(frozen=True)
class Received:
    """One request as it came."""

    api_key: int
    version: int
    correlation_id: int
    frame: bytes

    def answer(self, body: bytes) -> bytes:
        """A response frame to it; all versions that tests use have flexible headers."""
        return pack(">i", self.correlation_id) + b"\0" + body


Script = Callable[[Received], Awaitable[bytes | None]]
"""Gives the frame to answer with, or None to close the connection."""


def no_errors(received: Received) -> bytes:
    """The frame that says that all went well, without naming partitions."""
    return received.answer(pack(">h", 0) + (b"\0" if received.api_key == 6 else b"\x01\0"))


async def answer_all(received: Received) -> bytes | None:
    return no_errors(received)


class ScriptedBroker:
    """Listens while `listening()`; the script may be changed at any time."""

    def __init__(self, script: Script = answer_all) -> None:
        self.script = script
        self.offered: dict[int, tuple[int, int]] = dict(OFFERED)
        self.port = free_port()
        self.received: list[Received] = []
        self.unanswered = 0
        self.unanswered_max = 0
        self._changed = anyio.Event()
        self.writers: list[asyncio.StreamWriter] = []

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", self.port)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        try:
            yield
        finally:
            server.close()
            self.disconnect()
            await server.wait_closed()

    def disconnect(self) -> None:
        """End all connections."""
        for writer in self.writers:
            writer.close()
        self.writers.clear()

    async def has_received(self, count: int) -> list[Received]:
        """Wait until so many requests have come."""
        while len(self.received) < count:
            await self._changed.wait()
        return self.received

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        async with asyncio.TaskGroup() as answers:
            try:
                while True:
                    (size,) = unpack_from(">i", await reader.readexactly(4))
                    frame = await reader.readexactly(size)
                    received = Received(*unpack_from(">hhi", frame), frame)
                    answers.create_task(self._answer(received, writer))
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()

    async def _answer(self, received: Received, writer: asyncio.StreamWriter) -> None:
        if received.api_key == API_VERSIONS:
            frame: bytes | None = self._versions(received)
        else:
            self.received.append(received)
            self.unanswered += 1
            self.unanswered_max = max(self.unanswered, self.unanswered_max)
            self._changed.set()
            self._changed = anyio.Event()
            frame = await self.script(received)
            self.unanswered -= 1
        if frame is None:
            writer.close()
        else:
            writer.write(pack(">i", len(frame)) + frame)

    def _versions(self, received: Received) -> bytes:
        table = b"".join(pack(">hhh", key, *span) for key, span in self.offered.items())
        return pack(">ihi", received.correlation_id, 0, len(self.offered)) + table
