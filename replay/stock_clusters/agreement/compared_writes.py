"""What the fold writes in one session beside what Kafka wrote: what each write came to, and what is
left over on one side."""

from collections.abc import Sequence, Set
from typing import Final, NamedTuple

from controller.core.operations import WriteOperation
from replay.stock_clusters.agreement.adopting import adopt
from replay.stock_clusters.agreement.batches import Decision, Left
from replay.stock_clusters.agreement.index import Index
from replay.stock_clusters.agreement.judging import At, extra, judged
from replay.stock_clusters.agreement.shadow_fold import ShadowFold
from replay.stock_clusters.agreement.verdicts import Judgement, Verdict
from replay.stock_clusters.agreement.writes import is_same_write, write_differences
from replay.stock_clusters.zookeeper_log.transactions import Operation

_LOOKAHEAD: Final = 200
"""Writes of the session that are looked at to see whether one is still to come."""


class _Ahead(NamedTuple):
    """A write of the fold's that Kafka comes to later, and what it is if Kafka does not."""

    write: WriteOperation
    extra: Judgement


class ComparedWrites:
    """Holds the judgements, the fold's writes that Kafka comes to later, and what Kafka wrote
    otherwise: that counts once the fold is done with what it is at."""

    def __init__(self, session: int, broker: int, fold: ShadowFold, index: Index) -> None:
        self.judgements: list[Judgement] = []
        self.zxid = 0
        """Of the last transaction that the log has come to."""
        self._session = session
        self._broker = broker
        self._fold = fold
        self._index = index
        self._ahead: dict[str, _Ahead] = {}
        self._adopted: list[tuple[str, Operation]] = []

    def coming(self) -> Set[str]:
        """The znodes that the session writes soon, from the present record on."""
        return self._index.paths_after(self._session, self._fold.seq - 1, _LOOKAHEAD)

    def is_still_to_come(self, paths: Sequence[str]) -> bool:
        """Whether Kafka wrote soon what the fold is waiting for."""
        coming = self._index.paths_after(self._session, self._fold.seq, _LOOKAHEAD)
        return all(path in coming for path in paths)

    def claim_ahead(self, decision: Decision) -> list[str] | None:
        """The differences of a decision that the fold came to earlier than Kafka."""
        if decision.error or len(decision.operations) != 1:
            return None
        [(path, kafkas)] = decision.operations
        ahead = self._ahead.pop(path, None)
        if ahead is None:
            return None
        if not is_same_write(ahead.write, kafkas, path):
            # Kafka has come to something else.
            self.judgements.append(ahead.extra)
            return None
        return list(write_differences(ahead.write, kafkas, path))

    def leave_batch(self) -> None:
        """The controller has gone on without the writes that are not settled."""
        assert self._fold.batch is not None, "no batch is open"
        coming = self.coming()
        place = (self._fold.seq, self.zxid, self._at)

        def keeps(write: WriteOperation) -> bool:
            if write.path in coming:
                self._ahead[write.path] = _Ahead(write, extra(Left(write, 0), *place))
            return write.path in coming

        left = self._fold.batch.leave(keeps)
        self.judgements += [extra(one, *place) for one in left]
        self._fold.deliver()

    def judge(
        self, decision: Decision, differences: Sequence[str], verdict: Verdict | None = None
    ) -> Judgement:
        """What a decision comes to: by its differences, where there is no `verdict`."""
        self._fold.behind = decision.seq
        return judged(decision, self._at, differences, verdict)

    def add(self, judgement: Judgement, decision: Decision) -> None:
        """What a decision came to; what Kafka wrote otherwise counts from then on."""
        self.judgements.append(judgement)
        if judgement.verdict in ("missing", "differs"):
            self._adopted += decision.operations
        self.adopt()

    def adopt(self) -> None:
        """Put what Kafka wrote otherwise into what the fold knows, unless it is at something."""
        if self._adopted and not self._fold.is_running:
            adopt(self._fold.controller.context, self._adopted)
            self._adopted.clear()

    @property
    def _at(self) -> At:
        return At(self._broker, self._fold.epoch, self._fold.doing, self._fold.since)
