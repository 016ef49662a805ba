"""A client's connection to a member, on the side of the member.

Replies are in the order of the requests. A member that lags answers a write, a sync or a handshake
only after it has applied that transaction; the requests that follow wait for it.
"""

from collections import deque
from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

from controller.core.events import WatchFired
from replay.world.ensemble.codec import BadRequest, ServerCodec, Unimplemented, unimplemented
from replay.world.ensemble.protocol import (
    CloseSession,
    ConnectRequest,
    ConnectResponse,
    Ping,
    ReplyPacket,
    RequestPacket,
    ServerMessage,
)
from replay.world.ensemble.sessions import Session
from replay.world.network import Connection, Message, Network
from replay.world.requests import (
    AddWatch,
    Exists,
    GetChildren,
    GetData,
    Multi,
    MultiRead,
    RemoveWatches,
    Reply,
    SetWatches,
    Sync,
    Write,
)
from replay.world.scheduler import Scheduler
from replay.world.zookeeper import ZooKeeper

LOCAL = (Ping, GetData, Exists, GetChildren, MultiRead, AddWatch, RemoveWatches, SetWatches)
"""Requests that a member answers from its own state."""


class EnsembleContext(Protocol):
    """The interface of the ensemble for its parts."""

    scheduler: Scheduler
    network: Network
    state: ZooKeeper
    """The leader's state."""
    is_old: bool
    on_answer: Callable[[str, RequestPacket, Reply], None]
    """Called with the process and each request that is answered, before the reply is sent."""
    on_watch_event: Callable[[str], None]
    """Called with the process for each watch event that is sent."""

    def defer(self, action: Callable[[], None]) -> bool:
        """Do an action later if the whole ensemble hangs. Returns whether it does."""

    def touch(self, session: Session) -> None:
        """A message of the session arrived."""

    def start_session(self, client: "EnsembleClient", request: ConnectRequest) -> ConnectResponse:
        """Start or resume the session of a client. Sets `client.session`, unless it is over."""

    def write(
        self, client: "EnsembleClient", session: Session, request: Write | Multi | CloseSession
    ) -> Reply | None:
        """Commit a transaction of a client. None: its connection has ended, and the reply is
        lost."""


class ServingMember(Protocol):
    """The interface of a member for its connections."""

    number: int
    view: ZooKeeper
    """The state that the member has applied."""

    @property
    def lags(self) -> bool:
        """Whether the member has its own state."""

    def remove_client(self, client: "EnsembleClient") -> None:
        """A client's connection ended."""

    def defer(self, action: Callable[[], None]) -> bool:
        """Do an action later if the member hangs. Returns whether it does."""

    def await_zxid(self, zxid: int) -> None:
        """A client waits for a transaction."""


class _Waiting(NamedTuple):
    """A message that must wait until the member has applied `zxid`: a handshake's reply, or the
    reply to a request. Without a reply, the request is then answered from the member's state."""

    zxid: int
    response: ConnectResponse | None = None
    packet: RequestPacket | None = None
    reply: Reply | None = None


class EnsembleClient:
    """One connection of a process."""

    __slots__ = (
        "_codec",
        "_ensemble",
        "_output",
        "_waiting",
        "connection",
        "is_over",
        "member",
        "process",
        "session",
    )

    def __init__(self, ensemble: EnsembleContext, member: ServingMember, process: str) -> None:
        self._ensemble = ensemble
        self._codec: ServerCodec | None = None
        self._output: list[bytes] = []
        # The session limits the requests in flight.
        self._waiting: deque[_Waiting] = deque()  # bounded by the client
        self.member = member
        self.process = process
        self.connection: Connection | None = None
        self.session: Session | None = None
        self.is_over = False

    @property
    def member_number(self) -> int:
        """The number of the member that serves the client."""
        return self.member.number

    @property
    def member_lags(self) -> bool:
        """Whether the member applies transactions later than the leader."""
        return self.member.lags

    # The network calls these

    def connected(self, connection: Connection) -> None:
        """Never called: the client connects."""

    def received(self, connection: Connection, message: Message) -> None:
        """Handle a message of the process, later if the member hangs."""
        self.connection = connection
        if self.is_over:
            connection.close()
        elif not self.member.defer(lambda: self._receive(message)):
            self._receive(message)

    def disconnected(self, connection: Connection | None) -> None:
        """End the session's connection, later if the member hangs."""
        if not self.is_over and not self.member.defer(self.end):
            self.end()

    # The ensemble calls these

    def fire(self, events: Iterable[WatchFired]) -> None:
        """Send watch events."""
        for event in events:
            self._ensemble.on_watch_event(self.process)
            self._send(event)
        self.flush()

    def applied(self, zxid: int) -> None:
        """The member has applied the transactions up to `zxid`: send what waited for it."""
        if self._waiting:
            self._release(zxid)
            self.flush()

    def end(self) -> None:
        """End the connection. Its watches are dropped, and nothing that waits is sent."""
        if self.is_over:
            return
        self.is_over = True
        self.member.remove_client(self)
        if self.session is not None and self.session.client is self:
            self.session.client = None
        if self.connection is not None:
            self.flush()
            self.connection.close()

    def lose(self) -> None:
        """End the connection, and lose what was not sent yet."""
        self._output.clear()
        self.end()

    def flush(self) -> None:
        """Send the encoded output as one message."""
        if self._output and self.connection is not None:
            self.connection.send(b"".join(self._output))
            self._output.clear()

    # Inner parts

    def _receive(self, message: Message) -> None:
        if self.is_over:
            return
        if self.session is not None:
            self._ensemble.touch(self.session)
        if not isinstance(message, bytes):
            self._handle(message)
            return
        if self._codec is None:
            self._codec = ServerCodec(is_old=self._ensemble.is_old)
        try:
            for one in self._codec.read(message):
                self._handle(one)
                if self.is_over:
                    return
            self.flush()
        except Unimplemented as error:
            self._output.append(unimplemented(error.xid, self.member.view.zxid))
            self.end()
        except BadRequest:
            self.end()

    def _handle(self, message: Message) -> None:
        if isinstance(message, RequestPacket) and self.session is not None:
            self._handle_request(message, self.session)
        elif isinstance(message, ConnectRequest) and self.session is None:
            self._connect(message)
        else:
            self.end()

    def _connect(self, request: ConnectRequest) -> None:
        """A client that has seen a later transaction than the member is not served
        (ZooKeeperServer.processConnectRequest)."""
        if request.last_zxid > self.member.view.zxid:
            self.end()
            return
        response = self._ensemble.start_session(self, request)
        if self.session is None:
            self._send(response)
            self.end()
        else:
            self._after(_Waiting(self.session.created, response=response))

    def _handle_request(self, packet: RequestPacket, session: Session) -> None:
        request = packet.request
        if isinstance(request, LOCAL):
            if self._waiting:
                self._waiting.append(_Waiting(0, packet=packet))
            else:
                self._answer(packet, self._local(packet))
            return
        if isinstance(request, Sync):
            reply = self._ensemble.state.apply(session.id, request, 0)
        else:
            assert not isinstance(request, Ping | SetWatches)
            maybe = self._ensemble.write(self, session, request)
            if maybe is None:
                return
            reply = maybe
        self._after(_Waiting(reply.zxid, packet=packet, reply=reply))

    def _after(self, waiting: _Waiting) -> None:
        self._waiting.append(waiting)
        self.member.await_zxid(waiting.zxid)
        self._release(self.member.view.zxid)

    def _release(self, zxid: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0].zxid <= zxid and not self.is_over:
            _, response, packet, reply = waiting.popleft()
            if response is not None:
                self._send(response)
            elif packet is not None:
                self._answer(packet, reply or self._local(packet))

    def _local(self, packet: RequestPacket) -> Reply:
        request, view = packet.request, self.member.view
        if isinstance(request, Ping):
            return Reply(view.zxid, ())
        assert not isinstance(request, CloseSession)
        assert self.session is not None
        reply = view.apply(self.session.id, request, 0)
        if isinstance(request, SetWatches):
            for event in view.take_events(self.session.id):
                self._ensemble.on_watch_event(self.process)
                self._send(event)
        return reply

    def _answer(self, packet: RequestPacket, reply: Reply) -> None:
        self._ensemble.on_answer(self.process, packet, reply)
        if self._codec is None:
            self._send(ReplyPacket(packet.xid, reply))
        else:
            self._output.append(self._codec.write(ReplyPacket(packet.xid, reply), packet.forms))
        if isinstance(packet.request, CloseSession):
            self.end()

    def _send(self, message: ServerMessage) -> None:
        if self._codec is not None:
            self._output.append(self._codec.write(message))
        elif self.connection is not None:
            self.connection.send(message)
