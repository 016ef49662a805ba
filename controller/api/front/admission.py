"""Decides which connection to close when there are too many. Pure.

A new connection is always accepted, unless its address may have none; at a limit, another one is
closed for it: of the same address or of the same listener, if the limit is theirs. The order is:
connections without a complete request, then those of clients, then those that sent a request to the
controller. Within a class the connection with the oldest last request is closed first. With this
order clients cannot close a broker's connection, however many they open. They can close one that is
still logging in, if they hold all others and open more and more (docs/endpoint.md).
"""

from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final

_NONE: Final[Mapping[str, int]] = MappingProxyType({})


class ConnectionPriority(IntEnum):
    """The priority of a connection, by the requests that it sent. The lowest is closed first."""

    NEW = 0
    CLIENT = 1
    BROKER = 2


class Admission:
    """The open connections, by number. `of_addresses`: limits of single addresses, in place of
    `per_address_max`; `of_listeners`: limits of listeners."""

    def __init__(
        self,
        total_max: int,
        per_address_max: int,
        of_addresses: Mapping[str, int] = _NONE,
        of_listeners: Mapping[str, int] = _NONE,
    ) -> None:
        self._total_max = total_max
        self._per_address_max = per_address_max
        self._of_addresses = of_addresses
        self._of_listeners = of_listeners
        self._origins: dict[int, tuple[str, str]] = {}
        self._priorities: dict[int, ConnectionPriority] = {}
        self._by_address: dict[str, int] = {}
        self._by_listener: dict[str, int] = {}
        # Ordered by last request, the oldest first.
        self._by_priority: dict[ConnectionPriority, dict[int, None]] = {
            priority: {} for priority in ConnectionPriority
        }

    def set_limits(
        self, total_max: int, per_address_max: int, of_addresses: Mapping[str, int]
    ) -> None:
        """Change the limits. They count for new connections."""
        self._total_max = total_max
        self._per_address_max = per_address_max
        self._of_addresses = of_addresses

    def admit(self, connection: int, address: str, listener: str = "") -> int | None:
        """Accept a connection; return the one that must be closed for it, which no longer counts.
        It is the new one itself if its address may have none."""
        if not self._max_of(address):
            return connection
        evicted = self._connection_to_evict(address, listener)
        if evicted is not None:
            self.connection_closed(evicted)
        self._origins[connection] = address, listener
        self._by_address[address] = self._by_address.get(address, 0) + 1
        self._by_listener[listener] = self._by_listener.get(listener, 0) + 1
        self._priorities[connection] = ConnectionPriority.NEW
        self._by_priority[ConnectionPriority.NEW][connection] = None
        return evicted

    def request_received(self, connection: int, priority: ConnectionPriority) -> None:
        """A complete request arrived. It does not decrease the priority of a connection."""
        before = self._priorities.get(connection)
        if before is not None:
            self._set_priority(connection, max(before, priority))

    def rank_as_client(self, connection: int) -> None:
        """The client of a connection may not send requests of brokers, or not any more: it ranks as
        other clients."""
        before = self._priorities.get(connection)
        if before is not None:
            self._set_priority(connection, min(before, ConnectionPriority.CLIENT))

    def _set_priority(self, connection: int, priority: ConnectionPriority) -> None:
        """The connection is the one that was used last."""
        del self._by_priority[self._priorities[connection]][connection]
        self._priorities[connection] = priority
        self._by_priority[priority][connection] = None

    def connection_closed(self, connection: int) -> None:
        """The connection was closed. Repeated calls have no effect."""
        origin = self._origins.pop(connection, None)
        if origin is None:
            return
        del self._by_priority[self._priorities.pop(connection)][connection]
        for counts, key in zip((self._by_address, self._by_listener), origin, strict=True):
            counts[key] -= 1
            if not counts[key]:
                del counts[key]

    def _max_of(self, address: str) -> int:
        return self._of_addresses.get(address, self._per_address_max)

    def _connection_to_evict(self, address: str, listener: str) -> int | None:
        if self._by_address.get(address, 0) >= self._max_of(address):
            return next(one for one in self._lowest_first() if self._origins[one][0] == address)
        of_listener = self._of_listeners.get(listener)
        if of_listener is not None and self._by_listener.get(listener, 0) >= of_listener:
            return next(one for one in self._lowest_first() if self._origins[one][1] == listener)
        return next(self._lowest_first()) if len(self._origins) >= self._total_max else None

    def _lowest_first(self) -> Iterator[int]:
        for priority in ConnectionPriority:
            yield from self._by_priority[priority]
