"""The ensemble: its leader's state, its transactions, its sessions, and its faults.

The leader's state is one `ZooKeeper`. A client connects to the process "zookeeper" and is served by
one member: "broker 1" by member 1, and by the next member at each further connection. A member that
is down refuses, so a client has to try again.

Without a majority of members, and while a leader is elected, no member serves. Then all connections
end and new ones are refused.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from replay.world.ensemble.client import EnsembleClient
from replay.world.ensemble.member import Member
from replay.world.ensemble.protocol import (
    NO_PASSWORD,
    NO_SESSION,
    CloseSession,
    ConnectRequest,
    ConnectResponse,
    CreateSession,
    RequestPacket,
    password_of,
)
from replay.world.ensemble.sessions import TICK_MS, Session, Sessions, negotiate_timeout
from replay.world.ensemble.transactions import Transaction
from replay.world.network import ConnectionSide, Network
from replay.world.processes import ZOOKEEPER
from replay.world.requests import Multi, Reply, Write
from replay.world.scheduler import MS, WALL_START_MS, Scheduler
from replay.world.zookeeper import ZooKeeper

ELECTION_MS: Final = 500
"""How long nothing is served after the leader ended."""


class Ensemble:
    """The process "zookeeper". Listens from the start."""

    def __init__(
        self,
        scheduler: Scheduler,
        network: Network,
        state: ZooKeeper | None = None,
        *,
        members: int = 3,
        is_old: bool = False,
    ) -> None:
        """`state`: the znodes at the start. `is_old`: all members are older than ZooKeeper 3.6."""
        self.scheduler = scheduler
        self.network = network
        self.state = state or ZooKeeper()
        self.is_old = is_old
        self.on_transaction: Callable[[Transaction], None] = lambda transaction: None
        """Called with each transaction, before its watch events and its reply are sent."""
        self.before_write: Callable[[str, Write | Multi], bool] = lambda process, request: True
        """Called with each write of a client, before it. False: the process has ended meanwhile."""
        self.after_write: Callable[[str], None] = lambda process: None
        """Called after each write of a client, before the reply is sent."""
        self.on_answer: Callable[[str, RequestPacket, Reply], None] = (
            lambda process, packet, reply: None
        )
        """Called with the process and each request that is answered, before the reply is sent."""
        self.on_watch_event: Callable[[str], None] = lambda process: None
        """Called with the process for each watch event that is sent."""
        self.sessions = Sessions()
        self._closing: dict[int, Session] = {}
        """Sessions that expired, but whose ephemeral znodes still exist."""
        self._late_us: dict[str, int] = {}
        self._losing: dict[str, list[bool]] = {}
        self._connections: dict[str, int] = {}
        self.members = [Member(self, number) for number in range(members)]
        """The servers, by number."""
        self._leader = 0
        self._serves = True
        self._down_until_us = 0
        self._hung_until_us = 0
        self._deferred: deque[Callable[[], None]] | None = None  # bounded by the hang
        network.listen(ZOOKEEPER, self._accept)
        scheduler.call_at(TICK_MS * MS, self._tick)

    # For invariants and tests

    @property
    def wall_ms(self) -> int:
        """The wall-clock time."""
        return WALL_START_MS + self.scheduler.now_us // MS

    @property
    def leader(self) -> int:
        """The number of the member that leads."""
        return self._leader

    def member_of(self, process: str) -> int | None:
        """The member that a process is connected to, None if it is not connected."""
        for session in reversed(self.sessions.sessions_of(process)):
            if session.client is not None:
                return session.client.member_number
        return None

    # Faults

    def lag(self, where: int | str, *, transactions: int = 0, ms: int = 0) -> int:
        """From now on a member applies transactions late: `ms` after their commit, or once this
        number of later `transactions` is committed, whichever is first. Without both, the lag
        ends.

        `where` is the number of a member, or a process: the member that serves it, or will. Returns
        the number.
        """
        member = self._member(where)
        member.lag(transactions, ms * MS)
        return member.number

    def hang(self, ms: int, where: int | str | None = None) -> None:
        """A member, or the whole ensemble, does nothing for `ms`. Connections remain, and messages
        are handled afterwards. After a hang of the whole ensemble, the sessions whose time-out is
        over expire first, as in a leader that was stopped by a garbage collection."""
        if where is not None:
            member = self._member(where)
            member.hang()
            self.scheduler.after(ms * MS, member.end_hang)
            return
        if self._deferred is None:
            self._deferred = deque()  # bounded by the hang
        self._hung_until_us = max(self._hung_until_us, self.scheduler.now_us + ms * MS)
        self.scheduler.call_at(self._hung_until_us, self._wake)

    def kill(self, number: int, election_ms: int = ELECTION_MS) -> None:
        """A member ends. If it leads, another leader is elected."""
        member = self.members[number]
        if not member.is_alive:
            return
        member.is_alive = False
        member.stop()
        if number == self._leader or not self._has_majority:
            self.change_leader(election_ms)

    def restart(self, number: int, election_ms: int = ELECTION_MS) -> None:
        """A member starts again. If this restores the majority, a leader is elected."""
        member = self.members[number]
        if member.is_alive:
            return
        member.is_alive = True
        if self._serves:
            member.start()
        else:
            self.change_leader(election_ms)

    def change_leader(self, ms: int = ELECTION_MS) -> None:
        """The leader resigns. All connections end and nothing is served for `ms`; then the time-out
        of every session starts again. Called again, it prolongs that."""
        self._serves = False
        alive = [one.number for one in self.members if one.is_alive]
        later = [one for one in alive if one > self._leader]
        self._leader = (later or alive or [self._leader])[0]
        for member in self.members:
            member.stop()
        self._down_until_us = max(self._down_until_us, self.scheduler.now_us + ms * MS)
        self.scheduler.call_at(self._down_until_us, self._serve)

    def expire(self, process: str) -> None:
        """The newest session of a process expires now."""
        if self.defer(lambda: self.expire(process)):
            return
        for session in self.sessions.sessions_of(process)[-1:]:
            self._expire(session)

    def delay_ephemerals(self, process: str, ms: int) -> None:
        """When a session of the process expires, its client is informed at once, but its ephemeral
        znodes are deleted `ms` later (ZOOKEEPER-1740). A change of the leader meanwhile revives the
        session for another time-out, since its end was not committed. 0 ends the fault."""
        self._late_us[process] = ms * MS

    def lose_reply(self, process: str, *, is_carried_out: bool = True) -> None:
        """The connection ends at the next write of the process, before the reply. `is_carried_out`:
        the write takes effect before."""
        self._losing.setdefault(process, []).append(is_carried_out)

    def end_faults(self) -> None:
        """Lose no more replies, and delete ephemeral znodes in time."""
        self._losing.clear()
        self._late_us.clear()

    # Members and clients call these

    def defer(self, action: Callable[[], None]) -> bool:
        """Do an action later if the whole ensemble hangs. Returns whether it does."""
        if self._deferred is None:
            return False
        self._deferred.append(action)
        return True

    def touch(self, session: Session) -> None:
        """A message of the session arrived: its timeout begins again."""
        self.sessions.touch(session, self.scheduler.now_us // MS)

    def start_session(self, client: EnsembleClient, request: ConnectRequest) -> ConnectResponse:
        """Start or resume the session of a client. Sets `client.session`, unless it is over."""
        timeout_ms = negotiate_timeout(request.timeout_ms)
        if request.session == NO_SESSION:
            session = self._create(client, timeout_ms)
        else:
            found = self.sessions.find(request.session)
            if found is None or request.password != password_of(found.id):
                return ConnectResponse(0, NO_SESSION, NO_PASSWORD)
            session = found
            if session.client is not None:
                session.client.end()
            session.timeout_ms = timeout_ms
            self.touch(session)
        client.session = session
        session.client = client
        return ConnectResponse(timeout_ms, session.id, password_of(session.id))

    def write(
        self, client: EnsembleClient, session: Session, request: Write | Multi | CloseSession
    ) -> Reply | None:
        """Commit a transaction of a client. None: its connection has ended: no reply is sent."""
        if isinstance(request, CloseSession):
            return self._close(session)
        if not self.before_write(client.process, request):
            return None
        losing = self._losing.get(client.process)
        is_lost = bool(losing)
        if losing and not losing.pop(0):
            client.lose()
            return None
        reply = self.state.apply(session.id, request, self.wall_ms)
        if is_lost:
            client.lose()
        self._publish_transaction(session, request, reply)
        self.after_write(client.process)
        return None if is_lost or client.is_over else reply

    # Inner parts

    @property
    def _has_majority(self) -> bool:
        return 2 * sum(one.is_alive for one in self.members) > len(self.members)

    def _member(self, where: int | str) -> Member:
        if isinstance(where, int):
            return self.members[where]
        number = self.member_of(where)
        return self.members[self._next_member(where) if number is None else number]

    def _next_member(self, process: str) -> int:
        """The member that serves the next connection of a process."""
        digits = process.rpartition(" ")[2]
        first = int(digits) if digits.isdecimal() else 0
        return (first + self._connections.get(process, 0)) % len(self.members)

    def _accept(self, process: str) -> ConnectionSide | None:
        member = self.members[self._next_member(process)]
        self._connections[process] = self._connections.get(process, 0) + 1
        if not self._serves or not member.is_alive:
            return None
        client = EnsembleClient(self, member, process)
        member.add_client(client)
        return client

    def _create(self, client: EnsembleClient, timeout_ms: int) -> Session:
        id_ = self.state.create_session()
        session = Session(id_, client.process, timeout_ms, self.state.zxid)
        self.sessions.add(session, self.scheduler.now_us // MS)
        self._publish_transaction(session, CreateSession(), Reply(self.state.zxid, ()))
        return session

    def _close(self, session: Session) -> Reply:
        """Commit the end of a session. Its connection is ended by the caller, or by the member once
        it has applied this transaction."""
        self.sessions.remove(session.id)
        self._closing.pop(session.id, None)
        if self.state.is_live(session.id):
            self.state.end_session(session.id)
            self._publish_transaction(session, CloseSession(), Reply(self.state.zxid, ()))
        return Reply(self.state.zxid, ())

    def _publish_transaction(
        self, session: Session, request: Write | Multi | CreateSession | CloseSession, reply: Reply
    ) -> None:
        state = self.state
        transaction = Transaction(
            state.zxid,
            self.scheduler.now_us,
            self.wall_ms,
            session.process,
            session.id,
            request,
            reply,
            state.changes,
            self.network.current,
        )
        self.on_transaction(transaction)
        for id_ in state.notified():
            events = state.take_events(id_)
            notified = self.sessions.find(id_)
            if notified is not None and notified.client is not None:
                notified.client.fire(events)
        for member in self.members:
            if member.lags:
                member.on_commit(transaction)

    def _tick(self) -> None:
        """Expire the sessions whose time-out is over."""
        self.scheduler.after(TICK_MS * MS, self._tick)
        if self._serves and self._deferred is None:
            self._expire_due()

    def _expire_due(self) -> None:
        now_ms = self.scheduler.now_us // MS
        for session in self.sessions.expired(now_ms // TICK_MS * TICK_MS):
            self._expire(session)

    def _expire(self, session: Session) -> None:
        late_us = self._late_us.get(session.process, 0)
        client = session.client
        if not late_us:
            self._close(session)
            if client is not None and not client.member_lags:
                client.end()
            return
        self.sessions.remove(session.id)
        self._closing[session.id] = session
        if client is not None:
            client.end()
        self.scheduler.after(late_us, lambda: self._delete_ephemerals(session))

    def _delete_ephemerals(self, session: Session) -> None:
        """The late end of a session, unless a change of the leader has revived it."""
        if session.id not in self._closing:
            return
        if not self.defer(lambda: self._delete_ephemerals(session)) and self._serves:
            self._close(session)

    def _wake(self) -> None:
        if self._deferred is None or self.scheduler.now_us < self._hung_until_us:
            return
        deferred, self._deferred = self._deferred, None
        if self._serves:
            self._expire_due()
        for action in deferred:
            action()

    def _serve(self) -> None:
        """The new leader serves."""
        if self._serves or self.scheduler.now_us < self._down_until_us or not self._has_majority:
            return
        self._serves = True
        now_ms = self.scheduler.now_us // MS
        closing, self._closing = self._closing, {}
        for session in closing.values():
            self.sessions.add(session, now_ms)
        self.sessions.touch_all(now_ms)
        for member in self.members:
            if member.is_alive:
                member.start()
