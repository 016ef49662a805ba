"""What a fold beside a stock controller wanted, and what it was told."""

from typing import Any

from controller.core.commands import Issued
from controller.core.configuration import Configuration
from controller.core.fold_observer import FoldObserver
from replay.stock_clusters.agreement.inputs import Inputs
from replay.stock_clusters.agreement.shadow_fold import ShadowFold

_NS_A_MS = 1_000_000

Noted = tuple[Issued, int, int, str]
"""A command, the record and the time at which it was issued, and what the fold was at."""


class ShadowObserver(FoldObserver):
    """Notes what the fold beside one session wants. A copy goes on for itself."""

    def __init__(self, fold: ShadowFold, noted: list[Noted]) -> None:
        self.noted = noted
        self._fold = fold

    def __deepcopy__(self, memo: dict[int, Any]) -> "ShadowObserver":
        copied = ShadowObserver.__new__(ShadowObserver)
        memo[id(self)] = copied
        copied.noted = list(self.noted)
        # The fold that is being copied has its follower in it.
        copied._fold = memo.get(id(self._fold), self._fold)
        return copied

    @property
    def configuration(self) -> Configuration:
        """The settings of the session's broker."""
        return self._fold.controller.configuration

    @property
    def inputs(self) -> Inputs:
        """What the fold was told beside transactions."""
        return self._fold.inputs

    def issues(self, issued: Issued) -> None:
        """At the record that the log has come to."""
        fold = self._fold
        self.noted.append((issued, fold.seq, fold.now_ms * _NS_A_MS, fold.cause))
