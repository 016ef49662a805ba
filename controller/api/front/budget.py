"""How much may come, and how fast."""

import asyncio
import sys
from collections.abc import Callable
from functools import partial


class Budget:
    """Bytes that may be held at a time; None: as many as come. First come, first served.

    Room is taken for the whole of a request before it is read on: none that holds some waits for
    more.
    """

    def __init__(self, bytes_max: int | None) -> None:
        self._free = sys.maxsize if bytes_max is None else bytes_max
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    async def take(self, count: int) -> Callable[[], None]:
        """Wait until so many bytes are free; gives what gives them back, to be called once."""
        async with self._turn:
            while self._free < count:
                self._freed.clear()
                await self._freed.wait()
            self._free -= count
        return partial(self._give_back, count)

    def _give_back(self, count: int) -> None:
        self._free += count
        self._freed.set()


class Pace:
    """Bytes that may go on in a second, up to `burst` of them ahead of it. First come, first
    served."""

    def __init__(self, bytes_per_second: int, burst: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._ahead_seconds_max = burst / bytes_per_second
        self._turn = asyncio.Lock()
        self._paid_until = 0.0

    async def pay(self, count: int) -> None:
        """Wait until so many bytes may go on."""
        now = asyncio.get_running_loop().time
        async with self._turn:
            await asyncio.sleep(max(self._paid_until - self._ahead_seconds_max - now(), 0))
            self._paid_until = max(self._paid_until, now()) + count / self._bytes_per_second
