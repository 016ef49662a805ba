"""The fold, held: it begins a controller event when it is told to, not when one is there.

A stock controller's queue is not recorded. Which event it took next is found out from outside
(`stock_controller`); the fold handles that one and nothing more.
"""

from typing import Any

from controller.core.commands import Issued
from controller.core.configuration import Configuration
from controller.core.events import Event, Recorded
from controller.core.fold import Fold
from controller.core.processing_order import ProcessingOrder
from controller.core.triggers import PartitionReassignmentIsrChange, Trigger

_NS = 1_000_000


class SteppedFold(Fold):
    """A fold whose controller events wait in `queued` until `begin` names one."""

    def __init__(self, configuration: Configuration, turns: ProcessingOrder) -> None:
        super().__init__(configuration)
        self.controller.order = turns
        self._next: Trigger | None = None
        self._steps = 0

    @property
    def queued(self) -> list[Trigger]:
        """What the procedures and the brokers' answers have queued so far, in order."""
        return list(self.controller.triggers)

    @property
    def is_running(self) -> bool:
        """Whether a procedure is under way."""
        return self._procedure is not None

    def begin(self, trigger: Trigger, now_ms: int) -> list[Issued]:
        """Handle a controller event, queued or not, up to where it waits; the commands."""
        if trigger in self.controller.triggers:
            self.controller.triggers.remove(trigger)
        self._next = trigger
        self._steps += 1
        self.controller.begin(self._steps, now_ms)
        return self._run(None)

    def tell(self, event: Event, now_ms: int) -> list[Issued]:
        """Fold an event; the commands. An outcome lets the procedure go on that waits for it."""
        self._steps += 1
        self.controller.begin(self._steps, now_ms)
        wall_ns = now_ms * _NS
        recorded = Recorded(self._steps, wall_ns, wall_ns, self.term, "", event)
        return self._run(self._take(recorded))

    def _run(self, result: Any) -> list[Issued]:
        issued: list[Issued] = []
        while self._advance(result):
            issued += self.controller.take_issued()
            result = None
        return issued + self.controller.take_issued()

    def _next_trigger(self) -> Trigger | None:
        """What `begin` named; and what belongs to the event before: Kafka looks at reassignments
        while it still handles the AlterPartition that they waited for (KB 11.2)."""
        named, self._next = self._next, None
        triggers = self.controller.triggers
        if named is None and triggers and isinstance(triggers[0], PartitionReassignmentIsrChange):
            return triggers.popleft() if self._is_at_once else None
        return named

    @property
    def _is_at_once(self) -> bool:
        return self.controller.configuration.protocol.at_least("2.7-IV2")
