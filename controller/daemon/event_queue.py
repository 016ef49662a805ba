"""Events that wait to be appended to the log, with their arrival times."""

import time
from typing import Generic, NamedTuple, TypeVar

import anyio

E = TypeVar("E")


class QueuedEvent(NamedTuple, Generic[E]):
    """An event with its arrival times by both clocks, and its channel."""

    wall_ns: int
    mono_ns: int
    channel: str
    event: E


class EventQueue(Generic[E]):
    """A queue of events. Its users bound it: each command has one outcome, and the numbers of
    requests in progress are limited."""

    def __init__(self) -> None:
        self._waiting: list[QueuedEvent[E]] = []
        self._arrived = anyio.Event()

    def add(self, event: E, channel: str) -> None:
        """Add an event that has arrived."""
        self._waiting.append(QueuedEvent(time.time_ns(), time.monotonic_ns(), channel, event))
        self._arrived.set()

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def oldest_arrived_ns(self) -> int | None:
        """When the oldest event arrived, by the monotonic clock; None if there is none."""
        return self._waiting[0].mono_ns if self._waiting else None

    async def wait(self, seconds: float) -> None:
        """Wait for an event, for at most `seconds`."""
        with anyio.move_on_after(seconds):
            await self._arrived.wait()

    def take_all(self) -> list[QueuedEvent[E]]:
        """Remove and return all events."""
        waiting, self._waiting = self._waiting, []
        self._arrived = anyio.Event()
        return waiting
