"""Decisions of a stock controller, and the fold's writes that wait for their counterparts."""

from collections.abc import Callable, Sequence
from typing import NamedTuple, cast

from msgspec import Struct

from controller.core import operations
from controller.core.commands import CommandId
from controller.core.events import ZnodesWritten
from controller.core.operations import (
    BAD_VERSION,
    FENCED,
    NODE_EXISTS,
    RUNTIME_INCONSISTENCY,
    WriteOperation,
)
from replay.agreement.decisions.writes import (
    is_same_write,
    refusal,
    version_after,
    write_differences,
)
from replay.stock_clusters.zookeeper_log.transactions import Operation, SetData
from replay.znode_view import ZnodeView


class StockDecision(Struct, frozen=True):
    """The writes of a session in one transaction, with Kafka's paths and without version checks."""

    seq: int
    zxid: int
    time_ms: int
    what: str
    error: int
    operations: tuple[tuple[str, Operation], ...]
    is_input: bool = False


class SkippedWrite(NamedTuple):
    """A write of the fold that Kafka did not make, and the error that ZooKeeper would return."""

    write: WriteOperation
    error: int


class WriteBatch:
    """The writes of one command of the fold. Each is settled when its counterpart is reached."""

    def __init__(
        self, id: CommandId, writes: Sequence[WriteOperation], view: ZnodeView, *, is_atomic: bool
    ) -> None:
        self._id = id
        self._writes = list(writes)
        self._view = view
        self._is_atomic = is_atomic
        self._errors: list[int | None] = [None] * len(writes)
        self._done: list[int] = []
        self._versions = [-1] * len(writes)
        # Deleting a znode that does not exist decides nothing.
        self._without_effect = {
            place
            for place, one in enumerate(writes)
            if isinstance(one, operations.Delete) and view.find(one.path) is None
        }

    @property
    def _open(self) -> list[int]:
        return [place for place, error in enumerate(self._errors) if error is None]

    @property
    def is_atomic(self) -> bool:
        """Whether ZooKeeper does all writes or none."""
        return self._is_atomic

    @property
    def outcome(self) -> ZnodesWritten | None:
        """The command's outcome when all writes are settled; None before."""
        if self._open:
            return None
        errors = [cast(int, one) for one in self._errors]
        return ZnodesWritten(self._id, 0, errors, self._versions)

    def if_fenced(self) -> dict[str, ZnodesWritten]:
        """The outcome, by path, of each write that was fenced, or will be if it is open."""
        return {
            self._writes[place].path: ZnodesWritten(self._id, place, [FENCED], [-1])
            for place, error in enumerate(self._errors)
            if error in (None, FENCED)
        }

    @property
    def is_fenced(self) -> bool:
        """Whether one of its writes was fenced; the open ones will be."""
        return FENCED in self._errors

    @property
    def open_writes(self) -> list[WriteOperation]:
        """The writes that are not settled."""
        return [self._writes[place] for place in self._open]

    def paths(self) -> list[str]:
        """The paths of the writes that are not settled."""
        return [self._writes[place].path for place in self._open]

    def claim(self, decision: StockDecision, since_zxid: int) -> list[str] | None:
        """Settle the writes that a decision corresponds to, and return the differences.

        Returns None if the batch does not contain them. The controller may not have read changes
        made after `since_zxid`.
        """
        if not self._open:
            return None
        if decision.error:
            refused = self._refused_writes(decision, since_zxid)
            for place, error in refused.items():
                self._set_outcome(place, error, -1)
            return [] if refused else None
        found = self._matching_writes(decision)
        if found is None:
            return None
        claimed, differences = found
        for place, (_, stock) in zip(claimed, decision.operations, strict=True):
            self._set_outcome(
                place, operations.OK, stock.version if isinstance(stock, SetData) else 0
            )
            self._done.append(place)
        return differences if claimed else None

    def has(self, decision: StockDecision, since_zxid: int) -> bool:
        """Whether `claim` would settle writes, without differences."""
        if not self._open:
            return False
        if decision.error:
            return bool(self._refused_writes(decision, since_zxid))
        found = self._matching_writes(decision)
        return found is not None and bool(found[0]) and not found[1]

    def can_repeat(self, decision: StockDecision) -> bool:
        """Whether ZooKeeper would refuse one of the completed writes as in this decision."""
        return self._repeated_place(decision) is not None

    def claim_repeated(self, decision: StockDecision) -> bool:
        """Settle the last completed write as refused, if ZooKeeper refuses its repetition so.

        Kafka repeats a write whose reply was lost (KafkaZkClient.retryRequestsUntilConnected).
        After an election it reads who won instead (registerControllerAndIncrementControllerEpoch).
        """
        place = self._repeated_place(decision)
        if place is None:
            return False
        self._done.remove(place)
        if not self._is_atomic:
            self._set_outcome(place, decision.error, -1)
        return True

    def _repeated_place(self, decision: StockDecision) -> int | None:
        if not decision.error or decision.what == "fenced":
            return None
        done = reversed(self._done)
        answers = ((place, refusal(self._writes[place], self._view)) for place in done)
        return next((place for place, error in answers if error == decision.error), None)

    def skip(self, note_later: Callable[[WriteOperation], bool]) -> list[SkippedWrite]:
        """Settle the other writes, as the controller went on without them.

        They count as done, or as refused if ZooKeeper would refuse them. Returns those that the
        controller should have made, except writes that come later.
        """
        if self._is_atomic:
            # Kafka did not take part in this election, because another broker was faster.
            for place in self._open:
                self._set_outcome(place, RUNTIME_INCONSISTENCY if place else NODE_EXISTS, -1)
            return []
        skipped: list[SkippedWrite] = []
        for place in self._open:
            write = self._writes[place]
            error = refusal(write, self._view)
            if self.is_fenced:
                # Kafka stops at the first write that is fenced.
                error = FENCED
            elif not note_later(write) and place not in self._without_effect:
                skipped.append(SkippedWrite(write, error))
            self._set_outcome(place, error, -1 if error else version_after(write, self._view))
        return skipped

    def _matching_writes(self, decision: StockDecision) -> tuple[list[int], list[str]] | None:
        """The writes that a decision corresponds to, and the differences; None if the batch does
        not contain them."""
        claimed: list[int] = []
        differences: list[str] = []
        for path, stock in decision.operations:
            place = self._place_of(stock, path, claimed)
            if place is None:
                return None
            claimed.append(place)
            differences += write_differences(self._writes[place], stock, path)
        return claimed, differences

    def _place_of(self, stock: Operation, path: str, claimed: list[int]) -> int | None:
        for place in self._open:
            if place not in claimed and is_same_write(self._writes[place], stock, path):
                return place
        return None

    def _refused_writes(self, decision: StockDecision, since_zxid: int) -> dict[int, int]:
        """The open writes that a refused decision corresponds to, each with its error. ZooKeeper
        logs the reason of a refusal, but not the operation."""
        if self._is_atomic:
            errors = [refusal(one, self._view) for one in self._writes]
            if decision.error not in errors:
                return {}
            return {place: error or RUNTIME_INCONSISTENCY for place, error in enumerate(errors)}
        refused = self._refused_place(decision, since_zxid)
        if refused is None:
            return {}
        return {refused: FENCED if decision.what == "fenced" else decision.error}

    def _refused_place(self, decision: StockDecision, since_zxid: int) -> int | None:
        if decision.what == "fenced":
            return self._open[0]
        for place in self._open:
            if refusal(self._writes[place], self._view) == decision.error:
                return place
        if decision.error != BAD_VERSION:
            return None
        for place in self._open:
            znode = self._view.find(self._writes[place].path)
            if znode is not None and znode.mzxid > since_zxid:
                return place
        return None

    def _set_outcome(self, place: int, error: int, version: int) -> None:
        self._errors[place], self._versions[place] = error, version
