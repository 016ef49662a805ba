"""A broker that requests are passed on to: says what it offers, and answers as a test wants."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from struct import pack, unpack
from typing import Any

import anyio
from kio.schema.api_versions.v3.response import (
    ApiVersion,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from kio.schema.errors import ErrorCode

from controller.core.values import Broker, Endpoint
from controller.wire.client_requests import RequestHead, encode_response, read_head
from tools.lab.ports import free_port

OFFERED = {
    **{0: (0, 11), 1: (0, 17), 3: (0, 12), 4: (0, 7), 7: (0, 3), 16: (0, 5), 18: (0, 4)},
    **{19: (0, 7), 32: (1, 4), 34: (1, 2), 35: (1, 4), 44: (0, 1), 45: (0, 0), 56: (0, 3)},
    **{66: (0, 1), 67: (0, 0)},
}

Script = Callable[[RequestHead, bytes], Awaitable[bytes | None]]
"""Gives the body of the answer, without the correlation id, or None for no answer at all."""


def versions_answer(
    offered: dict[int, tuple[int, int]], error: ErrorCode = ErrorCode.none
) -> ApiVersionsResponse:
    """What a broker answers to ApiVersions version 3."""
    keys = tuple(
        ApiVersion(api_key=key, min_version=first, max_version=last)
        for key, (first, last) in offered.items()
    )
    return ApiVersionsResponse(
        error_code=error,
        api_keys=keys,
        throttle_time=timedelta(0),
        supported_features=(SupportedFeatureKey(name="x", min_version=1, max_version=2),),
        finalized_features_epoch=7,
        finalized_features=(
            FinalizedFeatureKey(name="x", max_version_level=2, min_version_level=1),
        ),
    )


async def echo(head: RequestHead, frame: bytes) -> bytes | None:
    return frame


class ScriptedBroker:
    """Listens while `listening()`; remembers the requests other than ApiVersions."""

    def __init__(self, broker_id: int = 1, script: Script = echo) -> None:
        self.port = free_port()
        self.script = script
        self.received: list[bytes] = []
        self.broker = Broker(broker_id, 10, (self.endpoint,))
        self._writers: list[asyncio.StreamWriter] = []
        self._more = anyio.Event()

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
            for writer in self._writers:
                writer.transport.abort()
            await server.wait_closed()

    async def has_received(self, count: int) -> list[bytes]:
        """Wait until so many requests have come."""
        while len(self.received) < count:
            self._more = anyio.Event()
            await self._more.wait()
        return self.received

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            while True:
                (size,) = unpack(">i", await reader.readexactly(4))
                await self._answer(await reader.readexactly(size), writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.transport.abort()

    async def _answer(self, frame: bytes, writer: asyncio.StreamWriter) -> None:
        head = read_head(frame)
        if head.api_key == 18:
            answer: Any = versions_answer(OFFERED)
            writer.write(encode_response(head, answer))
            return
        self.received.append(frame)
        self._more.set()
        body = await self.script(head, frame)
        if body is not None:
            writer.write(pack(">ii", len(body) + 4, head.correlation_id) + body)
