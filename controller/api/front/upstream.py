"""The connection to a broker over which one client's requests are passed on."""

import asyncio
from struct import unpack
from typing import Final

from controller.api.errors import NoUpstream
from controller.api.front.streams import READ_AHEAD_BYTES, copy, within, write_through
from controller.api.limits import Limits
from controller.core.values import Endpoint

_HEAD: Final = 8
_SIZE: Final = 4


class Upstream:
    """One connection, one request in flight; of no use after an error."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: Limits
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answer_seconds_max = limits.request_timeout_ms / 1000
        self._transfer_seconds_max = limits.transfer_ms / 1000

    @classmethod
    async def open(cls, endpoint: Endpoint, limits: Limits) -> "Upstream":
        """Connect, for as long as the caller lets it. Raises `NoUpstream`."""
        try:
            reader, writer = await asyncio.open_connection(
                endpoint.host, endpoint.port, limit=READ_AHEAD_BYTES
            )
        except OSError as fault:
            raise NoUpstream(f"{endpoint.host}:{endpoint.port}: {fault}") from fault
        write_through(writer)
        return cls(reader, writer, limits)

    @property
    def is_open(self) -> bool:
        """Whether the broker has not closed it, as far as is known."""
        return not self._reader.at_eof() and not self._writer.is_closing()

    async def send(self, beginning: bytes, rest: asyncio.StreamReader, count: int) -> None:
        """Pass a request on: its size, its beginning, and `count` more bytes that the client
        still sends. Raises IncompleteReadError, ConnectionError: the client's end or ours."""
        size = len(beginning) + count
        self._writer.write(size.to_bytes(_SIZE, "big") + beginning)
        await copy(rest, self._writer, count)
        await self._writer.drain()

    async def send_whole(self, request: bytes) -> None:
        """Pass a request on that is here as a whole. Raises ConnectionError."""
        self._writer.write(len(request).to_bytes(_SIZE, "big") + request)
        await self._writer.drain()

    async def response_start(self) -> bytes:
        """Wait until the broker begins to answer; the first bytes. Raises `NoUpstream`,
        IncompleteReadError, ConnectionError."""
        try:
            async with asyncio.timeout(self._answer_seconds_max):
                return await self._reader.readexactly(_HEAD)
        except TimeoutError as fault:
            raise NoUpstream("a broker did not answer in time (request.timeout.ms)") from fault

    async def forward_response(
        self, beginning: bytes, correlation_id: int, client: asyncio.StreamWriter
    ) -> None:
        """Pass the answer to that request back, which begins so. Raises `NoUpstream`,
        `RequestRejected`, IncompleteReadError, ConnectionError."""
        size, answered = unpack(">ii", beginning)
        if size < _HEAD - _SIZE or answered != correlation_id:
            raise NoUpstream(f"an answer to request {answered} came instead of {correlation_id}")
        async with within(self._transfer_seconds_max, "a broker's answer was not passed on"):
            client.write(beginning)
            await copy(self._reader, client, size - (_HEAD - _SIZE))
            await client.drain()

    def close(self) -> None:
        """Close at once."""
        self._writer.transport.abort()
