"""How decisions of Kafka's and of the fold become judgements."""

from collections.abc import Sequence
from typing import NamedTuple

from controller.core import operations
from replay.stock_clusters.agreement.batches import Decision, Left
from replay.stock_clusters.agreement.verdicts import Judgement, Verdict
from replay.stock_clusters.imports.decisions import kind_of


class At(NamedTuple):
    """Whose fold it is, in which term, what it was at, and since which record."""

    broker: int
    epoch: int
    cause: str
    since: int


def judged(
    decision: Decision, at: At, differences: Sequence[str], verdict: Verdict | None = None
) -> Judgement:
    """A decision of Kafka's: by its differences, where there is no `verdict`."""
    return Judgement(
        verdict or ("differs" if differences else "agreed"),
        decision.what,
        decision.seq,
        decision.zxid,
        at.broker,
        at.epoch,
        tuple(path for path, _ in decision.operations),
        tuple(differences),
        at.cause,
        decision.is_input,
        at.since,
    )


def extra(left: Left, seq: int, zxid: int, at: At) -> Judgement:
    """A write of the fold's that Kafka has not done by the record `seq`."""
    write = left.write
    text = f"{type(write).__name__} of {write.path}"
    if isinstance(write, (operations.SetData, operations.Create)):
        text += f": {write.data.decode('utf-8', 'replace')[:300]}"
    if left.error:
        text += f" (ZooKeeper would refuse it with {left.error})"
    return Judgement(
        "extra",
        kind_of(write.path, is_delete=isinstance(write, operations.Delete)),
        seq,
        zxid,
        at.broker,
        at.epoch,
        (write.path,),
        (text,),
        at.cause,
        since=at.since,
    )
