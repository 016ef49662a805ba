"""Processing order for items that are handled sequentially, each with separate writes.

Kafka uses the order of its hash maps. The daemon uses names. Only code that derives the decisions
of a stock controller from its logs sets the order that these logs show.
"""

from collections.abc import Iterable

from controller.core.state import Partition, sorted_partitions


class ProcessingOrder:
    """Partitions by topic and number, topics in the order of the request."""

    def partitions(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Partitions in processing order."""
        return sorted_partitions(partitions)

    def names(self, names: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        """Names of partitions, which need not exist, in processing order."""
        return sorted(names)

    def topics(self, topics: Iterable[str]) -> list[str]:
        """Topics in processing order."""
        return list(topics)

    def brokers(self, brokers: Iterable[int]) -> list[int]:
        """Brokers in processing order: by id."""
        return sorted(brokers)
