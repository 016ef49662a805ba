"""What every command's execution offers to the session, and what the session offers to it."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controller.core.events import ChildrenRead, ZnodesRead, ZnodesWritten
from controller.zookeeper.watches import Watches

EVENT_ITEMS_MAX: Final = 10_000
"""Items in one event where they carry no data."""

OutcomeEvent = ZnodesRead | ChildrenRead | ZnodesWritten


class Request(NamedTuple):
    """A request to send: its body from the opcode on, the bytes that it takes of the flight limit
    (of itself or of its reply, the larger), and what tells its reply from the others."""

    body: bytes
    flight_bytes: int
    token: object = None


@dataclass
class Exchange:
    """What the works of a session share: the chroot, the ACL, the watches, what the server knows.

    `bulk` is whether the server knows multiRead and addWatch (from 3.6 on); None: not asked yet.
    """

    chroot: str
    acl: bytes
    watches: Watches = field(default_factory=Watches)
    bulk: bool | None = None

    def full(self, path: str) -> str:
        """The path on the server."""
        if not self.chroot:
            return path
        return self.chroot if path == "/" else self.chroot + path

    def encoded(self, path: str) -> bytes:
        """The path on the server, as it is sent."""
        return self.full(path).encode()

    def relative(self, full: str) -> str:
        """The path as the core knows it."""
        return full[len(self.chroot) :] or "/"


class Work(ABC):
    """A command on its way: it gives requests and turns their replies into outcome events.

    Lives on one connection: what is not done when that ends ends by `fail`.
    """

    @abstractmethod
    def take(self) -> Request | None:
        """The next request, or None: nothing now. A later call may give one while not `sent`."""

    @property
    @abstractmethod
    def sent(self) -> bool:
        """Whether no request can come any more, so that the next command's may follow."""

    @abstractmethod
    def reply(self, token: object, error: int, frame: bytes) -> Iterator[OutcomeEvent]:
        """Take the reply of the request with that token. Raises MalformedReply."""

    @abstractmethod
    def fail(self, error: int) -> Iterator[OutcomeEvent]:
        """End now: everything that has no outcome yet ends with `error`."""
