"""Invariants of controller epochs."""

from typing import ClassVar

from controller.core.znodes import CONTROLLER_EPOCH
from replay.explore.invariants.invariant import Applied, Invariant, Report, StateWrite
from replay.explore.invariants.known import Known


class ControllerEpochsForward(Invariant):
    """Source: KB 1.3: a broker fences controllers by epoch; race R6."""

    NAME: ClassVar[str] = "controller-epochs-forward"
    STATEMENT: ClassVar[str] = (
        "The controller epoch in /controller_epoch, and that of the requests that a broker "
        "accepts, never go back."
    )

    def __init__(self, known: Known, report: Report) -> None:
        super().__init__(known, report)
        self._accepted: dict[tuple[int, int], int] = {}

    def epoch_written(self, before: int, after: int, process: str) -> None:
        if after < before:
            self.violated(
                CONTROLLER_EPOCH, f"{process} stored controller epoch {after} after {before}"
            )

    def applied(self, applied: Applied) -> None:
        epoch = applied.request.controller_epoch
        key = (applied.broker, applied.run)
        before = self._accepted.get(key, -1)
        if epoch < before:
            self.violated(
                f"broker {applied.broker}",
                f"accepted a request with controller epoch {epoch} after controller epoch {before}",
            )
        self._accepted[key] = epoch


class StateCarriesEpoch(Invariant):
    """Source: KB 1.3.3, races R5 and R8."""

    NAME: ClassVar[str] = "state-carries-epoch"
    STATEMENT: ClassVar[str] = (
        "A controller stores a partition's state only with the epoch that is in /controller_epoch "
        "at that time."
    )

    def state_written(self, write: StateWrite) -> None:
        if write.is_controller and write.after.controller_epoch != self.known.epoch:
            topic, partition = write.name
            self.violated(
                f"{topic}-{partition}",
                f"{write.process} stored a state with controller epoch "
                f"{write.after.controller_epoch}; {CONTROLLER_EPOCH} is {self.known.epoch}",
            )
