"""Makes the index of a log, and snapshots: `python -m replay.index.making LOG`.

`imported_making` reads an imported log. A log of the daemon is read once: the pass derives all
commands again and compares them with those that the log has, as `refold why` does. An index of a
log that has other commands is never used.
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

import msgspec

from controller.fingerprint import core_fingerprint
from eventstore import snapshots
from eventstore.errors import LogError
from replay.errors import ReplayError
from replay.garbage_collection import rare_garbage_collection
from replay.index.every_fact import EVERYTHING, EveryFactObserver
from replay.index.imported_making import NUMBERS_HELD_MAX, REPORTED_EVERY, ImportedPass
from replay.index.postings import (
    FoldPostings,
    RangePostings,
    postings_of_imported_range,
    postings_of_range,
    ranges,
)
from replay.index.store import FORMAT, About, IndexWriter, RoleLost, has_index, writing
from replay.inspect.at import SnapshotSchedule, make_snapshots
from replay.logs.caches import stamp_of
from replay.logs.open_log import OpenedLog, RecordedLog, open_log
from replay.progress import Progress, unreported
from replay.stock_clusters.imported_log.reading import ImportedLog
from replay.verify.verification import Verifier
from replay.why.noted_facts import KnownZnodes
from replay.why.recorded import LogPart, NextEvent, Run
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
        stamp, last = stamp_of(log.reader, FORMAT), log.reader.last_seq
        processes = processes or _processes(last - log.reader.header.first_seq + 1)
        with (
            rare_garbage_collection(),
            writing(path, mode) as writer,
            _Reading(log, (log.reader.header.first_seq, last), processes) as reading,
        ):
            if isinstance(log, ImportedLog):
                imported = ImportedPass(log, writer, progress)
                imported.run(path, partial(reading.take_done, writer))
                reading.finish(writer)
                imported.finish(stamp)
                return
            made = _Pass(log, last, writer, verifier)
            made.run(path, progress, reading)
            made.finish(stamp)


def _processes(events: int) -> int:
    return (os.cpu_count() or 1) if events > _WORTH_A_PROCESS else 1


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
        """Write what is found."""
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


class _Pass:
    """Folds the whole log once."""

    def __init__(
        self, log: RecordedLog, last: int, writer: IndexWriter, verifier: Verifier | None = None
    ) -> None:
        self._last = last
        self._verifier = verifier
        self._run = Run(LogPart(log, last), EVERYTHING, [], KnownZnodes({}, {}), EveryFactObserver)
        observer = self._run.observer
        assert isinstance(observer, EveryFactObserver), "the run makes it"
        self._observer = observer
        self._writer = writer
        if verifier is not None:
            verifier.begin(observer.controller.term)
        self._postings = FoldPostings(observer.topic_name, writer.add_topic_name)
        self._lost: list[RoleLost] = []
        self._last_active = 0

    def run(self, path: Path, progress: Progress, reading: _Reading) -> None:
        """Fold the events. Raises LogError, ReplayError."""
        last = snapshots.latest_snapshot(path, core_fingerprint(), self._last)
        schedule = SnapshotSchedule(path, last.seq if last is not None else 0)
        for order, taken in enumerate(self._run.records(), 1):
            self._take(taken, order)
            seq = taken.record.seq
            if not seq % REPORTED_EVERY:
                progress("making the index", seq, self._last)
                reading.take_done(self._writer)
            schedule.offer(seq, self._run.snapshot)
        reading.finish(self._writer)

    def _take(self, taken: NextEvent, order: int) -> None:
        folded = self._run.take(taken, order)
        assert folded is not None, "a single log raises an error instead"
        record = taken.record
        if self._verifier is not None:
            term = self._observer.controller.term
            self._verifier.add(record, folded.event, folded.issued, taken.stored, term)
        for one in folded.inexact:
            self._writer.add_command(one)
        begun = [one.procedure for one in self._observer.begun]
        self._postings.add(record.seq, folded.event.event, folded.inexact, begun)
        if self._postings.postings.count > NUMBERS_HELD_MAX:
            self._writer.add_pages(self._postings.postings.take())
        if self._observer.facts:
            self._writer.add_facts(self._observer.take_facts())
        self._note_role(record.seq)

    def _note_role(self, seq: int) -> None:
        lost = self._lost[-1] if self._lost else None
        is_lost = lost is not None and not lost.until
        if self._observer.lost_at and not is_lost:
            self._lost.append(RoleLost(seq, self._last_active))
        elif not self._observer.lost_at and lost is not None and is_lost:
            self._lost[-1] = msgspec.structs.replace(lost, until=seq)
        if self._observer.controller.is_active:
            self._last_active = seq

    def finish(self, stamp: str) -> None:
        """Write what is known at the end."""
        limits = self._run.limits
        about = About(
            stamp, self._last, limits.is_cut_off, limits.differs_at, limits.unrecorded, self._lost
        )
        self._writer.add_pages(self._postings.postings.take())
        self._writer.finish(about, self._observer.ranges_of_moves)


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
