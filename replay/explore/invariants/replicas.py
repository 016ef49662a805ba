"""Invariants of replicas: the ISR, ineligible replicas, and deleted files."""

from typing import ClassVar

from controller.core.commands import BrokerRequest, StopReplicaRequest
from controller.core.znodes import Name
from replay.explore.invariants.invariant import (
    AssignmentWrite,
    Invariant,
    Replica,
    Report,
    StateWrite,
)
from replay.explore.invariants.known import Known


class IsrWithinAssignment(Invariant):
    """Source: race R18 (KAFKA-1097)."""

    NAME: ClassVar[str] = "isr-within-assignment"
    STATEMENT: ClassVar[str] = "Every member of a partition's ISR is one of its replicas."

    def state_written(self, write: StateWrite) -> None:
        before = write.before.isr if write.before is not None else ()
        self._check(write.name, tuple(one for one in write.after.isr if one not in before))

    def assignment_written(self, write: AssignmentWrite) -> None:
        state = self.known.states.get(write.name)
        if state is not None and not self.known.drops_before_isr(write.process):
            self._check(write.name, state.isr)

    def _check(self, name: Name, isr: tuple[int, ...]) -> None:
        assignment = self.known.assignment(name)
        if assignment is None:
            return
        outside = [one for one in isr if one not in assignment.replicas]
        if outside:
            self.violated(
                _text(name),
                f"the ISR has {outside}, the replicas are {list(assignment.replicas)}",
            )


class NoIneligibleInIsr(Invariant):
    """Source: race R27 (KAFKA-14140, KAFKA-14617), KB 11.2 row h.

    The ISR route of brokers before 2.7 has no such check in Kafka, and is left out.
    """

    NAME: ClassVar[str] = "no-ineligible-in-isr"
    STATEMENT: ClassVar[str] = (
        "A controller adds no replica to an ISR whose broker is, as far as that controller knows, "
        "not registered or in controlled shutdown, or has restarted since the leader's request."
    )

    def __init__(self, known: Known, report: Report) -> None:
        super().__init__(known, report)
        self._runs: dict[int, int] = {}
        self._proposed: dict[Name, dict[int, int | None]] = {}
        """By partition the run of each member's broker when the leader asked for this ISR."""

    def restarted(self, broker: int, run: int) -> None:
        self._runs[broker] = run

    def isr_proposed(self, broker: int, name: Name, isr: tuple[int, ...]) -> None:
        self._proposed[name] = {one: self._runs.get(one) for one in isr}

    def decided(self, process: str, name: Name, isr: tuple[int, ...]) -> None:
        before = self.known.states.get(name)
        added = [one for one in isr if before is not None and one not in before.isr]
        if not added:
            return
        live = self.known.live_brokers_of(process)
        for broker in added:
            if live is not None and broker not in live:
                self.violated(
                    _text(name),
                    f"{process} adds broker {broker} to the ISR, which is not registered or in "
                    "controlled shutdown",
                )
            elif self._has_restarted(name, broker):
                self.violated(
                    _text(name),
                    f"{process} adds broker {broker} to the ISR, which has restarted since the "
                    "leader asked for that",
                )

    def _has_restarted(self, name: Name, broker: int) -> bool:
        run = self._proposed.get(name, {}).get(broker)
        return run is not None and run != self._runs.get(broker)


class AssignedReplicasKept(Invariant):
    """Source: races R9 and R12, KIP-236 step 4."""

    NAME: ClassVar[str] = "assigned-replicas-kept"
    STATEMENT: ClassVar[str] = (
        "The controller requests no deletion of a replica that is assigned, and no broker deletes "
        "a replica that is in the ISR, unless the topic is being deleted."
    )

    def sent(self, process: str, epoch: int, request: BrokerRequest) -> None:
        if not isinstance(request, StopReplicaRequest) or epoch != self.known.epoch:
            return
        for one in request.partitions:
            if not one.delete or self.known.is_queued(one.topic):
                continue
            name = one.topic, one.partition
            assignment = self.known.assignment(name)
            # Until a reassignment has ended, the topic's znode has the replicas being removed.
            if assignment is not None and request.broker in assignment.target:
                if request.broker in assignment.adding and assignment.adding:
                    continue
                self.violated(
                    _text(name),
                    f"{process} asks broker {request.broker} to delete its replica; the replicas "
                    f"are {list(assignment.replicas)}",
                )

    def replica_deleted(self, replica: Replica) -> None:
        topic = self.known.topics.get(replica.topic)
        state = self.known.states.get(replica.name)
        if topic is None or state is None or self.known.is_queued(replica.topic):
            return
        if None not in (topic.id, replica.topic_id) and topic.id != replica.topic_id:
            return
        if replica.broker in state.isr:
            self.violated(
                _text(replica.name),
                f"broker {replica.broker} deleted its replica, which is in the ISR "
                f"{list(state.isr)}",
            )


def _text(name: Name) -> str:
    return f"{name[0]}-{name[1]}"
