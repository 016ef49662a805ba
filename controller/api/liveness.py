"""Detects a front process that hangs."""

from collections.abc import Callable
from typing import Final

import anyio

_ASKED_EVERY_S: Final = 1.0
_SILENT_S_MAX: Final = 10.0
_START_S_MAX: Final = 30.0
"""Time until the first answer: Python has to start, perhaps on a busy machine."""


class Liveness:
    """Counts the unanswered pings of one front process. It does not measure time, so a daemon
    that was suspended itself still finds the answers."""

    def __init__(
        self, asked_every_s: float = _ASKED_EVERY_S, answers_within_s: float = _SILENT_S_MAX
    ) -> None:
        """`answers_within_s`: how long a front that has answered once may be unresponsive."""
        self._asked_every_s = asked_every_s
        self._answers_within_s = answers_within_s
        self._unanswered = 0
        self.silent_s_max = _START_S_MAX

    @property
    def is_silent(self) -> bool:
        """Whether answers have been missing for too long."""
        return self._unanswered * self._asked_every_s >= self.silent_s_max

    def answered(self) -> None:
        """The front answered."""
        self._unanswered = 0
        self.silent_s_max = self._answers_within_s

    async def until_silent(self, ask: Callable[[], None]) -> None:
        """Ping the front periodically for as long as it answers."""
        while not self.is_silent:
            ask()
            self._unanswered += 1
            await anyio.sleep(self._asked_every_s)
