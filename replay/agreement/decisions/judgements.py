"""The verdict on each decision."""

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple, get_args

from msgspec import Struct

from controller.core import operations
from replay.agreement.cause import NO_CAUSE, FoldCause
from replay.agreement.decisions.write_batch import SkippedWrite, StockDecision
from replay.stock_clusters.imports.decisions import kind_of

Verdict = Literal["agreed", "differs", "missing", "extra"]
VERDICTS: Final[tuple[Verdict, ...]] = get_args(Verdict)

_CONTENT_MAX: Final = 300


class Judgement(Struct, frozen=True):
    """The verdict on one decision of Kafka's controller, of the fold, or of both.

    `seq` is the record of Kafka's decision. For an `extra` decision it is the record at which
    the fold decided, and `zxid` is the last one by then. `since` is the record at which
    the fold began the controller event. Each of `differences` is one sentence. `cause` names the
    controller event and the rule that the fold was processing. `is_input`: the write only does what
    a client requested, and no log has that request; it never counts as agreed.
    """

    verdict: Verdict
    kind: str
    seq: int
    zxid: int
    broker: int
    epoch: int
    paths: tuple[str, ...]
    differences: tuple[str, ...] = ()
    cause: FoldCause = NO_CAUSE
    is_input: bool = False
    since: int = 0


class FoldPosition(NamedTuple):
    """Where a fold is: its broker and term, the controller event and rule (`cause`), and the record
    at which that event began."""

    broker: int
    epoch: int
    cause: FoldCause
    since: int


def judge_decision(
    decision: StockDecision,
    position: FoldPosition,
    differences: Sequence[str],
    verdict: Verdict | None = None,
) -> Judgement:
    """Judge a decision of Kafka's controller, by its differences if no `verdict` is given."""
    return Judgement(
        verdict or ("differs" if differences else "agreed"),
        decision.what,
        decision.seq,
        decision.zxid,
        position.broker,
        position.epoch,
        tuple(path for path, _ in decision.operations),
        tuple(differences),
        position.cause,
        decision.is_input,
        position.since,
    )


def judge_extra_write(
    skipped: SkippedWrite, seq: int, zxid: int, position: FoldPosition
) -> Judgement:
    """Judge a write that the fold decided at record `seq`, and that Kafka has not done."""
    write = skipped.write
    text = f"{type(write).__name__} of {write.path}"
    if isinstance(write, (operations.SetData, operations.Create)):
        text += f": {write.data.decode('utf-8', 'replace')[:_CONTENT_MAX]}"
    if skipped.error:
        text += f" (ZooKeeper would refuse it with {skipped.error})"
    return Judgement(
        "extra",
        kind_of(write.path, is_delete=isinstance(write, operations.Delete)),
        seq,
        zxid,
        position.broker,
        position.epoch,
        (write.path,),
        (text,),
        position.cause,
        since=position.since,
    )


def judge_without_election(decision: StockDecision, broker: int) -> Judgement:
    """The judgement on a decision of a session that was never elected."""
    position = FoldPosition(broker, epoch=0, cause=NO_CAUSE, since=0)
    return judge_decision(
        decision, position, ["no election of its session is in the log"], "missing"
    )
