"""The brokers that requests may be passed on to, and what each of them offers."""

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
"""Listeners where neither the client nor we have an identity: the broker sees both alike."""


class LiveBroker:
    """A live broker that has told what it offers."""

    def __init__(self, broker: Broker, answer: Any) -> None:
        self.broker = broker
        self.table = VersionTable(answer)


class LiveBrokers:
    """All live brokers. Each is asked once in its epoch what it offers, again until it answers;
    only one that did is passed anything. One that is doubted is asked again: for as long as it does
    not answer in time the others are passed what there is. `tell` takes what the operator ought to
    know."""

    def __init__(self, listeners: Sequence[Endpoint], tell: Callable[[str], None]) -> None:
        self._listeners = listeners
        self._tell = tell
        self._asking: dict[Broker, asyncio.Task[None]] = {}
        self._answered: dict[Broker, LiveBroker] = {}
        self._being_checked: dict[LiveBroker, asyncio.Task[None]] = {}
        self._unresponsive: set[LiveBroker] = set()
        self._senders: set[Sender] = set()
        self._turn = 0
        self._first = asyncio.Event()

    def set(self, brokers: Sequence[Broker]) -> None:
        """These are the live brokers from now on, the daemon itself not among them."""
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
        """Whether there are any. The daemon knows none before it was controller."""
        return bool(self._asking)

    def has(self, sender: Sender) -> bool:
        """Whether that is one of them, in its present epoch."""
        return sender in self._senders

    def is_live(self, one: LiveBroker) -> bool:
        """Whether it is still the same run of the broker, at the same place."""
        return self._answered.get(one.broker) is one

    def is_unresponsive(self, one: LiveBroker) -> bool:
        """Whether it gave no sign of life when it was asked for one."""
        return one in self._unresponsive

    def check_responsiveness(self, one: LiveBroker) -> None:
        """It takes long to answer something: see whether it answers anything."""
        if one not in self._being_checked and self.is_live(one):
            self._being_checked[one] = asyncio.create_task(self._check_until_responsive(one))

    async def pick(self, listener: Endpoint) -> LiveBroker | None:
        """A broker for requests of that listener, each in its turn, a silent one only where all
        are; None where there is none.

        Waits a moment for the first table after the start.
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
                self._tell(f"broker {broker.id}: {fault}; no client's request is passed on to it")
                return
            except (OSError, TimeoutError, asyncio.IncompleteReadError):
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                self._answered[broker] = LiveBroker(broker, answer)
                self._first.set()
                return

    async def _check_until_responsive(self, one: LiveBroker) -> None:
        """Ask until it answers in time."""
        ways = [way for at in self._listeners if (way := forwarding_endpoint(one.broker, at))]
        try:
            while not await _is_responsive(ways[0]):
                self._unresponsive.add(one)
                await asyncio.sleep(_RETRY_SECONDS)
        finally:
            self._unresponsive.discard(one)
            del self._being_checked[one]


def forwarding_endpoint(broker: Broker, listener: Endpoint) -> Endpoint | None:
    """Where a request that came in there goes out to: the listener of the same name, so that the
    addresses in the answer are those that the client can reach."""
    endpoint = broker.endpoint(listener.listener)
    return endpoint if endpoint and may_forward(listener, endpoint) else None


def may_forward(listener: Endpoint, broker_endpoint: Endpoint) -> bool:
    """Whether a request that came in on one of our listeners may go out to that broker's."""
    return {listener.security_protocol, broker_endpoint.security_protocol} <= _ANONYMOUS


async def _is_responsive(endpoint: Endpoint) -> bool:
    try:
        async with asyncio.timeout(_RESPONSIVENESS_SECONDS_MAX):
            await _versions_of(endpoint)
    except (OSError, TimeoutError, asyncio.IncompleteReadError, MalformedResponse):
        return False
    return True


async def _versions_of(endpoint: Endpoint) -> Any:
    """A broker's ApiVersions answer. Raises OSError, IncompleteReadError, MalformedResponse."""
    reader, writer = await asyncio.open_connection(
        endpoint.host, endpoint.port, limit=READ_AHEAD_BYTES
    )
    try:
        writer.write(_QUESTION)
        size = int.from_bytes(await reader.readexactly(4), "big")
        if size > _ANSWER_BYTES_MAX:
            raise MalformedResponse(f"an ApiVersions answer of {size} bytes")
        answer = decode_response(_ASKED, await reader.readexactly(size))
    finally:
        writer.transport.abort()
    if answer.error_code:
        raise MalformedResponse(f"ApiVersions is answered with error {answer.error_code}")
    return answer
