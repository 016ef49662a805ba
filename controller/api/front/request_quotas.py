"""Separate quotas for requests that the front reads as a whole: for brokers, admin tools and
others.

Quotas share no resource, so a sender that exhausts one does not delay requests of another. The
sender that a request to the controller names decides which quota applies. That is only a
classification: the controller validates the sender.
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
from controller.api.limits import EndpointLimits
from controller.wire.admin.apis import ADMIN_APIS

T = TypeVar("T")

SMALL_BYTES: Final = 64 * 1024
"""A request up to this size needs no reserved memory and is decoded at once."""

_RECORD_BYTES: Final = 256
"""The size of the smallest request in the event log."""
_TOO_MANY: Final = "a request waited too long because of other requests"


class MemoryPool:
    """A number of bytes that requests may hold at a time; None means no limit. First come, first
    served.

    Memory for a whole request is reserved before the request is read, so that no request holds
    memory while it waits for more.
    """

    def __init__(self, bytes_max: int | None) -> None:
        self._free = sys.maxsize if bytes_max is None else bytes_max
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    async def take(self, count: int) -> Callable[[], None]:
        """Wait until `count` bytes are free. Return a function that releases them, to be called
        once."""
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
    """Limits bytes or connections per second, with up to `burst` of them ahead of the rate. First
    come, first served."""

    def __init__(self, per_second: int, burst: int) -> None:
        self._per_second = per_second
        self._ahead_seconds_max = burst / per_second
        self._turn = asyncio.Lock()
        self._paid_until = 0.0

    async def acquire(self, count: int) -> None:
        """Wait until `count` requests are allowed."""
        now = asyncio.get_running_loop().time
        async with self._turn:
            await asyncio.sleep(max(self._paid_until - self._ahead_seconds_max - now(), 0))
            self._paid_until = max(self._paid_until, now()) + count / self._per_second


def _one_thread() -> Executor:
    return ThreadPoolExecutor(1, thread_name_prefix="coder")


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestQuota:
    """The resources that requests of one kind of sender may use. They are released when a
    request's `held` is closed."""

    priority: ConnectionPriority
    """The priority of a connection that sends such requests."""
    bytes_max: int
    """Size limit of one request."""
    memory: MemoryPool
    """For large requests together, from when they are read until they are answered."""
    turns: dict[tuple[int, int], asyncio.Lock] = field(default_factory=dict)
    """By broker and API: a broker may have one such request in progress. A client that forges a
    broker's id and epoch delays only that broker."""
    read_seconds_max: float
    """Time to receive a large request once its memory is reserved."""
    slots: asyncio.Semaphore
    """For requests that the controller has not carried out."""
    rate_limiter: RateLimiter | None = None
    """Limits the rate at which requests are passed to the controller."""
    executor: Executor = field(default_factory=_one_thread)
    """Decodes bodies that would block the event loop: large ones, those of tools, and those that
    kio decodes."""

    def check_size(self, size: int) -> None:
        """Refuse a request that is too large: raises `RequestRejected`."""
        if size > self.bytes_max:
            raise RequestRejected(
                f"a request of {size} bytes, at most {self.bytes_max} are allowed"
            )

    async def wait_for_turn(
        self, broker: int, api_key: int, held: ExitStack, deadline: float
    ) -> None:
        """Wait until no other such request of the broker is in progress. Raises
        `RequestRejected`."""
        turn = self.turns.setdefault((broker, api_key), asyncio.Lock())
        async with before_deadline(
            deadline, f"not done because another such request of broker {broker} was in progress"
        ):
            await turn.acquire()
        held.callback(turn.release)

    async def reserve_memory(self, size: int, held: ExitStack, deadline: float) -> None:
        """Wait until memory for a large request is free. Raises `RequestRejected`."""
        async with before_deadline(deadline, "there was no memory for a large request"):
            held.callback(await self.memory.take(size))

    async def reserve_slot(self, size: int, held: ExitStack, deadline: float) -> None:
        """Wait until a request may be passed to the controller. Raises `RequestRejected`."""
        if self.rate_limiter is None:
            await self.slots.acquire()
        else:
            await self.throttle(size, deadline)
            async with before_deadline(deadline, _TOO_MANY):
                await self.slots.acquire()
        held.callback(self.slots.release)

    async def throttle(self, size: int, deadline: float) -> None:
        """Wait until the rate limit allows a request. Raises `RequestRejected`."""
        if self.rate_limiter is not None:
            async with before_deadline(deadline, _TOO_MANY):
                await self.rate_limiter.acquire(_RECORD_BYTES + size)

    async def try_reserve_slot(self, held: ExitStack, deadline: float) -> bool:
        """Wait for a slot at the controller. Return whether there was one in time."""
        try:
            async with asyncio.timeout_at(deadline):
                await asyncio.sleep(0)  # Ends here if the deadline has passed already.
                await self.slots.acquire()
        except TimeoutError:
            return False
        held.callback(self.slots.release)
        return True

    async def run_in_thread(self, work: Callable[[], T]) -> T:
        """Run `work` in the quota's thread and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self.executor, work)


class RequestQuotas:
    """The quotas of a front. Admin requests whose response may wait for brokers have separate
    slots, so that any number of them does not delay the others."""

    def __init__(self, limits: EndpointLimits) -> None:
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
        """The quota of a request of which only the header is known."""
        if way is Route.CONTROLLER:
            return self.of_brokers
        if way is not Route.CONTROLLER_BY_TOOL:
            return self.of_others
        return self._of_waiting_tools if ADMIN_APIS[api_key].may_wait else self._of_tools


def _of_clients(limits: EndpointLimits, bytes_max: int) -> RequestQuota:
    return RequestQuota(
        priority=ConnectionPriority.CLIENT,
        bytes_max=bytes_max,
        memory=MemoryPool(bytes_max),
        read_seconds_max=limits.large_transfer_ms / 1000,
        slots=asyncio.Semaphore(max(limits.waiting_requests_max // 10, 1)),
        rate_limiter=RateLimiter(limits.other_bytes_per_second, burst=bytes_max),
    )
