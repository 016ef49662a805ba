"""Opening any moment of a log: from the last snapshot before it, then event by event.

Where a log has too few snapshots and can keep them, a helper process makes them first, once for the
core that this is: `python -m replay.inspect.at LOG`.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from controller.fingerprint import core_fingerprint
from eventstore import folders, snapshots
from eventstore.errors import LogCorrupt, LogError
from eventstore.filters import EventFilter
from eventstore.reader import LogReader
from replay.cluster_view.views import Cluster
from replay.errors import ReplayError
from replay.inspect.folding import Folding, folding_of
from replay.logs.open_log import OpenedLog, open_log
from replay.progress import Progress, unreported
from replay.times import iso_time

FOLDED_AT_ONCE_MAX: Final = 30_000
"""Events; where more lie between a moment and the last snapshot, snapshots are made."""
_APART_S: Final = 0.4
"""Of folding, between two snapshots; more where making one takes longer than that."""
_REPORTED_EVERY: Final = 5_000


def cluster_at(log: OpenedLog, seq: int, progress: Progress = unreported) -> Cluster:
    """The state after event `seq`. Raises ReplayError, LogError."""
    before = _snapshot_before(log.reader, seq)
    start = before.seq if before is not None else log.reader.header.first_seq - 1
    if seq - start > FOLDED_AT_ONCE_MAX and _keeps_snapshots(log.reader.path):
        _run_helper(log.reader, progress)
        before = _snapshot_before(log.reader, seq)
    folding = _folding_from(log, before)
    for record in log.reader.events(EventFilter(first_seq=folding.seq + 1, last_seq=seq)):
        folding.take(record)
        progress("folding", record.seq, seq)
    return folding.cluster(_time_of(log.reader, folding.seq))


def folding_before(log: OpenedLog, seq: int) -> Folding:
    """The state from which the events from `seq` on are soon come to."""
    return _folding_from(log, _snapshot_before(log.reader, seq - 1))


def _time_of(reader: LogReader, seq: int) -> str:
    """When an event was; "" for the state before the first one."""
    found = next(reader.events(EventFilter(first_seq=seq, last_seq=seq)), None)
    return iso_time(found.wall_ns) if found is not None else ""


def _folding_from(log: OpenedLog, name: snapshots.SnapshotName | None) -> Folding:
    if name is not None:
        try:
            return folding_of(log, snapshots.read_snapshot(name), name.seq)
        except (LogCorrupt, ReplayError):
            # A cache: what is damaged is folded again.
            pass
    return folding_of(log)


def _snapshot_before(reader: LogReader, seq: int) -> snapshots.SnapshotName | None:
    folder = _folder_of(reader.path)
    return snapshots.latest_snapshot(folder, core_fingerprint(), seq)


def _folder_of(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _keeps_snapshots(path: Path) -> bool:
    """A folder that a daemon writes, and the room on its disk, are the daemon's."""
    return path.is_dir() and os.access(path, os.W_OK) and not folders.is_being_written(path)


# The helper process -----------------------------------------------------------------------------


def _run_helper(reader: LogReader, progress: Progress) -> None:
    """Wait for it. Should it fail, all is folded here."""
    command = [sys.executable, "-m", "replay.inspect.at", str(reader.path)]
    last = reader.last_seq
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as helper:
        assert helper.stdout is not None, "it is a pipe"
        for line in helper.stdout:
            progress("making snapshots, once for this log", int(line), last)


def make_snapshots(path: Path, progress: Progress = unreported) -> int:
    """Store snapshots all over a log, so that any moment is opened quickly. Return how many were
    made. Raises LogError, ReplayError."""
    made = 0
    with open_log(path) as log:
        last = log.reader.last_seq
        folding = _folding_from(log, _snapshot_before(log.reader, last))
        apart_s, begun = _APART_S, time.perf_counter()
        for record in log.reader.events(EventFilter(first_seq=folding.seq + 1)):
            folding.take(record)
            progress("making snapshots", record.seq, last)
            now = time.perf_counter()
            if now - begun < apart_s:
                continue
            body = folding.snapshot()
            if body is None:
                continue
            snapshots.put_snapshot(path, core_fingerprint(), record.seq, body)
            made += 1
            begun = time.perf_counter()
            apart_s = max(_APART_S, begun - now)
    return made


def main() -> None:
    """The command line of the helper process: prints its progress as event numbers, one a line."""

    def report(what: str, done: int, total: int | None) -> None:
        if done % _REPORTED_EVERY == 0:
            sys.stdout.write(f"{done}\n")
            sys.stdout.flush()

    try:
        make_snapshots(Path(sys.argv[1]), report)
    except (LogError, ReplayError) as error:
        sys.exit(f"refold snapshots: {error}")


if __name__ == "__main__":
    main()
