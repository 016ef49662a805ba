"""Limits in the front: bytes in memory, bytes per second, queued requests."""

import asyncio
from contextlib import ExitStack

import pytest
from anyio.lowlevel import checkpoint

from controller.api.front.pending_requests import PendingRequests
from controller.api.front.request_quotas import MemoryPool, RateLimiter
from controller.api.messages import RequestReceived
from controller.core.api_requests.producer_ids import (
    AllocateProducerIdsReceived,
    AllocateProducerIdsResponse,
)


async def fits(budget: MemoryPool, count: int) -> bool:
    """Whether `count` bytes are free."""
    try:
        give_back = await asyncio.wait_for(budget.take(count), 0.01)
    except TimeoutError:
        return False
    give_back()
    return True


async def test_memory_is_granted_and_released() -> None:
    budget = MemoryPool(100)
    give_back = await budget.take(60)
    assert await fits(budget, 40)
    assert not await fits(budget, 41)
    give_back()
    assert await fits(budget, 100)


async def test_without_a_limit_every_request_fits() -> None:
    assert await fits(MemoryPool(None), 2**40)


async def test_memory_is_granted_in_order_of_arrival() -> None:
    """A large request is not delayed by small ones that arrive later."""
    budget = MemoryPool(100)
    give_back = await budget.take(60)
    large = asyncio.create_task(budget.take(100))
    await checkpoint()
    small = asyncio.create_task(budget.take(10))
    await checkpoint()
    assert not small.done()
    give_back()
    (await large)()
    await small


async def test_cancelled_waiter_passes_its_turn_to_the_next() -> None:
    budget = MemoryPool(100)
    await budget.take(60)
    large = asyncio.create_task(budget.take(100))
    await checkpoint()
    small = asyncio.create_task(budget.take(40))
    large.cancel()
    await small


async def test_rate_is_kept_over_time() -> None:
    clock = asyncio.get_running_loop().time
    limiter, began = RateLimiter(10_000, burst=2000), clock()
    for _ in range(3):
        await limiter.acquire(1000)
    assert clock() - began < 0.1, "the burst is allowed"
    for _ in range(5):
        await limiter.acquire(1000)
    assert clock() - began >= 0.5


async def test_request_larger_than_the_burst_is_allowed() -> None:
    limiter = RateLimiter(10_000, burst=1000)
    await asyncio.wait_for(limiter.acquire(10_000), 0.5)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(limiter.acquire(1), 0.5)


def event_of(number: int) -> AllocateProducerIdsReceived:
    return AllocateProducerIdsReceived(number, 0, 1, 10)


async def test_resources_of_a_request_are_held_until_the_response() -> None:
    """Also if its client does not wait any more."""
    asked: list[RequestReceived] = []
    pending = PendingRequests(asked.append, first_number=1)
    budget = MemoryPool(100)
    with ExitStack() as held:
        held.callback(await budget.take(100))
        waiting = pending.ask(7, event_of(pending.number()), held.pop_all())
        await checkpoint()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert [one.event.request for one in asked] == [1]
    assert not await fits(budget, 1)
    pending.answered(AllocateProducerIdsResponse(1, 0))
    assert await fits(budget, 100)


async def test_answer_without_a_waiting_request_is_ignored() -> None:
    pending = PendingRequests(lambda _: None, first_number=1)
    pending.answered(AllocateProducerIdsResponse(99, 0))
    waiting = pending.ask(7, event_of(pending.number()), ExitStack())
    await checkpoint()
    assert not waiting.done()
    pending.answered(AllocateProducerIdsResponse(1, 0))
    assert (await waiting).request == 1
