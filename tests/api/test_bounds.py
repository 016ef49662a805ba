"""Bounds inside the front: bytes that are held, and requests that wait."""

import asyncio

import pytest

from controller.api.front.budget import Budget, Charge
from controller.api.front.desk import Desk
from controller.api.messages import Asked
from controller.core.commands import AnswerAllocateProducerIds
from controller.core.events import AllocateProducerIdsReceived


def never_dropped() -> None:
    raise AssertionError("dropped")


async def fits(budget: Budget, count: int) -> bool:
    """Whether so many bytes are free."""
    with Charge(budget) as charge:
        try:
            await asyncio.wait_for(charge.add(count, never_dropped), 0.01)
        except TimeoutError:
            return False
    return True


async def test_what_is_handed_over_is_held_until_it_is_released() -> None:
    budget = Budget(100)
    with Charge(budget) as charge:
        await charge.add(60, never_dropped)
        charge.is_whole()
        kept = charge.hand_over()
    assert await fits(budget, 40)
    assert not await fits(budget, 41)
    kept.release()
    assert await fits(budget, 100)


async def test_without_a_limit_everything_fits() -> None:
    assert await fits(Budget(None), 2**40)


async def test_who_sent_nothing_for_the_longest_time_goes_for_another() -> None:
    budget = Budget(100)
    charges = {name: Charge(budget) for name in "abc"}
    dropped: list[str] = []

    async def add(name: str, count: int) -> None:
        await charges[name].add(count, lambda: dropped.append(name))

    for name in ("a", "b", "a"):
        await add(name, 30)
    waiting = asyncio.create_task(add("c", 50))
    await asyncio.sleep(0)
    assert dropped == ["b"], "a has sent something since"
    charges["b"].release()
    await asyncio.sleep(0)
    assert dropped == ["b", "a"], "what b held was not enough"
    charges["a"].release()
    await waiting


async def test_a_whole_request_is_waited_for_and_not_dropped() -> None:
    budget = Budget(100)
    with Charge(budget) as late:
        with Charge(budget) as whole:
            await whole.add(100, never_dropped)
            whole.is_whole()
            waiting = asyncio.create_task(late.add(1, never_dropped))
            await asyncio.sleep(0)
            assert not waiting.done()
        await waiting


async def test_one_that_became_whole_before_it_ended_leaves_its_turn_to_the_next() -> None:
    budget = Budget(100)
    first, second, late = Charge(budget), Charge(budget), Charge(budget)
    dropped: list[str] = []
    await first.add(50, lambda: dropped.append("first"))
    await second.add(50, lambda: dropped.append("second"))
    waiting = asyncio.create_task(late.add(50, never_dropped))
    await asyncio.sleep(0)
    first.is_whole()
    await asyncio.sleep(0)
    assert dropped == ["first", "second"]
    second.release()
    await waiting


async def test_a_client_that_goes_while_it_waits_for_a_place_leaves_nothing_behind() -> None:
    asked: list[Asked] = []
    budget = Budget(10)
    desk = Desk(asked.append, first_number=1, waiting_max=1)

    async def ask(size: int) -> None:
        charge = Charge(budget)
        await charge.add(size, never_dropped)
        charge.is_whole()
        event = AllocateProducerIdsReceived(desk.number(), 0, 1, 10)
        await desk.ask(7, event, charge)

    first, second = asyncio.create_task(ask(1)), asyncio.create_task(ask(9))
    while not asked:
        await asyncio.sleep(0)
    for task in (first, second):
        task.cancel()
    await asyncio.wait([first, second])
    assert await fits(budget, 9)
    assert not await fits(budget, 10), "the first has still its place"
    desk.answered(AnswerAllocateProducerIds(1, 0))
    assert await fits(budget, 10)
    third = asyncio.create_task(ask(0))
    while len(asked) < 2:
        await asyncio.sleep(0)
    desk.answered(AnswerAllocateProducerIds(3, 0))
    await third


async def test_an_answer_that_nobody_waits_for_frees_no_place() -> None:
    asked: list[Asked] = []
    desk = Desk(asked.append, first_number=1, waiting_max=1)
    desk.answered(AnswerAllocateProducerIds(99, 0))
    events = [AllocateProducerIdsReceived(desk.number(), 0, 1, 10) for _ in range(2)]
    waiting = [asyncio.create_task(desk.ask(7, one, Charge(Budget(1)))) for one in events]
    for _ in range(3):
        await asyncio.sleep(0)
    assert [one.event.request for one in asked] == [1]
    for task in waiting:
        task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting[1]
