"""Questions of the front to the daemon, over their link."""

import asyncio
from collections.abc import Callable
from itertools import count
from typing import Generic, TypeVar

Question = TypeVar("Question")
Answer = TypeVar("Answer")


class Questions(Generic[Question, Answer]):
    """Questions of one kind that wait for their answers."""

    def __init__(self, send: Callable[[Question], None]) -> None:
        self._send = send
        self._numbers = count(1)
        self._waiting: dict[int, asyncio.Future[Answer]] = {}

    async def ask(self, question: Callable[[int], Question]) -> Answer:
        """The answer to a question, which is made with its number."""
        number = next(self._numbers)
        self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            self._send(question(number))
            return await self._waiting[number]
        finally:
            del self._waiting[number]

    def arrived(self, number: int, answer: Answer) -> None:
        """The daemon's answer. The client may have disconnected."""
        waiting = self._waiting.get(number)
        if waiting is not None and not waiting.done():
            waiting.set_result(answer)
