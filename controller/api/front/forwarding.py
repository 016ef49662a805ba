"""Forwards one client's requests to a live broker."""

import asyncio
from typing import Final

from controller.api.errors import NoBrokersKnown, NoUpstream, RequestRejected
from controller.api.front.live_brokers import LiveBroker, LiveBrokers, forwarding_endpoint
from controller.api.front.upstream import Upstream
from controller.api.limits import EndpointLimits
from controller.core.values import Endpoint
from controller.wire.client_requests import RequestHead
from controller.wire.produce import PRODUCE, wants_response

_PRODUCE_HEAD_BYTES: Final = 4096
"""The client id and transactional id of a Produce request must fit in this size."""
_CHECK_AFTER_SECONDS: Final = 0.5
"""After this time without a response, check whether the broker is responsive."""


class Forwarder:
    """Keeps a client's broker and the connection to it, while that broker is alive and
    responsive."""

    def __init__(self, listener: Endpoint, brokers: LiveBrokers, limits: EndpointLimits) -> None:
        self._listener = listener
        self._brokers = brokers
        self._limits = limits
        self._broker: LiveBroker | None = None
        self._upstream: Upstream | None = None

    async def broker(self) -> LiveBroker:
        """The client's broker, whose API versions it sees. Raises `NoUpstream`,
        `NoBrokersKnown`."""
        if self._broker is None:
            self._broker = await self._brokers.pick(self._listener)
        if self._broker is None:
            if self._brokers.any_known:
                raise NoUpstream("there is no live broker to forward a request to")
            raise NoBrokersKnown("no brokers are known before this daemon becomes controller")
        if not self._brokers.is_live(self._broker):
            raise NoUpstream(f"broker {self._broker.broker.id} is no longer alive")
        return self._broker

    async def send(
        self, head: RequestHead, beginning: bytes, rest: asyncio.StreamReader, count: int
    ) -> Upstream | None:
        """Forward a request of which `count` bytes are still to be received. Return the connection
        that the response comes from, None if there is no response.

        Raises `NoUpstream`, `NoBrokersKnown`, `RequestRejected`, MalformedRequest,
        IncompleteReadError, ConnectionError.
        """
        upstream = await self._upstream_for(head)
        is_answered = True
        if head.api_key == PRODUCE:
            more = await rest.readexactly(min(count, _PRODUCE_HEAD_BYTES))
            beginning, count = beginning + more, count - len(more)
            is_answered = wants_response(head.version, beginning)
        await upstream.send(beginning, rest, count)
        return upstream if is_answered else None

    async def ask(self, head: RequestHead, request: bytes) -> tuple[Upstream, bytes]:
        """Forward a complete request that is safe to repeat. Return the connection that the
        response comes from and the response's first bytes.

        If the client's broker is unresponsive, another broker is tried. Raises as `send`.
        """
        try:
            async with asyncio.timeout(self._limits.request_timeout_ms / 1000):
                while True:
                    answered = await self._send_to_current_broker(head, request)
                    if answered is not None:
                        return answered
                    self.close()
        except TimeoutError as fault:
            raise NoUpstream("a broker did not answer in time (request.timeout.ms)") from fault

    async def _send_to_current_broker(
        self, head: RequestHead, request: bytes
    ) -> tuple[Upstream, bytes] | None:
        """Send to the client's broker; None if another broker should be tried."""
        asking = asyncio.create_task(self._exchange(head, request))
        try:
            while not (await asyncio.wait({asking}, timeout=_CHECK_AFTER_SECONDS))[0]:
                if await self._should_switch_broker(head):
                    return None
            return asking.result()
        finally:
            asking.cancel()
            await asyncio.wait({asking})

    async def _exchange(self, head: RequestHead, request: bytes) -> tuple[Upstream, bytes]:
        upstream = await self._upstream_for(head)
        await upstream.send_whole(request)
        return upstream, await upstream.response_start()

    async def _should_switch_broker(self, head: RequestHead) -> bool:
        """Whether the broker is unresponsive and another one is responsive."""
        if self._broker is None:
            return False
        self._brokers.check_responsiveness(self._broker)
        return (
            self._brokers.is_unresponsive(self._broker)
            and await self._responsive_broker_for(head) is not None
        )

    async def _responsive_broker_for(self, head: RequestHead) -> LiveBroker | None:
        """A responsive broker that supports the request, or None."""
        other = await self._brokers.pick(self._listener)
        if other is None or self._brokers.is_unresponsive(other) or not other.table.offers(head):
            return None
        return other

    def close(self) -> None:
        """Close the connection to the broker, if there is one."""
        if self._upstream is not None:
            self._upstream.close()

    async def _upstream_for(self, head: RequestHead) -> Upstream:
        """The connection to the client's broker, or to another one if that is unresponsive.
        Raises `NoUpstream`, `NoBrokersKnown`, `RequestRejected`."""
        broker = await self.broker()
        if self._brokers.is_unresponsive(broker):
            other = await self._responsive_broker_for(head)
            if other is not None:
                self.close()
                broker = self._broker = other
        if not broker.table.offers(head):
            raise RequestRejected(f"api key {head.api_key} version {head.version} is not supported")
        if self._upstream is None or not self._upstream.is_open:
            self.close()
            way = forwarding_endpoint(broker.broker, self._listener)
            assert way is not None, "picked for that listener"
            self._upstream = await Upstream.open(way, self._limits)
        return self._upstream
