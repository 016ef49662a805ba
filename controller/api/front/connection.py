"""One client's connection: requests in order, one at a time, as a broker takes them."""

import asyncio
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import inf
from typing import Any, Final, NamedTuple

from msgspec import structs

from controller.api.errors import NoUpstream, Refused, StandsBy
from controller.api.front.admission import Admission, Worth
from controller.api.front.lanes import SMALL_BYTES, Lane, Lanes
from controller.api.front.live_brokers import LiveBrokers
from controller.api.front.own_answers import answer_about_own_id, answer_here
from controller.api.front.pending_requests import PendingRequests
from controller.api.front.relay import Relay
from controller.api.front.routing import Route, may_be_repeated, route
from controller.api.front.streams import until, within
from controller.api.front.upstream import Upstream
from controller.api.front.versions import VersionTable
from controller.api.limits import Limits
from controller.core.commands import AnswerAlterPartition, ApiAnswer
from controller.core.error_codes import REQUEST_TIMED_OUT
from controller.core.events import AdminRequest, ElectLeadersReceived
from controller.core.procedures.admin.refusals import refusal
from controller.core.topic_configs import ConfigEntry
from controller.core.topic_requests import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
)
from controller.core.values import Endpoint
from controller.wire.admin_answers import encode_admin_answer
from controller.wire.admin_requests import decode_admin_request
from controller.wire.api_versions import read_api_versions
from controller.wire.client_requests import (
    HEAD_BYTES,
    RequestHead,
    UnknownTaggedField,
    decode_request,
    read_head,
)
from controller.wire.controller_requests import (
    decode_controller_request,
    encode_answer,
    read_sender,
)

_SIZE_BYTES: Final = 4
_SMALL_PARTITIONS: Final = 2000
_WITHOUT_BROKER: Final = VersionTable(None)
_NOT_WHOLE: Final = "a request did not come as a whole"
_Timed = (
    CreateTopicsReceived | CreatePartitionsReceived | DeleteTopicsReceived | ElectLeadersReceived
)


@dataclass(frozen=True, slots=True)
class Shared:
    """What all connections of a front have in common."""

    broker_id: int
    limits: Limits
    admission: Admission
    lanes: Lanes
    desk: PendingRequests
    brokers: LiveBrokers
    broker_settings: Mapping[str, str]
    own_configs: tuple[ConfigEntry, ...]


class Begun(NamedTuple):
    """A request of which at least the head has come."""

    head: RequestHead
    size: int
    received: bytes
    deadline: float
    """For all of it, in the event loop's time."""


class ClientConnection:
    """A connection that was let in. `number` names it in the event log."""

    def __init__(
        self,
        number: int,
        came_in: Endpoint,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        shared: Shared,
    ) -> None:
        self._number = number
        self._reader = reader
        self._writer = writer
        self._shared = shared
        self._limits = shared.limits
        self._transfer_seconds_max = shared.limits.transfer_ms / 1000
        self._relay = Relay(came_in, shared.brokers, shared.limits)

    async def serve(self) -> None:
        """Work until the client goes, or is silent for too long.

        Raises `Refused` or MalformedRequest where the client is at fault, `NoUpstream` where a
        broker is, `StandsBy` where nobody is, IncompleteReadError and OSError where either has
        gone.
        """
        idle_ms = self._limits.connections_max_idle_ms
        silent_ms: int | None = self._limits.first_request_ms
        if idle_ms is not None:
            silent_ms = min(self._limits.first_request_ms, idle_ms)
        try:
            while start := await self._start_of_frame(silent_ms):
                await self._handle(start)
                silent_ms = idle_ms
                # The next request may be here already: it waits until the others have had a turn.
                await asyncio.sleep(0)
        finally:
            self._relay.close()

    async def _start_of_frame(self, silent_ms: int | None) -> bytes:
        """The first bytes of the next request; none where the client has gone or is silent."""
        try:
            async with asyncio.timeout(None if silent_ms is None else silent_ms / 1000):
                return await self._reader.read(_SIZE_BYTES)
        except TimeoutError:
            return b""

    async def _handle(self, start: bytes) -> None:
        request = await self._begun(start)
        way = route(request.head.api_key)
        if way is Route.NOBODY:
            raise Refused(f"requests with api key {request.head.api_key} are not offered")
        if way is Route.BROKER:
            await self._pass_on(request)
            return
        if way is Route.CONTROLLER_BY_TOOL:
            await self._ask_for_tool(request, way)
            return
        with ExitStack() as held:
            lane, request = await self._whole(way, request, held)
            self._shared.admission.asked(self._number, lane.worth)
            if way is Route.CONTROLLER:
                await self._ask_controller(request, lane, held)
            elif way is Route.VERSIONS:
                await self._reply(await self._versions(request))
            else:
                await self._answer_or_pass_on(way, request, lane)

    async def _begun(self, start: bytes) -> Begun:
        deadline = asyncio.get_running_loop().time() + self._transfer_seconds_max
        bytes_max = self._limits.request_bytes_max
        async with until(deadline, _NOT_WHOLE):
            data = start + await self._reader.readexactly(_SIZE_BYTES - len(start))
            size = int.from_bytes(data, "big", signed=True)
            if not HEAD_BYTES <= size <= bytes_max:
                raise Refused(
                    f"a request of {size} bytes where {HEAD_BYTES} to {bytes_max} may be "
                    "(socket.request.max.bytes); does it speak Kafka's protocol in plain text?"
                )
            received = await self._reader.readexactly(HEAD_BYTES)
        return Begun(read_head(received), size, received, deadline)

    async def _whole(self, way: Route, request: Begun, held: ExitStack) -> tuple[Lane, Begun]:
        """The lane that a request takes, and the whole of it."""
        lanes = self._shared.lanes
        lane = lanes.first_of(way, request.head.api_key)
        lane.check_size(request.size)
        async with until(request.deadline, _NOT_WHOLE):
            request = await self._read_on(request, SMALL_BYTES)
        broker = self._broker(request) if way is Route.CONTROLLER else None
        if way is Route.CONTROLLER and broker is None:
            lane = lanes.of_others
            lane.check_size(request.size)
        if broker is not None:
            await lane.find_turn(broker, request.head.api_key, held, request.deadline)
        if request.size > SMALL_BYTES:
            await lane.find_room(request.size, held, request.deadline)
            async with within(lane.read_seconds_max, _NOT_WHOLE):
                request = await self._read_on(request, request.size)
        return lane, request

    def _broker(self, request: Begun) -> int | None:
        """The live broker that one of the controller's own requests says it is of."""
        sender, _ = read_sender(request.head, request.received)
        return sender.broker if self._shared.brokers.has(sender) else None

    async def _read_on(self, request: Begun, bytes_max: int) -> Begun:
        """The same request with more of it, so many bytes if it has them."""
        missing = min(request.size, bytes_max) - len(request.received)
        more = await self._reader.readexactly(missing)
        return request._replace(received=request.received + more)

    async def _ask_controller(self, request: Begun, lane: Lane, held: ExitStack) -> None:
        await lane.find_place(request.size, held, request.deadline)
        head, desk = request.head, self._shared.desk
        decode = partial(decode_controller_request, head, request.received, desk.number())
        event = await lane.beside(decode) if request.size > SMALL_BYTES else decode()
        async with desk.taking(desk.ask(self._number, event, held.pop_all())) as answer:
            encode = partial(encode_answer, head, answer)
            await self._reply(await lane.beside(encode) if _is_large(answer) else encode())

    async def _ask_for_tool(self, begun: Begun, way: Route) -> None:
        """An answer may have to wait for brokers: nothing of the request is held for so long."""
        lane, answer = await self._hand_over(begun, way)
        async with self._shared.desk.taking(answer) as given:
            settings = self._shared.broker_settings
            encode = partial(encode_admin_answer, begun.head, given, settings)
            await self._reply(await lane.beside(encode))

    async def _hand_over(self, begun: Begun, way: Route) -> tuple[Lane, asyncio.Future[ApiAnswer]]:
        """Read a tool's request and give it to the controller; only its place is held from then
        on. Where there is none in time it has timed out."""
        desk = self._shared.desk
        with ExitStack() as held, ExitStack() as place:
            lane, request = await self._whole(way, begun, held)
            self._shared.admission.asked(self._number, lane.worth)
            await lane.pay(request.size, request.deadline)
            decode = partial(decode_admin_request, request.head, request.received, desk.number())
            event = await lane.beside(decode)
            came_in = request.deadline - self._transfer_seconds_max
            if await lane.has_place(place, min(request.deadline, came_in + _seconds_max(event))):
                waited = asyncio.get_running_loop().time() - came_in
                event = _without(waited, event)
                return lane, desk.ask(self._number, event, place.pop_all())
        return lane, desk.refused(refusal(event, REQUEST_TIMED_OUT))

    async def _versions(self, request: Begun) -> bytes:
        asked = read_api_versions(request.head, request.received)
        try:
            table = (await self._relay.broker()).table
        except (NoUpstream, StandsBy):
            # The client id of a broker is its broker id: the controller's own are all it needs.
            if not asked.client_id.isdecimal():
                raise
            table = _WITHOUT_BROKER
        return table.answer(request.head, asked)

    async def _answer_or_pass_on(self, way: Route, request: Begun, lane: Lane) -> None:
        body = await self._decoded(request, lane)
        answer: bytes | None = None
        if way is Route.HERE:
            answer = answer_here(request.head)
        elif body is not None:
            answer = self._about_own_id(request.head, body)
        if answer is None:
            await self._pass_on(request)
        else:
            await self._reply(answer)

    def _about_own_id(self, head: RequestHead, body: Any) -> bytes | None:
        return answer_about_own_id(head, body, self._shared.broker_id, self._shared.own_configs)

    async def _decoded(self, request: Begun, lane: Lane) -> Any | None:
        """The body of a request; None where it is of a later time, which a broker may know."""
        try:
            return await lane.beside(partial(decode_request, request.head, request.received))
        except UnknownTaggedField:
            return None

    async def _pass_on(self, request: Begun) -> None:
        """Pass a request on, whatever of it has come yet, and its answer back."""
        head, is_small = request.head, request.size <= SMALL_BYTES
        missing = request.size - len(request.received)
        upstream: Upstream | None = None
        async with until(request.deadline, "a request did not come, or no broker took it,"):
            if is_small and may_be_repeated(head.api_key):
                request = await self._read_on(request, request.size)
            else:
                upstream = await self._relay.send(head, request.received, self._reader, missing)
                if upstream is None:
                    return
        self._shared.admission.asked(self._number, Worth.CLIENT)
        if upstream is None:
            upstream, beginning = await self._relay.ask(head, request.received)
        else:
            beginning = await upstream.beginning_of_answer()
        await upstream.pass_back(beginning, head.correlation_id, self._writer)

    async def _reply(self, frame: bytes) -> None:
        async with within(self._transfer_seconds_max, "an answer was not taken"):
            self._writer.write(frame)
            await self._writer.drain()


def _seconds_max(event: AdminRequest) -> float:
    """For how long a request may wait to be done: as long as its client says, if it says so."""
    return event.timeout_ms / 1000 if isinstance(event, _Timed) and event.timeout_ms > 0 else inf


def _without(seconds: float, event: AdminRequest) -> AdminRequest:
    """The same request with the time that it has left."""
    if not isinstance(event, _Timed) or event.timeout_ms <= 0:
        return event
    return structs.replace(event, timeout_ms=max(event.timeout_ms - int(seconds * 1000), 1))


def _is_large(answer: ApiAnswer) -> bool:
    return isinstance(answer, AnswerAlterPartition) and len(answer.partitions) > _SMALL_PARTITIONS
