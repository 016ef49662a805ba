"""How long nothing had been observed before an event: a process that was suspended, or a machine
that was too slow, observes the end of its session after a silence."""

from typing import Final

from controller.core.events import Recorded

LONG_NS: Final = 1_000_000_000
"""The end of a session after a longer silence: its daemon was probably stopped."""


class Silence:
    """The silence before each event of a log, in ns. A daemon's observations within a second after
    a long silence have this silence before them: timers fire first, and a lost connection is
    noticed before the end of the session."""

    def __init__(self) -> None:
        self._last_ns = self._ended_ns = self._long_ns = 0

    def before(self, event: Recorded) -> int:
        """The silence before the next event."""
        passed_ns = event.wall_ns - self._last_ns if self._last_ns else 0
        self._last_ns = event.wall_ns
        if passed_ns >= LONG_NS:
            self._ended_ns, self._long_ns = event.wall_ns, passed_ns
        is_recent = event.wall_ns - self._ended_ns < LONG_NS
        return self._long_ns if is_recent else passed_ns


def silence_in_words(seconds: float) -> str:
    """The end of a sentence about the end of a session; "" if the silence was not long."""
    if seconds * 1e9 < LONG_NS:
        return ""
    return f"; nothing had been observed for {seconds:.1f} s before"
