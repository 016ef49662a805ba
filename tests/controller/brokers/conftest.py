"""Channels at work, and what they tell."""

import asyncio
from collections.abc import AsyncIterator, Callable
from struct import pack

import anyio
import pytest

from controller.brokers.channel import ChannelEvent
from controller.brokers.channels import BrokerChannels
from controller.core.events import BrokerAnswered, ChannelFault, VersionsOffered
from tests.scripted_broker import Received, ScriptedBroker


def flexible(received: Received, body: bytes) -> bytes:
    """An answer with a flexible header, as all versions that tests use have it."""
    return received.answer(b"\0" + body)


def no_errors(received: Received) -> bytes:
    """The frame that says that all went well, without naming partitions."""
    return flexible(received, pack(">h", 0) + (b"\0" if received.api_key == 6 else b"\x01\0"))


async def answer_all(received: Received) -> bytes | None:
    return no_errors(received)


class Told:
    """The events that channels told, in order, and on which channel; what brokers offer apart.
    `order` has the kinds of all."""

    def __init__(self) -> None:
        self.events: list[BrokerAnswered | ChannelFault] = []
        self.channels: list[str] = []
        self.offered: list[VersionsOffered] = []
        self.order: list[type[ChannelEvent]] = []
        self._more = anyio.Event()

    def __call__(self, event: ChannelEvent, channel: str) -> None:
        self.order.append(type(event))
        if isinstance(event, VersionsOffered):
            self.offered.append(event)
            return
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
    return ScriptedBroker(answer_all)


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
