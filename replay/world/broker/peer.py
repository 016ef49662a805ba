"""One connection on which a process sends requests."""

from collections.abc import Callable

from replay.world.network import Connection, Message, Network
from replay.world.scheduler import Clock, ScheduledAction

MakeRequest = Callable[[int], Message]
"""Takes the number of the request, which the response has, too."""


class Peer:
    """A connection to one process, from the first request to its end.

    After `on_failure` (the connection was refused or lost, or a response is overdue) it is of no
    use any more. The caller's earlier requests are lost, or carried out without a response.
    """

    __slots__ = (
        "_clock",
        "_connection",
        "_is_over",
        "_number",
        "_on_failure",
        "_on_response",
        "_sent",
        "_timeout_us",
        "_timer",
        "_unsent",
        "remote",
    )

    def __init__(
        self,
        clock: Clock,
        network: Network,
        process: str,
        remote: str,
        on_response: Callable[[Message], None],
        on_failure: Callable[[], None],
        timeout_us: int,
    ) -> None:
        self.remote = remote
        self._clock = clock
        self._on_response = on_response
        self._on_failure = on_failure
        self._timeout_us = timeout_us
        self._number = 0
        self._sent: dict[int, int] = {}
        """When each request was sent that has no response yet, in that order."""
        self._unsent: list[Message] = []
        self._connection: Connection | None = None
        self._timer: ScheduledAction | None = None
        self._is_over = False
        network.connect(process, remote, self)

    def send(self, make: MakeRequest, *, has_response: bool = True) -> int:
        """Send a request; returns its number."""
        self._number += 1
        message = make(self._number)
        if has_response:
            self._sent[self._number] = self._clock.now_us
            if self._timer is None:
                self._timer = self._clock.after(self._timeout_us, self._check)
        if self._connection is None:
            self._unsent.append(message)
        else:
            self._connection.send(message)
        return self._number

    def close(self) -> None:
        """End the connection. Nothing is called any more."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        if self._connection is not None:
            self._connection.close()

    def connected(self, connection: Connection) -> None:
        """Send what waits."""
        if self._is_over:
            connection.close()
            return
        self._connection = connection
        for message in self._unsent:
            connection.send(message)
        self._unsent.clear()

    def received(self, connection: Connection, message: Message) -> None:
        """A response: the first field of each is its number."""
        if not self._is_over:
            self._sent.pop(message.number, None)  # type: ignore[attr-defined]
            self._on_response(message)

    def disconnected(self, connection: Connection | None) -> None:
        """The connection was refused, or is lost."""
        if not self._is_over:
            self.close()
            self._on_failure()

    def _check(self) -> None:
        self._timer = None
        if not self._sent:
            return
        due_us = next(iter(self._sent.values())) + self._timeout_us
        if due_us > self._clock.now_us:
            self._timer = self._clock.call_at(due_us, self._check)
        else:
            self.disconnected(None)
