"""Requests that wait for the controller's answer."""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from itertools import count
from typing import NamedTuple

from controller.api.messages import Asked
from controller.core.commands import ApiAnswer
from controller.core.events import ApiRequest


class _Waiting(NamedTuple):
    answer: asyncio.Future[ApiAnswer]
    held: ExitStack


class Desk:
    """Hands requests to the controller, and its answers to who waits for them.

    What a request holds is held until it is answered, whether its client still waits or not:
    clients that come and go cannot fill the controller's queue.
    """

    def __init__(self, send: Callable[[Asked], None], *, first_number: int) -> None:
        self._send = send
        self._numbers = count(first_number)
        self._waiting: dict[int, _Waiting] = {}

    def number(self) -> int:
        """The number of the next request."""
        return next(self._numbers)

    async def ask(self, connection: int, event: ApiRequest, held: ExitStack) -> ApiAnswer:
        """Hand a request over and wait for its answer. What it holds is the desk's from now on."""
        return await self.hand_over(connection, event, held)

    def hand_over(
        self, connection: int, event: ApiRequest, held: ExitStack
    ) -> asyncio.Future[ApiAnswer]:
        """The same for who keeps nothing of the request while it waits: gives what the answer will
        be in."""
        answer: asyncio.Future[ApiAnswer] = asyncio.get_running_loop().create_future()
        self._waiting[event.request] = _Waiting(answer, held)
        self._send(Asked(connection, event))
        return answer

    def answered(self, answer: ApiAnswer) -> None:
        """The controller answers; an answer to a request of an earlier front has no effect."""
        waiting = self._waiting.pop(answer.request, None)
        if waiting is None:
            return
        waiting.held.close()
        if not waiting.answer.done():
            waiting.answer.set_result(answer)
