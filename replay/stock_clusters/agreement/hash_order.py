"""The orders in which Scala 2.13's hash maps give their keys: they show in what Kafka writes.

The replicas of a state change are grouped by broker in an immutable HashMap
(ReplicaStateMachine.handleStateChanges): a trie over five bits of the hash at a time, of each node
first the keys that are alone in their place, then the nodes below (BitmapIndexedMapNode).

The partitions of a reassignment request are in a mutable HashMap
(KafkaController.processApiPartitionReassignment, processZkPartitionReassignment): buckets by the
lower bits of the hash, each sorted by it. Those with the same hash come as they were asked for, in
the immutable map of the request, too (HashCollisionMapNode).
"""

from collections.abc import Iterable
from typing import Final

_BITS: Final = 5
_MASK: Final = (1 << _BITS) - 1
_WORD: Final = (1 << 32) - 1
_SIGN: Final = 1 << 31
_CAPACITY: Final = 16
_LOAD: Final = 0.75

Name = tuple[str, int]
"""A topic and the number of a partition."""


def in_hash_order(keys: Iterable[int]) -> list[int]:
    """Ints in the order of such a map."""
    return _of_node([(_improved(key), key) for key in sorted(set(keys))], 0)


def _of_node(hashed: list[tuple[int, int]], shift: int) -> list[int]:
    if shift >= _WORD.bit_length():
        return [key for _, key in hashed]
    places: dict[int, list[tuple[int, int]]] = {}
    for one in hashed:
        places.setdefault(one[0] >> shift & _MASK, []).append(one)
    groups = [places[place] for place in sorted(places)]
    alone = [group[0][1] for group in groups if len(group) == 1]
    below = [group for group in groups if len(group) > 1]
    return alone + [key for group in below for key in _of_node(group, shift + _BITS)]


def _improved(hash_code: int) -> int:
    """scala.collection.Hashing.improve, of an int its own hash code."""
    mixed = (hash_code + (~(hash_code << 9) & _WORD)) & _WORD
    mixed ^= mixed >> 14
    mixed = (mixed + (mixed << 4)) & _WORD
    return mixed ^ mixed >> 10


def in_table_order(names: Iterable[Name]) -> list[Name]:
    """Partitions in the order of a mutable map that they were put into one by one: those with the
    same hash code as they were put."""
    hashed = [(_mixed(_hash_code(name)), name) for name in dict.fromkeys(names)]
    capacity = _CAPACITY
    while len(hashed) >= capacity * _LOAD:
        capacity *= 2
    hashed.sort(key=lambda one: (one[0] & capacity - 1, one[0] ^ _SIGN))
    return [name for _, name in hashed]


def _mixed(hash_code: int) -> int:
    """scala.collection.mutable.HashMap.improveHash."""
    return hash_code ^ hash_code >> 16


def _hash_code(name: Name) -> int:
    """TopicPartition.hashCode, without its sign."""
    topic, number = name
    of_topic = 0
    for unit in memoryview(topic.encode("utf-16-le")).cast("H"):
        of_topic = (31 * of_topic + unit) & _WORD
    return (31 * (31 + number) + of_topic) & _WORD
