"""One client connection: handles requests in order, one at a time, as a broker does."""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple, TypeVar

from msgspec import structs

from controller.api.connection_counts import ListenerCounts
from controller.api.errors import (
    IdleTooLong,
    NoBrokersKnown,
    NoUpstream,
    RequestRejected,
)
from controller.api.front.admission import Admission, ConnectionPriority
from controller.api.front.broker_rights import BrokerRights
from controller.api.front.cluster_metadata import (
    METADATA_KEYS,
    MetadataQueries,
    metadata_response,
    query_of,
)
from controller.api.front.forwarding import Forwarder
from controller.api.front.live_brokers import LiveBrokers
from controller.api.front.local_responses import local_response, own_config_response
from controller.api.front.pending_requests import PendingRequests
from controller.api.front.request_quotas import SMALL_BYTES, RequestQuota, RequestQuotas
from controller.api.front.routing import Route, may_be_repeated, not_forwarded, route
from controller.api.front.sasl import illegal_state
from controller.api.front.session import ClientSession
from controller.api.front.streams import before_deadline, time_limit
from controller.api.front.upstream import Upstream
from controller.api.front.versions import VersionTable
from controller.api.limits import EndpointLimits
from controller.core.api_requests import AdminRequest, ApiRequest, ApiResponse, TimedRequest
from controller.core.api_requests.alter_partition import AlterPartitionResponse
from controller.core.configuration import Authorization
from controller.core.error_codes import REQUEST_TIMED_OUT
from controller.core.topic_configs import ConfigEntry
from controller.core.values import Endpoint
from controller.security.errors import LoginRejected
from controller.wire.admin.apis import decode_admin_request, encode_admin_response
from controller.wire.api_versions import read_api_versions
from controller.wire.client_requests import (
    HEAD_BYTES,
    MalformedRequest,
    RequestHead,
    UnknownTaggedField,
    decode_request,
    read_head,
)
from controller.wire.controller_requests import (
    decode_controller_request,
    encode_controller_response,
    read_sender,
)
from controller.wire.sasl import SASL_SPANS

ApiRequestT = TypeVar("ApiRequestT", bound=ApiRequest)

_SIZE_BYTES: Final = 4
_SMALL_PARTITIONS: Final = 2000
_VERSIONS_WITHOUT_BROKER: Final = VersionTable(None)
SECURED_VERSIONS: Final = VersionTable.of_secured_listener()
_INCOMPLETE: Final = "a request was not received completely"


@dataclass(frozen=True, slots=True)
class FrontContext:
    """Shared by all connections of a front."""

    broker_id: int
    limits: EndpointLimits
    admission: Admission
    quotas: RequestQuotas
    pending: PendingRequests
    metadata: MetadataQueries
    broker_rights: BrokerRights
    brokers: LiveBrokers
    broker_settings: Mapping[str, str]
    own_configs: tuple[ConfigEntry, ...]
    authorization: Authorization | None
    counts: Mapping[str, ListenerCounts]
    """By listener."""


class PartialRequest(NamedTuple):
    """A request of which at least the header's first bytes were received."""

    head: RequestHead
    size: int
    received: bytes
    deadline: float
    """For the whole request, in the event loop's time."""


class ClientConnection:
    """An accepted connection. `number` identifies it in the event log."""

    def __init__(
        self,
        number: int,
        listener: Endpoint,
        session: ClientSession,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        shared: FrontContext,
    ) -> None:
        self._number = number
        self._listener = listener
        self._session = session
        self._client = session.client
        self._counts = shared.counts[listener.listener]
        self._reader = reader
        self._writer = writer
        self._context = shared
        self._limits = shared.limits
        self._transfer_seconds_max = shared.limits.transfer_ms / 1000
        self._forwarder = Forwarder(listener, shared.brokers, shared.limits)

    async def serve(self) -> None:
        """Handle requests until the client disconnects.

        Raises `IdleTooLong`, `SessionEnded`, `RequestRejected`, LoginRejected or MalformedRequest
        if the client is at fault, `NoUpstream` if a broker is, `NoBrokersKnown` if neither is,
        IncompleteReadError and OSError if either disconnected.
        """
        idle_ms = self._limits.connections_max_idle_ms
        wait_ms_max: int | None = self._limits.first_request_ms
        if idle_ms is not None:
            wait_ms_max = min(self._limits.first_request_ms, idle_ms)
        try:
            while start := await self._start_of_frame(wait_ms_max):
                await self._handle(start)
                wait_ms_max = idle_ms
                # The next request may have arrived already: let other connections run first.
                await asyncio.sleep(0)
        finally:
            self._forwarder.close()

    async def _start_of_frame(self, wait_ms_max: int | None) -> bytes:
        """The first bytes of the next request; empty if the client disconnected. Raises
        `IdleTooLong`."""
        try:
            async with asyncio.timeout(None if wait_ms_max is None else wait_ms_max / 1000):
                return await self._reader.read(_SIZE_BYTES)
        except TimeoutError:
            raise IdleTooLong from None

    async def _handle(self, start: bytes) -> None:
        request = await self._receive_head(start)
        renews = self._session.renews(request.head)
        way = route(request.head.api_key)
        if self._client is not None and request.head.api_key in SASL_SPANS:
            way = Route.SASL
        if self._client is not None and request.head.api_key in METADATA_KEYS:
            way = Route.METADATA
        if way is Route.UNSUPPORTED:
            raise RequestRejected(f"requests with api key {request.head.api_key} are not supported")
        if way is Route.BROKER:
            await self._forward(request)
            return
        if way is Route.CONTROLLER_BY_TOOL:
            await self._handle_tool_request(request, way)
            return
        with ExitStack() as held:
            quota, request = await self._receive_all(way, request, held)
            self._context.admission.request_received(self._number, quota.priority)
            if way is Route.CONTROLLER:
                await self._handle_broker_request(request, quota, held)
            elif way is Route.SASL and renews:
                await self._log_in_again(request)
            elif way is Route.SASL:
                await self._reply(illegal_state(request.head))
            elif way is Route.VERSIONS:
                await self._reply(await self._versions(request))
            elif way is Route.METADATA:
                await self._answer_metadata(request, quota)
            else:
                await self._answer_or_forward(way, request, quota)

    async def _receive_head(self, start: bytes) -> PartialRequest:
        deadline = asyncio.get_running_loop().time() + self._transfer_seconds_max
        bytes_max = self._limits.request_bytes_max
        async with before_deadline(deadline, _INCOMPLETE):
            data = start + await self._reader.readexactly(_SIZE_BYTES - len(start))
            size = int.from_bytes(data, "big", signed=True)
            if not HEAD_BYTES <= size <= bytes_max:
                raise RequestRejected(
                    f"a request of {size} bytes, allowed are {HEAD_BYTES} to {bytes_max} "
                    "(socket.request.max.bytes); does the client speak Kafka's protocol "
                    "without TLS?"
                )
            received = await self._reader.readexactly(HEAD_BYTES)
        return PartialRequest(read_head(received), size, received, deadline)

    async def _receive_all(
        self, way: Route, request: PartialRequest, held: ExitStack
    ) -> tuple[RequestQuota, PartialRequest]:
        """Receive the whole request, within the quota of its sender. Return that quota and the
        request."""
        quotas = self._context.quotas
        quota = quotas.initial_quota(way, request.head.api_key)
        quota.check_size(request.size)
        async with before_deadline(request.deadline, _INCOMPLETE):
            request = await self._receive_more_of(request, SMALL_BYTES)
            broker = await self._broker(request) if way is Route.CONTROLLER else None
        if way is Route.CONTROLLER and broker is None:
            quota = quotas.of_others
            quota.check_size(request.size)
        if broker is not None:
            await quota.wait_for_turn(broker, request.head.api_key, held, request.deadline)
        if request.size > SMALL_BYTES:
            await quota.reserve_memory(request.size, held, request.deadline)
            async with time_limit(quota.read_seconds_max, _INCOMPLETE):
                request = await self._receive_more_of(request, request.size)
        return quota, request

    async def _broker(self, request: PartialRequest) -> int | None:
        """The live broker that a request to the controller names as its sender. None if there is
        none, or the client may not send requests of brokers now: it must not delay those of others.
        """
        sender, _ = read_sender(request.head, request.received)
        if not self._context.brokers.has(sender):
            return None
        if await self._context.broker_rights.has(self._client):
            return sender.broker
        self._context.admission.rank_as_client(self._number)
        return None

    async def _receive_more_of(self, request: PartialRequest, bytes_max: int) -> PartialRequest:
        """Receive more of the request, up to `bytes_max` bytes of it."""
        missing = min(request.size, bytes_max) - len(request.received)
        more = await self._reader.readexactly(missing)
        return request._replace(received=request.received + more)

    async def _handle_broker_request(
        self, request: PartialRequest, quota: RequestQuota, held: ExitStack
    ) -> None:
        await quota.reserve_slot(request.size, held, request.deadline)
        head, pending = request.head, self._context.pending
        decode = partial(decode_controller_request, head, request.received, pending.number())
        event = await quota.run_in_thread(decode) if request.size > SMALL_BYTES else decode()
        event = self._of_client(event)
        async with pending.delivering(pending.ask(self._number, event, held.pop_all())) as answer:
            encode = partial(encode_controller_response, head, answer)
            await self._reply(await quota.run_in_thread(encode) if _is_large(answer) else encode())

    async def _handle_tool_request(self, request: PartialRequest, way: Route) -> None:
        """The response may wait for brokers; meanwhile the request's memory is free."""
        quota, answer = await self._submit_tool_request(request, way)
        pending = self._context.pending
        async with pending.delivering(answer) as given:
            settings = self._context.broker_settings
            throttle_ms = pending.take_throttle_ms(given.request)
            encode = partial(encode_admin_response, request.head, given, settings, throttle_ms)
            await self._reply(await quota.run_in_thread(encode))
        await self._mute(throttle_ms)

    async def _mute(self, throttle_ms: int) -> None:
        """Read nothing from a client that is throttled, for as long as a connection may be idle
        (ClientQuotaManager.throttle)."""
        idle_ms = self._limits.connections_max_idle_ms
        muted_ms = throttle_ms if idle_ms is None else min(throttle_ms, idle_ms)
        if muted_ms:
            await asyncio.sleep(muted_ms / 1000)

    async def _submit_tool_request(
        self, request: PartialRequest, way: Route
    ) -> tuple[RequestQuota, asyncio.Future[ApiResponse]]:
        """Read a tool's request and submit it to the controller, which holds only a slot from
        then on. If no slot is free in time, the request times out."""
        pending = self._context.pending
        with ExitStack() as held, ExitStack() as slot:
            quota, request = await self._receive_all(way, request, held)
            self._context.admission.request_received(self._number, quota.priority)
            await quota.throttle(request.size, request.deadline)
            decode = partial(decode_admin_request, request.head, request.received, pending.number())
            event = self._of_client(await quota.run_in_thread(decode))
            arrived_s = request.deadline - self._transfer_seconds_max
            if await quota.try_reserve_slot(
                slot, min(request.deadline, arrived_s + _timeout_s(event))
            ):
                waited = asyncio.get_running_loop().time() - arrived_s
                event = _with_remaining_time(waited, event)
                return quota, pending.ask(self._number, event, slot.pop_all())
        return quota, pending.refused(event.refusal(REQUEST_TIMED_OUT))

    def _of_client(self, event: ApiRequestT) -> ApiRequestT:
        """Return the request with the client that sent it, if the listener identifies clients."""
        return event if self._client is None else structs.replace(event, client=self._client)

    async def _log_in_again(self, request: PartialRequest) -> None:
        try:
            async with time_limit(
                self._limits.first_request_ms / 1000, "the login was not completed"
            ):
                await self._session.renew(request.head, request.received)
        except (LoginRejected, RequestRejected, MalformedRequest):
            self._counts.failed_renewals += 1
            raise
        self._counts.renewals += 1

    async def _versions(self, request: PartialRequest) -> bytes:
        asked = read_api_versions(request.head, request.received)
        if self._client is not None:
            return SECURED_VERSIONS.answer(request.head, asked)
        try:
            table = (await self._forwarder.broker()).table
        except (NoUpstream, NoBrokersKnown):
            # A broker uses its id as client id. The controller's own APIs are all that it needs.
            if not asked.client_id.isdecimal():
                raise
            table = _VERSIONS_WITHOUT_BROKER
        return table.answer(request.head, asked)

    async def _answer_or_forward(
        self, way: Route, request: PartialRequest, quota: RequestQuota
    ) -> None:
        body = await self._decoded_body(request, quota)
        answer: bytes | None = None
        if way is Route.HERE:
            answer = local_response(request.head, is_allowed=self._sees_settings)
        elif body is not None:
            answer = self._own_config_response(request.head, body)
        if answer is None:
            await self._forward(request)
        else:
            await self._reply(answer)

    async def _answer_metadata(self, request: PartialRequest, quota: RequestQuota) -> None:
        """Answer about the cluster, as a broker would. Raises `NotForwarded` while the daemon is
        not controller."""
        assert self._client is not None, "other clients are forwarded"
        await quota.throttle(request.size, request.deadline)
        queries, head = self._context.metadata, request.head
        body = await self._decoded_body(request, quota)
        if body is None:
            raise not_forwarded(head)
        async with queries.slots:
            query = query_of(head, body, self._client, self._listener.listener)
            answer = await queries.read(query)
            if answer is None:
                raise not_forwarded(head)
            own_id = self._context.broker_id
            encode = partial(metadata_response, head, body, answer, own_id, self._listener)
            await self._reply(await quota.run_in_thread(encode))

    def _own_config_response(self, head: RequestHead, body: Any) -> bytes | None:
        return own_config_response(
            head,
            body,
            self._context.broker_id,
            self._context.own_configs,
            is_allowed=self._sees_settings,
        )

    @property
    def _sees_settings(self) -> bool:
        """Whether the client may see what only the front knows. The front knows no ACLs, so only
        super users may, if there is an authorizer."""
        authorization = self._context.authorization
        if authorization is None:
            return True
        return self._client is not None and self._client.principal in authorization.super_users

    async def _decoded_body(self, request: PartialRequest, quota: RequestQuota) -> Any | None:
        """The body of a request; None if it has a tagged field of a later version, which a
        broker may know."""
        try:
            return await quota.run_in_thread(
                partial(decode_request, request.head, request.received)
            )
        except UnknownTaggedField:
            return None

    async def _forward(self, request: PartialRequest) -> None:
        """Forward a request, of which a part may have been received, and return the broker's
        response. Raises `NotForwarded` if the broker would not know who the client is."""
        if self._client is not None:
            raise not_forwarded(request.head)
        head, is_small = request.head, request.size <= SMALL_BYTES
        missing = request.size - len(request.received)
        upstream: Upstream | None = None
        async with before_deadline(
            request.deadline, "a request was not received, or no broker accepted it,"
        ):
            if is_small and may_be_repeated(head.api_key):
                request = await self._receive_more_of(request, request.size)
            else:
                upstream = await self._forwarder.send(head, request.received, self._reader, missing)
                if upstream is None:
                    return
        self._context.admission.request_received(self._number, ConnectionPriority.CLIENT)
        if upstream is None:
            upstream, beginning = await self._forwarder.ask(head, request.received)
        else:
            beginning = await upstream.response_start()
        await upstream.forward_response(beginning, head.correlation_id, self._writer)

    async def _reply(self, frame: bytes) -> None:
        async with time_limit(self._transfer_seconds_max, "the client did not receive a response"):
            self._writer.write(frame)
            await self._writer.drain()


def _timeout_s(event: AdminRequest) -> float:
    """How long a request may wait to be carried out, if the client set a timeout."""
    return (
        event.timeout_ms / 1000 if isinstance(event, TimedRequest) and event.timeout_ms > 0 else inf
    )


def _with_remaining_time(seconds: float, event: AdminRequest) -> AdminRequest:
    """Return the request with the part of its timeout that is left after `seconds` of waiting."""
    if not isinstance(event, TimedRequest) or event.timeout_ms <= 0:
        return event
    return structs.replace(event, timeout_ms=max(event.timeout_ms - int(seconds * 1000), 1))


def _is_large(response: ApiResponse) -> bool:
    return (
        isinstance(response, AlterPartitionResponse)
        and len(response.partitions) > _SMALL_PARTITIONS
    )
