"""One pass over a log that makes its index: what the passes over recorded and imported logs
share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from replay.index.every_fact import MovesRange
from replay.index.postings import Postings
from replay.index.store import About, IndexWriter

REPORTED_EVERY: Final = 5_000
_NUMBERS_HELD_MAX: Final = 4_000_000


class LogPass(ABC):
    """Reads a log once and writes what only this pass finds: first `run`, then `finish`."""

    def __init__(self, writer: IndexWriter, postings: Postings) -> None:
        """The pass adds to `postings`."""
        self._writer = writer
        self._postings = postings

    @abstractmethod
    def run(self, path: Path, take_done: Callable[[], None]) -> None:
        """Read the log, whose folder is `path`, and store its snapshots there. Every
        `REPORTED_EVERY` events, call `take_done`. Raises LogError, ReplayError."""

    @abstractmethod
    def about(self, stamp: str) -> About:
        """The properties of the whole log, for an index with this stamp. Call it after the last
        event."""

    def ranges_of_moves(self) -> Iterable[MovesRange]:
        """The events that a question about the moves of a partition folds."""
        return ()

    def _write_many_postings(self) -> None:
        """Write the postings found so far if they need much memory."""
        if self._postings.count > _NUMBERS_HELD_MAX:
            self._writer.add_pages(self._postings.take())

    def finish(self, stamp: str) -> None:
        """Write the remaining postings, and what is known about the whole log."""
        self._writer.add_pages(self._postings.take())
        self._writer.finish(self.about(stamp), self.ranges_of_moves())
