"""A refold daemon's ZooKeeper session in a simulation: controller.zookeeper.session over its
network.

It does what controller.zookeeper.connection does on real servers: it connects, reconnects at once
and then with pauses, and reports events. A process has one driver at a time.
"""

from collections.abc import Callable
from typing import Final

from controller.core.commands import CommandId, ZooKeeperCommand
from controller.core.events import Event
from controller.zookeeper.session import Phase, SessionSettings, ZooKeeperSession
from replay.world.network import Connection, Message, Network
from replay.world.processes import ZOOKEEPER
from replay.world.scheduler import MS, Clock, ScheduledAction

PAUSE_MS_MIN: Final = 100
PAUSE_MS_MAX: Final = 1_000
STEADY_MS: Final = 1_000
"""A connection that ends sooner counts as a failure (controller.zookeeper.connection)."""

OnEvent = Callable[[Event, str], None]
"""Takes an event and its channel. Never called from within a call of the driver."""


def settings_of(timeout_ms: int = 18_000, members: int = 3) -> SessionSettings:
    """The settings of a daemon with this session timeout and number of servers."""
    return SessionSettings(timeout_ms=timeout_ms, connect_timeout_ms=timeout_ms // members)


class SessionDriver:
    """The sessions of one process, until `close` or `crash`."""

    def __init__(
        self,
        scheduler: Clock,
        network: Network,
        process: str,
        on_event: OnEvent,
        *,
        settings: SessionSettings | None = None,
        members: int = 3,
        on_closed: Callable[[], None] = lambda: None,
    ) -> None:
        """`members`: how many servers are tried before a pause. `on_closed` follows `close`."""
        self._scheduler = scheduler
        self._network = network
        self._process = process
        self._on_event = on_event
        self._on_closed = on_closed
        self._members = members
        self._session = ZooKeeperSession(settings or settings_of(members=members))
        self._connection: Connection | None = None
        self._is_over = False
        self._failures = 0
        self._began_ms = 0
        self._flush: ScheduledAction | None = None
        self._tick: ScheduledAction | None = None

    @property
    def session_id(self) -> int:
        """The id of the live session; 0 if there is none."""
        return self._session.session_id

    @property
    def is_connected(self) -> bool:
        """Whether commands are sent now, and not answered with CONNECTION_LOSS."""
        return self._session.phase is Phase.READY

    @property
    def fault(self) -> str:
        """Why the last connection ended or failed, for people; empty at first."""
        return self._session.fault

    def start(self) -> None:
        """Connect; SessionConnected follows."""
        self._connect()

    def submit(self, command_id: CommandId, command: ZooKeeperCommand) -> None:
        """Carry out a command. Commands of one moment are sent as one message."""
        if not self._is_over:
            self._session.submit(command_id, command)
            self._flush_soon()

    def close(self) -> None:
        """Close the session cleanly: its ephemeral znodes are deleted at once. Outcomes of commands
        in flight are still reported."""
        if not self._is_over:
            self._session.close()
            self._flush_soon()

    def crash(self) -> None:
        """The process ends without closing its session. Nothing is reported any more."""
        self._is_over = True
        for scheduled in (self._flush, self._tick):
            if scheduled is not None:
                scheduled.cancel()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # The network calls these

    def connected(self, connection: Connection) -> None:
        """The connection to ZooKeeper is established: begin the handshake."""
        if self._is_over or self._session.phase is Phase.CLOSED:
            # The session was closed before there was a connection.
            connection.close()
        else:
            self._connection = connection
            self._began_ms = self._now_ms
            self._session.connected(ZOOKEEPER, self._now_ms)
            self._send_and_report()

    def received(self, connection: Connection, message: Message) -> None:
        """Pass the bytes of ZooKeeper to the session."""
        if not self._is_over and connection is self._connection:
            assert isinstance(message, bytes)
            self._session.received(message, self._now_ms)
            self._send_and_report()

    def disconnected(self, connection: Connection | None) -> None:
        """The connection is lost or was refused: connect again."""
        if self._is_over:
            return
        if connection is None:
            self._session.disconnected(f"no connection to {ZOOKEEPER}")
            self._send_and_report()
            self._reconnect(answered=False)
        elif connection is self._connection:
            self._connection = None
            self._session.disconnected("the server closed the connection")
            self._send_and_report()
            self._reconnect(answered=True)

    # Inner parts

    @property
    def _now_ms(self) -> int:
        return self._scheduler.now_us // MS

    def _connect(self) -> None:
        if not self._is_over:
            self._network.connect(self._process, ZOOKEEPER, self)

    def _reconnect(self, *, answered: bool) -> None:
        """At once, but with a pause whenever every server has failed in turn."""
        if self._is_over:
            return
        if answered and self._now_ms - self._began_ms > STEADY_MS:
            self._failures = 0
            self._connect()
            return
        self._failures += 1
        rounds, rest = divmod(self._failures, self._members)
        if rounds and not rest:
            pause_ms = min(PAUSE_MS_MIN * 2 ** min(rounds - 1, 10), PAUSE_MS_MAX)
            self._scheduler.after(pause_ms * MS, self._connect)
        else:
            self._connect()

    def _flush_soon(self) -> None:
        if self._flush is None:
            self._flush = self._scheduler.after(0, self._flush_now)

    def _flush_now(self) -> None:
        self._flush = None
        if not self._is_over:
            self._send_and_report()

    def _send_and_report(self) -> None:
        """Send the session's output, report its events, and disconnect if the session requires
        it."""
        session, connection = self._session, self._connection
        data = session.output(self._now_ms)
        ended = session.phase in (Phase.DISCONNECTED, Phase.CLOSED)
        if connection is not None:
            if data:
                connection.send(data)
            if ended:
                self._connection = None
                connection.close()
        for channel, event in session.take_events():
            self._on_event(event, channel)
            if self._is_over:
                return
        if session.phase is Phase.CLOSED:
            self.crash()
            self._on_closed()
            return
        if ended and connection is not None:
            self._reconnect(answered=True)
        self._tick_later()

    def _tick_later(self) -> None:
        """Schedule the next tick. A tick that is due too early does nothing but this."""
        due_ms = self._session.next_tick_ms
        if due_ms is None:
            return
        due_us = max(due_ms, self._now_ms + 1) * MS
        if self._tick is not None:
            if self._tick.at_us <= due_us:
                return
            self._tick.cancel()
        self._tick = self._scheduler.call_at(due_us, self._tick_now)

    def _tick_now(self) -> None:
        self._tick = None
        if not self._is_over:
            self._session.tick(self._now_ms)
            self._send_and_report()
