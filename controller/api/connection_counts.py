"""Counts of the connections of one listener since the front process began."""

from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct, structs

ClosingReason = Literal[
    "replaced",
    "refused",
    "address rate",
    "handshake timeout",
    "authentication",
    "session expired",
    "idle",
    "not passed on",
    "request",
]

REASONS: Final[dict[ClosingReason, str]] = {
    "replaced": "a limit was reached, and another connection took its place",
    "refused": "no connection is allowed from the address",
    "address rate": "the address has too many new connections (connection_creation_rate)",
    "handshake timeout": "the TLS handshake and the login were not complete in time",
    "authentication": "the TLS handshake or the login failed",
    "session expired": "the client did not log in again within connections.max.reauth.ms",
    "idle": "it sent no request for too long",
    "not passed on": "a request was for a broker, which would not know the client",
    "request": "a request was too large, malformed or too slow",
}
"""Why refold closes a connection."""


class ListenerCounts(Struct):
    """The counts of one listener. `throttled_ms`: how long new connections have waited because of a
    creation rate. `closed`: by refold, by reason."""

    open: int = 0
    created: int = 0
    throttled_ms: int = 0
    logins: int = 0
    failed_logins: int = 0
    renewals: int = 0
    failed_renewals: int = 0
    closed: dict[str, int] = {}

    def close(self, reason: ClosingReason) -> None:
        """refold closes a connection."""
        self.closed[reason] = self.closed.get(reason, 0) + 1

    def copy(self) -> "ListenerCounts":
        """The present counts, which do not change any more."""
        return structs.replace(self, closed=dict(self.closed))


class ConnectionTotals:
    """The counts of all front processes of a run, by listener."""

    def __init__(self, listeners: Iterable[str]) -> None:
        self._ended = {name: ListenerCounts() for name in listeners}
        self._present: dict[str, ListenerCounts] = {}

    def counted(self, listeners: dict[str, ListenerCounts]) -> None:
        """The counts of the present front process."""
        self._present = listeners

    def front_ended(self) -> None:
        """The front process has ended, and its connections with it."""
        self._ended = self.by_listener()
        for one in self._ended.values():
            one.open = 0
        self._present = {}

    def by_listener(self) -> dict[str, ListenerCounts]:
        """The present counts of each listener."""
        found = {}
        for name in {**self._ended, **self._present}:
            parts = [one[name] for one in (self._ended, self._present) if name in one]
            found[name] = _sum(parts)
        return found


def _sum(parts: list[ListenerCounts]) -> ListenerCounts:
    total = ListenerCounts()
    for part in parts:
        for field in part.__struct_fields__:
            if field != "closed":
                setattr(total, field, getattr(total, field) + getattr(part, field))
        for reason, count in part.closed.items():
            total.closed[reason] = total.closed.get(reason, 0) + count
    return total
