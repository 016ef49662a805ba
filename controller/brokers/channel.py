"""The channel to one broker: a queue, in order, one request in flight (KB 12.1)."""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
from anyio.lowlevel import checkpoint

from controller.brokers.connection import WRONG_PROTOCOL_VERSION, BrokerConnection
from controller.brokers.errors import ChannelError
from controller.brokers.failures import FailureTracker
from controller.brokers.queue_size import QueueSize
from controller.core.commands import BrokerRequest, CommandId, OpenChannel
from controller.core.events import BrokerAnswered, ChannelFault, VersionsOffered
from controller.wire.answers import Answer
from controller.wire.apis import api_of
from controller.wire.encoding import BatchEncoder
from controller.wire.errors import WireError

log = logging.getLogger(__name__)

ChannelEvent = BrokerAnswered | ChannelFault | VersionsOffered
EventSink = Callable[[ChannelEvent, str], None]
"""Takes an event and the name of the channel that it came on; must not block."""


@dataclass(frozen=True, slots=True)
class ChannelSettings:
    """What all channels have in common. `client_id` is the controller's broker id as text.

    `one_encoding` is held while a request is encoded, until the event loop has had a turn.
    """

    client_id: str
    socket_timeout_ms: int
    body_bytes_max: int
    on_event: EventSink
    queue_size: QueueSize
    one_encoding: anyio.Lock

    def encoder(self) -> BatchEncoder:
        """A new encoder, which shares nothing yet."""
        return BatchEncoder(self.body_bytes_max)


@dataclass(slots=True)
class QueuedRequest:
    """A request in the queue, with the answers to the parts of it that were answered already."""

    command: CommandId
    request: BrokerRequest
    encoder: BatchEncoder
    answers: list[Answer] = field(default_factory=list)


class Channel:
    """Sends what is queued until it is closed: a request is tried again until it is answered."""

    def __init__(self, opened: OpenChannel, settings: ChannelSettings) -> None:
        self.broker = opened.broker
        self.broker_epoch = opened.broker_epoch
        self._endpoint = opened.endpoint
        self._settings = settings
        self._name = f"broker:{opened.broker}:{opened.broker_epoch}"
        self._queue: deque[QueuedRequest] = (
            deque()
        )  # bounded by what the fold sends; see `QueueSize`
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
        """Stop at once: what is queued is dropped, what is in flight is given up (KB 12.1.4)."""
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
        """Try until the request is answered, then tell of the answer and take it off the queue."""
        answered = False
        while not answered:
            began_s = anyio.current_time()
            try:
                await self._attempt(queued)
                answered = True
            except ChannelError as error:
                self._disconnect()
                self._failed(error, began_s)
                await anyio.sleep(self._failures.pause_s())
            except WireError as error:
                self._drop(queued, error)
                return
        if self._scope.cancel_called:
            return
        self._dequeue(queued)
        if self._failures.succeeded():
            self._emit(ChannelFault(self.broker, self.broker_epoch, "recovered", ""))
        self._emit(self._answered(queued))

    async def _attempt(self, queued: QueuedRequest) -> None:
        """Send what is not answered yet of a request. Raises `ChannelError`, `WireError`."""
        connection = await self._connected()
        request = queued.request
        version = connection.version_for(api_of(request), request.version)
        if version < request.version:
            self._report_lower_version(version, request)
        async with self._settings.one_encoding:
            parts = queued.encoder.encode(request, version)
            # What is shared goes with the last that takes it, answered or not.
            queued.encoder = self._settings.encoder()
            await checkpoint()
        # The parts are the same at each try: a broker changes its versions only with its epoch.
        for part in parts[len(queued.answers) :]:
            queued.answers.append(await connection.exchange(part))

    def _report_lower_version(self, version: int, request: BrokerRequest) -> None:
        """A broker gets what it understands, and the operator is told, once a channel."""
        if self._lower_version_reported:
            return
        self._lower_version_reported = True
        text = (
            f"broker {self.broker} offers {api_of(request).name} up to version {version}, not "
            f"{request.version}: {WRONG_PROTOCOL_VERSION}"
        )
        self._emit(ChannelFault(self.broker, self.broker_epoch, "version", text))

    async def _connected(self) -> BrokerConnection:
        if self._connection is not None and self._connection.is_open:
            return self._connection
        self._disconnect()
        self._connection = await BrokerConnection.open(
            self._endpoint, self._settings.client_id, self._settings.socket_timeout_ms
        )
        self._report_versions(self._connection)
        return self._connection

    def _report_versions(self, connection: BrokerConnection) -> None:
        """Once: a broker changes them only with its epoch."""
        if not (self._versions_reported or self._scope.cancel_called):
            self._versions_reported = True
            highest = connection.highest_versions
            self._emit(VersionsOffered(self.broker, self.broker_epoch, highest))

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _failed(self, error: ChannelError, began_s: float) -> None:
        if not self._failures.failed(error, began_s, anyio.current_time()):
            return
        # Who may wait for long shares nothing: else its queue would hold what others encoded.
        for queued in self._queue:
            queued.encoder = self._settings.encoder()
        text = f"broker {self.broker}: {error}"
        self._emit(ChannelFault(self.broker, self.broker_epoch, error.kind, text))

    def _drop(self, queued: QueuedRequest, error: WireError) -> None:
        """What cannot be encoded would stop the queue for ever."""
        self._dequeue(queued)
        log.error(
            "request to broker %d dropped, it cannot be encoded: %s",
            self.broker,
            error,
            extra={"broker": self.broker, "broker_epoch": self.broker_epoch},
        )

    def _dequeue(self, queued: QueuedRequest) -> None:
        self._queue.popleft()
        self._settings.queue_size.remove(queued.request)

    def _answered(self, queued: QueuedRequest) -> BrokerAnswered:
        """One event for all parts: the first top-level error, all partition errors."""
        return BrokerAnswered(
            queued.command,
            self.broker,
            self.broker_epoch,
            next((one.error for one in queued.answers if one.error), 0),
            [each for one in queued.answers for each in one.partition_errors],
        )

    def _emit(self, event: ChannelEvent) -> None:
        self._settings.on_event(event, self._name)
