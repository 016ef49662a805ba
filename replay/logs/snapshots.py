"""Makes a log's snapshots: `python -m replay.logs.snapshots LOG`; the daemon runs it after a roll.

A segment that is not the first can be folded, and the ones before it may be removed, once the
state at its start is stored. The daemon goes on meanwhile: this is another process.
"""

import os
import sys
from pathlib import Path

from controller.core.snapshot import take_snapshot
from controller.fingerprint import core_fingerprint
from eventstore.errors import LogError
from eventstore.filters import EventFilter
from eventstore.folders import first_seq_of
from eventstore.reader import LogReader
from eventstore.snapshots import put_snapshot
from replay.errors import OtherCoreError, ReplayError
from replay.logs.decode import UPCASTERS, recorded
from replay.logs.recorded_fold import fold_at_start, fold_event

_NICENESS = 10


def make_snapshots(log: Path) -> int:
    """Store the snapshot at the start of every segment that has none; how many were made."""
    with LogReader.open(log, UPCASTERS) as reader:
        if reader.header.core_fingerprint != core_fingerprint():
            raise OtherCoreError(f"{log} was recorded by core {reader.header.core_fingerprint}")
        made = {one.seq for one in reader.snapshots if one.fingerprint == core_fingerprint()}
        wanted = [
            seq for path in reader.segments[1:] if (seq := first_seq_of(path) - 1) not in made
        ]
        if not wanted:
            return 0
        fold = fold_at_start(reader)
        for record in reader.events(EventFilter(last_seq=wanted[-1])):
            fold_event(fold, recorded(record))
            if record.seq in wanted:
                put_snapshot(log, core_fingerprint(), record.seq, take_snapshot(fold))
        return len(wanted)


def main() -> None:
    """The command line of the helper process."""
    os.nice(_NICENESS)
    try:
        make_snapshots(Path(sys.argv[1]))
    except (LogError, ReplayError) as error:
        sys.exit(f"refold snapshots: {error}")


if __name__ == "__main__":
    main()
