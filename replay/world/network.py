"""Connections between the processes of the simulation.

A connection delivers the messages of each direction in the order in which they were sent, as TCP
does. Each direction between two processes is a *link*, named "sender>receiver"; its messages are
numbered from 1 on, over all connections between the two. So (link, number) names a message in every
run with the same inputs, and a forced order is a delay of one message (`Network.delays`).

Faults are of links and processes: a cut breaks connections and refuses new ones, a held link
delivers nothing until it is released (a half-open connection, if only one of the two is held).
"""

from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from replay.world.scheduler import MS, Scheduler

LATENCY_US: Final = MS // 2
"""One way, between any two processes."""

Message = object


class ConnectionSide(Protocol):
    """One side of a connection. A process may use one endpoint for each of its connections."""

    def connected(self, connection: "Connection") -> None:
        """The connection is established; sent to the side that asked for it. A process that has
        ended meanwhile closes it."""

    def received(self, connection: "Connection", message: Message) -> None:
        """A message arrived."""

    def disconnected(self, connection: "Connection | None") -> None:
        """The connection has ended, or could not be established (None)."""


Listener = Callable[[str], ConnectionSide | None]
"""Takes the name of the process that connects; returns the endpoint that serves the connection, or
None to refuse it."""


class Delivery(NamedTuple):
    """A message that was delivered: its link and its number there.

    Deliveries are numbered from 1 on. `cause` is the delivery during which the message was sent, 0
    if it was sent at another time.
    """

    id: int
    at_us: int
    link: str
    number: int
    cause: int
    message: Message


class _Link:
    """One direction between two processes."""

    __slots__ = ("free_us", "held", "name", "receiver", "refuses", "sent", "waiting")

    def __init__(self, name: str, receiver: str) -> None:
        self.name = name
        self.receiver = receiver
        self.sent = 0
        self.free_us = 0
        """When the last message arrives: later ones arrive later."""
        self.held = False
        self.refuses = False
        """Held, and new connections are refused."""
        self.waiting: list[Callable[[], None]] = []


class Connection:
    """One connection, as one of its sides sees it."""

    __slots__ = ("_network", "endpoint", "is_open", "local", "other", "outgoing", "remote")

    def __init__(
        self, network: "Network", local: str, remote: str, endpoint: ConnectionSide
    ) -> None:
        self._network = network
        self.local = local
        self.remote = remote
        self.endpoint = endpoint
        self.other: Connection
        self.outgoing: _Link
        self.is_open = True

    def send(self, message: Message) -> None:
        """Send a message. It is lost if the connection has ended, or ends before it arrives."""
        if self.is_open:
            self._network.send(self, message)

    def close(self) -> None:
        """End the connection. The other side learns it after all that was sent before."""
        if self.is_open:
            self.is_open = False
            self._network.closed(self)


class Network:
    """All processes that listen, and all connections between processes.

    `delays`: by link and number, how many microseconds later a message arrives. `observe` is called
    with each delivery, before it.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._listeners: dict[str, Listener] = {}
        self._links: dict[str, _Link] = {}
        self._connections: dict[Connection, None] = {}
        self._cut: dict[frozenset[str], None] = {}
        self._paused: dict[str, list[Callable[[], None]]] = {}
        self.delays: dict[tuple[str, int], int] = {}
        self.observe: Callable[[Delivery], None] | None = None
        self._deliveries = 0
        self.current = 0
        """The delivery that is being handled, 0 between deliveries. An action that a process
        schedules for later may set it back to what it was, so that causes stay known."""

    def listen(self, process: str, listener: Listener) -> None:
        """Accept connections to a process."""
        self._listeners[process] = listener

    def listeners(self) -> list[str]:
        """The processes that accept connections, in the order in which they began to."""
        return list(self._listeners)

    def connect(self, local: str, remote: str, endpoint: ConnectionSide) -> None:
        """Connect to a process. `endpoint` learns the result after a round trip."""
        self._scheduler.after(2 * LATENCY_US, lambda: self._establish(local, remote, endpoint))

    def send(self, connection: Connection, message: Message) -> None:
        """Called by `Connection.send`."""
        link = connection.outgoing
        link.sent += 1
        number = link.sent
        late_us = self.delays.get((link.name, number), 0) if self.delays else 0
        self._arrive(
            link,
            LATENCY_US + late_us,
            _InTransit(self, link, number, self.current, connection.other, message),
        )

    def closed(self, connection: Connection) -> None:
        """Called by `Connection.close`."""
        self._connections.pop(connection, None)
        link = connection.outgoing

        def arrive() -> None:
            if link.held:
                link.waiting.append(arrive)
            elif not self.waits(link.receiver, arrive):
                self._end(connection.other)

        self._arrive(link, LATENCY_US, arrive)

    # Faults

    def end_process(self, process: str) -> None:
        """The process ends: it no longer listens, and its connections end. It is informed of
        nothing any more."""
        self._listeners.pop(process, None)
        self._paused.pop(process, None)
        for connection in [one for one in self._connections if one.local == process]:
            connection.close()

    def cut(self, one: str, other: str) -> None:
        """Break all connections between two processes and refuse new ones, until `heal`. Both sides
        learn it at once."""
        self._cut[frozenset((one, other))] = None
        self.reset(one, other)

    def reset(self, one: str, other: str) -> None:
        """Break all connections between two processes. Both sides learn it at once; messages on the
        way are lost."""
        names = {one, other}
        broken = [each for each in self._connections if {each.local, each.remote} == names]
        for connection in broken:
            self._connections.pop(connection, None)
        for connection in broken:
            self._end(connection)

    def heal(self, one: str, other: str) -> None:
        """Allow connections between two processes again."""
        self._cut.pop(frozenset((one, other)), None)

    def pause(self, process: str) -> None:
        """The process does not run: all that arrives at it waits, also the ends of connections.
        Others can connect to it."""
        self._paused.setdefault(process, [])

    def is_paused(self, process: str) -> bool:
        """Whether the process is paused."""
        return process in self._paused

    def resume(self, process: str) -> None:
        """The process runs again, and receives what waits in the order of its arrival."""
        for arrival in self._paused.pop(process, ()):
            arrival()

    def hold_messages(self, sender: str, receiver: str, *, accepts: bool = False) -> None:
        """Deliver nothing from one process to another, until `release`. Neither side learns it.
        `accepts`: new connections are possible, and their messages wait."""
        link = self._link(sender, receiver)
        link.refuses = link.refuses or not accepts
        link.held = True

    def release(self, sender: str, receiver: str) -> None:
        """Deliver what waits, in order, and everything later."""
        link = self._link(sender, receiver)
        link.held = link.refuses = False
        waiting, link.waiting = link.waiting, []
        for arrival in waiting:
            arrival()

    def sent(self) -> dict[str, int]:
        """How many messages were sent on each link."""
        return {name: link.sent for name, link in self._links.items()}

    def _link(self, sender: str, receiver: str) -> _Link:
        name = f"{sender}>{receiver}"
        link = self._links.get(name)
        if link is None:
            link = self._links[name] = _Link(name, receiver)
        return link

    def _arrive(self, link: _Link, delay_us: int, arrival: Callable[[], None]) -> None:
        due_us = self._scheduler.now_us + delay_us
        if due_us > link.free_us:
            link.free_us = due_us
        self._scheduler.call_at(link.free_us, arrival)

    def waits(self, process: str, arrival: Callable[[], None]) -> bool:
        """Whether a process is paused. Messages to a paused process arrive when it runs again."""
        waiting = self._paused.get(process) if self._paused else None
        if waiting is None:
            return False
        waiting.append(arrival)
        return True

    def _handle(self, process: str, arrival: Callable[[], None]) -> None:
        if not self.waits(process, arrival):
            arrival()

    def _establish(self, local: str, remote: str, endpoint: ConnectionSide) -> None:
        listener = self._listeners.get(remote)
        refuses = self._link(local, remote).refuses or self._link(remote, local).refuses
        is_cut = refuses or frozenset((local, remote)) in self._cut
        # The operating system of a paused process accepts connections for it.
        waits = remote in self._paused
        serving: ConnectionSide | None = None
        if listener is not None and not is_cut:
            serving = _Unaccepted() if waits else listener(local)
        if serving is None:
            self._handle(local, lambda: endpoint.disconnected(None))
            return
        here = Connection(self, local, remote, endpoint)
        there = Connection(self, remote, local, serving)
        here.other, there.other = there, here
        here.outgoing, there.outgoing = self._link(local, remote), self._link(remote, local)
        self._connections[here] = self._connections[there] = None
        if waits:
            self._handle(remote, lambda: self._accept(there))
        self._handle(local, lambda: endpoint.connected(here))

    def _accept(self, connection: Connection) -> None:
        """A process that was paused when another one connected accepts or refuses it."""
        listener = self._listeners.get(connection.local)
        serving = listener(connection.remote) if listener is not None else None
        if serving is None:
            connection.close()
        else:
            connection.endpoint = serving

    def _end(self, connection: Connection) -> None:
        self._connections.pop(connection, None)
        if connection.is_open:
            connection.is_open = False
            self._handle(connection.local, lambda: connection.endpoint.disconnected(connection))

    def deliver(self, transit: "_InTransit") -> None:
        """Called by a message when it has arrived at a process that runs."""
        receiving = transit.receiving
        if not receiving.is_open:
            return
        self._deliveries = self.current = self._deliveries + 1
        if self.observe is not None:
            self.observe(
                Delivery(
                    self.current,
                    self._scheduler.now_us,
                    transit.link.name,
                    transit.number,
                    transit.cause,
                    transit.message,
                )
            )
        receiving.endpoint.received(receiving, transit.message)
        self.current = 0


class _InTransit:
    """A message between its sending and its arrival."""

    __slots__ = ("_network", "cause", "link", "message", "number", "receiving")

    def __init__(
        self,
        network: Network,
        link: _Link,
        number: int,
        cause: int,
        receiving: Connection,
        message: Message,
    ) -> None:
        self._network = network
        self.link = link
        self.number = number
        self.cause = cause
        self.receiving = receiving
        self.message = message

    def __call__(self) -> None:
        """The message arrives."""
        if self.link.held:
            self.link.waiting.append(self)
        elif not self._network.waits(self.link.receiver, self):
            self._network.deliver(self)


class _Unaccepted:
    """The endpoint of a connection to a process that is paused."""

    def connected(self, connection: Connection) -> None:
        """Not called: the other side connects."""

    def received(self, connection: Connection, message: Message) -> None:
        """Not called: all that arrives waits until the acceptance."""

    def disconnected(self, connection: Connection | None) -> None:
        """Not called, as `received`."""
