"""The order of what a stock controller does one by one, which the fold follows."""

from collections.abc import Callable, Iterable
from typing import Final

from controller.core.processing_order import ProcessingOrder
from controller.core.state import Partition
from replay.stock_clusters.agreement.hash_order import in_hash_order, in_table_order

_NEVER: Final = 2**63

Writes = Callable[[], dict[tuple[str, int], int]]
"""Where the log has the session's next write about each partition in its term; of topics, with
number -1."""


class LoggedTurns(ProcessingOrder):
    """Partitions and topics as the log's next writes of the term are about them; brokers, and the
    partitions of a request, as Kafka's maps have them."""

    def __init__(self, next_writes: Writes) -> None:
        self._next_writes = next_writes

    def partitions(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Those that are written about, then the others by the order of a hash table: one of them
        may fail, and keep those behind it from being written about."""
        first = self._next_writes()
        by_name = {one.key: one for one in partitions}
        in_table = map(by_name.__getitem__, in_table_order(sorted(by_name)))
        return sorted(in_table, key=lambda one: first.get(one.key, _NEVER))

    def names(self, names: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        """By the order of the hash map that Kafka has the partitions of a request in."""
        return in_table_order(names)

    def topics(self, topics: Iterable[str]) -> list[str]:
        """Those that are written about, then the others as they come."""
        first = self._next_writes()
        return sorted(topics, key=lambda one: first.get((one, -1), _NEVER))

    def brokers(self, brokers: Iterable[int]) -> list[int]:
        """By the order of the hash map that Kafka groups them in."""
        return in_hash_order(brokers)
