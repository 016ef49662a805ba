"""A ZooKeeper client of a broker or an admin: one session at a time, over the simulated network.

Requests and replies are the values of `requests`. Watches are one-shot, as stock brokers use them.
The client reconnects without being asked, and starts a new session after one has expired.

The rules are those of ZooKeeper's own client: a session is over only when a server says so; after a
third of the time-out without a request a ping is sent; after two thirds without a reply the
connection is closed; before a reconnect there is a pause of up to one second.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Protocol
from zlib import crc32

from controller.core.events import WatchFired
from controller.core.operations import NO_NODE, OK
from replay.world.ensemble.protocol import (
    NO_PASSWORD,
    NO_SESSION,
    CloseSession,
    ConnectRequest,
    ConnectResponse,
    Ping,
    ReplyPacket,
    RequestPacket,
)
from replay.world.network import Connection, Message, Network
from replay.world.processes import ZOOKEEPER
from replay.world.requests import Exists, GetChildren, GetData, Reply, Request, SetWatches
from replay.world.scheduler import MS, Clock, ScheduledAction

PAUSE_MS_MAX: Final = 1_000
PING_MS_MAX: Final = 10_000
PING_XID: Final = -2
SET_WATCHES_XID: Final = -8

OnReply = Callable[[Reply | None], None]
"""Takes the reply; None if the connection was lost before it came (the request may have been
carried out or not)."""


class SessionOwner(Protocol):
    """The callbacks of a process for changes of its session and for watches that fire."""

    def session_started(self, session: int) -> None:
        """A new session is established: nothing of an earlier session is left to this client."""

    def session_resumed(self) -> None:
        """The connection of the session is restored; its watches are set again."""

    def connection_lost(self) -> None:
        """The connection is lost; the session may be alive."""

    def session_expired(self) -> None:
        """The session is over. A new one is requested at once."""

    def watch_fired(self, event: WatchFired) -> None:
        """A watch fired."""


class ProcessSession:
    """The session of one process."""

    def __init__(
        self,
        scheduler: Clock,
        network: Network,
        process: str,
        owner: SessionOwner,
        timeout_ms: int = 18_000,
    ) -> None:
        self._scheduler = scheduler
        self._network = network
        self._process = process
        self._owner = owner
        self._requested_ms = self._timeout_ms = timeout_ms
        self._session, self._password = NO_SESSION, NO_PASSWORD
        self._last_zxid = 0
        self._xid = 0
        self._connections = 0
        self._connection: Connection | None = None
        self._is_established = False
        self._is_closing = self._is_over = False
        self._pending: deque[tuple[Request, OnReply]] = deque()  # bounded by the process
        self._watches = _Watches()
        self._heard_us = self._sent_us = 0
        self._ping_in_flight = False
        self._timer: ScheduledAction | None = None

    @property
    def session(self) -> int:
        """The session, 0 if there is none. Its end may not be known yet."""
        return self._session

    @property
    def is_connected(self) -> bool:
        """Whether requests are sent now, and not answered with None."""
        return self._is_established

    def start(self) -> None:
        """Connect; `session_started` follows."""
        self._connect()

    def submit(self, request: Request, on_reply: OnReply) -> None:
        """Send a request. Without a connection `on_reply` gets None at once."""
        if not self._is_established or self._connection is None:
            on_reply(None)
            return
        self._xid += 1
        self._pending.append((request, on_reply))
        self._send(RequestPacket(self._xid, request))

    def close(self) -> None:
        """Close the session cleanly: its ephemeral znodes are deleted at once. Replies to earlier
        requests still arrive; then nothing is called any more."""
        if self._is_established and self._connection is not None:
            self._is_established = False
            self._is_closing = True
            self._send(RequestPacket(0, CloseSession()))
        else:
            self.crash()

    def crash(self) -> None:
        """The process ends without closing its session. Nothing is called any more."""
        self._is_over = True
        self._is_established = False
        self._pending.clear()
        if self._timer is not None:
            self._timer.cancel()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    # The network calls these

    def connected(self, connection: Connection) -> None:
        """Request a session, or the previous one."""
        if self._is_over:
            connection.close()
        else:
            self._connection = connection
            self._heard_us = self._scheduler.now_us
            self._send(
                ConnectRequest(self._last_zxid, self._requested_ms, self._session, self._password)
            )
            self._check_later()

    def received(self, connection: Connection, message: Message) -> None:
        """Handle a reply, a watch event or the reply to the session request."""
        if self._is_over or connection is not self._connection:
            return
        self._heard_us = self._scheduler.now_us
        if isinstance(message, ReplyPacket):
            self._receive_reply(message)
        elif isinstance(message, WatchFired):
            if self._watches.fired(message):
                self._owner.watch_fired(message)
        else:
            assert isinstance(message, ConnectResponse)
            self._receive_connect(message)

    def disconnected(self, connection: Connection | None) -> None:
        """The connection is lost: connect again."""
        if not self._is_over and connection is self._connection:
            self._lose()

    # Inner parts

    def _connect(self) -> None:
        if not self._is_over:
            self._connections += 1
            self._network.connect(self._process, ZOOKEEPER, self)

    def _send(self, message: Message) -> None:
        assert self._connection is not None
        self._sent_us = self._scheduler.now_us
        self._connection.send(message)

    def _receive_connect(self, response: ConnectResponse) -> None:
        if not response.timeout_ms:
            self._expire()
            return
        is_new = self._session == NO_SESSION
        self._session, self._password = response.session, response.password
        self._timeout_ms = response.timeout_ms
        self._is_established = True
        if is_new:
            self._owner.session_started(self._session)
            return
        if self._watches:
            self._send(RequestPacket(SET_WATCHES_XID, self._watches.to_set(self._last_zxid)))
        self._owner.session_resumed()

    def _receive_reply(self, message: ReplyPacket) -> None:
        xid, reply = message.xid, message.reply
        if xid == PING_XID:
            self._ping_in_flight = False
            return
        if reply.zxid > 0:
            self._last_zxid = reply.zxid
        if xid == 0:
            self.crash()
        elif xid != SET_WATCHES_XID:
            request, on_reply = self._pending.popleft()
            self._watches.add(request, reply)
            on_reply(reply)

    def _lose(self) -> None:
        """The connection is lost, or could not be established."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        was_established, self._is_established = self._is_established, False
        self._ping_in_flight = False
        pending, self._pending = self._pending, deque()  # bounded by the process
        if not self._is_closing:
            # ZooKeeper's client draws the pause.
            draw = crc32(f"{self._process} {self._connections}".encode())
            self._scheduler.after(draw % PAUSE_MS_MAX * MS, self._connect)
        for _, on_reply in pending:
            if not self._is_over:
                on_reply(None)
        if self._is_closing:
            self.crash()
        if was_established and not self._is_over:
            self._owner.connection_lost()

    def _expire(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        self._session, self._password = NO_SESSION, NO_PASSWORD
        self._last_zxid = 0
        self._watches = _Watches()
        self._connect()
        self._owner.session_expired()

    def _check_later(self) -> None:
        """Schedule the next check of the clock. A check that is due too early only schedules the
        next one."""
        if self._connection is None:
            return
        timeout_us = self._timeout_ms * MS
        due_us = self._heard_us + timeout_us * 2 // 3
        if not self._is_established:
            due_us = self._heard_us + timeout_us // 3
        elif not self._ping_in_flight:
            due_us = min(due_us, self._sent_us + self._ping_us)
        if self._timer is not None:
            if self._timer.at_us <= due_us:
                return
            self._timer.cancel()
        self._timer = self._scheduler.call_at(due_us, self._check_clock)

    @property
    def _ping_us(self) -> int:
        return min(self._timeout_ms // 3, PING_MS_MAX) * MS

    def _check_clock(self) -> None:
        """End a silent connection, or send a ping."""
        self._timer = None
        if self._is_over or self._connection is None:
            return
        now_us = self._scheduler.now_us
        silent_us = now_us - self._heard_us
        allowed_us = self._timeout_ms * MS * (2 if self._is_established else 1) // 3
        if silent_us >= allowed_us:
            self._lose()
            return
        is_idle = self._is_established and now_us - self._sent_us >= self._ping_us
        if is_idle and not self._ping_in_flight:
            self._ping_in_flight = True
            self._send(RequestPacket(PING_XID, Ping()))
        self._check_later()


class _Watches:
    """The one-shot watches of a session, by path, which are set again after a reconnect."""

    def __init__(self) -> None:
        self._data: dict[str, None] = {}
        self._exist: dict[str, None] = {}
        self._child: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._data or self._exist or self._child)

    def add(self, request: Request, reply: Reply) -> None:
        """The reply to a request arrived: it may have set a watch."""
        if not isinstance(request, GetData | Exists | GetChildren) or not request.watch:
            return
        error = reply.result.error
        if error == OK:
            watches = self._child if isinstance(request, GetChildren) else self._data
            watches[request.path] = None
        elif error == NO_NODE and isinstance(request, Exists):
            self._exist[request.path] = None

    def fired(self, event: WatchFired) -> bool:
        """An event arrived. Whether there was a watch for it: the server may have two for one
        change, a data and a child watch, and sends one event."""
        path, change = event.path, event.change
        tables: tuple[dict[str, None], ...] = (self._data, self._exist)
        if change == "children":
            tables = (self._child,)
        elif change == "deleted":
            tables = (self._data, self._exist, self._child)
        was_set = [path in table for table in tables]
        for table in tables:
            table.pop(path, None)
        return any(was_set)

    def to_set(self, last_zxid: int) -> SetWatches:
        """The request that sets the watches again."""
        return SetWatches(last_zxid, tuple(self._data), tuple(self._exist), tuple(self._child))
