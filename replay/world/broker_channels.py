"""The channels of a controller to brokers, over the simulated network.

They do what controller/brokers does over TCP: one queue for each broker, in order, with one request
in flight, which is retried until it is answered (KB 12.1).
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from controller.brokers.errors import ChannelError, RefusedByBroker, Unreachable
from controller.brokers.failures import FailureTracker
from controller.core.commands import (
    BrokerRequest,
    CloseChannel,
    CommandId,
    OpenChannel,
    ProbeBroker,
)
from controller.core.events import (
    ANSWERS,
    REFUSES,
    SILENT,
    BrokerProbed,
    BrokerResponded,
    ChannelFault,
    VersionsOffered,
)
from replay.names import broker_name
from replay.world.messages import ControlRequest, ControlResponse
from replay.world.network import Connection, Message, Network
from replay.world.scheduler import SECOND, Clock, ScheduledAction

SOCKET_TIMEOUT_US: Final = 30 * SECOND
"""Kafka's default of controller.socket.timeout.ms."""
PROBE_US_MAX: Final = 5 * SECOND

ChannelEvent = BrokerResponded | ChannelFault | VersionsOffered | BrokerProbed
OnEvent = Callable[[ChannelEvent, str], None]


class ActGuard(Protocol):
    """Called before and after each request that is sent."""

    def begin_act(self, what: str) -> bool:
        """Called before an act. False: the process has ended, and the act must not happen."""

    def end_act(self) -> None:
        """Called after each act that `begin_act` has allowed."""


class _Channel:
    """The channel to one run of a broker."""

    def __init__(self, channels: "BrokerChannels", opened: OpenChannel) -> None:
        self._channels = channels
        self.broker = opened.broker
        self.broker_epoch = opened.broker_epoch
        self._name = f"broker:{opened.broker}:{opened.broker_epoch}"
        self._queue: deque[tuple[CommandId, BrokerRequest]] = deque()
        """Bounded by the fold, as in controller/brokers."""
        self._failures = FailureTracker()
        self._connection: Connection | None = None
        self._is_busy = self._is_closed = self._versions_reported = False
        self._number = 0
        """Of the last request that was sent."""
        self._began_s = 0.0
        self._time_out: ScheduledAction | None = None

    def put(self, command: CommandId, request: BrokerRequest) -> None:
        """Queue a request."""
        self._queue.append((command, request))
        self._work()

    def close(self) -> None:
        """Drop what is queued, and abandon the request in flight."""
        self._is_closed = True
        self._queue.clear()
        self._disconnect()

    def _work(self) -> None:
        if self._is_busy or self._is_closed or not self._queue:
            return
        self._is_busy = True
        self._began_s = self._now_s
        if self._connection is not None:
            self._send(self._connection)
        else:
            channels = self._channels
            channels.network.connect(channels.process, broker_name(self.broker), self)

    def _send(self, connection: Connection) -> None:
        _, request = self._queue[0]
        acts = self._channels.acts
        if not acts.begin_act(f"{type(request).__name__} to broker {self.broker}"):
            return
        self._number += 1
        connection.send(ControlRequest(self._number, request))
        text = f"broker {self.broker}: no response in time"
        self._time_out = self._channels.clock.after(
            SOCKET_TIMEOUT_US, lambda: self._retry_after_failure(Unreachable(text))
        )
        acts.end_act()

    def connected(self, connection: Connection) -> None:
        """Send what waits."""
        if self._is_closed:
            connection.close()
            return
        self._connection = connection
        self._send(connection)

    def received(self, connection: Connection, message: Message) -> None:
        """A response arrived."""
        assert isinstance(message, ControlResponse), message
        if connection is not self._connection or message.number != self._number:
            return
        self._cancel_time_out()
        command, _ = self._queue.popleft()
        self._is_busy = False
        emit, epoch = self._channels.on_event, self.broker_epoch
        if not self._versions_reported:
            self._versions_reported = True
            emit(VersionsOffered(self.broker, epoch, list(self._channels.highest)), self._name)
        if self._failures.record_success():
            emit(ChannelFault(self.broker, epoch, "recovered", ""), self._name)
        errors = list(message.partition_errors)
        answered = BrokerResponded(command, self.broker, epoch, message.error, errors)
        emit(answered, self._name)
        self._work()

    def disconnected(self, connection: Connection | None) -> None:
        """The broker closed the connection, or cannot be reached."""
        if self._is_closed or connection is not self._connection:
            return
        self._connection = None
        if connection is None:
            self._retry_after_failure(Unreachable(f"broker {self.broker}: connection refused"))
        elif self._is_busy:
            self._retry_after_failure(
                RefusedByBroker(f"broker {self.broker} closed the connection")
            )

    def _retry_after_failure(self, error: ChannelError) -> None:
        self._disconnect()
        if self._failures.record_failure(error, self._began_s, self._now_s):
            fault = ChannelFault(self.broker, self.broker_epoch, error.kind, str(error))
            self._channels.on_event(fault, self._name)
        pause_us = round(self._failures.pause_s() * SECOND)
        self._channels.clock.after(pause_us, self._work_again)

    def _work_again(self) -> None:
        self._is_busy = False
        self._work()

    def _disconnect(self) -> None:
        self._cancel_time_out()
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _cancel_time_out(self) -> None:
        if self._time_out is not None:
            self._time_out.cancel()

    @property
    def _now_s(self) -> float:
        return self._channels.clock.now_us / SECOND


class _Probe:
    """One attempt to connect to a broker."""

    def __init__(self, channels: "BrokerChannels", command: ProbeBroker) -> None:
        self._channels = channels
        self._asked = command
        self._is_over = False
        channels.clock.after(PROBE_US_MAX, lambda: self._end(SILENT))
        channels.network.connect(channels.process, broker_name(command.broker), self)

    def connected(self, connection: Connection) -> None:
        """The broker accepts connections. Its response to ApiVersions is not simulated: it comes at
        once, unless the process is paused."""
        connection.close()
        if not self._channels.network.is_paused(broker_name(self._asked.broker)):
            self._end(ANSWERS)

    def received(self, connection: Connection, message: Message) -> None:
        """Nothing was sent."""

    def disconnected(self, connection: Connection | None) -> None:
        """The broker cannot be reached."""
        if connection is None:
            self._end(REFUSES)

    def _end(self, result: str) -> None:
        if self._is_over:
            return
        self._is_over = True
        broker, epoch = self._asked.broker, self._asked.broker_epoch
        probed = BrokerProbed(broker, epoch, result, "")
        self._channels.on_event(probed, f"probe:{broker}:{epoch}")


class BrokerChannels:
    """The channels of one run of a controller. `highest`: the API versions that brokers offer."""

    def __init__(
        self,
        clock: Clock,
        network: Network,
        process: str,
        acts: ActGuard,
        on_event: OnEvent,
        highest: tuple[tuple[int, int], ...],
    ) -> None:
        self.clock = clock
        self.network = network
        self.process = process
        self.acts = acts
        self.on_event = on_event
        self.highest = highest
        self._channels: dict[int, _Channel] = {}

    def open(self, command: OpenChannel) -> None:
        """Open a channel; close one to an earlier epoch of the same broker."""
        current = self._channels.get(command.broker)
        if current is not None:
            if current.broker_epoch == command.broker_epoch:
                return
            current.close()
        self._channels[command.broker] = _Channel(self, command)

    def close(self, command: CloseChannel) -> None:
        """Close a channel, unless it belongs to another epoch of the broker."""
        channel = self._channels.get(command.broker)
        if channel is not None and channel.broker_epoch == command.broker_epoch:
            del self._channels[command.broker]
            channel.close()

    def probe(self, command: ProbeBroker) -> None:
        """Find out whether a broker accepts connections."""
        _Probe(self, command)

    def close_all(self) -> None:
        """Close all channels."""
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def send(self, command: CommandId, request: BrokerRequest) -> None:
        """Queue a request. Without a channel to its broker it is dropped (KB 12.1.2)."""
        channel = self._channels.get(request.broker)
        if channel is not None:
            channel.put(command, request)
