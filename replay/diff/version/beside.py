"""What a fold beside a stock controller wanted, and what it was told."""

from typing import Any

from controller.core.commands import Issued
from controller.core.configuration import Configuration
from controller.core.follower import Follower
from replay.agreement.fold_beside import FoldBeside
from replay.agreement.inputs import Inputs

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
