"""One client's connection: requests in order, one at a time, as a broker takes them."""

import asyncio
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from controller.api.errors import NoUpstream, Refused, StandsBy
from controller.api.front.admission import Admission, Worth
from controller.api.front.desk import Desk
from controller.api.front.lanes import SMALL_BYTES, Lane, Lanes
from controller.api.front.live_brokers import LiveBrokers
from controller.api.front.own_answers import answer_about_own_id, answer_here
from controller.api.front.relay import Relay
from controller.api.front.routing import Route, route
from controller.api.front.streams import until, within
from controller.api.front.versions import VersionTable
from controller.api.limits import Limits
from controller.core.commands import AnswerAlterPartition, ApiAnswer
from controller.core.values import Endpoint
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
_INLINE_PARTITIONS: Final = 500
_NOT_WHOLE: Final = "a request did not come as a whole"


@dataclass(frozen=True, slots=True)
class Shared:
    """What all connections of a front have in common."""

    broker_id: int
    limits: Limits
    admission: Admission
    lanes: Lanes
    desk: Desk
    brokers: LiveBrokers


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
        deadline = asyncio.get_running_loop().time() + self._transfer_seconds_max
        async with until(deadline, _NOT_WHOLE):
            size = await self._size(start)
            beginning = await self._reader.readexactly(HEAD_BYTES)
        head = read_head(beginning)
        way = route(head.api_key)
        if way is Route.NOBODY:
            raise Refused(f"requests with api key {head.api_key} are not offered")
        if way is Route.BROKER:
            await self._pass_on(head, beginning, size - HEAD_BYTES, deadline)
            return
        with ExitStack() as held:
            lane, frame = await self._whole(way, head, beginning, size, held, deadline)
            self._shared.admission.asked(self._number, lane.worth)
            if way is Route.CONTROLLER:
                await self._ask_controller(head, frame, lane, held, deadline)
            elif way is Route.VERSIONS:
                await self._reply(await self._versions(head, frame))
            else:
                await self._answer_or_pass_on(way, head, frame, lane, deadline)

    async def _size(self, start: bytes) -> int:
        """The size of a request; most are refused by nothing but that."""
        data = start + await self._reader.readexactly(_SIZE_BYTES - len(start))
        size = int.from_bytes(data, "big", signed=True)
        if not HEAD_BYTES <= size <= self._limits.request_bytes_max:
            raise Refused(
                f"a request of {size} bytes where {HEAD_BYTES} to {self._limits.request_bytes_max} "
                "may be (socket.request.max.bytes); does it speak Kafka's protocol in plain text?"
            )
        return size

    async def _whole(
        self,
        way: Route,
        head: RequestHead,
        beginning: bytes,
        size: int,
        held: ExitStack,
        deadline: float,
    ) -> tuple[Lane, bytes]:
        """The lane that a request takes, and the whole of it."""
        async with until(deadline, _NOT_WHOLE):
            beginning += await self._reader.readexactly(min(size, SMALL_BYTES) - HEAD_BYTES)
        lane = self._shared.lanes.of_others
        if way is Route.CONTROLLER and self._shared.brokers.has(read_sender(head, beginning)[0]):
            lane = self._shared.lanes.of_brokers
        if size == len(beginning):
            return lane, beginning
        await lane.find_room(size, held, deadline)
        async with within(lane.read_seconds_max, _NOT_WHOLE):
            return lane, beginning + await self._reader.readexactly(size - len(beginning))

    async def _ask_controller(
        self, head: RequestHead, frame: bytes, lane: Lane, held: ExitStack, deadline: float
    ) -> None:
        await lane.find_place(len(frame), held, deadline)
        desk = self._shared.desk
        decode = partial(decode_controller_request, head, frame, desk.number())
        event = await lane.coded(decode, is_large=len(frame) > SMALL_BYTES)
        answer = await desk.ask(self._number, event, held.pop_all())
        encode = partial(encode_answer, head, answer)
        await self._reply(await lane.coded(encode, is_large=_is_large(answer)))

    async def _versions(self, head: RequestHead, frame: bytes) -> bytes:
        asked = read_api_versions(head, frame)
        try:
            table = (await self._relay.broker()).table
        except (NoUpstream, StandsBy):
            # The client id of a broker is its broker id: it needs none but the controller's own.
            if not asked.client_id.isdecimal():
                raise
            table = VersionTable(None)
        return table.answer(head, asked)

    async def _answer_or_pass_on(
        self, way: Route, head: RequestHead, frame: bytes, lane: Lane, deadline: float
    ) -> None:
        request = await self._decoded(head, frame, lane)
        if way is Route.HERE:
            await self._reply(answer_here(head))
            return
        answer = None
        if request is not None:
            answer = answer_about_own_id(head, request, self._shared.broker_id)
        if answer is None:
            await self._pass_on(head, frame, 0, deadline)
        else:
            await self._reply(answer)

    async def _decoded(self, head: RequestHead, frame: bytes, lane: Lane) -> Any | None:
        """The request; None if it is one of a later time, which a broker can judge."""
        decode = partial(decode_request, head, frame)
        try:
            return await lane.coded(decode, is_large=len(frame) > SMALL_BYTES)
        except UnknownTaggedField:
            return None

    async def _pass_on(
        self, head: RequestHead, beginning: bytes, count: int, deadline: float
    ) -> None:
        """Pass on a request of which `count` bytes still come, and its answer back."""
        upstream = await self._relay.send(head, beginning, self._reader, count, deadline)
        self._shared.admission.asked(self._number, Worth.CLIENT)
        if upstream is not None:
            await upstream.answer(head.correlation_id, self._writer)

    async def _reply(self, frame: bytes) -> None:
        async with within(self._transfer_seconds_max, "an answer was not taken"):
            self._writer.write(frame)
            await self._writer.drain()


def _is_large(answer: ApiAnswer) -> bool:
    return isinstance(answer, AnswerAlterPartition) and len(answer.partitions) > _INLINE_PARTITIONS
