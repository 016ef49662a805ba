"""Which connections may stand. Pure: told what happens, says which connection has to go.

A new connection is always let in: where there is no room, another goes in its place. First those
that never sent a whole request, then those of clients, last those that asked something of the
controller; among equals the one whose last request is the longest ago. So clients, however many,
keep no broker out.
"""

from collections.abc import Iterator
from enum import IntEnum


class ConnectionPriority(IntEnum):
    """What a connection is to us, by the requests it sent; the lowest go first."""

    NEW = 0
    CLIENT = 1
    BROKER = 2


class Admission:
    """The connections that stand, by number."""

    def __init__(self, total_max: int, per_address_max: int) -> None:
        self._total_max = total_max
        self._per_address_max = per_address_max
        self._addresses: dict[int, str] = {}
        self._priorities: dict[int, ConnectionPriority] = {}
        self._counts: dict[str, int] = {}
        # In the order of their last requests, the longest ago first.
        self._by_priority: dict[ConnectionPriority, dict[int, None]] = {
            priority: {} for priority in ConnectionPriority
        }

    def admit(self, connection: int, address: str) -> int | None:
        """Let a connection in; gives the one that has to go for it, which counts no more."""
        evicted = self._connection_to_evict(address)
        if evicted is not None:
            self.connection_closed(evicted)
        self._addresses[connection] = address
        self._counts[address] = self._counts.get(address, 0) + 1
        self._priorities[connection] = ConnectionPriority.NEW
        self._by_priority[ConnectionPriority.NEW][connection] = None
        return evicted

    def request_received(self, connection: int, priority: ConnectionPriority) -> None:
        """A whole request came; what a connection is worth never falls."""
        before = self._priorities.get(connection)
        if before is None:
            return
        del self._by_priority[before][connection]
        now = self._priorities[connection] = max(before, priority)
        self._by_priority[now][connection] = None

    def connection_closed(self, connection: int) -> None:
        """The connection has ended; told again, nothing happens."""
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
