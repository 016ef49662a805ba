"""The ways in for requests that the front reads as a whole: one for brokers, one for admin tools,
one for the others.

They share nothing that runs out: whoever fills one holds nobody up in another. Of what brokers ask
of the controller the sender that a request names decides whether it takes theirs. That only sorts:
the controller judges it.
"""

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from controller.api.errors import RequestRejected
from controller.api.front.admission import ConnectionPriority
from controller.api.front.routing import Route
from controller.api.front.streams import before_deadline
from controller.api.limits import Limits
from controller.wire.admin_requests import MAY_WAIT

T = TypeVar("T")

SMALL_BYTES: Final = 64 * 1024
"""A request up to this size needs no room, and is decoded at once."""

_RECORD_BYTES: Final = 256
"""What the smallest request costs the event log."""
_TOO_MANY: Final = "a request had to wait for too many others"


class MemoryPool:
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


class RateLimiter:
    """Bytes that may go on in a second, up to `burst` of them ahead of it. First come, first
    served."""

    def __init__(self, bytes_per_second: int, burst: int) -> None:
        self._bytes_per_second = bytes_per_second
        self._ahead_seconds_max = burst / bytes_per_second
        self._turn = asyncio.Lock()
        self._paid_until = 0.0

    async def acquire(self, count: int) -> None:
        """Wait until so many bytes may go on."""
        now = asyncio.get_running_loop().time
        async with self._turn:
            await asyncio.sleep(max(self._paid_until - self._ahead_seconds_max - now(), 0))
            self._paid_until = max(self._paid_until, now()) + count / self._bytes_per_second


def _one_thread() -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix="coder")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestQuota:
    """What the requests of one kind of sender may take. What one has taken is given back when its
    `held` is closed."""

    priority: ConnectionPriority
    """Of a connection that sends them."""
    bytes_max: int
    """For one request."""
    memory: MemoryPool
    """For large ones together, from when they are read on until they are answered."""
    turns: dict[tuple[int, int], asyncio.Lock] = field(default_factory=dict)
    """For each broker and API: a broker has one such request under way. Who has its id and epoch,
    too, holds up that one broker, not all."""
    read_seconds_max: float
    """For a large one to come when it has its room."""
    slots: asyncio.Semaphore
    """For those that the controller has not carried out."""
    rate_limiter: RateLimiter | None = None
    """At which they go to the controller."""
    executor: Executor = field(default_factory=_one_thread)
    """For bodies that the event loop had to wait for: large ones, those of tools, and those that
    kio reads."""

    def check_size(self, size: int) -> None:
        """Raises `RequestRejected` for a request that is too large."""
        if size > self.bytes_max:
            raise RequestRejected(f"a request of {size} bytes where {self.bytes_max} are the most")

    async def wait_for_turn(
        self, broker: int, api_key: int, held: ExitStack, deadline: float
    ) -> None:
        """Wait until no other such request of that broker is under way. Raises `RequestRejected`."""
        turn = self.turns.setdefault((broker, api_key), asyncio.Lock())
        async with before_deadline(
            deadline, f"broker {broker} had another such request under way: not done"
        ):
            await turn.acquire()
        held.callback(turn.release)

    async def reserve_memory(self, size: int, held: ExitStack, deadline: float) -> None:
        """Wait until a large request may come. Raises `RequestRejected`."""
        async with before_deadline(deadline, "a large request found no room"):
            held.callback(await self.memory.take(size))

    async def reserve_slot(self, size: int, held: ExitStack, deadline: float) -> None:
        """Wait until a request may go to the controller. Raises `RequestRejected`."""
        if self.rate_limiter is None:
            await self.slots.acquire()
        else:
            await self.throttle(size, deadline)
            async with before_deadline(deadline, _TOO_MANY):
                await self.slots.acquire()
        held.callback(self.slots.release)

    async def throttle(self, size: int, deadline: float) -> None:
        """Wait until the pace lets a request go on. Raises `RequestRejected`."""
        if self.rate_limiter is not None:
            async with before_deadline(deadline, _TOO_MANY):
                await self.rate_limiter.acquire(_RECORD_BYTES + size)

    async def try_reserve_slot(self, held: ExitStack, deadline: float) -> bool:
        """Wait for a place at the controller; whether there was one in time."""
        try:
            async with asyncio.timeout_at(deadline):
                await asyncio.sleep(0)  # Where the time is over already it ends here.
                await self.slots.acquire()
        except TimeoutError:
            return False
        held.callback(self.slots.release)
        return True

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """What `work` gives that is done beside the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.executor, work)


class RequestQuotas:
    """The lanes of a front. Requests of admin tools whose answer may wait for brokers have places
    of their own: however many wait, the others are answered."""

    def __init__(self, limits: Limits) -> None:
        self.of_brokers = RequestQuota(
            priority=ConnectionPriority.BROKER,
            bytes_max=limits.controller_request_bytes_max,
            memory=MemoryPool(limits.whole_bytes_max),
            read_seconds_max=limits.large_transfer_ms / 1000,
            slots=asyncio.Semaphore(limits.waiting_requests_max),
        )
        self.of_others = _of_clients(limits, limits.other_request_bytes_max)
        self._of_tools = _of_clients(limits, limits.tool_request_bytes_max)
        self._of_waiting_tools = replace(
            self._of_tools, slots=asyncio.Semaphore(limits.waiting_requests_max)
        )

    def initial_quota(self, way: Route, api_key: int) -> RequestQuota:
        """The lane of a request of which only the head is known."""
        if way is Route.CONTROLLER:
            return self.of_brokers
        if way is not Route.CONTROLLER_BY_TOOL:
            return self.of_others
        return self._of_waiting_tools if api_key in MAY_WAIT else self._of_tools


def _of_clients(limits: Limits, bytes_max: int) -> RequestQuota:
    return RequestQuota(
        priority=ConnectionPriority.CLIENT,
        bytes_max=bytes_max,
        memory=MemoryPool(bytes_max),
        read_seconds_max=limits.large_transfer_ms / 1000,
        slots=asyncio.Semaphore(max(limits.waiting_requests_max // 10, 1)),
        rate_limiter=RateLimiter(limits.other_bytes_per_second, burst=bytes_max),
    )
