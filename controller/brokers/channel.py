"""The channel to one broker: a queue of requests, sent in order, with one request in flight (KB
12.1)."""

import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
from anyio.lowlevel import checkpoint

from controller.brokers.connection import WRONG_PROTOCOL_VERSION, BrokerConnection
from controller.brokers.errors import ChannelError
from controller.brokers.failures import FailureTracker
from controller.brokers.queue_size import QueueSize
from controller.brokers.security import BrokerSecurity
from controller.core.commands import BrokerRequest, CommandId, OpenChannel
from controller.core.events import BrokerProbed, BrokerResponded, ChannelFault, VersionsOffered
from controller.wire.apis import api_of
from controller.wire.broker_responses import BrokerResponse
from controller.wire.encoding import BatchEncoder
from controller.wire.errors import WireError
from controller.wire.steps import Steps

log = logging.getLogger(__name__)

T = TypeVar("T")

ChannelEvent = BrokerResponded | ChannelFault | VersionsOffered | BrokerProbed
EventSink = Callable[[ChannelEvent, str], None]
"""Takes an event and the name of its channel. Must not block."""
Permit = Callable[[], Awaitable[None]]
"""Waits until a request may be sent."""


async def always() -> None:
    """A request may be sent at any time."""


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """Shared by all channels. `client_id` is the controller's broker id as text.

    `one_encoding` is held while a request is encoded and until the event loop has run other tasks
    once. Each request is sent when `permit` has returned.
    """

    client_id: str
    socket_timeout_ms: int
    body_bytes_max: int
    on_event: EventSink
    queue_size: QueueSize
    one_encoding: anyio.Lock
    permit: Permit
    security: BrokerSecurity

    def encoder(self) -> BatchEncoder:
        """A new encoder that shares no encoded data yet."""
        return BatchEncoder(self.body_bytes_max)


@dataclass(slots=True)
class QueuedRequest:
    """A queued request. It holds the responses to those parts that were already answered."""

    command: CommandId
    request: BrokerRequest
    encoder: BatchEncoder
    answers: list[BrokerResponse] = field(default_factory=list)


class Channel:
    """Sends queued requests until it is closed. A request is retried until it is answered."""

    def __init__(self, opened: OpenChannel, settings: ChannelSettings) -> None:
        self.broker = opened.broker
        self.broker_epoch = opened.broker_epoch
        self._endpoint = opened.endpoint
        self._settings = settings
        self._name = f"broker:{opened.broker}:{opened.broker_epoch}"
        self._queue: deque[QueuedRequest] = deque()  # bounded by the fold; see `QueueSize`
        self._queued = anyio.Event()
        self._failures = FailureTracker()
        self._lower_version_reported = False
        self._versions_reported = False
        self._connection: BrokerConnection | None = None
        self._scope = anyio.CancelScope()

    def put(self, command: CommandId, request: BrokerRequest, encoder: BatchEncoder) -> None:
        """Queue a request."""
        if self._failures.is_reported:
            encoder = self._settings.encoder()
        self._queue.append(QueuedRequest(command, request, encoder))
        self._settings.queue_size.add(request)
        self._queued.set()

    def close(self) -> None:
        """Stop at once: drop queued requests and abandon the one in flight (KB 12.1.4)."""
        self._scope.cancel()
        self._disconnect()
        while self._queue:
            self._settings.queue_size.remove(self._queue.popleft().request)

    async def run(self) -> None:
        """Work until closed or cancelled."""
        with self._scope:
            try:
                while True:
                    while not self._queue:
                        self._queued = anyio.Event()
                        await self._queued.wait()
                    await self._deliver(self._queue[0])
            finally:
                self._disconnect()

    async def _deliver(self, queued: QueuedRequest) -> None:
        """Retry until the request is answered, then dequeue it and report the response."""
        answered = False
        while not answered:
            began_s = anyio.current_time()
            try:
                await self._attempt(queued)
                answered = True
            except ChannelError as error:
                self._disconnect()
                self._record_failure(error, began_s)
                await anyio.sleep(self._failures.pause_s())
            except WireError as error:
                self._drop(queued, error)
                return
        if self._scope.cancel_called:
            return
        self._dequeue(queued)
        if self._failures.record_success():
            self._emit(ChannelFault(self.broker, self.broker_epoch, "recovered", ""))
        self._emit(self._response_event(queued))

    async def _attempt(self, queued: QueuedRequest) -> None:
        """Send the parts of a request that are not answered yet. Raises `ChannelError`,
        `WireError`."""
        connection = await self._connected()
        request = queued.request
        version = connection.version_for(api_of(request), request.version)
        if version < request.version:
            self._report_lower_version(version, request)
        async with self._settings.one_encoding:
            parts = await _in_steps(queued.encoder.encode_in_steps(request, version))
            # Drop this reference to the shared encodings, so that they are freed after their last
            # use.
            queued.encoder = self._settings.encoder()
            await checkpoint()
        # Each attempt has the same parts: a broker changes its versions only with its epoch.
        for part in parts[len(queued.answers) :]:
            await self._settings.permit()
            queued.answers.append(await connection.exchange(part))

    def _report_lower_version(self, version: int, request: BrokerRequest) -> None:
        """The broker receives the version that it supports. Report this once per channel."""
        if self._lower_version_reported:
            return
        self._lower_version_reported = True
        text = (
            f"broker {self.broker} supports {api_of(request).name} up to version "
            f"{version}, not {request.version}: {WRONG_PROTOCOL_VERSION}"
        )
        self._emit(ChannelFault(self.broker, self.broker_epoch, "version", text))

    async def _connected(self) -> BrokerConnection:
        if self._connection is not None and self._connection.is_open:
            return self._connection
        self._disconnect()
        self._connection = await BrokerConnection.open(
            self._endpoint,
            self._settings.client_id,
            self._settings.socket_timeout_ms,
            self._settings.security,
        )
        self._report_versions(self._connection)
        return self._connection

    def _report_versions(self, connection: BrokerConnection) -> None:
        """Report once: a broker changes its versions only with its epoch."""
        if not (self._versions_reported or self._scope.cancel_called):
            self._versions_reported = True
            highest = connection.highest_versions
            self._emit(VersionsOffered(self.broker, self.broker_epoch, highest))

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _record_failure(self, error: ChannelError, began_s: float) -> None:
        if not self._failures.record_failure(error, began_s, anyio.current_time()):
            return
        # A failing channel may wait for long, so its queue must not keep shared encodings alive.
        for queued in self._queue:
            queued.encoder = self._settings.encoder()
        text = f"broker {self.broker}: {error}"
        self._emit(ChannelFault(self.broker, self.broker_epoch, error.kind, text))

    def _drop(self, queued: QueuedRequest, error: WireError) -> None:
        """Drop a request that cannot be encoded; otherwise it would block the queue permanently."""
        self._dequeue(queued)
        log.error(
            "dropped a request to broker %d that cannot be encoded: %s",
            self.broker,
            error,
            extra={"broker": self.broker, "broker_epoch": self.broker_epoch},
        )

    def _dequeue(self, queued: QueuedRequest) -> None:
        self._queue.popleft()
        self._settings.queue_size.remove(queued.request)

    def _response_event(self, queued: QueuedRequest) -> BrokerResponded:
        """One event for all parts: the first top-level error, all partition errors."""
        return BrokerResponded(
            queued.command,
            self.broker,
            self.broker_epoch,
            next((one.error for one in queued.answers if one.error), 0),
            [each for one in queued.answers for each in one.partition_errors],
        )

    def _emit(self, event: ChannelEvent) -> None:
        self._settings.on_event(event, self._name)


async def _in_steps(steps: Steps[T]) -> T:
    """The result; the event loop runs other tasks between two steps."""
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: T = done.value
            return result
        await checkpoint()
