"""A fold that begins a controller event only on request.

A stock controller's event queue is not recorded. The trace determines from outside which event the
controller processed next; the fold processes exactly that event.
"""

from typing import Any, Final

from controller.core.commands import Issued
from controller.core.configuration import Configuration
from controller.core.events import Event, Recorded
from controller.core.fold import Fold
from controller.core.fold_observer import FoldObserver
from controller.core.processing_order import ProcessingOrder
from controller.core.snapshot import load_snapshot, take_snapshot
from controller.core.triggers import PartitionReassignmentIsrChange, Trigger
from replay.checkpoint import Checkpointed, State

_NS: Final = 1_000_000


class SteppedFold(Fold, Checkpointed):
    """A fold whose controller events wait in `queued` until `begin` names one.

    Its state is a snapshot of the fold, so it is saved between two controller events, when nothing
    is queued.
    """

    def __init__(self, configuration: Configuration, order: ProcessingOrder) -> None:
        super().__init__(configuration)
        self.controller.order = order
        self._next: Trigger | None = None
        self._steps = 0

    @property
    def queued(self) -> list[Trigger]:
        """The events that procedures and brokers' responses have queued so far, in order."""
        return list(self.controller.triggers)

    @property
    def is_running(self) -> bool:
        """Whether a procedure is in progress."""
        return self._procedure is not None

    def begin(self, trigger: Trigger, now_ms: int) -> list[Issued]:
        """Process a controller event, queued or not, up to its first wait; return the commands."""
        if trigger in self.controller.triggers:
            self.controller.triggers.remove(trigger)
        self._next = trigger
        self._steps += 1
        self.controller.begin(self._steps, now_ms)
        return self._run_until_wait(None)

    def feed(self, event: Event, now_ms: int) -> list[Issued]:
        """Fold an event and return the commands. An outcome resumes the procedure waiting for
        it."""
        self._steps += 1
        self.controller.begin(self._steps, now_ms)
        wall_ns = now_ms * _NS
        recorded = Recorded(self._steps, wall_ns, wall_ns, self.term, "", event)
        return self._run_until_wait(self._apply_event(recorded))

    def save(self) -> State:
        """A snapshot of the fold, what a snapshot leaves out, and the state of its observer."""
        return {
            "steps": self._steps,
            "snapshot": take_snapshot(self),
            "connections": self.controller.connections,
            "leftover_channels": self.controller.leftover_channels,
            "observer": self._observer.save(),
        }

    def restore(self, state: State) -> None:
        """Put a saved state back; a procedure in progress ends."""
        if self._procedure is not None:
            self._procedure.close()
        self._procedure = self._wait = self._trigger = self._next = None
        self._steps = state["steps"]
        controller = self.controller
        saved = load_snapshot(state["snapshot"], controller.configuration).controller
        controller.triggers.clear()
        controller.take_issued()
        controller.context = saved.context
        controller.session_id = saved.session_id
        controller.is_active = saved.is_active
        controller.is_connected = saved.is_connected
        controller.is_stopping = saved.is_stopping
        controller.is_backing_off = saved.is_backing_off
        controller.candidate_session = saved.candidate_session
        controller.last_epoch = saved.last_epoch
        controller.timed = saved.timed
        controller.unsent = saved.unsent
        controller.connections = state["connections"]
        controller.leftover_channels = state["leftover_channels"]
        self._observer.restore(state["observer"])

    @property
    def _observer(self) -> Checkpointed:
        """The observer's state; empty without an observer."""
        observer = self.controller.observer
        if type(observer) is FoldObserver:
            return Checkpointed()
        assert isinstance(observer, Checkpointed), f"{type(observer).__name__} cannot be restored"
        return observer

    def _run_until_wait(self, result: Any) -> list[Issued]:
        issued: list[Issued] = []
        while self._advance(result):
            issued += self.controller.take_issued()
            result = None
        return issued + self.controller.take_issued()

    def _next_trigger(self) -> Trigger | None:
        """The event that `begin` named, or one that belongs to the previous event: Kafka checks
        reassignments while it still processes the AlterPartition they waited for (KB 11.2)."""
        named, self._next = self._next, None
        triggers = self.controller.triggers
        if named is None and triggers and isinstance(triggers[0], PartitionReassignmentIsrChange):
            return triggers.popleft() if self._checks_reassignments_at_once else None
        return named

    @property
    def _checks_reassignments_at_once(self) -> bool:
        return self.controller.configuration.protocol.at_least("2.7-IV2")
