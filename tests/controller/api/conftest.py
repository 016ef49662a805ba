"""A running endpoint with its front process, and a controller that answers its events."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import anyio
import pytest

from controller.api.cluster_metadata import ClusterMetadata, MetadataQuery
from controller.api.connection_counts import ListenerCounts
from controller.api.endpoint import ApiEndpoint
from controller.api.endpoint_security import EndpointSecurity
from controller.api.limits import EndpointLimits
from controller.api.listening import listen
from controller.core.api_requests import ApiRequest
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AlterPartitionResponse,
)
from controller.core.api_requests.producer_ids import (
    AllocateProducerIdsReceived,
    AllocateProducerIdsResponse,
)
from controller.core.api_requests.reassignments import (
    ListPartitionReassignmentsReceived,
    ListPartitionReassignmentsResponse,
)
from controller.core.api_requests.received_request import ClientIdentity
from controller.core.configuration import Authorization
from controller.core.values import Broker, Endpoint
from tests.controller.api.certificates import Certificates
from tests.scripted_broker import Received, ScriptedBroker
from tests.waiting import until_found
from tools.lab.ports import free_port

Request = TypeVar("Request", bound=ApiRequest)

OWN_ID = 1000
NOT_WITHIN_S = 0.3
"""How long a test waits for an event that must not happen."""
BROKER_SETTINGS = {"min.insync.replicas": "2"}
KNOWN = Broker(1, 10, ())
"""The live broker whose requests `client` sends. It has no listeners."""


async def echo(received: Received) -> bytes | None:
    """A script that answers a request with the request itself."""
    return received.answer(received.frame)


class ServedEndpoint:
    """An endpoint, its ports and the events that it has logged. They are answered at once,
    unless `answers_itself` is off."""

    def __init__(
        self,
        names: Sequence[str],
        limits: EndpointLimits,
        security: Mapping[str, EndpointSecurity],
        authorization: Authorization | None,
    ) -> None:
        self.ports = {name: free_port() for name in names}
        self.listener = names[0]
        self.port = self.ports[self.listener]
        self.credentials: dict[tuple[str, str], str] = {}
        """The SCRAM credentials in ZooKeeper, by user and mechanism."""
        self.metadata: ClusterMetadata | None = None
        """The controller's knowledge of the cluster."""
        self.queries: list[MetadataQuery] = []
        self.broker_principals: tuple[str, ...] = ()
        """The principals that may do ClusterAction on the cluster by an ACL."""
        self.rights_asked: list[str] = []
        """The principals of which the front has asked that."""
        self.metadata_is_known = anyio.Event()
        self.metadata_is_known.set()
        # Only `security` decides what is spoken.
        listeners = [
            Endpoint(name, "PLAINTEXT", "127.0.0.1", port) for name, port in self.ports.items()
        ]
        self.endpoint = ApiEndpoint(
            self._on_event,
            listen(listeners, security),
            broker_id=OWN_ID,
            limits=limits,
            broker_settings=BROKER_SETTINGS,
            authorization=authorization,
            credentials=self._credential,
            metadata=self._metadata,
            broker_rights=self._may_act_as_broker,
        )
        self.events: list[ApiRequest] = []
        self.channels: list[str] = []
        self.answers_itself = True
        self._more = anyio.Event()

    async def _credential(self, user: str, mechanism: str) -> str | None:
        return self.credentials.get((user, mechanism))

    async def _metadata(self, query: MetadataQuery) -> ClusterMetadata | None:
        self.queries.append(query)
        self._more.set()
        await self.metadata_is_known.wait()
        return self.metadata

    def _may_act_as_broker(self, client: ClientIdentity) -> bool:
        self.rights_asked.append(client.principal)
        self._more.set()
        return client.principal in self.broker_principals

    async def has_asked_rights_of(self, principal: str) -> None:
        """Wait until the front has asked for the rights of a client."""
        while principal not in self.rights_asked:
            self._more = anyio.Event()
            await self._more.wait()

    def _on_event(self, event: ApiRequest, channel: str) -> None:
        self.events.append(event)
        self.channels.append(channel)
        self._more.set()
        if self.answers_itself:
            self.answer(event)

    def answer(self, event: ApiRequest) -> None:
        match event:
            case AllocateProducerIdsReceived(request=request):
                self.endpoint.answer(AllocateProducerIdsResponse(request, 0, request * 1000, 1000))
            case AlterPartitionReceived(request=request):
                self.endpoint.answer(AlterPartitionResponse(request, 0))
            case ListPartitionReassignmentsReceived(request=request):
                self.endpoint.answer(ListPartitionReassignmentsResponse(request, 0))

    async def has_events(self, count: int) -> list[ApiRequest]:
        """Wait until `count` events have been logged."""
        while len(self.events) < count:
            self._more = anyio.Event()
            await self._more.wait()
        return self.events

    async def has_queries(self, count: int) -> list[MetadataQuery]:
        """Wait until the controller has been asked `count` times about the cluster."""
        while len(self.queries) < count:
            self._more = anyio.Event()
            await self._more.wait()
        return self.queries

    async def first(self, kind: type[Request]) -> Request:
        """Wait for the first event of a kind."""
        while True:
            for one in self.events:
                if isinstance(one, kind):
                    return one
            self._more = anyio.Event()
            await self._more.wait()

    async def has_counted(
        self, what: str, is_so: Callable[[ListenerCounts], bool], listener: str | None = None
    ) -> ListenerCounts:
        """Wait until the counts of a listener's connections are so. The front reports them
        periodically."""

        def counts() -> ListenerCounts | None:
            found = self.endpoint.connections.by_listener()[listener or self.listener]
            return found if is_so(found) else None

        found = await until_found(counts, f"the front counts {what}", 10)
        assert found is not None
        return found

    async def has_only(self, count: int) -> None:
        """Wait for `count` events, and check that no other follows."""
        with anyio.fail_after(5):
            await self.has_events(count)
        with anyio.move_on_after(NOT_WITHIN_S):
            await self.has_events(count + 1)
        assert len(self.events) == count


Serve = Callable[..., Awaitable[ServedEndpoint]]


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Start an endpoint that runs until the test ends. Keyword arguments are its limits."""
    running: list[asyncio.Task[None]] = []

    async def started(
        *,
        names: Sequence[str] = ("PLAINTEXT",),
        brokers: Sequence[Broker] = (KNOWN,),
        security: Mapping[str, EndpointSecurity] | None = None,
        authorization: Authorization | None = None,
        **limits: int,
    ) -> ServedEndpoint:
        served = ServedEndpoint(names, EndpointLimits(**limits), security or {}, authorization)
        served.endpoint.set_brokers(brokers)
        running.append(asyncio.create_task(served.endpoint.run()))
        return served

    yield started
    for task in running:
        task.cancel()
    if running:
        await asyncio.wait(running)


@pytest.fixture
async def served(serve: Serve) -> ServedEndpoint:
    return await serve()


@pytest.fixture
async def broker() -> AsyncIterator[ScriptedBroker]:
    """A broker that listens and echoes every request."""
    broker = ScriptedBroker(echo)
    async with broker.listening():
        yield broker


@pytest.fixture
async def with_broker(served: ServedEndpoint, broker: ScriptedBroker) -> ServedEndpoint:
    """An endpoint that forwards to that broker."""
    served.endpoint.set_brokers([broker.registered()])
    return served
