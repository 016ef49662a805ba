"""The facts that an observer has noted so far, and the procedure and event that it observes now."""

from typing import Final

from msgspec import Struct

from controller.core.controller import Controller
from controller.core.triggers import Trigger
from controller.core.values import NO_ASSIGNMENT, Assignment, LeaderAndIsr
from controller.core.znodes import REASSIGN_PARTITIONS, REASSIGN_PARTITIONS_EXTRA
from replay.names import partition_named
from replay.why.facts import (
    AnyFact,
    Cause,
    MoveCancellation,
    ReassignmentRequested,
    RecordZnodeObserved,
)
from replay.why.subject import Subject

API: Final = "AlterPartitionReassignments"


class KnownZnodes(Struct):
    """The state of ZooKeeper that the noted facts show. The runs of one cluster share this state,
    so that a run notes only the changes of other processes since the run before.
    """

    states: dict[tuple[str, int], LeaderAndIsr]
    assignments: dict[tuple[str, int], Assignment]
    record: RecordZnodeObserved | None = None
    cancellation: MoveCancellation | None = None


class NotedFacts:
    """The facts about a subject from one fold.

    `seq` and `wall_ns` are those of the current event, `trigger` is the controller event of the
    current procedure, and `because` its cause.
    """

    def __init__(self, controller: Controller, subject: Subject) -> None:
        self.controller = controller
        self.subject = subject
        self.facts: list[AnyFact] = []
        self.seq = self.wall_ns = 0
        self.trigger: Trigger | None = None
        self.because: Cause | None = None
        self.known = KnownZnodes({}, {})
        self.received: dict[int, int] = {}
        """The wall-clock times in ns of requests for reassignments, by their events."""

    def move_to(self, seq: int, wall_ns: int) -> None:
        """The fold is about to process an event."""
        self.seq, self.wall_ns = seq, wall_ns

    def add(self, kind: type[AnyFact], **fields: object) -> None:
        """Note a fact about the current event. Its cause is that of the current procedure, unless
        `because` is passed."""
        fields.setdefault("because", self.because)
        epoch = self.controller.context.epoch
        self.facts.append(kind(seq=self.seq, wall_ns=self.wall_ns, epoch=epoch, **fields))  # type: ignore[arg-type]

    def note_external_changes(self, topic: str, number: int) -> None:
        """Note changes of a partition by other processes, which the controller has just read."""

    def note_request(self, partition: str, target: tuple[int, ...], by: str) -> bool:
        """Returns whether the current procedure has noted a request; the fact that follows notes
        it."""
        return any(
            isinstance(one, ReassignmentRequested)
            and (one.because, one.partition, one.target, one.by)
            == (self.because, partition, target, by)
            for one in reversed(self.facts)
        )

    def note_znode_request(
        self, partition: str, target: tuple[int, ...], route: str, request: str = ""
    ) -> None:
        """Note a request once, however often a procedure reads it. Skip it if the reassignment is
        already under way. `route` and `request` are those of ReassignmentRequested."""
        known = self.known.assignments.get(partition_named(partition), NO_ASSIGNMENT)
        if known.is_being_reassigned and known.target == target:
            return
        if self.known.record is not None and self.known.record.target == target:
            # The entry of a finished move, about to be removed.
            return
        if not self.note_request(partition, target, request or route):
            moved = self.controller.context.entries_moved.get(partition_named(partition))
            is_moved = route == REASSIGN_PARTITIONS and moved == target
            self.add(
                ReassignmentRequested,
                partition=partition,
                target=target,
                route=route,
                request=request,
                moved_from=REASSIGN_PARTITIONS_EXTRA if is_moved else "",
            )
