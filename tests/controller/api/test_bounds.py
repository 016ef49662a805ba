"""Bounds inside the front: bytes that are held, bytes in a second, requests that wait."""

import asyncio
from contextlib import ExitStack

import pytest

from controller.api.front.budget import Budget, Pace
from controller.api.front.pending_requests import PendingRequests
from controller.api.messages import Asked
from controller.core.commands import AnswerAllocateProducerIds
from controller.core.events import AllocateProducerIdsReceived


async def fits(budget: Budget, count: int) -> bool:
    """Whether so many bytes are free."""
    try:
        give_back = await asyncio.wait_for(budget.take(count), 0.01)
    except TimeoutError:
        return False
    give_back()
    return True


async def test_room_is_taken_and_given_back() -> None:
    budget = Budget(100)
    give_back = await budget.take(60)
    assert await fits(budget, 40)
    assert not await fits(budget, 41)
    give_back()
    assert await fits(budget, 100)


async def test_without_a_limit_everything_fits() -> None:
    assert await fits(Budget(None), 2**40)


async def test_who_came_first_is_served_first() -> None:
    """A large one is not kept waiting by small ones that come after it."""
    budget = Budget(100)
    give_back = await budget.take(60)
    large = asyncio.create_task(budget.take(100))
    await asyncio.sleep(0)
    small = asyncio.create_task(budget.take(10))
    await asyncio.sleep(0)
    assert not small.done()
    give_back()
    (await large)()
    await small


async def test_who_goes_while_it_waits_leaves_its_turn_to_the_next() -> None:
    budget = Budget(100)
    await budget.take(60)
    large = asyncio.create_task(budget.take(100))
    await asyncio.sleep(0)
    small = asyncio.create_task(budget.take(40))
    large.cancel()
    await small


async def test_a_pace_is_kept_over_time() -> None:
    clock = asyncio.get_running_loop().time
    pace, began = Pace(10_000, burst=2000), clock()
    for _ in range(3):
        await pace.pay(1000)
    assert clock() - began < 0.1, "so much may go ahead"
    for _ in range(5):
        await pace.pay(1000)
    assert clock() - began >= 0.5


async def test_what_is_larger_than_the_burst_goes_all_the_same() -> None:
    pace = Pace(10_000, burst=1000)
    await asyncio.wait_for(pace.pay(10_000), 0.5)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(pace.pay(1), 0.5)


def event_of(number: int) -> AllocateProducerIdsReceived:
    return AllocateProducerIdsReceived(number, 0, 1, 10)


async def test_what_a_request_holds_is_held_until_it_is_answered() -> None:
    """Also when its client does not wait for it any more."""
    asked: list[Asked] = []
    desk = PendingRequests(asked.append, first_number=1)
    budget = Budget(100)
    with ExitStack() as held:
        held.callback(await budget.take(100))
        waiting = desk.ask(7, event_of(desk.number()), held.pop_all())
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert [one.event.request for one in asked] == [1]
    assert not await fits(budget, 1)
    desk.answered(AnswerAllocateProducerIds(1, 0))
    assert await fits(budget, 100)


async def test_an_answer_that_nobody_waits_for_changes_nothing() -> None:
    desk = PendingRequests(lambda _: None, first_number=1)
    desk.answered(AnswerAllocateProducerIds(99, 0))
    waiting = desk.ask(7, event_of(desk.number()), ExitStack())
    await asyncio.sleep(0)
    assert not waiting.done()
    desk.answered(AnswerAllocateProducerIds(1, 0))
    assert (await waiting).request == 1
