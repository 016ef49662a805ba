"""When the garbage collector runs: not while procedures run, because a collection of the objects of
100,000 partitions stops the event loop for 0.1 s (measured)."""

import gc
import time
from types import TracebackType
from typing import Final, Self

_COLLECT_AFTER_OBJECTS: Final = 50_000
_OFF_SECONDS_MAX: Final = 60.0
"""The collector runs again when the fold has had work for this time."""


def prepare_for_many_objects() -> None:
    """Collect less often than Python's default, and never what exists now."""
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER_OBJECTS, 20, 100)


class GarbageCollection:
    """Switches the collector off while the fold has work. A context manager.

    The collector never examines what long work has made. The core's values are immutable and form
    no cycles but those of topics, which the core breaks when it drops them (Topic.release).
    """

    def __init__(self) -> None:
        self._off_since: float | None = None

    def work_begins(self) -> None:
        """Events are about to be folded."""
        if self._off_since is None:
            self._off_since = time.monotonic()
            gc.disable()

    def events_folded(self, *, is_idle: bool) -> None:
        """They are folded; `is_idle`: nothing is left to do."""
        assert self._off_since is not None
        if is_idle or time.monotonic() - self._off_since > _OFF_SECONDS_MAX:
            if gc.get_count()[0] > _COLLECT_AFTER_OBJECTS:
                gc.freeze()
            self._off_since = None
            gc.enable()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        gc.enable()
