"""When the garbage collector runs: not while procedures run, because a collection of the objects of
100,000 partitions stops the event loop for 0.1 s (measured)."""

import gc
import time
from collections.abc import Iterable
from types import TracebackType
from typing import Final, Self

from controller.core.fold_observer import FoldObserver
from controller.core.state import Topic

_COLLECT_AFTER_OBJECTS: Final = 50_000
_FREED_TOGETHER: Final = 10_000
"""Partitions that are freed at once."""

_OFF_SECONDS_MAX: Final = 60.0
"""The collector runs again when the fold has had work for this time."""


def prepare_for_many_objects() -> None:
    """Collect less often than Python's default, and never what exists now."""
    gc.freeze()
    gc.set_threshold(_COLLECT_AFTER_OBJECTS, 20, 100)


class DroppedTopics(FoldObserver):
    """Frees the topics that the core drops, some at a time."""

    def __init__(self) -> None:
        self._topics: list[Topic] = []

    def drops_topics(self, topics: Iterable[Topic]) -> None:
        self._topics += topics

    def free_some(self) -> None:
        """Free some topics: few enough that the event loop is not held up."""
        partitions = 0
        while self._topics and partitions < _FREED_TOGETHER:
            topic = self._topics.pop()
            partitions += len(topic.partitions)
            topic.release()


class GarbageCollection:
    """Switches the collector off while the fold has work. A context manager.

    The collector never examines what long work has made. The core's values are immutable and form
    no cycles but those of topics and their partitions: `dropped` frees them.
    """

    def __init__(self) -> None:
        self._off_since: float | None = None
        self.dropped = DroppedTopics()

    def work_begins(self) -> None:
        """Events are about to be folded."""
        if self._off_since is None:
            self._off_since = time.monotonic()
            gc.disable()

    def events_folded(self, *, is_idle: bool) -> None:
        """Called when events were folded. `is_idle`: no work is left."""
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
