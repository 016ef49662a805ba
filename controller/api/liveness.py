"""Whether the front still works, found out by asking it."""

from collections.abc import Callable
from typing import Final

import anyio

ASKED_EVERY_S: Final = 1.0
SILENT_S_MAX: Final = 5.0
START_S_MAX: Final = 60.0
"""Until the first answer: a Python starts, on a machine that may be busy."""


class Liveness:
    """Of one front process. Unanswered questions are counted, and no time is taken: a daemon that
    was held up itself finds the answers afterwards."""

    def __init__(self) -> None:
        self._unanswered = 0
        self._seconds_max = START_S_MAX

    def answered(self) -> None:
        """An answer has come."""
        self._unanswered = 0
        self._seconds_max = SILENT_S_MAX

    async def until_silent(self, ask: Callable[[], None]) -> None:
        """Ask once a second, until there was no answer for too long."""
        while self._unanswered * ASKED_EVERY_S < self._seconds_max:
            ask()
            self._unanswered += 1
            await anyio.sleep(ASKED_EVERY_S)
