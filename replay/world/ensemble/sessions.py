"""The sessions of an ensemble, and when they expire.

The rules are those of ZooKeeper's SessionTrackerImpl and ExpiryQueue: any message of a session
moves the end of its time-out, which is rounded up to the next tick, so a session lives up to one
tick longer. After a change of the leader, every time-out starts again.
"""

from collections.abc import Iterable
from typing import Final, Protocol

from controller.core.events import WatchFired

TICK_MS: Final = 2_000
TIMEOUT_MS_MIN: Final = 2 * TICK_MS
TIMEOUT_MS_MAX: Final = 20 * TICK_MS


class SessionConnection(Protocol):
    """The connection of a session to a member."""

    @property
    def member_number(self) -> int:
        """Which member."""

    @property
    def member_lags(self) -> bool:
        """Whether the member learns later what the leader has committed."""

    def fire(self, events: Iterable[WatchFired]) -> None:
        """Send watch events."""

    def end(self) -> None:
        """End the connection."""


class Session:
    """A session. `created` is the zxid of its start; `client` its connection, if there is one."""

    __slots__ = ("client", "created", "expires_ms", "id", "process", "timeout_ms")

    def __init__(self, id_: int, process: str, timeout_ms: int, created: int) -> None:
        self.id = id_
        self.process = process
        self.timeout_ms = timeout_ms
        self.created = created
        self.expires_ms = 0
        self.client: SessionConnection | None = None


class Sessions:
    """The sessions that have not expired, by id."""

    def __init__(self) -> None:
        self._sessions: dict[int, Session] = {}

    def add(self, session: Session, now_ms: int) -> None:
        """Begin to track a session."""
        self._sessions[session.id] = session
        self.touch(session, now_ms)

    def find(self, session: int) -> Session | None:
        """A session, None if it is over."""
        return self._sessions.get(session)

    def remove(self, session: int) -> None:
        """The session is over."""
        self._sessions.pop(session, None)

    def touch(self, session: Session, now_ms: int) -> None:
        """A message of the session arrived."""
        session.expires_ms = ((now_ms + session.timeout_ms) // TICK_MS + 1) * TICK_MS

    def touch_all(self, now_ms: int) -> None:
        """A new leader starts every time-out again."""
        for session in self._sessions.values():
            self.touch(session, now_ms)

    def expired(self, now_ms: int) -> list[Session]:
        """The sessions whose time is over, in the order of their start."""
        return [one for one in self._sessions.values() if one.expires_ms <= now_ms]

    def sessions_of(self, process: str) -> list[Session]:
        """The sessions that a process started, in the order of their start."""
        return [one for one in self._sessions.values() if one.process == process]


def negotiate_timeout(timeout_ms: int) -> int:
    """The time-out that a server grants."""
    return max(TIMEOUT_MS_MIN, min(timeout_ms, TIMEOUT_MS_MAX))
