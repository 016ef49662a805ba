"""In which order things are taken that are handled one after another, each with its own writes.

Kafka takes them in the order of its hash maps. Here it is by name; only who derives the decisions
of a stock controller from its logs puts the order in that the logs show.
"""

from collections.abc import Iterable

from controller.core.state import Partition, sorted_partitions


class ProcessingOrder:
    """By topic and number, topics in the order in which they were asked for."""

    def partitions(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Partitions in their turn."""
        return sorted_partitions(partitions)

    def names(self, names: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
        """The same for the names of partitions, which need not be known."""
        return sorted(names)

    def topics(self, topics: Iterable[str]) -> list[str]:
        """Topics in their turn."""
        return list(topics)

    def brokers(self, brokers: Iterable[int]) -> list[int]:
        """Brokers in their turn: by id."""
        return sorted(brokers)
