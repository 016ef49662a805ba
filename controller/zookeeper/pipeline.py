"""The commands of one session in order: queued commands, and requests in flight.

Requests are sent in the order of the commands, many at once, and are answered in the same order.
The number and the bytes of requests in flight are limited; a single request may exceed the byte
limit.
"""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from controller.core.commands import CommandId, ZooKeeperCommand
from controller.zookeeper import wire
from controller.zookeeper.commands import work_of
from controller.zookeeper.errors import MalformedReply
from controller.zookeeper.work import Exchange, OutcomeEvent, Work, ZooKeeperRequest

XID_MAX = 0x7FFFFFFF


class InFlight(NamedTuple):
    """A request without a reply; `work` is None for a request of the session itself."""

    xid: int
    work: Work | None
    request: ZooKeeperRequest


class Pipeline:
    """Queued commands and unanswered requests."""

    def __init__(self, exchange: Exchange, requests_max: int, bytes_max: int) -> None:
        self._exchange = exchange
        self._requests_max = requests_max
        self._bytes_max = bytes_max
        self._last_xid = 0
        # The core bounds the queue: it awaits the outcomes of its commands.
        self._waiting: deque[tuple[CommandId, ZooKeeperCommand]] = deque()  # bounded by the core
        self._current: Work | None = None
        self._flight: deque[InFlight] = deque()  # bounded by requests_max
        self._flight_bytes = 0

    @property
    def is_idle(self) -> bool:
        """Whether no reply is expected."""
        return not self._flight

    def add(self, command_id: CommandId, command: ZooKeeperCommand) -> None:
        """Queue a command."""
        self._waiting.append((command_id, command))

    def pump(self) -> Iterator[bytes]:
        """The frames that may be sent now within the limits."""
        while len(self._flight) < self._requests_max and self._flight_bytes < self._bytes_max:
            if self._current is None:
                if not self._waiting:
                    return
                self._current = work_of(*self._waiting.popleft(), self._exchange)
            work = self._current
            request = work.take()
            if request is not None:
                yield self.send(request, work)
            elif not work.sent:
                return
            if work.sent:
                self._current = None

    def send(self, request: ZooKeeperRequest, work: Work | None = None) -> bytes:
        """The frame of a request, which counts as in flight from now on."""
        self._last_xid = self._last_xid % XID_MAX + 1
        self._flight.append(InFlight(self._last_xid, work, request))
        self._flight_bytes += request.flight_bytes
        return wire.framed(self._last_xid, request.body)

    def next_answered(self, xid: int) -> InFlight:
        """The request that a reply answers, by xid. Raises MalformedReply if it is not the
        oldest one."""
        if not self._flight or self._flight[0].xid != xid:
            raise MalformedReply(f"a reply to request {xid}, which is not the oldest one")
        return self._flight[0]

    def done(self) -> None:
        """The oldest request was answered and its reply was read."""
        self._flight_bytes -= self._flight.popleft().request.flight_bytes

    def fail(self, error: int) -> Iterator[OutcomeEvent]:
        """End all unfinished commands with `error`, in order."""
        works = dict.fromkeys(one.work for one in self._flight if one.work is not None)
        if self._current is not None:
            works[self._current] = None
        self._current = None
        self._flight.clear()
        self._flight_bytes = 0
        for work in works:
            yield from work.fail(error)
        yield from self.fail_waiting(error)

    def fail_waiting(self, error: int) -> Iterator[OutcomeEvent]:
        """End the commands of which nothing was sent with `error`."""
        while self._waiting:
            yield from work_of(*self._waiting.popleft(), self._exchange).fail(error)
