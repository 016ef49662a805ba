"""The timers of a fold. The caller says how an action runs later: in an event loop, or in simulated
time."""

from collections.abc import Callable
from typing import Protocol

Action = Callable[[], None]


class Scheduled(Protocol):
    """An action that runs later."""

    def cancel(self) -> None:
        """Do not run the action."""


class Timers:
    """Timers by name; each calls `fired` with its name. `after_ms` runs an action after a delay in
    milliseconds."""

    def __init__(
        self, after_ms: Callable[[int, Action], Scheduled], fired: Callable[[str], None]
    ) -> None:
        self._after_ms = after_ms
        self._fired = fired
        self._running: dict[str, Scheduled] = {}

    def start(self, timer: str, delay_ms: int) -> None:
        """Start a timer; one that runs starts again."""
        self.cancel(timer)

        def fire() -> None:
            del self._running[timer]
            self._fired(timer)

        self._running[timer] = self._after_ms(delay_ms, fire)

    def cancel(self, timer: str) -> None:
        """Cancel a timer, if it runs."""
        scheduled = self._running.pop(timer, None)
        if scheduled is not None:
            scheduled.cancel()

    def cancel_all(self) -> None:
        """Cancel all timers."""
        for timer in list(self._running):
            self.cancel(timer)
