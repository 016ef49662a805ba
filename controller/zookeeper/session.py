"""A ZooKeeper session, sans I/O: bytes, commands and the time in; bytes and events out.

The rules:

- There is one connection at a time. A handshake requests the current session or a new one. One
  multiRead then finds out whether the server is 3.6 or later. Then watches are set again, the
  connection is reported and commands are sent. A server before 3.6 answers multiRead with an error
  and closes the connection, not the session. It is remembered and not probed on later connections.
- With a login, the session identifies itself on each connection before it sends anything else, also
  to close an old session. A rejected login ends the connection, not the session.
- Requests are answered in order (see `pipeline`). A reply out of order ends the connection.
- Nothing is repeated on another connection. If a connection is lost, operations without a reply end
  with CONNECTION_LOSS, and then the loss is reported. Commands that arrive without a connection end
  the same way at once.
- After a third of the session timeout without traffic (at most 10 s) a ping is sent; after two
  thirds without a reply the connection is closed.
- The session is over when a server says so, or after a whole timeout without hearing from any
  server, since the servers may have expired it. Unfinished commands end with SESSION_EXPIRED, the
  expiration is reported, and the next handshake starts a new session, which no command of the old
  one reaches.
- ZooKeeper's own client would wait for a server to confirm the expiration. The presumption may be
  wrong if the whole ensemble was down, and the ephemeral znodes of the unused session would remain
  for another timeout. So the next connection resumes the old session only to close it.
- A server has confirmed the session when the last answered ping was sent, or the request for the
  connection. The time of the reply does not count: the reply may have waited in a socket.
- A reconnect loses no watch event, but several changes of one znode may be reported as one, and a
  deletion twice.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, NamedTuple

from controller.core.commands import CommandId, WatchSubtree, ZooKeeperCommand
from controller.core.events import (
    ChildrenRead,
    Event,
    SessionConnected,
    SessionDisconnected,
    SessionExpired,
    WatchFired,
)
from controller.core.operations import (
    CONNECTION_LOSS,
    NO_AUTH,
    OK,
    SESSION_EXPIRED,
    UNIMPLEMENTED,
)
from controller.zookeeper import bulk, wire
from controller.zookeeper.acls import OPEN_ACLS, ZnodeAcls
from controller.zookeeper.commands import is_empty, work_of
from controller.zookeeper.errors import LoginFailed, MalformedReply
from controller.zookeeper.login import LOGIN_REQUIRED, ConnectionLogin, DigestLogin, Login
from controller.zookeeper.pipeline import Pipeline
from controller.zookeeper.session_channel import ChannelEvent, session_channel
from controller.zookeeper.watches import SessionWatches
from controller.zookeeper.work import Exchange, OutcomeEvent, Work, ZooKeeperRequest

PING_MS_MAX: Final = 10_000
NO_SESSION: Final = 0
NO_PASSWORD: Final = bytes(16)


class Phase(Enum):
    """The state of the connection, in the order of its life."""

    DISCONNECTED = auto()
    HANDSHAKE = auto()
    CLOSING_OLD_SESSION = auto()
    """The connection exists to close a session that is presumed expired."""
    AUTHENTICATING = auto()
    """The session identifies itself, also to close an old session."""
    PROBING = auto()
    """The session is established; the server's version is being determined."""
    READY = auto()
    CLOSING = auto()
    CLOSED = auto()
    """The session was closed on request; no connection follows."""


@dataclass(frozen=True)
class SessionSettings:
    """The parameters of a session. Times are in milliseconds; the server may change the timeout.

    Without `bulk` every server is treated as one before 3.6. Without `presumes_expiration` only a
    server ends a session, as with ZooKeeper's own client.
    """

    timeout_ms: int = 18_000
    connect_timeout_ms: int = 6_000
    chroot: str = ""
    acls: ZnodeAcls = OPEN_ACLS
    login: Login | None = None
    bulk: bool = True
    presumes_expiration: bool = True
    flight_requests_max: int = 1000
    flight_bytes_max: int = 4 * 1024 * 1024


_STARTING: Final = (Phase.HANDSHAKE, Phase.AUTHENTICATING, Phase.CLOSING_OLD_SESSION)
"""The phases that together may take the connect timeout."""


class _Identity(NamedTuple):
    """The identification of a session for servers."""

    session_id: int
    password: bytes
    timeout_ms: int


class ZooKeeperSession:
    """A sequence of sessions over a sequence of connections.

    Times are milliseconds of one monotonic clock. After each call, fetch `output` and
    `take_events`; if `phase` is then DISCONNECTED or CLOSED, close the connection.
    """

    def __init__(self, settings: SessionSettings) -> None:
        self._settings = settings
        self._exchange = Exchange(settings.chroot, settings.acls)
        self._none = _Identity(NO_SESSION, NO_PASSWORD, settings.timeout_ms)
        self._identity = self._none
        self._presumed_expired: _Identity | None = None
        self._is_announced = False
        """Whether a SessionConnected event was reported for this session."""
        self._servers_without_bulk: set[str] = set()
        self._server = ""
        self._phase = Phase.DISCONNECTED
        self._heard_ms = self._sent_ms = self._began_ms = 0
        self._pinged_ms = self._confirmed_ms = 0
        self._last_zxid = 0
        self._ping_in_flight = False
        self._frames = wire.FrameReader()
        self._pipeline = Pipeline(
            self._exchange, settings.flight_requests_max, settings.flight_bytes_max
        )
        self._output: list[bytes] = []
        self._events: list[ChannelEvent] = []
        self._denied: list[str] = []
        self._login: ConnectionLogin | None = None
        self.fault = ""
        """Why the last connection ended, for people."""

    @property
    def phase(self) -> Phase:
        """The state of the connection."""
        return self._phase

    @property
    def session_id(self) -> int:
        """The live session, or NO_SESSION."""
        return self._identity.session_id

    @property
    def server(self) -> str:
        """The server of this connection, or of the last one."""
        return self._server

    @property
    def timeout_ms(self) -> int:
        """The timeout of the session, as the server says."""
        return self._identity.timeout_ms

    @property
    def heard_ms(self) -> int:
        """When a server was last heard, in this session or an earlier one; 0 if none was."""
        return self._heard_ms

    @property
    def channel(self) -> str:
        """The channel of events that are reported now."""
        return session_channel(self._identity.session_id)

    def output(self, now_ms: int) -> bytes:
        """The bytes to send now."""
        if not self._output:
            return b""
        self._sent_ms = now_ms
        data = b"".join(self._output)
        self._output.clear()
        return data

    def is_confirmed(self, now_ms: int) -> bool:
        """Whether a server has confirmed the session within a third of its timeout."""
        is_recent = now_ms - self._confirmed_ms < self._identity.timeout_ms / 3
        return self._phase is Phase.READY and is_recent

    def ping(self, now_ms: int) -> None:
        """Ask the server to confirm the session."""
        if self._phase is Phase.READY and not self._ping_in_flight:
            self._ping_in_flight = True
            self._pinged_ms = now_ms
            self._output.append(wire.ping_request())

    def take_events(self) -> list[ChannelEvent]:
        """The events since the last call, in order."""
        events, self._events = self._events, []
        return events

    def take_denied(self) -> list[str]:
        """Znodes whose ACL did not allow an operation, since the last call: one per outcome."""
        denied, self._denied = self._denied, []
        return denied

    # Events of the connection -------------------------------------------------------------

    def connected(self, server: str, now_ms: int) -> None:
        """A connection to `server` (host:port) was established: start the handshake."""
        assert self._phase is Phase.DISCONNECTED, self._phase
        self._server = server
        self._phase = (
            Phase.HANDSHAKE if self._presumed_expired is None else Phase.CLOSING_OLD_SESSION
        )
        self._frames = wire.FrameReader()
        self._ping_in_flight = False
        self._began_ms = now_ms
        who = self._presumed_expired or self._identity
        self._output.append(
            wire.connect_request(self._last_zxid, who.timeout_ms, who.session_id, who.password)
        )

    def received(self, data: bytes, now_ms: int) -> None:
        """Bytes arrived from the server."""
        if self._phase in (Phase.DISCONNECTED, Phase.CLOSED):
            return
        if self._phase not in (Phase.HANDSHAKE, Phase.CLOSING_OLD_SESSION):
            self._heard_ms = now_ms
        try:
            for frame in self._frames.feed(data):
                self._frame(frame, now_ms)
                if self._phase in (Phase.DISCONNECTED, Phase.CLOSED):
                    return
            self._pump()
        except MalformedReply as error:
            self._disconnect(f"{self._server} does not follow ZooKeeper's protocol: {error}")

    def disconnected(self, cause: str) -> None:
        """The connection was lost, or could not be established."""
        self._disconnect(cause)

    def tick(self, now_ms: int) -> None:
        """Advance the time. Received bytes must be passed to `received` first."""
        if self._phase is Phase.CLOSED:
            return
        silent_ms = now_ms - self._heard_ms
        timeout_ms = self._identity.timeout_ms
        if self._may_presume and silent_ms >= timeout_ms:
            self._presumed_expired = self._identity
            self._expire()
            self._disconnect(f"nothing heard from any server for {silent_ms} ms")
        elif self._phase in _STARTING:
            if now_ms - self._began_ms >= self._settings.connect_timeout_ms:
                step = "login" if self._phase is Phase.AUTHENTICATING else "handshake"
                self._disconnect(f"{self._server} did not answer the {step}")
        elif self._phase in (Phase.PROBING, Phase.READY, Phase.CLOSING):
            if silent_ms >= timeout_ms * 2 // 3:
                self._disconnect(f"nothing heard from {self._server} for {silent_ms} ms")
            elif not self._ping_in_flight and now_ms - self._sent_ms >= self._ping_ms:
                self._ping_in_flight = True
                self._pinged_ms = now_ms
                self._output.append(wire.ping_request())

    @property
    def _may_presume(self) -> bool:
        """Whether there is a session that is presumed expired after a silent timeout."""
        return self._settings.presumes_expiration and self._identity.session_id != NO_SESSION

    @property
    def next_tick_ms(self) -> int | None:
        """The next time at which `tick` must be called; None if there is none."""
        due: list[int] = []
        timeout_ms = self._identity.timeout_ms
        if self._may_presume:
            due.append(self._heard_ms + timeout_ms)
        if self._phase in _STARTING:
            due.append(self._began_ms + self._settings.connect_timeout_ms)
        elif self._phase in (Phase.PROBING, Phase.READY, Phase.CLOSING):
            due.append(self._heard_ms + timeout_ms * 2 // 3)
            if not self._ping_in_flight:
                due.append(self._sent_ms + self._ping_ms)
        return min(due, default=None)

    @property
    def _ping_ms(self) -> int:
        return min(self._identity.timeout_ms // 3, PING_MS_MAX)

    def submit(self, command_id: CommandId, command: ZooKeeperCommand) -> None:
        """Carry out a command. Its outcome is reported as an event, at once if there is no
        connection."""
        if is_empty(command):
            self._emit(work_of(command_id, command, self._exchange).fail(OK))
        elif self._phase is Phase.READY:
            if isinstance(command, WatchSubtree) and not self._exchange.bulk:
                # A server before 3.6 would close the connection.
                self._emit(work_of(command_id, command, self._exchange).fail(UNIMPLEMENTED))
            else:
                self._pipeline.add(command_id, command)
                self._pump()
        else:
            over = self._phase in (Phase.CLOSING, Phase.CLOSED)
            error = SESSION_EXPIRED if over else CONNECTION_LOSS
            self._emit(work_of(command_id, command, self._exchange).fail(error))

    def close(self) -> None:
        """Close the session cleanly: queued commands end, requests in flight are still answered,
        then the server is asked to close the session. This is not reported as an event; the
        phase becomes CLOSED. Without a connection it is closed at once, and the server expires
        the session after its timeout."""
        if self._phase in (Phase.PROBING, Phase.READY):
            self._emit(self._pipeline.fail_waiting(SESSION_EXPIRED))
            self._phase = Phase.CLOSING
            self._send(wire.close_request())
        elif self._phase is not Phase.CLOSING:
            self._phase = Phase.CLOSED

    def _pump(self) -> None:
        if self._phase is Phase.READY:
            self._output += self._pipeline.pump()

    def _send(self, body: bytes) -> None:
        """Send a request that belongs to no command."""
        self._output.append(self._pipeline.send(ZooKeeperRequest(body, 0)))

    # Replies ----------------------------------------------------------------------------------

    def _frame(self, frame: bytes, now_ms: int) -> None:
        if self._phase is Phase.HANDSHAKE:
            self._handshake_answered(wire.read_handshake(frame), now_ms)
            return
        if self._phase is Phase.CLOSING_OLD_SESSION and self._pipeline.is_idle:
            self._close_old_session(wire.read_handshake(frame))
            return
        header = wire.read_header(frame)
        if header.xid == wire.WATCH_EVENT_XID:
            self._watch_event(frame, header.zxid)
        elif header.xid == wire.PING_XID:
            self._ping_in_flight = False
            self._confirmed_ms = self._pinged_ms
        elif header.xid == wire.AUTH_XID and self._awaits_digest:
            self._login_answered(header.error, frame)
        elif header.xid != wire.SET_WATCHES_XID:
            self._request_answered(header, frame)
        elif header.error != OK:
            self._disconnect(f"{self._server} did not set the watches again ({header.error})")

    def _handshake_answered(self, answer: wire.Handshake, now_ms: int) -> None:
        if not answer.timeout_ms:
            self._expire()
            self._disconnect(f"{self._server} says that the session is over")
            return
        if answer.session_id != self._identity.session_id:
            self._is_announced = False
        self._identity = _Identity(answer.session_id, answer.password, answer.timeout_ms)
        self._heard_ms = now_ms
        self._confirmed_ms = self._began_ms
        self._authenticate()

    def _authenticate(self) -> None:
        self._phase = Phase.AUTHENTICATING
        login = self._settings.login
        if login is None:
            self._authenticated()
            return
        self._login = ConnectionLogin(login)
        if isinstance(login, DigestLogin):
            self._output.append(wire.auth_request("digest", login.credentials()))
        else:
            self._send(wire.sasl_request(b""))

    @property
    def _awaits_digest(self) -> bool:
        is_digest = self._login is not None and not self._login.is_sasl
        return self._phase is Phase.AUTHENTICATING and is_digest

    def _login_answered(self, error: int, frame: bytes) -> None:
        assert self._login is not None
        try:
            request = self._login.next_request(error, frame)
        except LoginFailed as failure:
            self._disconnect(f"{self._server} {failure}")
            return
        if request is None:
            self._authenticated()
        else:
            self._send(request)

    def _authenticated(self) -> None:
        if self._presumed_expired is not None:
            self._phase = Phase.CLOSING_OLD_SESSION
            self._send(wire.close_request())
            return
        self._phase = Phase.PROBING
        if self._settings.bulk and self._server not in self._servers_without_bulk:
            self._send(bulk.multi_read_request([self._exchange.encoded("/")]))
        else:
            self._begin(bulk=False)

    def _begin(self, *, bulk: bool) -> None:
        """The server's version is known: accept commands."""
        self._exchange.bulk = bulk
        for lists in self._exchange.watches.lists(self._exchange.server_path, persistent=bulk):
            self._output.append(wire.set_watches_request(lists, self._last_zxid, persistent=bulk))
        session_id, _, timeout_ms = self._identity
        self._emit([SessionConnected(session_id, timeout_ms, self._server, self._is_announced)])
        self._is_announced = True
        self._phase = Phase.READY

    def _close_old_session(self, answer: wire.Handshake) -> None:
        if answer.timeout_ms:
            self._authenticate()
        else:
            self._presumed_expired = None
            self._disconnect(f"{self._server} says that the old session is over")

    def _request_answered(self, header: wire.ReplyHeader, frame: bytes) -> None:
        _, work, request = self._pipeline.next_answered(header.xid)
        if work is not None:
            # Not for the probe's reply: watches have yet to report the changes before it.
            self._last_zxid = max(self._last_zxid, header.zxid)
            # The request stays in flight: a malformed reply must not lose the command.
            for event in work.reply(request.token, header.error, frame):
                self._note_denied(work, event)
                self._emit([event])
        self._pipeline.done()
        if work is None:
            self._internal_answered(header, frame)

    def _note_denied(self, work: Work, event: OutcomeEvent) -> None:
        """Note the first znode of an outcome whose ACL does not allow the operation."""
        if isinstance(event, ChildrenRead):
            if event.error == NO_AUTH:
                self._denied.append(work.path_of(0))
        elif NO_AUTH in event.errors:
            self._denied.append(work.path_of(event.offset + event.errors.index(NO_AUTH)))

    def _internal_answered(self, header: wire.ReplyHeader, frame: bytes) -> None:
        """A reply to a request that belongs to no command: a login, the probe, or a close."""
        match self._phase:
            case Phase.AUTHENTICATING:
                self._login_answered(header.error, frame)
            case Phase.PROBING:
                if header.error == UNIMPLEMENTED:
                    self._servers_without_bulk.add(self._server)
                    self._disconnect(f"{self._server} is older than ZooKeeper 3.6")
                elif header.error == LOGIN_REQUIRED:
                    self._disconnect(f"{self._server} requires a login by SASL")
                else:
                    self._begin(bulk=True)
            case Phase.CLOSING_OLD_SESSION:
                self._presumed_expired = None
                self._disconnect(f"the old session is closed on {self._server}")
            case Phase.CLOSING if self._pipeline.is_idle:
                self._phase = Phase.CLOSED
                self._emit(self._pipeline.fail(SESSION_EXPIRED))

    def _watch_event(self, frame: bytes, zxid: int) -> None:
        notice = wire.read_watch_event(frame)
        if notice is None:
            return
        path = self._exchange.relative(notice.path)
        if self._exchange.watches.fired(path, notice.change):
            self._emit([WatchFired(path, notice.change, zxid)])

    # The end of a session ---------------------------------------------------------------------

    def _disconnect(self, cause: str) -> None:
        """End the connection, if there is one. The session continues."""
        self.fault = cause
        phase, self._phase = self._phase, Phase.DISCONNECTED
        if phase in (Phase.CLOSING, Phase.CLOSED):
            self._phase = Phase.CLOSED
        self._output.clear()
        error = SESSION_EXPIRED if phase is Phase.CLOSING else CONNECTION_LOSS
        self._emit(self._pipeline.fail(error))
        if phase is Phase.READY and self._identity.session_id != NO_SESSION:
            self._emit([SessionDisconnected(self._identity.session_id, cause)])

    def _expire(self) -> None:
        """End the session. Its outcomes and its expiration are reported on its own channel."""
        self._emit(self._pipeline.fail(SESSION_EXPIRED))
        if self._is_announced:
            self._emit([SessionExpired(self._identity.session_id)])
        self._identity = self._none
        self._is_announced = False
        self._last_zxid = 0
        self._exchange.watches = SessionWatches()

    def _emit(self, events: Iterable[Event]) -> None:
        channel = self.channel
        self._events.extend(ChannelEvent(channel, event) for event in events)
