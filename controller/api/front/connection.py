"""One client's connection: requests in order, one at a time, as a broker takes them."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from controller.api.errors import NoUpstream, Refused
from controller.api.front.admission import Admission, Worth
from controller.api.front.budget import Budget, Charge
from controller.api.front.desk import Desk
from controller.api.front.live_brokers import LiveBroker, LiveBrokers, way_out
from controller.api.front.own_answers import answer_about_own_id, answer_here
from controller.api.front.routing import Route, route
from controller.api.front.streams import read_some, until, within
from controller.api.front.upstream import Upstream
from controller.api.front.versions import VersionTable
from controller.api.limits import Limits
from controller.core.commands import AnswerAlterPartition, ApiAnswer
from controller.core.values import Endpoint
from controller.wire.client_requests import HEAD_BYTES, RequestHead, decode_request, read_head
from controller.wire.controller_requests import decode_controller_request, encode_answer
from controller.wire.produce import PRODUCE, wants_answer

T = TypeVar("T")

_SIZE_BYTES: Final = 4
_UNCHARGED_BYTES: Final = 16 * 1024
"""A request up to this size is read without a charge and decoded at once."""
_INLINE_PARTITIONS: Final = 500
_NOT_WHOLE: Final = "a request did not come as a whole, or a broker did not take it,"
_PRODUCE_HEAD_BYTES: Final = 4096
"""Client id and transactional id of a Produce request must fit in here."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What all connections of a front have in common."""

    broker_id: int
    limits: Limits
    admission: Admission
    budget: Budget
    desk: Desk
    brokers: LiveBrokers
    coder: Executor
    """One thread, for bodies so large that the event loop had to wait for them."""


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
        self._came_in = came_in
        self._reader = reader
        self._writer = writer
        self._shared = shared
        self._limits = shared.limits
        self._request_seconds_max = shared.limits.request_timeout_ms / 1000
        self._broker: LiveBroker | None = None
        self._upstream: Upstream | None = None

    async def serve(self) -> None:
        """Work until the client goes, or is silent for too long.

        Raises `Refused` or MalformedRequest where the client is at fault, `NoUpstream` where a
        broker is, IncompleteReadError and ConnectionError where either has gone.
        """
        silent_ms = self._limits.first_request_ms
        try:
            while start := await self._start_of_frame(silent_ms / 1000):
                await self._handle(start)
                silent_ms = self._limits.connections_max_idle_ms
        finally:
            if self._upstream is not None:
                self._upstream.close()

    async def _start_of_frame(self, seconds_max: float) -> bytes:
        """The first bytes of the next request; none where the client has gone or is silent."""
        try:
            async with asyncio.timeout(seconds_max):
                return await self._reader.read(_SIZE_BYTES)
        except TimeoutError:
            return b""

    async def _handle(self, start: bytes) -> None:
        deadline = asyncio.get_running_loop().time() + self._request_seconds_max
        async with until(deadline, _NOT_WHOLE):
            beginning, size = await self._beginning(start)
        head = read_head(beginning)
        way = route(head.api_key)
        if way is Route.NOBODY:
            raise Refused(f"requests with api key {head.api_key} are not offered")
        if way is Route.BROKER:
            await self._pass_on(head, beginning, size - HEAD_BYTES, deadline)
            return
        self._check_size(way, size)
        with Charge(self._shared.budget) as charge:
            async with until(deadline, _NOT_WHOLE):
                frame = await self._whole(beginning, size, charge)
            if way is Route.CONTROLLER:
                await self._ask_controller(head, frame, charge)
            elif way is Route.VERSIONS:
                await self._reply(await self._versions(head))
            else:
                await self._answer_or_pass_on(way, head, frame, deadline)

    async def _beginning(self, start: bytes) -> tuple[bytes, int]:
        """The head of a request, and the size of the whole of it."""
        missing = _SIZE_BYTES + HEAD_BYTES - len(start)
        data = start + await self._reader.readexactly(missing)
        size = int.from_bytes(data[:_SIZE_BYTES], "big", signed=True)
        if not HEAD_BYTES <= size <= self._limits.request_bytes_max:
            raise Refused(
                f"a request of {size} bytes; does it speak Kafka's protocol in plain text?"
            )
        return data[_SIZE_BYTES:], size

    def _check_size(self, way: Route, size: int) -> None:
        """Raises `Refused` for a request that is too large to be held as a whole."""
        bytes_max = self._limits.inspected_request_bytes_max
        if way is Route.CONTROLLER:
            bytes_max = self._limits.controller_request_bytes_max
        if size > bytes_max:
            raise Refused(f"a request of {size} bytes where {bytes_max} are the most")

    async def _whole(self, beginning: bytes, size: int, charge: Charge) -> bytes:
        """The whole of a request, without its size."""
        frame = bytearray(beginning)
        while len(frame) < size:
            chunk = await read_some(self._reader, size - len(frame))
            frame += chunk
            if len(frame) > _UNCHARGED_BYTES:
                await charge.add(len(chunk))
        return bytes(frame)

    async def _ask_controller(self, head: RequestHead, frame: bytes, charge: Charge) -> None:
        desk = self._shared.desk
        decode = partial(decode_controller_request, head, frame, desk.number())
        event = await self._coded(decode, is_large=len(frame) > _UNCHARGED_BYTES)
        self._shared.admission.asked(self._number, Worth.BROKER)
        answer = await desk.ask(self._number, event, charge.hand_over())
        encode = partial(encode_answer, head, answer)
        await self._reply(await self._coded(encode, is_large=_is_large(answer)))

    async def _coded(self, work: Callable[[], T], *, is_large: bool) -> T:
        if not is_large:
            return work()
        return await asyncio.get_running_loop().run_in_executor(self._shared.coder, work)

    async def _versions(self, head: RequestHead) -> bytes:
        self._shared.admission.asked(self._number, Worth.CLIENT)
        broker = await self._my_broker()
        return (broker.table if broker else VersionTable(None)).answer(head)

    async def _answer_or_pass_on(
        self, way: Route, head: RequestHead, frame: bytes, deadline: float
    ) -> None:
        decode = partial(decode_request, head, frame)
        request = await self._coded(decode, is_large=len(frame) > _UNCHARGED_BYTES)
        if way is Route.HERE:
            answer: bytes | None = answer_here(head)
        else:
            answer = answer_about_own_id(head, request, self._shared.broker_id)
        if answer is None:
            await self._pass_on(head, frame, 0, deadline)
        else:
            self._shared.admission.asked(self._number, Worth.CLIENT)
            await self._reply(answer)

    async def _pass_on(
        self, head: RequestHead, beginning: bytes, count: int, deadline: float
    ) -> None:
        """Pass on a request of which `count` bytes are still to come, and its answer back."""
        is_answered = True
        async with until(deadline, _NOT_WHOLE):
            upstream = await self._upstream_for(head)
            if head.api_key == PRODUCE:
                more = await self._reader.readexactly(min(count, _PRODUCE_HEAD_BYTES))
                beginning, count = beginning + more, count - len(more)
                is_answered = wants_answer(head.version, beginning)
            await upstream.send(beginning, self._reader, count)
        self._shared.admission.asked(self._number, Worth.CLIENT)
        if is_answered:
            await upstream.answer(head.correlation_id, self._writer)

    async def _upstream_for(self, head: RequestHead) -> Upstream:
        """The connection to the client's broker. Raises `NoUpstream`, `Refused`."""
        broker = await self._my_broker()
        way = way_out(broker.broker, self._came_in) if broker else None
        if broker is None or way is None:
            raise NoUpstream("there is no live broker to pass a request on to")
        if not broker.table.offers(head):
            raise Refused(f"api key {head.api_key} version {head.version} is not offered")
        if self._upstream is None or not self._upstream.stands:
            if self._upstream is not None:
                self._upstream.close()
            self._upstream = await Upstream.open(way, self._request_seconds_max)
        return self._upstream

    async def _my_broker(self) -> LiveBroker | None:
        """The broker whose table the client was told, for as long as it lives."""
        brokers = self._shared.brokers
        if self._broker is None:
            self._broker = await brokers.pick(self._came_in)
        elif not brokers.is_live(self._broker):
            raise NoUpstream(f"broker {self._broker.broker.id} is gone")
        return self._broker

    async def _reply(self, frame: bytes) -> None:
        async with within(self._request_seconds_max, "an answer was not taken"):
            self._writer.write(frame)
            await self._writer.drain()


def _is_large(answer: ApiAnswer) -> bool:
    return isinstance(answer, AnswerAlterPartition) and len(answer.partitions) > _INLINE_PARTITIONS
