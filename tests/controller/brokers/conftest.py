"""Running channels, and the events that they report."""

import asyncio
from collections.abc import AsyncIterator, Callable
from struct import pack
from typing import Any

import anyio
import pytest

from controller.brokers.channel import ChannelEvent
from controller.brokers.channels import BrokerChannels
from controller.core.events import (
    BrokerProbed,
    BrokerResponded,
    ChannelFault,
    VersionsOffered,
)
from tests.scripted_broker import Received, ScriptedBroker


def flexible(received: Received, body: bytes) -> bytes:
    """A response with a flexible header, which all versions in these tests use."""
    return received.answer(b"\0" + body)


def no_errors(received: Received) -> bytes:
    """A successful answer without partitions."""
    return flexible(received, pack(">h", 0) + (b"\0" if received.api_key == 6 else b"\x01\0"))


async def answer_all(received: Received) -> bytes | None:
    return no_errors(received)


class ReportedEvents:
    """The events that channels reported, in order, and their channel. ApiVersions are kept
    apart. `order` has the kinds of all events."""

    def __init__(self) -> None:
        self.events: list[BrokerResponded | ChannelFault | BrokerProbed] = []
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

    async def wait(self, count: int) -> list[BrokerResponded | ChannelFault | BrokerProbed]:
        """Wait until `count` events are reported."""
        while len(self.events) < count:
            self._more = anyio.Event()
            await self._more.wait()
        return self.events


@pytest.fixture
def reported() -> ReportedEvents:
    return ReportedEvents()


@pytest.fixture
def broker() -> ScriptedBroker:
    return ScriptedBroker(answer_all)


@pytest.fixture
async def start(reported: ReportedEvents) -> AsyncIterator[Callable[..., BrokerChannels]]:
    """Create channels that run until the test ends."""
    running: list[asyncio.Task[None]] = []

    def started(**settings: Any) -> BrokerChannels:
        channels = BrokerChannels(reported, client_id="1000", **settings)
        running.append(asyncio.create_task(channels.run()))
        return channels

    yield started
    for task in running:
        task.cancel()
    await asyncio.wait(running)


@pytest.fixture
async def channels(start: Callable[..., BrokerChannels]) -> BrokerChannels:
    return start()
