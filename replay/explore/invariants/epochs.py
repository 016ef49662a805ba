"""Invariants of controller epochs."""

from typing import ClassVar

from controller.core.commands import BrokerRequest
from controller.core.znodes import CONTROLLER_EPOCH
from replay.explore.invariants.invariant import (
    AppliedRequest,
    Invariant,
    Report,
    StateWrite,
)
from replay.explore.invariants.known_cluster import KnownCluster
from replay.names import broker_name, partition_name
from replay.world.processes import id_in, is_controller


class ControllerEpochsForward(Invariant):
    """Source: KB 1.3: a broker fences controllers by epoch; race R6."""

    NAME: ClassVar[str] = "controller-epochs-forward"
    STATEMENT: ClassVar[str] = (
        "The controller epoch in /controller_epoch, and that of the requests that a broker "
        "accepts, never go back."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._accepted: dict[tuple[int, int], int] = {}

    def epoch_written(self, before: int, after: int, process: str) -> None:
        if after < before:
            self.violated(
                CONTROLLER_EPOCH, f"{process} stored controller epoch {after} after {before}"
            )

    def applied(self, applied: AppliedRequest) -> None:
        epoch = applied.request.controller_epoch
        key = (applied.broker, applied.run)
        before = self._accepted.get(key, -1)
        if epoch < before:
            self.violated(
                broker_name(applied.broker),
                f"accepted a request with controller epoch {epoch} after controller epoch {before}",
            )
        self._accepted[key] = epoch


class EpochRaisedByOwner(Invariant):
    """Source: KB 6.1 step 2, race R6."""

    NAME: ClassVar[str] = "epoch-raised-by-owner"
    STATEMENT: ClassVar[str] = (
        "A controller increases the epoch in /controller_epoch only in the transaction in which it "
        "creates /controller, or while /controller has its id."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._raised_by = ""

    def epoch_written(self, before: int, after: int, process: str) -> None:
        if after > before and is_controller(process):
            self._raised_by = process

    def transaction_ended(self) -> None:
        process, self._raised_by = self._raised_by, ""
        if process and id_in(process) != self.known.controller:
            self.violated(
                CONTROLLER_EPOCH,
                f"{process} increased the epoch to {self.known.epoch}; /controller has the id "
                f"{self.known.controller}",
            )


class DeposedWriteNothing(Invariant):
    """Source: KB 1.3.1, races R5 and R8; EVERY_WRITE_GUARDED."""

    NAME: ClassVar[str] = "deposed-write-nothing"
    STATEMENT: ClassVar[str] = (
        "A controller that acts with another epoch than that in /controller_epoch changes no znode."
    )

    def controller_writes(self, process: str, term: int, path: str) -> None:
        if term != self.known.epoch:
            self.violated(
                path,
                f"{process} with controller epoch {term} changed the znode; {CONTROLLER_EPOCH} is "
                f"{self.known.epoch}",
            )


class StateCarriesEpoch(Invariant):
    """Source: KB 1.3.3, races R5 and R8."""

    NAME: ClassVar[str] = "state-carries-epoch"
    STATEMENT: ClassVar[str] = (
        "A controller stores a partition's state only with the epoch that is in /controller_epoch "
        "at that time."
    )

    def state_written(self, write: StateWrite) -> None:
        if write.is_controller and write.after.controller_epoch != self.known.epoch:
            self.violated(
                partition_name(*write.name),
                f"{write.process} stored a state with controller epoch "
                f"{write.after.controller_epoch}; {CONTROLLER_EPOCH} is {self.known.epoch}",
            )


class RequestsCarryEpochs(Invariant):
    """Source: KB 1.3, KIP-380. A broker rejects requests with other epochs, so that `applied` does
    not show them."""

    NAME: ClassVar[str] = "requests-carry-epochs"
    STATEMENT: ClassVar[str] = (
        "A controller sends requests only with a controller epoch that it has stored itself in "
        "/controller_epoch. The broker epoch is one that the broker has had. Within a term it "
        "never decreases. Requests that the broker rejects count, too."
    )

    def __init__(self, known: KnownCluster, report: Report) -> None:
        super().__init__(known, report)
        self._stored: dict[str, dict[int, None]] = {}
        """The epochs that each controller has stored."""
        self._sent: dict[tuple[str, int, int], int] = {}
        """The broker epoch that a controller sent last to a broker in a term."""

    def epoch_written(self, before: int, after: int, process: str) -> None:
        self._stored.setdefault(process, {})[after] = None

    def sent(self, process: str, epoch: int, request: BrokerRequest) -> None:
        broker, broker_epoch = request.broker, request.broker_epoch
        if epoch not in self._stored.get(process, {}):
            self.violated(
                process,
                f"sends broker {broker} a request with controller epoch {epoch}, which it has not "
                "stored",
            )
        if broker_epoch not in self.known.broker_epochs.get(broker, {}):
            self.violated(
                broker_name(broker),
                f"{process} sends a request with broker epoch {broker_epoch}, which the broker has "
                "not had",
            )
        before = self._sent.get((process, epoch, broker), broker_epoch)
        if broker_epoch < before:
            self.violated(
                broker_name(broker),
                f"{process} sends a request with broker epoch {broker_epoch} after {before}",
            )
        self._sent[process, epoch, broker] = broker_epoch
