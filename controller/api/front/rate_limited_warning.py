"""What clients are turned away for, told to the operator not too often."""

from collections.abc import Callable
from typing import Final

TOLD_EVERY_S: Final = 10.0


class RateLimitedWarning:
    """Tells of the first that comes, and then of one in ten seconds, with how many there were.

    `tell` takes the text; `clock` gives seconds.
    """

    def __init__(self, tell: Callable[[str], None], clock: Callable[[], float]) -> None:
        self._tell = tell
        self._clock = clock
        self._told_at: float | None = None
        self._untold = 0

    def add(self, address: str, problem: str) -> None:
        """The connection of a client is closed because of that problem."""
        now = self._clock()
        if self._told_at is not None and now - self._told_at < TOLD_EVERY_S:
            self._untold += 1
            return
        others = f"; {self._untold} others were closed since the last message" * bool(self._untold)
        self._tell(f"closed the connection of {address}: {problem}{others}")
        self._told_at, self._untold = now, 0
