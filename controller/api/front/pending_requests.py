"""Requests that wait for the controller's answer."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from typing import NamedTuple

from controller.api.messages import Asked
from controller.core.commands import ApiAnswer
from controller.core.events import ApiRequest


class _Waiting(NamedTuple):
    answer: asyncio.Future[ApiAnswer]
    held: ExitStack


class PendingRequests:
    """Hands requests to the controller, and its answers to who waits for them.

    What a request holds is held until it is carried out, whether its client still waits or not:
    clients that come and go cannot fill the controller's queue.
    """

    def __init__(self, send: Callable[[Asked], None], *, first_number: int) -> None:
        self._send = send
        self._numbers = count(first_number)
        self._waiting: dict[int, _Waiting] = {}
        self._undelivered: set[asyncio.Future[ApiAnswer]] = set()
        self._delivered = asyncio.Event()

    def number(self) -> int:
        """The number of the next request."""
        return next(self._numbers)

    def ask(self, connection: int, event: ApiRequest, held: ExitStack) -> asyncio.Future[ApiAnswer]:
        """Hand a request over; its answer can be awaited. What it holds is the desk's from now
        on."""
        answer: asyncio.Future[ApiAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[event.request] = _Waiting(answer, held)
        self._undelivered.add(answer)
        self._send(Asked(connection, event))
        return answer

    def refused(self, answer: ApiAnswer) -> asyncio.Future[ApiAnswer]:
        """The answer to a request that does not go to the controller."""
        given: asyncio.Future[ApiAnswer] = asyncio.get_running_loop().create_future()
        given.set_result(answer)
        return given

    @asynccontextmanager
    async def taking(self, answer: asyncio.Future[ApiAnswer]) -> AsyncIterator[ApiAnswer]:
        """Wait for an answer; at the end of the block its client has it, or never will."""
        try:
            yield await answer
        finally:
            self._undelivered.discard(answer)
            self._delivered.set()

    async def all_delivered(self) -> None:
        """Wait until clients have the answers that the controller gave."""
        while any(one.done() for one in self._undelivered):
            self._delivered.clear()
            await self._delivered.wait()

    def later(self, request: int) -> None:
        """A request is carried out and its answer waits: what it holds is free."""
        waiting = self._waiting.get(request)
        if waiting is not None:
            waiting.held.close()

    def answered(self, answer: ApiAnswer) -> None:
        """The controller answers; an answer to a request of an earlier front has no effect."""
        waiting = self._waiting.pop(answer.request, None)
        if waiting is None:
            return
        waiting.held.close()
        if not waiting.answer.done():
            waiting.answer.set_result(answer)
