"""The timers of a fold, which run in the event loop."""

import asyncio
from collections.abc import Callable


class Timers:
    """Timers by name; each calls `fired` with its name."""

    def __init__(self, fired: Callable[[str], None]) -> None:
        self._fired = fired
        self._running: dict[str, asyncio.TimerHandle] = {}

    def start(self, timer: str, delay_ms: int) -> None:
        """Start a timer; one that runs starts again."""
        self.cancel(timer)

        def fire() -> None:
            del self._running[timer]
            self._fired(timer)

        self._running[timer] = asyncio.get_running_loop().call_later(delay_ms / 1000, fire)

    def cancel(self, timer: str) -> None:
        """Cancel a timer, if it runs."""
        handle = self._running.pop(timer, None)
        if handle is not None:
            handle.cancel()

    def cancel_all(self) -> None:
        """Cancel all timers."""
        for timer in list(self._running):
            self.cancel(timer)
