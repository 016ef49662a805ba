"""The interfaces between a session and the execution of its commands."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controller.core.events import ChildrenRead, ZnodesRead, ZnodesWritten
from controller.zookeeper.acls import ZnodeAcls
from controller.zookeeper.watches import SessionWatches

EVENT_ITEMS_MAX: Final = 10_000
"""Items per event if they have no data."""

OutcomeEvent = ZnodesRead | ChildrenRead | ZnodesWritten


class ZooKeeperRequest(NamedTuple):
    """A request to send: its body from the opcode on; the bytes that count against the limit of
    bytes in flight (the larger of request and reply); and a token that identifies its reply.
    """

    body: bytes
    flight_bytes: int
    token: object = None


@dataclass
class Exchange:
    """Shared by all work of a session: the chroot, the ACLs, the watches, the server's abilities.

    `bulk`: whether the server of a ready connection supports multiRead and addWatch (from 3.6 on).
    """

    chroot: str
    acls: ZnodeAcls
    watches: SessionWatches = field(default_factory=SessionWatches)
    bulk: bool = False

    @property
    def refusals(self) -> Mapping[str, int]:
        """The errors of refused persistent watches, by path; none on a server without them."""
        return self.watches.refusals if self.bulk else {}

    def server_path(self, path: str) -> str:
        """The path on the server."""
        if not self.chroot:
            return path
        return self.chroot if path == "/" else self.chroot + path

    def encoded(self, path: str) -> bytes:
        """The encoded path on the server."""
        return self.server_path(path).encode()

    def relative(self, full: str) -> str:
        """The path without the chroot."""
        return full[len(self.chroot) :] or "/"


class Work(ABC):
    """A command in execution: it yields requests and converts their replies to outcome events.

    It belongs to one connection; if that ends, unfinished work ends with `fail`.
    """

    @abstractmethod
    def take(self) -> ZooKeeperRequest | None:
        """The next request, or None if there is none now. A later call may return one until
        `sent` is true."""

    @property
    @abstractmethod
    def sent(self) -> bool:
        """Whether there are no more requests, so that those of the next command may follow."""

    @abstractmethod
    def reply(self, token: object, error: int, frame: bytes) -> Iterator[OutcomeEvent]:
        """Handle the reply to the request with that token. Raises MalformedReply."""

    @abstractmethod
    def path_of(self, place: int) -> str:
        """The znode of the item at this place of the command."""

    @abstractmethod
    def fail(self, error: int) -> Iterator[OutcomeEvent]:
        """End now: everything without an outcome ends with `error`."""
