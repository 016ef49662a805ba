"""What a fold beside a stock controller wanted, and what it was told."""

from controller.core.commands import Issued
from controller.core.configuration import Configuration
from controller.core.fold_observer import FoldObserver
from replay.stock_clusters.agreement.trace.checkpoint import Checkpointed
from replay.stock_clusters.agreement.trace.fold_inputs import FoldInputs
from replay.stock_clusters.agreement.trace.shadow_fold import ShadowFold

_NS_A_MS = 1_000_000

Noted = tuple[Issued, int, int, str]
"""A command, the record and the time at which it was issued, and what the fold was at."""


class ShadowObserver(FoldObserver, Checkpointed):
    """Notes the commands of the fold of one session."""

    STATE = ("noted",)

    def __init__(self, fold: ShadowFold, noted: list[Noted]) -> None:
        self.noted = noted
        self._fold = fold

    @property
    def configuration(self) -> Configuration:
        """The settings of the session's broker."""
        return self._fold.controller.configuration

    @property
    def inputs(self) -> FoldInputs:
        """What the fold was told beside transactions."""
        return self._fold.inputs

    def issues(self, issued: Issued) -> None:
        """At the record that the log has come to."""
        fold = self._fold
        self.noted.append((issued, fold.seq, fold.now_ms * _NS_A_MS, fold.cause))
