"""The order in which a stock controller processes partitions, topics and brokers one by one.

Kafka keeps them in Scala 2.13's hash maps, whose order shows in what it writes:

- The replicas of a state change are grouped by broker in an immutable HashMap
  (ReplicaStateMachine.handleStateChanges). This is a trie over five bits of the hash at a time.
  Each node yields first the keys that have a place to themselves, then its child nodes
  (BitmapIndexedMapNode).
- The partitions of a reassignment request are in a mutable HashMap
  (KafkaController.processApiPartitionReassignment, processZkPartitionReassignment). Its buckets are
  the lower bits of the hash, and each bucket is sorted by hash. Partitions with the same hash keep
  the order of the request, also in the request's immutable map (HashCollisionMapNode).
"""

from collections.abc import Callable, Iterable
from typing import Final

from controller.core.processing_order import ProcessingOrder
from controller.core.state import Partition

_BITS: Final = 5
_MASK: Final = (1 << _BITS) - 1
_WORD: Final = (1 << 32) - 1
_SIGN: Final = 1 << 31
_CAPACITY: Final = 16
_LOAD: Final = 0.75
_NEVER: Final = 2**63

Name = tuple[str, int]
"""A topic, and the number of a partition."""

NextWrites = Callable[[], dict[Name, int]]
"""The record of the session's next write about each partition in its term; topics have number
-1."""


class LoggedProcessingOrder(ProcessingOrder):
    """Partitions and topics in the order of the session's next writes; brokers, and the partitions
    of a request, in the order of Kafka's hash maps."""

    def __init__(self, next_writes: NextWrites) -> None:
        self._next_writes = next_writes

    def partitions(self, partitions: Iterable[Partition]) -> list[Partition]:
        """First the partitions that are written, then the others in hash table order.

        One of the others may fail, which prevents writes about those after it.
        """
        first = self._next_writes()
        by_name = {one.key: one for one in partitions}
        in_table = map(by_name.__getitem__, mutable_map_order(sorted(by_name)))
        return sorted(in_table, key=lambda one: first.get(one.key, _NEVER))

    def names(self, names: Iterable[Name]) -> list[Name]:
        """The partitions of a request, in the order of Kafka's mutable map."""
        return mutable_map_order(names)

    def topics(self, topics: Iterable[str]) -> list[str]:
        """First the topics that are written, then the others as given."""
        first = self._next_writes()
        return sorted(topics, key=lambda one: first.get((one, -1), _NEVER))

    def brokers(self, brokers: Iterable[int]) -> list[int]:
        """Brokers in the order of the immutable map that Kafka groups them in."""
        return immutable_map_order(brokers)


def immutable_map_order(keys: Iterable[int]) -> list[int]:
    """Integers in the iteration order of Scala's immutable HashMap."""
    return _trie_order([(_improved_hash(key), key) for key in sorted(set(keys))], 0)


def _trie_order(hashed: list[tuple[int, int]], shift: int) -> list[int]:
    if shift >= _WORD.bit_length():
        return [key for _, key in hashed]
    places: dict[int, list[tuple[int, int]]] = {}
    for one in hashed:
        places.setdefault(one[0] >> shift & _MASK, []).append(one)
    groups = [places[place] for place in sorted(places)]
    alone = [group[0][1] for group in groups if len(group) == 1]
    below = [group for group in groups if len(group) > 1]
    return alone + [key for group in below for key in _trie_order(group, shift + _BITS)]


def _improved_hash(hash_code: int) -> int:
    """scala.collection.Hashing.improve; the hash code of an integer is its value."""
    mixed = (hash_code + (~(hash_code << 9) & _WORD)) & _WORD
    mixed ^= mixed >> 14
    mixed = (mixed + (mixed << 4)) & _WORD
    return mixed ^ mixed >> 10


def mutable_map_order(names: Iterable[Name]) -> list[Name]:
    """Partitions in the iteration order of Scala's mutable HashMap, filled one by one.

    Partitions with the same hash code keep the order of insertion.
    """
    hashed = [(_improve_hash(_hash_code(name)), name) for name in dict.fromkeys(names)]
    capacity = _CAPACITY
    while len(hashed) >= capacity * _LOAD:
        capacity *= 2
    hashed.sort(key=lambda one: (one[0] & capacity - 1, one[0] ^ _SIGN))
    return [name for _, name in hashed]


def _improve_hash(hash_code: int) -> int:
    """scala.collection.mutable.HashMap.improveHash."""
    return hash_code ^ hash_code >> 16


def _hash_code(name: Name) -> int:
    """TopicPartition.hashCode, as an unsigned integer."""
    topic, number = name
    of_topic = 0
    for unit in memoryview(topic.encode("utf-16-le")).cast("H"):
        of_topic = (31 * of_topic + unit) & _WORD
    return (31 * (31 + number) + of_topic) & _WORD
