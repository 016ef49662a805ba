"""Channels at work, and what they tell."""

import asyncio
from collections.abc import AsyncIterator, Callable

import anyio
import pytest

from controller.brokers.channels import BrokerChannels
from controller.core.events import BrokerAnswered, ChannelFault
from tests.brokers.scripted_broker import ScriptedBroker


class Told:
    """The events that channels told, in order, and on which channel."""

    def __init__(self) -> None:
        self.events: list[BrokerAnswered | ChannelFault] = []
        self.channels: list[str] = []
        self._more = anyio.Event()

    def __call__(self, event: BrokerAnswered | ChannelFault, channel: str) -> None:
        self.events.append(event)
        self.channels.append(channel)
        self._more.set()

    async def wait(self, count: int) -> list[BrokerAnswered | ChannelFault]:
        """Until there are so many events."""
        while len(self.events) < count:
            self._more = anyio.Event()
            await self._more.wait()
        return self.events


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker()


@pytest.fixture
async def start(told: Told) -> AsyncIterator[Callable[..., BrokerChannels]]:
    """Make channels that work until the test ends."""
    running: list[asyncio.Task[None]] = []

    def started(**settings: int) -> BrokerChannels:
        channels = BrokerChannels(told, client_id="1000", **settings)
        running.append(asyncio.create_task(channels.run()))
        return channels

    yield started
    for task in running:
        task.cancel()
    await asyncio.wait(running)


@pytest.fixture
async def channels(start: Callable[..., BrokerChannels]) -> BrokerChannels:
    return start()
