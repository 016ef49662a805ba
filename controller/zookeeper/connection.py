"""Runs a ZooKeeper session over TCP: sockets, the clock, the choice of the server.

When a connection ends, the next server is tried at once. The order is random, so that the clients
of a failed server spread over the others. There is a pause only after every server has failed in
turn.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from typing import Final, NamedTuple

import anyio

from controller.core.commands import CommandId, ZooKeeperCommand
from controller.core.events import Event, SessionExpired
from controller.security.tls import ReloadedContext
from controller.security.tls_errors import reason_of
from controller.zookeeper.acls import OPEN_ACLS, ZnodeAcls
from controller.zookeeper.login import Login
from controller.zookeeper.servers import ConnectString, ServerAddress
from controller.zookeeper.session import Phase, SessionSettings, ZooKeeperSession

logger = logging.getLogger(__name__)

PAUSE_SECONDS_MIN = 0.1
PAUSE_SECONDS_MAX = 1.0
STEADY_SECONDS = 1.0
"""A connection that ends sooner counts as a failure of its server, which prevents a tight
reconnect loop."""


class ConnectionStatus(NamedTuple):
    """The state of a session. `session_id`: 0 for none. `fault`: why the last connection ended.
    `heard_ms_ago`: how long ago a server was last heard, in this session or an earlier one; None
    if none was."""

    session_id: int
    is_connected: bool
    server: str
    timeout_ms: int
    heard_ms_ago: int | None
    fault: str


class ZooKeeperSecurity(NamedTuple):
    """How sessions are secured; by default not at all. `tls` has the context for the next
    connection."""

    tls: ReloadedContext | None = None
    login: Login | None = None
    acls: ZnodeAcls = OPEN_ACLS


PLAIN: Final = ZooKeeperSecurity()
_DENIED_PATHS_MAX: Final = 1000
"""Denied znodes that are logged, each of them once."""

OnEvent = Callable[[Event, str], None]
"""Called with an event and its channel, in order, in the event loop. Must not wait."""


class ZooKeeperConnection:
    """A ZooKeeper session on real servers. Call `run` once per object."""

    def __init__(
        self,
        connect: ConnectString,
        on_event: OnEvent,
        *,
        session_timeout_ms: int = 18_000,
        settings: SessionSettings | None = None,
        security: ZooKeeperSecurity = PLAIN,
    ) -> None:
        """`settings` overrides `connect` and `session_timeout_ms`."""
        self._servers = list(connect.servers)
        self._on_event = on_event
        unsecured = settings or SessionSettings(
            timeout_ms=session_timeout_ms,
            connect_timeout_ms=session_timeout_ms // len(connect.servers),
            chroot=connect.chroot,
        )
        self._settings = replace(unsecured, login=security.login, acls=security.acls)
        self._tls = security.tls
        self._denied: set[str] = set()
        self._session = ZooKeeperSession(self._settings)
        self._link: _Link | None = None
        self._flush_is_due = False
        self._silent_ms_at_end = 0
        self._closing = anyio.Event()
        self._finished = anyio.Event()
        self._heard = anyio.Event()

    @property
    def session_id(self) -> int:
        """The id of the live session; 0 if there is none."""
        return self._session.session_id

    @property
    def fault(self) -> str:
        """Why the last connection ended or failed, for people; empty at first."""
        return self._session.fault

    @property
    def status(self) -> ConnectionStatus:
        """The state of the session now."""
        session = self._session
        return ConnectionStatus(
            session.session_id,
            session.phase is Phase.READY,
            session.server,
            session.timeout_ms,
            _now_ms() - session.heard_ms if session.heard_ms else None,
            session.fault,
        )

    @property
    def silent_ms_at_end(self) -> int:
        """How long the servers had been silent when the last session ended."""
        return self._silent_ms_at_end

    def submit(self, command_id: CommandId, command: ZooKeeperCommand) -> None:
        """Carry out a command. Its outcome is passed to `on_event`, never from within this call."""
        self._session.submit(command_id, command)
        self._flush_soon()

    async def until_confirmed(self) -> None:
        """Wait until a server has confirmed the session within a third of its timeout.

        After the process was suspended, a caller that waits here does not act for a session that
        has ended meanwhile.
        """
        while not self._session.is_confirmed(_now_ms()):
            self._session.ping(_now_ms())
            self._flush()
            await self._heard.wait()

    async def run(self) -> None:
        """Keep a session until `close`: connect, reconnect, and start a new session after one
        has ended."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._tick)
                await self._stay_connected()
                tasks.cancel_scope.cancel()
        finally:
            self._finished.set()

    async def close(self) -> None:
        """Close the session cleanly, so that its ephemeral znodes are deleted at once; then `run`
        returns.

        Call this while `run` runs. It takes as long as the server needs, at most two thirds of the
        session timeout.
        """
        self._closing.set()
        self._session.close()
        self._flush()
        await self._finished.wait()

    @property
    def _closed(self) -> bool:
        return self._session.phase is Phase.CLOSED

    async def _stay_connected(self) -> None:
        random.shuffle(self._servers)
        failures = 0
        for server in cycle(self._servers):
            began = _now_ms()
            answered = await self._live_with(server)
            if self._closed:
                return
            if answered and _now_ms() - began > STEADY_SECONDS * 1000:
                failures = 0
                continue
            failures += 1
            rounds, rest = divmod(failures, len(self._servers))
            if rounds and not rest:
                pause = PAUSE_SECONDS_MIN * 2 ** min(rounds - 1, 10)
                await self._pause(min(pause, PAUSE_SECONDS_MAX))
                if self._closed:
                    return

    async def _pause(self, seconds: float) -> None:
        with anyio.move_on_after(seconds):
            await self._closing.wait()

    async def _live_with(self, server: ServerAddress) -> bool:
        """Connect to a server and wait until the connection ends. Return whether it was
        established."""
        loop = asyncio.get_running_loop()
        link = _Link(self, server)
        try:
            with anyio.fail_after(self._settings.connect_timeout_ms / 1000):
                tls = None if self._tls is None else self._tls.current()
                await loop.create_connection(lambda: link, server.host, server.port, ssl=tls)
        except (OSError, TimeoutError) as error:
            self._session.disconnected(f"no connection to {server}: {_reason(error)}")
            self._flush()
            return False
        if self._closed:
            link.close()
            return True
        self._link = link
        self._session.connected(str(server), _now_ms())
        self._flush()
        try:
            await link.ended.wait()
        finally:
            self._link = None
            link.close()
        return True

    async def _tick(self) -> None:
        while True:
            due_ms = self._session.next_tick_ms
            # Only a handshake can bring a deadline forward; polling this often notices that.
            nap_ms = PAUSE_SECONDS_MIN * 1000
            if due_ms is not None:
                nap_ms = min(max(due_ms - _now_ms(), 1), nap_ms)
            # After a sleep the event loop has read its sockets before this task continues.
            # Therefore, after the event loop was suspended, the task does not conclude that the
            # server was silent.
            await anyio.sleep(nap_ms / 1000)
            self._session.tick(_now_ms())
            self._flush()

    def arrived(self, link: "_Link", data: bytes) -> None:
        """Bytes arrived on `link`."""
        if link is self._link:
            self._session.received(data, _now_ms())
            self._flush()
            self._heard.set()
            self._heard = anyio.Event()

    def ended(self, link: "_Link", cause: str) -> None:
        """The other side closed `link`, or it broke."""
        if link is self._link:
            self._link = None
            if self._session.phase is Phase.HANDSHAKE and self._tls is None:
                cause += " at the handshake: it does not serve, or expects TLS"
            self._session.disconnected(f"{link.server}: {cause}")
            self._flush()

    def _flush_soon(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Send the session's output, report its events, and disconnect if the session requires
        it."""
        self._flush_is_due = False
        link = self._link
        data = self._session.output(_now_ms())
        if link is not None:
            if data:
                link.send(data)
            if self._session.phase in (Phase.DISCONNECTED, Phase.CLOSED):
                self._link = None
                link.close()
        for path in self._session.take_denied():
            self._report_denied(path)
        for channel, event in self._session.take_events():
            if isinstance(event, SessionExpired):
                self._silent_ms_at_end = _now_ms() - self._session.heard_ms
            self._on_event(event, channel)

    def _report_denied(self, path: str) -> None:
        if path in self._denied or len(self._denied) >= _DENIED_PATHS_MAX:
            return
        self._denied.add(path)
        login = self._settings.login
        who = "refold has no login" if login is None else f"refold's login is {login.user}"
        logger.warning(
            "ZooKeeper denies refold access to %s or its parent (NoAuth): %s, which the ACL does "
            "not include; check the ACL with getAcl, and the login",
            path,
            who,
        )


class _Link(asyncio.Protocol):
    """One TCP connection. The session's limit on bytes in flight bounds its write buffer."""

    def __init__(self, owner: ZooKeeperConnection, server: ServerAddress) -> None:
        self.server = server
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self.ended = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._owner.arrived(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._owner.ended(self, _reason(exc) if exc else "the server closed the connection")
        self.ended.set()

    def send(self, data: bytes) -> None:
        assert self._transport is not None
        self._transport.write(data)

    def close(self) -> None:
        """Drop the connection. The session does not need the bytes that are still buffered."""
        if self._transport is not None:
            self._transport.abort()
        self.ended.set()


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError) and not str(error):
        return "no reply in time"
    return reason_of(error)


def _now_ms() -> int:
    return int(asyncio.get_running_loop().time() * 1000)
