"""The reassignments of a log, followed in plain Python."""

from typing import NamedTuple

Partition = tuple[str, int]
Assigned = tuple[list[int], list[int], list[int]]
"""The replicas, those being added, and those being removed."""
Moved = tuple[str, int, int, int | None, str]
"""Topic, partition, the events at which the reassignment began and ended, and its outcome."""


class Move(NamedTuple):
    """A reassignment in progress: the replicas that it adds and removes, the target and the
    original."""

    seq: int
    move: tuple[list[int], list[int]]
    target: list[int]
    before: list[int]


class PlainMoves:
    """Follows the assignments of partitions."""

    def __init__(self) -> None:
        self._ended: list[Moved] = []
        self._under_way: dict[Partition, Move] = {}

    def all(self) -> list[Moved]:
        """The reassignments that have ended, and those in progress."""
        ongoing = self._under_way.items()
        return [*self._ended, *((*name, one.seq, None, "ongoing") for name, one in ongoing)]

    def assign(self, seq: int, partition: Partition, assigned: Assigned) -> None:
        """The assignment of a partition from an event on."""
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
        """The partition is deleted."""
        if partition in self._under_way:
            self._end(seq, partition, "deleted")

    def _end(self, seq: int, partition: Partition, outcome: str) -> None:
        begun = self._under_way.pop(partition)
        self._ended.append((*partition, begun.seq, seq, outcome))
