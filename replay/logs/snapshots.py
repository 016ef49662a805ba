"""Makes a log's snapshots: `python -m replay.logs.snapshots LOG`; the daemon runs it after a roll.

A segment that is not the first can be folded, and the ones before it may be removed, once the
state at its start is stored. The daemon goes on meanwhile: this is another process.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from controller.core.fold import Fold
from controller.core.snapshot import load_snapshot, take_snapshot
from controller.fingerprint import core_fingerprint
from eventstore.errors import LogError
from eventstore.filters import EventFilter
from eventstore.folders import first_seq_of
from eventstore.reader import LogReader
from eventstore.snapshots import put_snapshot, read_snapshot
from replay.errors import OtherCoreError, ReplayError
from replay.logs.decode import UPCASTERS, configuration_of, recorded

_NICENESS = 10


def fold_at_start(reader: LogReader) -> Fold:
    """The fold as it is before the first event that the log still has. Raises ReplayError."""
    configuration = configuration_of(reader.header)
    before = reader.header.first_seq - 1
    if before == 0:
        return Fold(configuration)
    snapshots = [name for name in reader.snapshots if name.seq == before]
    for name in snapshots:
        if name.fingerprint == core_fingerprint():
            return load_snapshot(read_snapshot(name), configuration)
    for name in snapshots:
        # Another core's can be loaded where the state has the same fields. Whoever folds a log of
        # another core compares the decisions that follow.
        with suppress(ReplayError, msgspec.DecodeError):
            return load_snapshot(read_snapshot(name), configuration)
    raise ReplayError(
        f"the log begins with event {before + 1}: its earlier segments are gone, and there is no "
        f"snapshot at event {before} that core {core_fingerprint()} can begin with"
    )


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
        for event in reader.events(EventFilter(last_seq=wanted[-1])):
            for _ in fold.apply(recorded(event)):
                pass
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
