"""The log of a stock cluster, folded by this version beside the cluster's own controllers.

The fold is held to what the log shows (replay.agreement): after each of its decisions the cluster
goes on with what the stock controller did. So here nothing follows from a divergence.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from controller.core.commands import Issued
from controller.core.follower import Follower
from eventstore.reader import LogReader
from replay.agreement.comparison import agreeing_on, told
from replay.agreement.fold_beside import FoldBeside
from replay.agreement.results import AgreementResult, result_of
from replay.agreement.stock_controller import StockController
from replay.diff.messages import Agreed, Disagreement, Folded
from replay.diff.version import assumptions
from replay.diff.version.wanted import Progress, Wanted
from replay.world_log.encoding import UPCASTERS
from replay.world_log.reading import open_world

_NS_A_MS = 1_000_000

Noted = tuple[Issued, int, int, str]
"""A command, the record and the time at which it was issued, and what the fold was at."""


class Beside(Follower):
    """Notes what the fold beside one session wants. A copy goes on for itself."""

    def __init__(self, fold: FoldBeside, noted: list[Noted]) -> None:
        self.noted = noted
        self._fold = fold

    def __deepcopy__(self, memo: dict[int, Any]) -> "Beside":
        copied = Beside.__new__(Beside)
        memo[id(self)] = copied
        copied.noted = list(self.noted)
        # The fold that is being copied has its follower in it.
        copied._fold = memo.get(id(self._fold), self._fold)
        return copied

    def issues(self, issued: Issued) -> None:
        """At the record that the log has come to."""
        fold = self._fold
        self.noted.append((issued, fold.seq, fold.now_ms * _NS_A_MS, fold.cause))


def fold_imported(
    log: Path, wanted: Wanted, settings: Mapping[str, str], progress: Progress
) -> Folded:
    """What this version decides beside a cluster's controllers. Raises ReplayError, LogError."""
    controllers: list[StockController] = []

    def follow(controller: StockController) -> None:
        controllers.append(controller)
        controller.fold.controller.follower = Beside(controller.fold, [])

    with LogReader.open(log, UPCASTERS) as reader:
        world = open_world(reader)
        last = reader.last_seq
        agreeing = agreeing_on(
            world, last, "kafka", settings, lambda what, done, total: progress(done), follow
        )
        agreement = agreeing.run(
            told(world, "folding", last, lambda what, done, total: progress(done))
        )
    end_ns = 0
    for controller in controllers:
        follower = controller.fold.controller.follower
        assert isinstance(follower, Beside), "each session is followed"
        for issued, seq, time_ns, cause in follower.noted:
            turn = issued.id.cause
            wanted.deciding.take([issued], seq, turn, time_ns, "", {issued.id: cause})
            end_ns = max(end_ns, time_ns)
    return Folded(
        last,
        end_ns,
        assumptions={assumptions.BESIDE: 1},
        is_beside=True,
        agreed=_agreed(result_of(agreement, str(log))),
    )


def _agreed(result: AgreementResult) -> Agreed:
    return Agreed(
        result.decisions + result.requests.decisions,
        result.agreed + result.requests.agreed,
        [
            Disagreement(
                one.verdict,
                one.subject,
                one.kind,
                one.seq,
                one.zxid,
                one.cause,
                one.paths,
                one.differences,
                one.explained,
            )
            for one in result.divergences
        ],
    )
