"""A scripted broker on loopback that records its requests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from struct import pack, unpack, unpack_from
from typing import Any

import anyio
from kio.schema.errors import ErrorCode

from controller.core.topic_configs import OF_BROKER
from controller.core.values import Broker, Endpoint
from controller.wire.client_requests import RequestHead, decode_request, encode_response
from tests.listening import stop_listening
from tools.lab.ports import free_port

API_VERSIONS = 18
DESCRIBE_CONFIGS = 32
OFFERED = {
    **{0: (0, 11), 1: (0, 17), 3: (0, 12), 4: (0, 7), 5: (0, 4), 6: (0, 8), 7: (0, 3)},
    **{16: (0, 5), 18: (0, 4), 19: (0, 7), 32: (1, 4), 34: (1, 2), 35: (1, 4), 44: (0, 1)},
    **{45: (0, 0), 51: (0, 0), 56: (0, 3), 66: (0, 1), 67: (0, 0)},
}


@dataclass(frozen=True)
class Received:
    """One received request, without its size."""

    api_key: int
    version: int
    correlation_id: int
    frame: bytes

    def answer(self, body: bytes) -> bytes:
        """A response frame to the request, with a header that is not flexible."""
        return pack(">i", self.correlation_id) + body


Script = Callable[[Received], Awaitable[bytes | None]]
"""Returns the frame of the response, without its size, or None to close the connection. If the
script never returns, the broker does not answer.
"""


async def never(received: Received) -> bytes | None:
    """A script that never answers."""
    await anyio.sleep_forever()
    return None


def versions_answer(
    offered: Mapping[int, tuple[int, int]],
    version: int = 3,
    error: ErrorCode = ErrorCode.none,
) -> Any:
    """The response to ApiVersions, with a feature in versions that have features."""
    schema = import_module(f"kio.schema.api_versions.v{version}.response")
    keys = tuple(
        schema.ApiVersion(api_key=key, min_version=first, max_version=last)
        for key, (first, last) in offered.items()
    )
    later: dict[str, Any] = {}
    if version >= 1:
        later["throttle_time"] = timedelta(0)
    if version >= 3:
        supported = schema.SupportedFeatureKey(name="x", min_version=1, max_version=2)
        finalized = schema.FinalizedFeatureKey(name="x", max_version_level=2, min_version_level=1)
        later |= {
            "supported_features": (supported,),
            "finalized_features": (finalized,),
            "finalized_features_epoch": 7,
        }
    return schema.ApiVersionsResponse(error_code=error, api_keys=keys, **later)


def with_settings(
    settings: Mapping[str, str], error: ErrorCode = ErrorCode.none, source: int = OF_BROKER
) -> Script:
    """A script that answers DescribeConfigs with these settings, or with an error. It closes the
    connection at other requests."""

    async def script(received: Received) -> bytes | None:
        if received.api_key != DESCRIBE_CONFIGS:
            return None
        head = RequestHead(DESCRIBE_CONFIGS, received.version, received.correlation_id)
        [asked] = decode_request(head, received.frame).resources
        schema = import_module(f"kio.schema.describe_configs.v{received.version}.response")
        sourced = {"config_source": source} if received.version >= 1 else {}
        configs = tuple(
            schema.DescribeConfigsResourceResult(
                name=key,
                value=settings.get(key),
                read_only=True,
                is_sensitive=False,
                synonyms=(),
                **sourced,
            )
            for key in asked.configuration_keys
        )
        result = schema.DescribeConfigsResult(
            error_code=error,
            error_message="not authorized" if error else None,
            resource_type=asked.resource_type,
            resource_name=asked.resource_name,
            configs=() if error else configs,
        )
        answer = schema.DescribeConfigsResponse(throttle_time=timedelta(0), results=(result,))
        return encode_response(head, answer)[4:]

    return script


class ScriptedBroker:
    """Listens while `listening()`. The script may be changed at any time. ApiVersions is answered
    from `offered`, and only counted in `answered_versions`. A paused broker answers nothing."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.offered = dict(OFFERED)
        self.offers_error = ErrorCode.none
        self.port = free_port()
        self.received: list[Received] = []
        self.answered_versions = 0
        self.is_paused = False
        self.unanswered_max = 0
        self.writers: list[asyncio.StreamWriter] = []
        self._unanswered = 0
        self._is_listening = False
        self._changed = anyio.Event()

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint("PLAINTEXT", "PLAINTEXT", "127.0.0.1", self.port)

    def registered(self, broker_id: int = 1) -> Broker:
        """A live broker that listens here."""
        return Broker(broker_id, 10, (self.endpoint,))

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self._is_listening = True
        try:
            yield
        finally:
            self._is_listening = False
            self.disconnect()
            await stop_listening(server)

    def disconnect(self) -> None:
        """End all connections."""
        for writer in self.writers:
            writer.transport.abort()
        self.writers.clear()

    async def has_received(self, count: int) -> list[Received]:
        """Wait until `count` requests have arrived."""
        while len(self.received) < count:
            await self._changed.wait()
        return self.received

    async def has_answered_versions(self, count: int) -> None:
        """Wait until ApiVersions was answered `count` times."""
        while self.answered_versions < count:
            await self._changed.wait()

    def resume(self) -> None:
        """Answer the requests that arrived during the pause."""
        self.is_paused = False
        self._notify()

    async def _until_resumed(self) -> None:
        while self.is_paused:
            await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not self._is_listening:
            writer.transport.abort()
            return
        self.writers.append(writer)
        try:
            async with asyncio.TaskGroup() as answers:
                while True:
                    (size,) = unpack(">i", await reader.readexactly(4))
                    frame = await reader.readexactly(size)
                    api_key, version, correlation_id = unpack_from(">hhi", frame)
                    received = Received(api_key, version, correlation_id, frame)
                    answers.create_task(self._answer(received, writer))
        except* (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _answer(self, received: Received, writer: asyncio.StreamWriter) -> None:
        if received.api_key == API_VERSIONS:
            await self._until_resumed()
            frame: bytes | None = self._versions(received)
        else:
            frame = await self._scripted(received)
        if frame is None:
            writer.close()
        else:
            writer.write(pack(">i", len(frame)) + frame)

    async def _scripted(self, received: Received) -> bytes | None:
        self.received.append(received)
        self._unanswered += 1
        self.unanswered_max = max(self._unanswered, self.unanswered_max)
        self._notify()
        try:
            await self._until_resumed()
            return await self.script(received)
        finally:
            self._unanswered -= 1

    def _versions(self, received: Received) -> bytes:
        self.answered_versions += 1
        self._notify()
        head = RequestHead(API_VERSIONS, received.version, received.correlation_id)
        answer = versions_answer(self.offered, received.version, self.offers_error)
        return encode_response(head, answer)[4:]
