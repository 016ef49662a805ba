"""Opens any moment of a log: loads the last snapshot before it, then applies the events after it.

If a log has too few snapshots and its folder is writable, a helper process makes them first, with
the index of the log: `python -m replay.index.making LOG`. It runs once per log and version of the
core.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from controller.fingerprint import core_fingerprint
from eventstore import snapshots
from eventstore.errors import LogCorrupt
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.cluster_view.views import ClusterView
from replay.cluster_view.waiting import with_times
from replay.errors import ReplayError
from replay.inspect.projections import Projection, projection_of
from replay.logs.caches import keeps_caches
from replay.logs.decode import time_of
from replay.logs.open_log import OpenedLog, open_log
from replay.progress import Progress, unreported

FOLDED_AT_ONCE_MAX: Final = 30_000
"""With more events than this between a snapshot and a moment, snapshots are made."""
_INDEX_PROCESS: Final = "replay.index.making"
SNAPSHOTS_APART_S: Final = 0.4
"""Seconds of CPU time between two snapshots; longer if a snapshot takes longer than that."""
CLOCK_EVERY: Final = 64
"""Events between two reads of the clock."""


def cluster_at(log: OpenedLog, seq: int, progress: Progress = unreported) -> ClusterView:
    """The state after event `seq`. Raises ReplayError, LogError."""
    projection = projection_at(log, seq, progress)
    found = projection.cluster(time_of(log.reader, projection.seq))
    return with_times(found, lambda one: time_of(log.reader, one))


def projection_at(
    log: OpenedLog, seq: int, progress: Progress = unreported, *, begin: int | None = None
) -> Projection:
    """The projection after event `seq`, folded from a snapshot at or before event `begin`; None:
    at or before `seq`. Raises ReplayError, LogError."""
    projection = projection_from_snapshot(log, seq if begin is None else begin, progress)
    wanted = EventFilter(first_seq=projection.seq + 1, last_seq=seq)
    for record, stored in log.reader.records(wanted):
        projection.apply(record, stored)
        progress("folding", record.seq, seq)
    return projection


def projection_from_snapshot(
    log: OpenedLog, seq: int, progress: Progress = unreported
) -> Projection:
    """The projection at the last snapshot up to event `seq`, or at the start of the log. If it is
    far away, snapshots are made first. Raises ReplayError."""
    before = snapshot_before(log.reader, seq)
    start = before.seq if before is not None else log.reader.header.first_seq - 1
    if seq - start > FOLDED_AT_ONCE_MAX and keeps_caches(log.reader.path):
        run_index_process(log.reader, progress)
        before = snapshot_before(log.reader, seq)
    return _projection_from(log, before)


def _projection_from(log: OpenedLog, name: snapshots.SnapshotName | None) -> Projection:
    if name is not None:
        try:
            return projection_of(log, snapshots.read_snapshot(name), name.seq)
        except (LogCorrupt, ReplayError):
            # Snapshots are a cache: a damaged one is ignored.
            pass
    return projection_of(log)


def snapshot_before(reader: LogReader, seq: int) -> snapshots.SnapshotName | None:
    """The last stored snapshot up to event `seq`."""
    folder = reader.path if reader.path.is_dir() else reader.path.parent
    return snapshots.latest_snapshot(folder, core_fingerprint(), seq)


# The process that makes an index and snapshots ----------------------------------------------------


def run_index_process(reader: LogReader, progress: Progress) -> None:
    """Wait for the process. If it fails, the caller folds all events itself."""
    command = [sys.executable, "-m", _INDEX_PROCESS, str(reader.path)]
    last = reader.last_seq
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None, "stdout is a pipe"
        for line in process.stdout:
            done, what = line.rstrip("\n").split(" ", 1)
            progress(f"once for this log: {what}", int(done), last)


def make_snapshots(path: Path, progress: Progress = unreported) -> int:
    """Store snapshots throughout a log, so that any moment opens quickly. Return their number.

    Raises LogError, ReplayError.
    """
    made = 0
    with open_log(path) as log:
        last = log.reader.last_seq
        projection = _projection_from(log, snapshot_before(log.reader, last))
        schedule = SnapshotSchedule(path)
        for record in log.reader.events(EventFilter(first_seq=projection.seq + 1)):
            projection.apply(record)
            progress("making snapshots", record.seq, last)
            made += schedule.store_if_due(record.seq, projection.snapshot)
    return made


class SnapshotSchedule:
    """Stores snapshots at distances that bound the time to open a moment."""

    def __init__(self, path: Path, after: int = 0) -> None:
        """Up to event `after`, the log has snapshots."""
        self._path, self._after = path, after
        self._apart_s, self._begun = SNAPSHOTS_APART_S, time.process_time()
        self._count, self._is_due = 0, False

    def store_if_due(self, seq: int, take: Callable[[], bytes | None]) -> bool:
        """Store a snapshot after event `seq` if the last one is far enough away. `take` returns
        None in the middle of a procedure. Raises LogError."""
        self._count += 1
        if self._count % CLOCK_EVERY and not self._is_due:
            return False
        now = time.process_time()
        self._is_due = now - self._begun >= self._apart_s
        if now - self._begun < self._apart_s or seq <= self._after:
            return False
        body = take()
        if body is None:
            return False
        snapshots.put_snapshot(self._path, core_fingerprint(), seq, body)
        self._begun, self._is_due = time.process_time(), False
        self._apart_s = max(SNAPSHOTS_APART_S, self._begun - now)
        return True
