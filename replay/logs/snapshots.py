"""Makes the snapshots of a log: `python -m replay.logs.snapshots LOG`.

The daemon runs this in a separate process when it begins a new segment. A snapshot holds the state
at the start of a segment. With it the segment can be folded without the earlier ones, which may
then be removed.
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
from replay.logs.decode import UPCASTERS, decode_recorded
from replay.logs.recorded_fold import fold_at_start, fold_events

_NICENESS = 10


def make_snapshots(log: Path) -> int:
    """Store a snapshot for the start of every segment that has none. Return how many were made."""
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
        events = (
            (decode_recorded(one), None) for one in reader.events(EventFilter(last_seq=wanted[-1]))
        )
        for event, _, _ in fold_events(fold, events):
            if event.seq in wanted:
                put_snapshot(log, core_fingerprint(), event.seq, take_snapshot(fold))
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
