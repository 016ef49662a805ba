"""The brokers that requests may be forwarded to, and the API versions that each supports."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final

from kio.schema.api_versions.v3.request import ApiVersionsRequest

from controller.api.front.streams import READ_AHEAD_BYTES
from controller.api.front.versions import VersionTable
from controller.core.values import Broker, Endpoint
from controller.wire.api_versions import API_VERSIONS
from controller.wire.client_requests import RequestHead, decode_response, encode_request
from controller.wire.controller_requests import Sender
from controller.wire.errors import MalformedResponse

_ASKED: Final = RequestHead(API_VERSIONS, 3, 0)
_QUESTION: Final = encode_request(
    _ASKED,
    "refold",
    ApiVersionsRequest(client_software_name="refold", client_software_version="1"),
)
_ANSWER_BYTES_MAX: Final = 64 * 1024
_ANSWER_SECONDS_MAX: Final = 5.0
_RETRY_SECONDS: Final = 1.0
_FIRST_TABLE_SECONDS_MAX: Final = 1.0
_RESPONSIVENESS_SECONDS_MAX: Final = 1.0
_ANONYMOUS: Final = frozenset({"PLAINTEXT"})
"""Listeners where neither clients nor refold have an identity: the broker treats both alike."""


class LiveBroker:
    """A live broker whose API versions are known."""

    def __init__(self, broker: Broker, answer: Any) -> None:
        self.broker = broker
        self.table = VersionTable(answer)


class LiveBrokers:
    """All live brokers. Each is sent ApiVersions once per epoch, repeatedly until it answers.
    Only brokers that answered receive requests. A suspect broker is sent ApiVersions again;
    while it does not answer in time, the other brokers receive the requests. `warn` reports
    warnings for the operator."""

    def __init__(self, listeners: Sequence[Endpoint], warn: Callable[[str], None]) -> None:
        self._listeners = listeners
        self._warn = warn
        self._asking: dict[Broker, asyncio.Task[None]] = {}
        self._answered: dict[Broker, LiveBroker] = {}
        self._being_checked: dict[LiveBroker, asyncio.Task[None]] = {}
        self._unresponsive: set[LiveBroker] = set()
        self._senders: set[Sender] = set()
        self._turn = 0
        self._first = asyncio.Event()

    def set(self, brokers: Sequence[Broker]) -> None:
        """Set the live brokers, without the daemon itself."""
        for broker in [one for one in self._asking if one not in brokers]:
            self._asking.pop(broker).cancel()
            gone = self._answered.pop(broker, None)
            if gone is not None and gone in self._being_checked:
                self._being_checked[gone].cancel()
        self._senders = {Sender(one.id, one.epoch) for one in brokers}
        for broker in brokers:
            if broker not in self._asking:
                self._asking[broker] = asyncio.create_task(self._ask(broker))
        if not self._answered:
            self._first.clear()

    @property
    def any_known(self) -> bool:
        """Whether any broker is known. The daemon knows none until it becomes controller."""
        return bool(self._asking)

    def has(self, sender: Sender) -> bool:
        """Whether the sender is a live broker with that epoch."""
        return sender in self._senders

    def is_live(self, one: LiveBroker) -> bool:
        """Whether the broker still runs with the same epoch and endpoints."""
        return self._answered.get(one.broker) is one

    def is_unresponsive(self, one: LiveBroker) -> bool:
        """Whether the last responsiveness check of the broker failed."""
        return one in self._unresponsive

    def check_responsiveness(self, one: LiveBroker) -> None:
        """Check whether a slow broker answers anything, unless a check is running."""
        if one not in self._being_checked and self.is_live(one):
            self._being_checked[one] = asyncio.create_task(self._check_until_responsive(one))

    async def pick(self, listener: Endpoint) -> LiveBroker | None:
        """The next broker for requests of a listener, round robin; unresponsive ones only if all
        are. None if there is no broker.

        Waits a moment for the first ApiVersions response after the start.
        """
        is_asking = any(not one.done() for one in self._asking.values())
        if is_asking and not self._answered:
            try:
                async with asyncio.timeout(_FIRST_TABLE_SECONDS_MAX):
                    await self._first.wait()
            except TimeoutError:
                return None
        able = [one for one in self._answered.values() if forwarding_endpoint(one.broker, listener)]
        able = [one for one in able if not self.is_unresponsive(one)] or able
        self._turn += 1
        return able[self._turn % len(able)] if able else None

    async def _ask(self, broker: Broker) -> None:
        ways = [way for one in self._listeners if (way := forwarding_endpoint(broker, one))]
        while ways:
            try:
                async with asyncio.timeout(_ANSWER_SECONDS_MAX):
                    answer = await _versions_of(ways[0])
            except MalformedResponse as fault:
                self._warn(f"broker {broker.id}: {fault}; no client requests are forwarded to it")
                return
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._answered[broker] = LiveBroker(broker, answer)
                self._first.set()
                return

    async def _check_until_responsive(self, one: LiveBroker) -> None:
        """Repeat the check until the broker answers in time."""
        ways = [way for at in self._listeners if (way := forwarding_endpoint(one.broker, at))]
        try:
            while not await _is_responsive(ways[0]):
                self._unresponsive.add(one)
                await asyncio.sleep(_RETRY_SECONDS)
        finally:
            self._unresponsive.discard(one)
            del self._being_checked[one]


def forwarding_endpoint(broker: Broker, listener: Endpoint) -> Endpoint | None:
    """The endpoint of a broker for requests of a listener: the one with the same listener name,
    so that responses contain addresses that the client can reach."""
    endpoint = broker.endpoint(listener.listener)
    return endpoint if endpoint and may_forward(listener, endpoint) else None


def may_forward(listener: Endpoint, broker_endpoint: Endpoint) -> bool:
    """Whether a request from a client may be sent to a broker's endpoint. It reaches the broker
    as if refold itself had sent it, so this must only hold where neither side has an identity."""
    return {listener.security_protocol, broker_endpoint.security_protocol} <= _ANONYMOUS


async def _is_responsive(endpoint: Endpoint) -> bool:
    try:
        async with asyncio.timeout(_RESPONSIVENESS_SECONDS_MAX):
            await _versions_of(endpoint)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, MalformedResponse):
        return False
    return True


async def _versions_of(endpoint: Endpoint) -> Any:
    """Request a broker's API versions. Raises OSError, IncompleteReadError, MalformedResponse."""
    reader, writer = await asyncio.open_connection(
        endpoint.host, endpoint.port, limit=READ_AHEAD_BYTES
    )
    try:
        writer.write(_QUESTION)
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > _ANSWER_BYTES_MAX:
            raise MalformedResponse(f"an ApiVersions response of {size} bytes")
        answer = decode_response(_ASKED, await reader.readexactly(size))
    finally:
        writer.transport.abort()
    if answer.error_code:
        raise MalformedResponse(f"ApiVersions failed with error {answer.error_code}")
    return answer
