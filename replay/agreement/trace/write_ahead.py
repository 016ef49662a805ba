"""Lets a fold make the writes of one rule in other batches than Kafka, for comparisons of versions.

Kafka sends the writes of a batch in the order of a hash map. A fold that sends them one by one, in
another order, waits for a write that Kafka makes later. It then receives the outcome early, so that
it makes its next write. It continues after the last write when Kafka has made all of them.
"""

from collections.abc import Iterator, Sequence

from controller.core.events import ZnodesWritten
from controller.core.operations import Delete
from replay.agreement.assumptions import Choices
from replay.agreement.decisions.write_batch import StockDecision, WriteBatch
from replay.agreement.trace.compared_writes import ComparedWrites
from replay.agreement.trace.shadow_fold import ShadowFold
from replay.checkpoint import Checkpointed
from replay.stock_clusters.imports.decisions import kind_of


class WriteAhead(Checkpointed):
    """The writes that the fold has made earlier than Kafka in the present controller event.

    Without the assumption `any_batches` the fold always waits, as `refold agree` requires.
    """

    STATE = ("_early",)

    def __init__(self, fold: ShadowFold, compared: ComparedWrites, choices: Choices) -> None:
        self._fold = fold
        self._compared = compared
        self._choices = choices
        self._is_allowed = choices.assumptions.any_batches
        self._early: dict[str, ZnodesWritten] = {}
        """By path: the outcome if the write turns out to be fenced."""

    def begin_event(self) -> None:
        """Forget the early writes of the controller event before, because the next one begins."""
        self._early = {}

    def claim_early_write(self, decision: StockDecision) -> list[str] | None:
        """The differences of a decision that the fold made earlier than Kafka; None for others.
        After the last early write the fold continues."""
        differences = self._compared.claim_early_write(decision)
        if differences is not None and self._early:
            for path, _ in decision.operations:
                self._early.pop(path, None)
            self._deliver()
        return differences

    def _deliver(self) -> None:
        """Return the outcome of a settled batch, unless Kafka has yet to make an early write."""
        if not self._early:
            self._fold.deliver()

    def claimed(self, decision: StockDecision) -> None:
        """The stock controller's decision is matched with the one that the fold has made too. The
        fold receives the outcome, unless the reply was lost. If the stock controller was fenced,
        the fold drops the writes that it has made early."""
        if not self._choices.is_reply_lost(decision.zxid):
            self._deliver()
        if decision.what == "fenced":
            self._fold.fenced += self._early.values()
            self._early = {}

    def deliver_before_early_writes(self) -> None:
        """Return the outcome of a settled batch after all, because Kafka makes another write
        before the early ones."""
        if self._early:
            self._fold.deliver()

    def write_up_to(self, decision: StockDecision, since_zxid: int) -> bool:
        """Make the next writes of the rule up to the write of a decision, as for `claim`. False if
        the rule has no such write; then the fold may have gone too far."""
        batch = self._fold.batch
        if batch is None or not self._is_allowed or batch.can_repeat(decision):
            return False
        if not decision.error and not _is_of_kind(batch, decision):
            return False
        return any(following.has(decision, since_zxid) for following in self._following())

    def claim_repeated(self, decision: StockDecision) -> bool:
        """Settle the last completed write of the open batch as refused, if ZooKeeper refuses its
        repetition so. False if not, or if no batch is open."""
        batch = self._fold.batch
        return batch is not None and batch.claim_repeated(decision)

    def all_paths(self) -> Sequence[str]:
        """The paths of all the writes of the rule. The fold makes them, so the trace cannot
        continue from here, but goes back to a checkpoint or ends."""
        self.deliver_before_early_writes()
        if self._is_allowed:
            for _ in self._following():
                pass
        return [*self._early, *(self._fold.batch.paths() if self._fold.batch else ())]

    def write_rest(self) -> None:
        """Make the other writes of the rule that the fold has begun, after the end of the
        session."""
        batch = self._fold.batch
        if batch is not None and batch.is_fenced:
            self._fold.fenced += batch.if_fenced().values()
        else:
            self.all_paths()

    def _following(self) -> Iterator[WriteBatch]:
        """The next batches of the rule, each after the outcome of the one before."""
        fold, rule, sent = self._fold, self._fold.rule, len(self._fold.sent)
        while (batch := fold.batch) is not None and not batch.is_atomic and batch.paths():
            self._early |= batch.if_fenced()
            self._compared.skip_batch()
            if fold.batch is None or fold.rule != rule or len(fold.sent) != sent:
                return
            yield fold.batch


def _is_of_kind(batch: WriteBatch, decision: StockDecision) -> bool:
    return any(
        kind_of(one.path, is_delete=isinstance(one, Delete)) == decision.what
        for one in batch.open_writes
    )
