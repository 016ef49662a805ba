"""Bounds inside the front: bytes that are held, and requests that wait."""

import asyncio

import pytest

from controller.api.front.budget import Budget, Charge
from controller.api.front.desk import Desk
from controller.api.messages import Asked
from controller.core.commands import AnswerAllocateProducerIds
from controller.core.events import AllocateProducerIdsReceived


async def test_more_is_charged_only_when_others_have_given_back() -> None:
    budget = Budget(100)
    with Charge(budget) as second:
        with Charge(budget) as first:
            await first.add(60)
            waiting = asyncio.create_task(second.add(60))
            await asyncio.sleep(0)
            assert not waiting.done()
        await waiting
        kept = second.hand_over()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(Charge(budget).add(60), 0.01)
    kept.release()
    await Charge(budget).add(100)


async def test_a_client_that_goes_while_it_waits_for_a_place_leaves_nothing_behind() -> None:
    asked: list[Asked] = []
    budget = Budget(10)
    desk = Desk(asked.append, first_number=1, waiting_max=1)

    async def ask(size: int) -> None:
        charge = Charge(budget)
        await charge.add(size)
        event = AllocateProducerIdsReceived(desk.number(), 0, 1, 10)
        await desk.ask(7, event, charge)

    first, second = asyncio.create_task(ask(1)), asyncio.create_task(ask(9))
    while not asked:
        await asyncio.sleep(0)
    for task in (first, second):
        task.cancel()
    await asyncio.wait([first, second])
    await Charge(budget).add(9)
    desk.answered(AnswerAllocateProducerIds(1, 0))
    await Charge(budget).add(1)
    third = asyncio.create_task(ask(0))
    while len(asked) < 2:
        await asyncio.sleep(0)
    desk.answered(AnswerAllocateProducerIds(3, 0))
    await third
    desk.answered(AnswerAllocateProducerIds(99, 0))
