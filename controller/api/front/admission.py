"""Decides which connection to close when there are too many. Pure.

A new connection is always accepted; at the limit, another one is closed for it. The order is:
connections without a complete request, then those of clients, then those that sent a request to the
controller. Within a class the connection with the oldest last request is closed first. With this
order clients cannot keep a broker out, however many connections they open.
"""

from collections.abc import Iterator
from enum import IntEnum


class ConnectionPriority(IntEnum):
    """The priority of a connection, by the requests that it sent. The lowest is closed first."""

    NEW = 0
    CLIENT = 1
    BROKER = 2


class Admission:
    """The open connections, by number."""

    def __init__(self, total_max: int, per_address_max: int) -> None:
        self._total_max = total_max
        self._per_address_max = per_address_max
        self._addresses: dict[int, str] = {}
        self._priorities: dict[int, ConnectionPriority] = {}
        self._counts: dict[str, int] = {}
        # Ordered by last request, the oldest first.
        self._by_priority: dict[ConnectionPriority, dict[int, None]] = {
            priority: {} for priority in ConnectionPriority
        }

    def admit(self, connection: int, address: str) -> int | None:
        """Accept a connection; return the one that must be closed for it, which no longer
        counts."""
        evicted = self._connection_to_evict(address)
        if evicted is not None:
            self.connection_closed(evicted)
        self._addresses[connection] = address
        self._counts[address] = self._counts.get(address, 0) + 1
        self._priorities[connection] = ConnectionPriority.NEW
        self._by_priority[ConnectionPriority.NEW][connection] = None
        return evicted

    def request_received(self, connection: int, priority: ConnectionPriority) -> None:
        """A complete request arrived. The priority of a connection never decreases."""
        before = self._priorities.get(connection)
        if before is None:
            return
        del self._by_priority[before][connection]
        now = self._priorities[connection] = max(before, priority)
        self._by_priority[now][connection] = None

    def connection_closed(self, connection: int) -> None:
        """The connection was closed. Repeated calls have no effect."""
        address = self._addresses.pop(connection, None)
        if address is None:
            return
        del self._by_priority[self._priorities.pop(connection)][connection]
        self._counts[address] -= 1
        if not self._counts[address]:
            del self._counts[address]

    def _connection_to_evict(self, address: str) -> int | None:
        if self._counts.get(address, 0) >= self._per_address_max:
            return next(
                one for one in self._lowest_priority_first() if self._addresses[one] == address
            )
        return (
            next(self._lowest_priority_first()) if len(self._addresses) >= self._total_max else None
        )

    def _lowest_priority_first(self) -> Iterator[int]:
        for priority in ConnectionPriority:
            yield from self._by_priority[priority]
