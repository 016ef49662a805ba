"""The ways in for requests that the front reads as a whole: one for brokers, one for admin tools,
one for the others.

They share nothing that runs out: whoever fills one holds nobody up in another. Of what brokers ask
of the controller the sender that a request names decides whether it takes theirs. That only sorts:
the controller judges it.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from controller.api.errors import Refused
from controller.api.front.admission import Worth
from controller.api.front.budget import Budget, Pace
from controller.api.front.routing import Route
from controller.api.front.streams import until
from controller.api.limits import Limits
from controller.wire.admin_requests import MAY_WAIT

T = TypeVar("T")

SMALL_BYTES: Final = 64 * 1024
"""A request up to this size needs no room, and is decoded at once."""

_RECORD_BYTES: Final = 256
"""What the smallest request costs the event log."""
_TOO_MANY: Final = "a request had to wait for too many others"


def _one_thread() -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix="coder")


@dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """What the requests of one kind of sender may take. What one has taken is given back when its
    `held` is closed."""

    worth: Worth
    """Of a connection that sends them."""
    bytes_max: int
    """For one request."""
    room: Budget
    """For large ones together, from when they are read on until they are answered."""
    turns: dict[tuple[int, int], asyncio.Lock] = field(default_factory=dict)
    """For each broker and API: a broker has one such request under way. Who has its id and epoch,
    too, holds up that one broker, not all."""
    read_seconds_max: float
    """For a large one to come when it has its room."""
    places: asyncio.Semaphore
    """For those that the controller has not carried out."""
    pace: Pace | None = None
    """At which they go to the controller."""
    coder: Executor = field(default_factory=_one_thread)
    """For bodies that the event loop had to wait for: large ones, those of tools, and those that
    kio reads."""

    def check_size(self, size: int) -> None:
        """Raises `Refused` for a request that is too large."""
        if size > self.bytes_max:
            raise Refused(f"a request of {size} bytes where {self.bytes_max} are the most")

    async def find_turn(self, broker: int, api_key: int, held: ExitStack, deadline: float) -> None:
        """Wait until no other such request of that broker is under way. Raises `Refused`."""
        turn = self.turns.setdefault((broker, api_key), asyncio.Lock())
        async with until(deadline, f"broker {broker} had another such request under way: not done"):
            await turn.acquire()
        held.callback(turn.release)

    async def find_room(self, size: int, held: ExitStack, deadline: float) -> None:
        """Wait until a large request may come. Raises `Refused`."""
        async with until(deadline, "a large request found no room"):
            held.callback(await self.room.take(size))

    async def find_place(self, size: int, held: ExitStack, deadline: float) -> None:
        """Wait until a request may go to the controller. Raises `Refused`."""
        if self.pace is None:
            await self.places.acquire()
        else:
            await self.pay(size, deadline)
            async with until(deadline, _TOO_MANY):
                await self.places.acquire()
        held.callback(self.places.release)

    async def pay(self, size: int, deadline: float) -> None:
        """Wait until the pace lets a request go on. Raises `Refused`."""
        if self.pace is not None:
            async with until(deadline, _TOO_MANY):
                await self.pace.pay(_RECORD_BYTES + size)

    async def has_place(self, held: ExitStack, deadline: float) -> bool:
        """Wait for a place at the controller; whether there was one in time."""
        try:
            async with asyncio.timeout_at(deadline):
                await asyncio.sleep(0)  # Where the time is over already it ends here.
                await self.places.acquire()
        except TimeoutError:
            return False
        held.callback(self.places.release)
        return True

    async def beside(self, work: Callable[[], T]) -> T:
        """What `work` gives that is done beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.coder, work)


class Lanes:
    """The lanes of a front. Requests of admin tools whose answer may wait for brokers have places
    of their own: however many wait, the others are answered."""

    def __init__(self, limits: Limits) -> None:
        self.of_brokers = Lane(
            worth=Worth.BROKER,
            bytes_max=limits.controller_request_bytes_max,
            room=Budget(limits.whole_bytes_max),
            read_seconds_max=limits.large_transfer_ms / 1000,
            places=asyncio.Semaphore(limits.waiting_requests_max),
        )
        self.of_others = _of_clients(limits, limits.other_request_bytes_max)
        self._of_tools = _of_clients(limits, limits.tool_request_bytes_max)
        self._of_tools_that_wait = replace(
            self._of_tools, places=asyncio.Semaphore(limits.waiting_requests_max)
        )

    def first_of(self, way: Route, api_key: int) -> Lane:
        """The lane of a request of which only the head is known."""
        if way is Route.CONTROLLER:
            return self.of_brokers
        if way is not Route.CONTROLLER_BY_TOOL:
            return self.of_others
        return self._of_tools_that_wait if api_key in MAY_WAIT else self._of_tools


def _of_clients(limits: Limits, bytes_max: int) -> Lane:
    return Lane(
        worth=Worth.CLIENT,
        bytes_max=bytes_max,
        room=Budget(bytes_max),
        read_seconds_max=limits.large_transfer_ms / 1000,
        places=asyncio.Semaphore(max(limits.waiting_requests_max // 10, 1)),
        pace=Pace(limits.other_bytes_per_second, burst=bytes_max),
    )
