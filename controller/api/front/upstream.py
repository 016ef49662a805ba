"""The connection to a broker over which one client's requests are forwarded."""

import asyncio
from struct import unpack
from typing import Final

from controller.api.errors import NoUpstream
from controller.api.front.streams import READ_AHEAD_BYTES, copy, time_limit, write_through
from controller.api.limits import EndpointLimits
from controller.core.values import Endpoint

_HEAD: Final = 8
_SIZE: Final = 4


class Upstream:
    """One connection with one request in flight. It is unusable after an error."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, limits: EndpointLimits
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._answer_seconds_max = limits.request_timeout_ms / 1000
        self._transfer_seconds_max = limits.transfer_ms / 1000

    @classmethod
    async def open(cls, endpoint: Endpoint, limits: EndpointLimits) -> "Upstream":
        """Connect, without a time limit. Raises `NoUpstream`."""
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
        """Whether the broker has not closed the connection, as far as is known."""
        return not self._reader.at_eof() and not self._writer.is_closing()

    async def send(self, beginning: bytes, rest: asyncio.StreamReader, count: int) -> None:
        """Forward a request: its size, its first bytes, and `count` bytes that are still to be
        received. Raises IncompleteReadError, ConnectionError if the client or the broker
        disconnects."""
        size = len(beginning) + count
        self._writer.write(size.to_bytes(_SIZE, "big") + beginning)
        await copy(rest, self._writer, count)
        await self._writer.drain()

    async def send_whole(self, request: bytes) -> None:
        """Forward a request that was received completely. Raises ConnectionError."""
        self._writer.write(len(request).to_bytes(_SIZE, "big") + request)
        await self._writer.drain()

    async def response_start(self) -> bytes:
        """Wait for the first bytes of the broker's response. Raises `NoUpstream`,
        IncompleteReadError, ConnectionError."""
        try:
            async with asyncio.timeout(self._answer_seconds_max):
                return await self._reader.readexactly(_HEAD)
        except TimeoutError as fault:
            raise NoUpstream("a broker did not answer in time (request.timeout.ms)") from fault

    async def forward_response(
        self, beginning: bytes, correlation_id: int, client: asyncio.StreamWriter
    ) -> None:
        """Send the rest of a response to the client, after its first bytes. Raises `NoUpstream`,
        `RequestRejected`, IncompleteReadError, ConnectionError."""
        size, answered = unpack(">ii", beginning)
        if size < _HEAD - _SIZE or answered != correlation_id:
            raise NoUpstream(
                f"the response to request {answered} arrived instead of {correlation_id}"
            )
        async with time_limit(
            self._transfer_seconds_max, "a broker's response was not sent to the client"
        ):
            client.write(beginning)
            await copy(self._reader, client, size - (_HEAD - _SIZE))
            await client.drain()

    def close(self) -> None:
        """Close at once."""
        self._writer.transport.abort()
