"""A ZooKeeper client of a broker or an admin: one session at a time, over the world's network.

Requests and replies are the values of `requests`. Watches are one-shot, as stock brokers use them.
The client reconnects without being asked, and starts a new session after one has expired.
"""

from collections.abc import Callable
from typing import Protocol

from controller.core.events import WatchFired
from replay.world.network import Network
from replay.world.requests import Reply, Request
from replay.world.scheduler import Clock

OnReply = Callable[[Reply | None], None]
"""Takes the reply; None if the connection was lost before it came (the request may have been
carried out or not)."""


class SessionOwner(Protocol):
    """What a process does when its session changes, and when a watch fires."""

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


class ZooKeeperClient:
    """The session of one process."""

    def __init__(
        self,
        scheduler: Clock,
        network: Network,
        process: str,
        owner: SessionOwner,
        timeout_ms: int = 18_000,
    ) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Connect; `session_started` follows."""

    def submit(self, request: Request, on_reply: OnReply) -> None:
        """Send a request. Without a connection `on_reply` gets None at once."""

    def close(self) -> None:
        """Close the session cleanly: its ephemeral znodes are deleted at once."""

    def crash(self) -> None:
        """The process ends without closing its session. Nothing is called any more."""
