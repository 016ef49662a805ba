"""How many bytes of requests that are held as a whole there may be, over all connections."""

import asyncio
from types import TracebackType
from typing import Self


class Budget:
    """Bytes that may be held at a time."""

    def __init__(self, bytes_max: int) -> None:
        self._free = bytes_max
        self._freed = asyncio.Event()

    async def take(self, count: int) -> None:
        """Wait until so many bytes are free."""
        while self._free < count:
            self._freed.clear()
            await self._freed.wait()
        self._free -= count

    def give_back(self, count: int) -> None:
        """So many bytes are held no more."""
        self._free += count
        self._freed.set()


class Charge:
    """What one request holds; given back at the end of the block unless it was handed over.

    It is charged for what has come, never for what a client says will come.
    """

    def __init__(self, budget: Budget, count: int = 0) -> None:
        self._budget = budget
        self._count = count

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()

    async def add(self, count: int) -> None:
        """Hold more, once there is room for it."""
        await self._budget.take(count)
        self._count += count

    def hand_over(self) -> "Charge":
        """The same charge for another holder; nothing is left of this one."""
        other = Charge(self._budget, self._count)
        self._count = 0
        return other

    def release(self) -> None:
        """Hold nothing any more."""
        self._budget.give_back(self._count)
        self._count = 0
