"""The way of one client's requests to a live broker."""

import asyncio
from typing import Final

from controller.api.errors import NoUpstream, Refused, StandsBy
from controller.api.front.live_brokers import LiveBroker, LiveBrokers, way_out
from controller.api.front.upstream import Upstream
from controller.api.limits import Limits
from controller.core.values import Endpoint
from controller.wire.client_requests import RequestHead
from controller.wire.produce import PRODUCE, wants_answer

_PRODUCE_HEAD_BYTES: Final = 4096
"""Client id and transactional id of a Produce request must fit in here."""


class Relay:
    """Keeps a client's broker, and the connection to it, for as long as that broker lives."""

    def __init__(self, came_in: Endpoint, brokers: LiveBrokers, limits: Limits) -> None:
        self._came_in = came_in
        self._brokers = brokers
        self._limits = limits
        self._broker: LiveBroker | None = None
        self._upstream: Upstream | None = None

    async def broker(self) -> LiveBroker:
        """The client's broker, whose version table it is told. Raises `NoUpstream`, `StandsBy`."""
        if self._broker is None:
            self._broker = await self._brokers.pick(self._came_in)
        if self._broker is None:
            if self._brokers.are_known:
                raise NoUpstream("there is no live broker to pass a request on to")
            raise StandsBy("no brokers are known before the first take-over")
        if not self._brokers.is_live(self._broker):
            raise NoUpstream(f"broker {self._broker.broker.id} is gone")
        return self._broker

    async def send(
        self, head: RequestHead, beginning: bytes, rest: asyncio.StreamReader, count: int
    ) -> Upstream | None:
        """Pass a request on of which `count` bytes still come; gives what its answer comes from,
        None where it is not answered.

        Raises `NoUpstream`, `StandsBy`, `Refused`, MalformedRequest, IncompleteReadError,
        ConnectionError.
        """
        upstream = await self._upstream_for(head)
        is_answered = True
        if head.api_key == PRODUCE:
            more = await rest.readexactly(min(count, _PRODUCE_HEAD_BYTES))
            beginning, count = beginning + more, count - len(more)
            is_answered = wants_answer(head.version, beginning)
        await upstream.send(beginning, rest, count)
        return upstream if is_answered else None

    def close(self) -> None:
        """Close the connection to the broker, if there is one."""
        if self._upstream is not None:
            self._upstream.close()

    async def _upstream_for(self, head: RequestHead) -> Upstream:
        """The connection to the client's broker. Raises `NoUpstream`, `StandsBy`, `Refused`."""
        broker = await self.broker()
        if not broker.table.offers(head):
            raise Refused(f"api key {head.api_key} version {head.version} is not offered")
        if self._upstream is None or not self._upstream.stands:
            self.close()
            way = way_out(broker.broker, self._came_in)
            assert way is not None, "it was picked for that listener"
            self._upstream = await Upstream.open(way, self._limits)
        return self._upstream
