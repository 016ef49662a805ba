"""The reassignments of a log followed in plain Python, assignment by assignment."""

from typing import NamedTuple

Partition = tuple[str, int]
Assigned = tuple[list[int], list[int], list[int]]
"""Replicas, those of them being added, and those being removed."""
Moved = tuple[str, int, int, int | None, str]
"""Topic, partition, the events at which it began and ended, and how."""


class Move(NamedTuple):
    """A reassignment that is under way: what it adds and removes, and from what to what."""

    seq: int
    move: tuple[list[int], list[int]]
    target: list[int]
    before: list[int]


class PlainMoves:
    """Told each assignment of a partition."""

    def __init__(self) -> None:
        self._ended: list[Moved] = []
        self._under_way: dict[Partition, Move] = {}

    def all(self) -> list[Moved]:
        """Those that have ended, and those that have not."""
        ongoing = self._under_way.items()
        return [*self._ended, *((*name, one.seq, None, "ongoing") for name, one in ongoing)]

    def assign(self, seq: int, partition: Partition, assigned: Assigned) -> None:
        """What its topic's znode says of it from an event on."""
        replicas, adding, removing = assigned
        move = sorted(adding), sorted(removing)
        begun = self._under_way.get(partition)
        if begun is not None and begun.move != move:
            outcome = "replaced"
            if move == ([], []) and sorted(replicas) == begun.target:
                outcome = "completed"
            elif move == ([], []) and sorted(replicas) == begun.before:
                outcome = "cancelled"
            self._end(seq, partition, outcome)
        if move != ([], []) and partition not in self._under_way:
            target = sorted(set(replicas) - set(removing))
            before = sorted(set(replicas) - set(adding))
            self._under_way[partition] = Move(seq, move, target, before)

    def forget(self, seq: int, partition: Partition) -> None:
        """It is deleted."""
        if partition in self._under_way:
            self._end(seq, partition, "deleted")

    def _end(self, seq: int, partition: Partition, outcome: str) -> None:
        begun = self._under_way.pop(partition)
        self._ended.append((*partition, begun.seq, seq, outcome))
