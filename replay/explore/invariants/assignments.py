"""Invariants of assignments and reassignments."""

from typing import ClassVar

from controller.core import znodes
from controller.core.values import Assignment
from replay.explore.invariants.invariant import AssignmentWrite, Invariant, Report
from replay.explore.invariants.known_cluster import KnownCluster, KnownTopic
from replay.names import partition_name
from replay.world.processes import is_controller


class _Move:
    """A reassignment under way: the replicas before it, its last target, its smallest target.
    `knows_order`: the controllers that began it and replaced it recorded the order of the replicas.
    """

    __slots__ = ("knows_order", "origin", "smallest", "target")

    def __init__(
        self, origin: tuple[int, ...], target: tuple[int, ...], *, knows_order: bool
    ) -> None:
        self.knows_order = knows_order
        self.origin = origin
        self.target = target
        self.smallest = len(target)


class _MoveInvariant(Invariant):
    """Follows the reassignment of each partition by its topic's znode.

    A tool that adds partitions writes the whole znode as it read it before, without its version. It
    may undo a controller's write, which is no decision about the reassignment.
    """

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._moves: dict[tuple[str, int, int], _Move] = {}

    def assignment_written(self, write: AssignmentWrite) -> None:
        key = (*write.name, write.topic.czxid)
        before, after = write.before, write.after
        if before is not None and not is_controller(write.process):
            return
        move = self._moves.get(key)
        knows_order = self.known.restores_order(write.process)
        if move is None and before is not None:
            # A change without adding and removing replicas, too, is a reassignment.
            move = _Move(before.replicas, after.target, knows_order=knows_order)
        elif move is None:
            move = _Move(after.origin, after.target, knows_order=False)
        if after.is_being_reassigned:
            if after.target != move.target:
                # The record of the earlier target, with the order, is not used any more.
                move.knows_order = move.knows_order and knows_order
            move.target = after.target
            move.smallest = min(move.smallest, len(after.target))
            self._moves[key] = move
        else:
            self._moves.pop(key, None)
        if before is not None:
            self.changed(write, move, before)

    def changed(self, write: AssignmentWrite, move: _Move, before: Assignment) -> None:
        """An existing partition's assignment changed; `move` includes the change."""


class AssignmentNotSmaller(_MoveInvariant):
    """Source: KIP-455, KIP-236."""

    NAME: ClassVar[str] = "assignment-not-smaller"
    STATEMENT: ClassVar[str] = (
        "The assignment of a partition never has fewer replicas than both the original and the "
        "target of its reassignment."
    )

    def changed(self, write: AssignmentWrite, move: _Move, before: Assignment) -> None:
        least = min(len(move.origin), move.smallest)
        if len(write.after.replicas) < least:
            self.violated(
                partition_name(*write.name),
                f"{write.process} stored the replicas {list(write.after.replicas)}; the "
                f"reassignment is from {list(move.origin)} to {list(move.target)}",
            )


class CancellationRestores(_MoveInvariant):
    """Source: KIP-236, KB 7.8.2 (Kafka's own controller may change the order)."""

    NAME: ClassVar[str] = "cancellation-restores"
    STATEMENT: ClassVar[str] = (
        "A reassignment ends in replicas that a client requested or, if it is cancelled, in its "
        "original replicas in their order. With Kafka's rules, the order is not checked. Nor is "
        "it checked if a controller with Kafka's rules began or replaced the reassignment, or if "
        "an operator deleted or rewrote its record."
    )

    def admin_written(self, path: str, data: bytes | None, process: str) -> None:
        if path.startswith(f"{znodes.REASSIGNMENTS}/") and not is_controller(process):
            for (topic, number, _), move in self._moves.items():
                if path == znodes.reassignment_path(topic, number):
                    move.knows_order = False

    def changed(self, write: AssignmentWrite, move: _Move, before: Assignment) -> None:
        after = write.after
        if after.is_being_reassigned or not before.is_being_reassigned:
            return
        found = after.replicas
        requests = self.known.requests.get(write.name)
        if found in (move.target, move.origin) or (requests and found in requests.targets):
            return
        in_any_order = sorted(found) == sorted(move.origin)
        checks_order = move.knows_order and self.known.restores_order(write.process)
        if not in_any_order or checks_order:
            self.violated(
                partition_name(*write.name),
                f"{write.process} ended the reassignment from {list(move.origin)} to "
                f"{list(move.target)} with the replicas {list(found)}",
            )


class ReassignmentNotGivenUp(_MoveInvariant):
    """Source: race R19 (KAFKA-4214)."""

    NAME: ClassVar[str] = "reassignment-not-given-up"
    STATEMENT: ClassVar[str] = (
        "A controller ends a reassignment in replicas that were requested, or in the original ones "
        "after a cancellation."
    )

    def changed(self, write: AssignmentWrite, move: _Move, before: Assignment) -> None:
        after = write.after
        if after.is_being_reassigned or not before.is_being_reassigned:
            return
        requests = self.known.requests.get(write.name)
        if after.replicas == before.target or self.known.was_cancelled:
            return
        if requests is None or not (requests.is_cancelled or after.replicas in requests.targets):
            self.violated(
                partition_name(*write.name),
                f"{write.process} ended the reassignment from {list(move.origin)} to "
                f"{list(move.target)} with the replicas {list(after.replicas)}; "
                "no cancellation was requested",
            )


class PartitionsKept(Invariant):
    """Source: the deviation added-partitions-kept. Kafka's controller checks no version (KB 1.3),
    nor does a tool that adds partitions."""

    NAME: ClassVar[str] = "partitions-kept"
    STATEMENT: ClassVar[str] = (
        "A controller's write of a topic's znode never removes a partition, except with Kafka's "
        "rules, or if the topic is being deleted."
    )

    def partitions_removed(self, topic: KnownTopic, numbers: list[int], process: str) -> None:
        if self.known.is_queued(topic.name) or not self.known.keeps_partitions(process):
            # A topic that is being deleted gains no partitions (KB 3.6.2).
            return
        self.violated(
            topic.name,
            f"{process} removed the partitions {numbers} from the topic's znode",
        )
