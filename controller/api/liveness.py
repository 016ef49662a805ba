"""Detects a front process that hangs."""

from collections.abc import Callable
from typing import Final

import anyio

_ASKED_EVERY_S: Final = 1.0
_SILENT_S_MAX: Final = 10.0
_START_S_MAX: Final = 30.0
"""Time until the first answer: Python has to start, perhaps on a busy machine."""


class Liveness:
    """Of one front process. Unanswered questions are counted and no time is taken: a daemon that
    was held up itself finds the answers afterwards."""

    def __init__(self) -> None:
        self._unanswered = 0
        self.silent_s_max = _START_S_MAX

    @property
    def is_silent(self) -> bool:
        """Whether there was no answer for too long."""
        return self._unanswered * _ASKED_EVERY_S >= self.silent_s_max

    def answered(self) -> None:
        """An answer has come."""
        self._unanswered = 0
        self.silent_s_max = _SILENT_S_MAX

    async def until_silent(self, ask: Callable[[], None]) -> None:
        """Ask once a second for as long as there are answers."""
        while not self.is_silent:
            ask()
            self._unanswered += 1
            await anyio.sleep(_ASKED_EVERY_S)
