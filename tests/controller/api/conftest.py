"""An endpoint that runs, with its front process, and who stands for the controller."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import anyio
import pytest

from controller.api.endpoint import ApiEndpoint
from controller.api.limits import Limits
from controller.api.listening import listen
from controller.core.api_requests import ApiRequest
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AnswerAlterPartition,
)
from controller.core.api_requests.producer_ids import (
    AllocateProducerIdsReceived,
    AnswerAllocateProducerIds,
)
from controller.core.api_requests.reassignments import (
    AnswerListPartitionReassignments,
    ListPartitionReassignmentsReceived,
)
from controller.core.values import Broker, Endpoint
from tests.scripted_broker import Received, ScriptedBroker
from tools.lab.ports import free_port

OWN_ID = 1000
BROKER_SETTINGS = {"min.insync.replicas": "2"}
KNOWN = Broker(1, 10, ())
"""The live broker that the requests of `client` are of. It listens nowhere."""


async def echo(received: Received) -> bytes | None:
    """A script: the request itself is the answer."""
    return received.answer(received.frame)


class Served:
    """An endpoint, where it listens, and the events that came of it, answered at once unless a
    test wants to do it."""

    def __init__(self, names: Sequence[str], limits: Limits) -> None:
        self.ports = {name: free_port() for name in names}
        self.port = self.ports[names[0]]
        listeners = [
            Endpoint(name, "PLAINTEXT", "127.0.0.1", port) for name, port in self.ports.items()
        ]
        self.endpoint = ApiEndpoint(
            self._on_event,
            listen(listeners),
            broker_id=OWN_ID,
            limits=limits,
            broker_settings=BROKER_SETTINGS,
        )
        self.events: list[ApiRequest] = []
        self.channels: list[str] = []
        self.answers_itself = True
        self._more = anyio.Event()

    def _on_event(self, event: ApiRequest, channel: str) -> None:
        self.events.append(event)
        self.channels.append(channel)
        self._more.set()
        if self.answers_itself:
            self._answer(event)

    def _answer(self, event: ApiRequest) -> None:
        match event:
            case AllocateProducerIdsReceived(request=request):
                self.endpoint.answer(AnswerAllocateProducerIds(request, 0, request * 1000, 1000))
            case AlterPartitionReceived(request=request):
                self.endpoint.answer(AnswerAlterPartition(request, 0))
            case ListPartitionReassignmentsReceived(request=request):
                self.endpoint.answer(AnswerListPartitionReassignments(request, 0))

    async def has_events(self, count: int) -> list[ApiRequest]:
        """Wait until so many events have come."""
        while len(self.events) < count:
            self._more = anyio.Event()
            await self._more.wait()
        return self.events


Serve = Callable[..., Awaitable[Served]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start an endpoint that works until the test ends; keywords are its limits."""
    running: list[asyncio.Task[None]] = []

    async def started(
        *,
        names: Sequence[str] = ("PLAINTEXT",),
        brokers: Sequence[Broker] = (KNOWN,),
        **limits: int,
    ) -> Served:
        served = Served(names, Limits(**limits))
        served.endpoint.set_brokers(brokers)
        running.append(asyncio.create_task(served.endpoint.run()))
        return served

    yield started
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


@pytest.fixture
async def served(serve: Serve) -> Served:
    return await serve()


@pytest.fixture
async def broker() -> AsyncIterator[ScriptedBroker]:
    """A broker that listens, and answers everything with its echo."""
    broker = ScriptedBroker(echo)
    async with broker.listening():
        yield broker


@pytest.fixture
async def with_broker(served: Served, broker: ScriptedBroker) -> Served:
    """An endpoint that passes on to that broker."""
    served.endpoint.set_brokers([broker.registered()])
    return served
