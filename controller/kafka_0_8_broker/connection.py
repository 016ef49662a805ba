"""A client's connection to a broker: requests with their responses, in any order."""

import asyncio
from typing import Self

from controller.kafka_0_8_broker.errors import BadFrame, NoResponse, Unreachable
from controller.kafka_0_8_broker.messages import Request, Response, framed, read_response


class Connection:
    """An open connection; an async context manager that closes it at its end. Methods raise
    Unreachable, and BadFrame for a request that is too long."""

    def __init__(
        self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Not for callers: use `open`."""
        self._address = address
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[Response]] = {}
        self._requests = 0
        self._fault = ""
        self._reading = asyncio.create_task(self._read_responses(reader))

    @classmethod
    async def open(cls, address: str, timeout_s: float) -> Self:
        """Connect to host:port."""
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(timeout_s):
                reader, writer = await asyncio.open_connection(host, int(port))
        except TimeoutError:
            raise Unreachable(f"no connection to {address} within {timeout_s:g} s") from None
        # A registration may have any text as host, and a port that is too large.
        except (OSError, OverflowError, ValueError) as error:
            raise Unreachable(f"no connection to {address}: {error}") from None
        return cls(address, reader, writer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return not self._fault

    def next_correlation(self) -> int:
        """The number of a new request."""
        self._requests += 1
        return self._requests

    def send(self, request: Request) -> None:
        """Send a request that has no response."""
        if self._fault:
            raise Unreachable(self._fault)
        self._writer.write(framed(request))

    async def ask(self, request: Request, timeout_s: float) -> Response:
        """Send a request and wait for its response. Raises NoResponse if it was sent in vain."""
        answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        self._waiting[request.correlation] = answer
        try:
            self.send(request)
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise NoResponse(f"{self._address} did not answer within {timeout_s:g} s") from None
        finally:
            self._waiting.pop(request.correlation, None)

    async def drain(self) -> None:
        """Wait until what was sent is on its way."""
        try:
            await self._writer.drain()
        except OSError as error:
            raise Unreachable(f"{self._address}: {error}") from None

    async def close(self) -> None:
        """Close the connection."""
        self._end("the connection is closed")
        self._reading.cancel()
        await asyncio.wait([self._reading])

    async def _read_responses(self, reader: asyncio.StreamReader) -> None:
        try:
            while (response := await read_response(reader)) is not None:
                answer = self._waiting.pop(response.correlation, None)
                if answer is not None and not answer.done():
                    answer.set_result(response)
            self._end(f"{self._address} closed the connection")
        except (OSError, BadFrame) as error:
            self._end(f"{self._address}: {error}")

    def _end(self, fault: str) -> None:
        self._fault = self._fault or fault
        self._writer.close()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(NoResponse(self._fault))
