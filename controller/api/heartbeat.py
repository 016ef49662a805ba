"""Detects a front process that hangs."""

from collections.abc import Callable
from typing import Final

import anyio

_INTERVAL_S: Final = 1.0
UNRESPONSIVE_S_MAX: Final = 10.0
"""How long a front that has answered once may be unresponsive."""

_START_S_MAX: Final = 30.0
"""Time until the first answer: Python has to start, perhaps on a busy machine."""


class Heartbeat:
    """Counts the unanswered pings of one front process. It does not measure time, so a daemon
    that was suspended itself still finds the responses."""

    def __init__(self, interval_s: float = _INTERVAL_S) -> None:
        self._interval_s = interval_s
        self._missing = 0
        self.unresponsive_s_max = _START_S_MAX

    @property
    def is_unresponsive(self) -> bool:
        """Whether responses have been missing for too long."""
        return self._missing * self._interval_s >= self.unresponsive_s_max

    def answered(self) -> None:
        """The front process has answered: reset the count of missing responses."""
        self._missing = 0
        self.unresponsive_s_max = UNRESPONSIVE_S_MAX

    async def until_unresponsive(self, ask: Callable[[], None]) -> None:
        """Ping the front periodically for as long as it answers."""
        while not self.is_unresponsive:
            ask()
            self._missing += 1
            await anyio.sleep(self._interval_s)
