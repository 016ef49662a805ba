"""Requests that wait for the controller's response."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from typing import NamedTuple

from controller.api.messages import RequestReceived
from controller.core.api_requests import ApiRequest, ApiResponse


class _Waiting(NamedTuple):
    answer: asyncio.Future[ApiResponse]
    held: ExitStack


class PendingRequests:
    """Submits requests to the controller and passes its responses to the waiting connections.

    A request's resources are held until it is carried out, even if its client disconnects: clients
    that come and go cannot fill the controller's queue.
    """

    def __init__(self, send: Callable[[RequestReceived], None], *, first_number: int) -> None:
        self._send = send
        self._numbers = count(first_number)
        self._waiting: dict[int, _Waiting] = {}
        self._throttled_until_ms: dict[int, int] = {}
        self._undelivered: set[asyncio.Future[ApiResponse]] = set()
        self._delivered = asyncio.Event()

    def number(self) -> int:
        """A number for the next request."""
        return next(self._numbers)

    def ask(
        self, connection: int, event: ApiRequest, held: ExitStack
    ) -> asyncio.Future[ApiResponse]:
        """Submit a request; its response can be awaited. The request owns `held` until it is
        carried out."""
        answer: asyncio.Future[ApiResponse] = asyncio.get_running_loop().create_future()
        self._waiting[event.request] = _Waiting(answer, held)
        self._undelivered.add(answer)
        self._send(RequestReceived(connection, event))
        return answer

    def refused(self, response: ApiResponse) -> asyncio.Future[ApiResponse]:
        """A response to a request that is not submitted to the controller."""
        given: asyncio.Future[ApiResponse] = asyncio.get_running_loop().create_future()
        given.set_result(response)
        return given

    @asynccontextmanager
    async def delivering(self, response: asyncio.Future[ApiResponse]) -> AsyncIterator[ApiResponse]:
        """Wait for a response. At the end of the block the client has received it, or never
        will."""
        try:
            yield await response
        finally:
            self._undelivered.discard(response)
            self._delivered.set()

    async def wait_until_delivered(self) -> None:
        """Wait until clients have received all responses of the controller."""
        while any(one.done() for one in self._undelivered):
            self._delivered.clear()
            await self._delivered.wait()

    def defer(self, request: int) -> None:
        """A request is carried out and its response is deferred: release its resources."""
        waiting = self._waiting.get(request)
        if waiting is not None:
            waiting.held.close()

    def throttled(self, request: int, until_ms: int) -> None:
        """The client of a request is throttled until that wall clock."""
        if request in self._waiting:
            self._throttled_until_ms[request] = until_ms

    def take_throttle_ms(self, request: int) -> int:
        """How long the client of an answered request is throttled from now on; 0: not at all."""
        until_ms = self._throttled_until_ms.pop(request, 0)
        return max(until_ms - time.time_ns() // 1_000_000, 0)

    def answered(self, response: ApiResponse) -> None:
        """The controller responds. A response to a request of an earlier front is ignored."""
        waiting = self._waiting.pop(response.request, None)
        if waiting is None:
            return
        waiting.held.close()
        if waiting.answer.done():
            self._throttled_until_ms.pop(response.request, None)
        else:
            waiting.answer.set_result(response)
