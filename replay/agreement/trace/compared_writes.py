"""The writes of one session's fold, compared with the writes that Kafka's controller made."""

from collections.abc import Iterable, Sequence, Set
from typing import Final, NamedTuple

from controller.core import znodes
from controller.core.errors import ZnodeError
from controller.core.operations import WriteOperation
from controller.core.state import ControllerContext
from replay.agreement.decisions.judgements import (
    FoldPosition,
    Judgement,
    Verdict,
    judge_decision,
    judge_extra_write,
)
from replay.agreement.decisions.write_batch import SkippedWrite, StockDecision
from replay.agreement.decisions.writes import is_same_write, write_differences
from replay.agreement.logs.index import BrokerLogIndex
from replay.agreement.trace.shadow_fold import ShadowFold
from replay.checkpoint import Checkpointed
from replay.stock_clusters.zookeeper_log.transactions import Create, Operation, SetData

_LOOKAHEAD: Final = 200
"""How many of the session's next writes are searched for one that Kafka makes later."""


class _EarlyWrite(NamedTuple):
    """A write of the fold that Kafka makes later, and the judgement if Kafka does not."""

    write: WriteOperation
    extra: Judgement


class ComparedWrites(Checkpointed):
    """The judgements so far.

    The fold's context takes over what Kafka wrote differently as soon as no controller event is in
    progress, so that one difference does not cause others.
    """

    STATE = ("judgements", "_early", "_to_adopt")

    def __init__(self, session: int, broker: int, fold: ShadowFold, index: BrokerLogIndex) -> None:
        self.judgements: list[Judgement] = []
        self._session = session
        self._broker = broker
        self._fold = fold
        self._index = index
        self._early: dict[str, _EarlyWrite] = {}
        self._to_adopt: list[tuple[str, Operation]] = []

    def next_paths(self) -> Set[str]:
        """The znodes that the session writes soon, from the present record on."""
        return self._index.paths_after(self._session, self._fold.seq - 1, _LOOKAHEAD)

    def are_written_later(self, paths: Sequence[str]) -> bool:
        """Whether Kafka soon makes all the writes that the fold is waiting for."""
        following = self._index.paths_after(self._session, self._fold.seq, _LOOKAHEAD)
        return all(path in following for path in paths)

    def claim_early_write(self, decision: StockDecision) -> list[str] | None:
        """The differences of a decision that the fold made earlier than Kafka; None for others."""
        if decision.error or len(decision.operations) != 1:
            return None
        [(path, stock)] = decision.operations
        early = self._early.pop(path, None)
        if early is None:
            return None
        if not is_same_write(early.write, stock, path):
            # Kafka has done something else.
            self.judgements.append(early.extra)
            return None
        return list(write_differences(early.write, stock, path))

    def skip_batch(self) -> None:
        """Continue as the controller did, without the writes that are not settled."""
        assert self._fold.batch is not None, "no batch is open"
        following = self.next_paths()
        since = self._fold.waiting
        where = (since.seq, since.zxid, self._position)

        def note_later(write: WriteOperation) -> bool:
            if write.path in following:
                extra = judge_extra_write(SkippedWrite(write, 0), *where)
                self._early[write.path] = _EarlyWrite(write, extra)
            return write.path in following

        skipped = self._fold.batch.skip(note_later)
        self.judgements += [judge_extra_write(one, *where) for one in skipped]
        self._fold.deliver()

    def judge(
        self, decision: StockDecision, differences: Sequence[str], verdict: Verdict | None = None
    ) -> Judgement:
        """Judge a decision, by its differences if no `verdict` is given."""
        self._fold.settled_seq = decision.seq
        return judge_decision(decision, self._position, differences, verdict)

    def add(self, judgement: Judgement, decision: StockDecision) -> None:
        """Add a judgement; the fold continues from what Kafka wrote."""
        self.judgements.append(judgement)
        if judgement.verdict in ("missing", "differs"):
            self._to_adopt += decision.operations
        self.adopt()

    def adopt(self) -> None:
        """Put what Kafka wrote differently into the fold's context, once the fold is idle."""
        if self._to_adopt and not self._fold.is_running:
            adopt(self._fold.controller.context, self._to_adopt)
            self._to_adopt.clear()

    def take_judgements(self) -> list[Judgement]:
        """Remove and return the judgements so far."""
        taken, self.judgements = self.judgements, []
        return taken

    @property
    def _position(self) -> FoldPosition:
        fold = self._fold
        return FoldPosition(self._broker, fold.epoch, fold.cause, fold.since)


def adopt(context: ControllerContext, written: Iterable[tuple[str, Operation]]) -> None:
    """Put states and assignments that Kafka wrote into a controller's context."""
    for path, operation in written:
        if not isinstance(operation, (SetData, Create)):
            continue
        version = operation.version if isinstance(operation, SetData) else 0
        try:
            _adopt_content(context, path, operation.data, version)
        except ZnodeError:
            continue


def _adopt_content(context: ControllerContext, path: str, data: bytes | None, version: int) -> None:
    named = znodes.partition_of_state(path)
    if named is not None:
        partition = context.find(*named)
        if partition is not None:
            partition.leadership = znodes.read_state(path, data, version)
        return
    name = znodes.topic_of(path)
    if name is None:
        return
    for number, assignment in znodes.read_topic(name, data).assignments.items():
        partition = context.find(name, number)
        if partition is not None:
            partition.assignment = assignment
