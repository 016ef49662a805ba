"""Queries of the front to the daemon, over their link."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Generic, TypeVar

Query = TypeVar("Query")
Answer = TypeVar("Answer")


class DaemonQueries(Generic[Query, Answer]):
    """Queries of one kind that wait for their responses."""

    def __init__(self, send: Callable[[Query], None]) -> None:
        self._send = send
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}

    async def ask(self, query: Callable[[int], Query]) -> Answer:
        """The response to a query, which is made with its number."""
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send(query(number))
            return await self._waiting[number]
        finally:
            del self._waiting[number]

    def answer(self, number: int, answer: Answer) -> None:
        """The daemon's response. The client may have disconnected."""
        waiting = self._waiting.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)
