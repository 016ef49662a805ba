"""The channels to all brokers. Commands open, close and feed them; they report events."""

import logging
from weakref import WeakValueDictionary

import anyio
from anyio.abc import TaskGroup

from controller.brokers.channel import Channel, ChannelSettings, EventSink, Permit, always
from controller.brokers.connection import probe
from controller.brokers.queue_size import QueueSize
from controller.brokers.security import PLAIN, BrokerSecurity
from controller.core.commands import (
    BrokerRequest,
    CloseChannel,
    CommandId,
    OpenChannel,
    ProbeBroker,
)
from controller.core.events import BrokerProbed
from controller.wire.apis import api_of
from controller.wire.encoding import BODY_BYTES_MAX, BatchEncoder

log = logging.getLogger(__name__)

SOCKET_TIMEOUT_MS = 30_000
"""Kafka's default of controller.socket.timeout.ms."""

_PROBE_MS_MAX = 5_000

QUEUED_BYTES_MAX = 512 * 1024 * 1024
"""If more bytes are queued, a warning is logged."""


class BrokerChannels:
    """One channel per broker. Channels work while `run` runs; all other methods return at once.

    `on_event(event, channel)` is called in the event loop, with "broker:<id>:<epoch>" as the
    channel. The events are one `BrokerResponded` for each request that was sent, `ChannelFault`,
    one `VersionsOffered`, and one `BrokerProbed` for each probe. A dropped request has no event. No
    request is sent before `permit` has returned.
    """

    def __init__(
        self,
        on_event: EventSink,
        *,
        client_id: str,
        socket_timeout_ms: int = SOCKET_TIMEOUT_MS,
        body_bytes_max: int = BODY_BYTES_MAX,
        queued_bytes_max: int = QUEUED_BYTES_MAX,
        permit: Permit = always,
        security: BrokerSecurity = PLAIN,
    ) -> None:
        self._tasks: TaskGroup | None = None
        self._queue_size = QueueSize()
        self._queued_bytes_max = queued_bytes_max
        self._queue_size_reported = False
        self._settings = ChannelSettings(
            client_id,
            socket_timeout_ms,
            body_bytes_max,
            on_event,
            self._queue_size,
            anyio.Lock(),
            permit,
            security,
        )
        self._channels: dict[int, Channel] = {}
        self._probes: set[int] = set()
        """The brokers that are being probed."""
        # By the causing event: requests of one cause share their encoding. Only queued requests
        # hold an encoder, so it is freed with the last of them.
        self._encoders: WeakValueDictionary[int, BatchEncoder] = WeakValueDictionary()

    async def run(self) -> None:
        """Run the channels of all brokers until cancelled."""
        async with anyio.create_task_group() as self._tasks:
            for channel in self._channels.values():
                self._start(channel)
            await anyio.sleep_forever()

    def open(self, command: OpenChannel) -> None:
        """Open a channel; close one to an earlier epoch of the same broker."""
        current = self._channels.get(command.broker)
        if current is not None:
            if current.broker_epoch == command.broker_epoch:
                return
            current.close()
        channel = self._channels[command.broker] = Channel(command, self._settings)
        self._start(channel)

    def close(self, command: CloseChannel) -> None:
        """Close a channel at once, unless it belongs to another epoch of the broker."""
        channel = self._channels.get(command.broker)
        if channel is None or channel.broker_epoch != command.broker_epoch:
            return
        del self._channels[command.broker]
        channel.close()

    def probe(self, command: ProbeBroker) -> None:
        """Find out whether a broker answers, with a separate connection. At most one probe of a
        broker is under way."""
        if self._tasks is not None and command.broker not in self._probes:
            self._probes.add(command.broker)
            self._tasks.start_soon(self._probe, command, name=f"probe of broker {command.broker}")

    async def _probe(self, command: ProbeBroker) -> None:
        try:
            timeout_ms = min(self._settings.socket_timeout_ms, _PROBE_MS_MAX)
            result, text = await probe(
                command.endpoint, self._settings.client_id, timeout_ms, self._settings.security
            )
        finally:
            self._probes.discard(command.broker)
        probed = BrokerProbed(command.broker, command.broker_epoch, result, text)
        self._settings.on_event(probed, f"probe:{command.broker}:{command.broker_epoch}")

    def close_all(self) -> None:
        """Close all channels at once."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def send(self, command_id: CommandId, request: BrokerRequest) -> None:
        """Queue a request. Without a channel to its broker it is dropped (KB 12.1.2)."""
        channel = self._channels.get(request.broker)
        if channel is None:
            log.warning(
                "dropped %s to broker %d: it has no channel",
                api_of(request).name,
                request.broker,
                extra={"broker": request.broker, "command": tuple(command_id)},
            )
            return
        encoder = self._encoders.get(command_id.cause)
        if encoder is None:
            encoder = self._encoders[command_id.cause] = self._settings.encoder()
        channel.put(command_id, request, encoder)
        self._check_queue_size()

    def _start(self, channel: Channel) -> None:
        if self._tasks is not None:
            self._tasks.start_soon(channel.run, name=f"broker {channel.broker}")

    def _check_queue_size(self) -> None:
        exceeded = self._queue_size.bytes > self._queued_bytes_max
        if exceeded and not self._queue_size_reported:
            log.warning(
                "%d bytes are queued for brokers, more than %d: a broker does not "
                "accept its requests",
                self._queue_size.bytes,
                self._queued_bytes_max,
                extra={"backlog_bytes": self._queue_size.bytes},
            )
        self._queue_size_reported = exceeded
