"""Makes the index of a log, and snapshots: `python -m replay.index.making LOG`.

One process reads the log in one pass (`recorded_making`, `imported_making`). Meanwhile others find
the subjects of its records.
"""

import os
import sys
from collections import deque
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from stat import S_IMODE
from typing import Any, Final, Self

from eventstore.errors import LogError
from replay.errors import ReplayError
from replay.garbage_collection import rare_garbage_collection
from replay.index.imported_making import ImportedPass
from replay.index.log_pass import REPORTED_EVERY, LogPass
from replay.index.postings import (
    RangePostings,
    postings_of_imported_range,
    postings_of_range,
    ranges,
)
from replay.index.recorded_making import RecordedPass
from replay.index.store import FORMAT, IndexWriter, has_index, writing
from replay.inspect.at import make_snapshots
from replay.logs.caches import stamp_of
from replay.logs.open_log import OpenedLog, open_log
from replay.progress import Progress, unreported
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.verify.verification import Verifier
from replay.worker_processes import worker_pool

_WORTH_A_PROCESS: Final = 20_000
"""With fewer events, no other process is started."""
_EVENTS_IN_PART_MAX: Final = 250_000
_PARTS_OF_PROCESS: Final = 4


def make_index(
    path: Path,
    progress: Progress = unreported,
    processes: int = 0,
    verifier: Verifier | None = None,
) -> None:
    """Make the index of a log, unless there is one that can be used, and snapshots. `processes`: 0
    for one on each core. `verifier` verifies the log in the same pass; the index is made again.

    Raises LogError, ReplayError.
    """
    with open_log(path) as log:
        if verifier is None and has_index(log.reader):
            make_snapshots(path, progress)
            return
        mode = S_IMODE(log.reader.segments[0].stat().st_mode)
        stamp = stamp_of(log.reader, FORMAT)
        events = log.reader.header.first_seq, log.reader.last_seq
        processes = processes or _processes(events)
        with (
            rare_garbage_collection(),
            writing(path, mode) as writer,
            _Reading(log, events, processes) as reading,
        ):
            made: LogPass
            if isinstance(log, ImportedLog):
                made = ImportedPass(log, writer, progress)
            else:
                made = RecordedPass(log, writer, progress, verifier)
            made.run(path, partial(reading.take_done, writer))
            reading.finish(writer)
            made.finish(stamp)


def _processes(events: tuple[int, int]) -> int:
    first, last = events
    return (os.cpu_count() or 1) if last - first + 1 > _WORTH_A_PROCESS else 1


class _Reading:
    """The postings of a log, which other processes find while this one folds the log."""

    def __init__(self, log: OpenedLog, events: tuple[int, int], processes: int) -> None:
        """`events` are the first and the last one."""
        self._path = log.reader.path
        is_imported = isinstance(log, ImportedLog)
        self._postings_of = postings_of_imported_range if is_imported else postings_of_range
        self._others = processes - 1
        parts = max(1, self._others) * _PARTS_OF_PROCESS
        self._ranges = [*ranges(*events, parts, _EVENTS_IN_PART_MAX)]
        self._resources = ExitStack()
        self._parts: deque[Future[RangePostings]] = deque()

    def __enter__(self) -> Self:
        if self._others:
            pool = self._resources.enter_context(worker_pool(self._others))
            found = (pool.submit(self._postings_of, self._path, *one) for one in self._ranges)
            self._parts.extend(found)
        return self

    def __exit__(self, *raised: Any) -> bool | None:
        return self._resources.__exit__(*raised)

    def take_done(self, writer: IndexWriter) -> None:
        """Write the parts of the index that worker processes have finished."""
        while self._parts and self._parts[0].done():
            _write(self._parts.popleft().result(), writer)

    def finish(self, writer: IndexWriter) -> None:
        """Wait for the rest and write it. Raises LogError, ReplayError."""
        if not self._others:
            for first, last in self._ranges:
                _write(self._postings_of(self._path, first, last), writer)
        for one in self._parts:
            _write(one.result(), writer)


def _write(found: RangePostings, writer: IndexWriter) -> None:
    writer.add_pages(found.pages)
    writer.add_names(found.names)


def main() -> None:
    """The command line of the helper process. It prints its progress: the number of an event and
    what it does."""

    def report(what: str, done: int, total: int | None) -> None:
        if done % REPORTED_EVERY == 0:
            sys.stdout.write(f"{done} {what}\n")
            sys.stdout.flush()

    try:
        make_index(Path(sys.argv[1]), report)
    except (LogError, ReplayError) as error:
        sys.exit(f"refold index: {error}")


if __name__ == "__main__":
    main()
