"""The snapshots at which a log is split, made by each version at the starts of the log's segments.

A daemon begins a segment while its fold is idle; a version that follows the log is idle there, too.
The version's `replay.logs.snapshots`, which its daemon also uses, makes the snapshots. A fold from
a snapshot makes the same decisions as one from the beginning as long as the version follows the
log. The pieces show whether it does; if one of them does not, the log is replayed as a whole.
Snapshots are kept, so that other versions with the same core can use them.
"""

import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from eventstore.errors import LogError
from eventstore.snapshots import SnapshotName, names_in, put_snapshot, read_snapshot
from replay.diff.processes import environment_of
from replay.errors import ReplayError
from replay.fleet.day_files import escaped
from replay.fleet.rebuild import StoredLog, rebuild
from replay.fleet.replaying.versions import ShippedVersion

_EVENTS_A_SECOND_MIN: Final = 200
"""A version that makes snapshots more slowly is stopped."""


class Snapshots:
    """The snapshots for the logs of one table."""

    def __init__(self, table: Path, folder: Path) -> None:
        self._table = table
        self._folder = folder

    def make(self, stored: StoredLog, version: ShippedVersion, patience_s: float) -> None:
        """Let the version make the missing snapshots. If it cannot, there are none, and the log is
        replayed as a whole. Raises OSError."""
        seqs = [one.first_seq - 1 for one in stored.segments[1:]]
        if self._has(stored, version.core, seqs):
            return
        with TemporaryDirectory(prefix="refold-fleet-") as scratch:
            try:
                log = rebuild(self._table, stored, Path(scratch) / "log", core=version.core)
                _write_snapshots(version, log, patience_s + stored.events / _EVENTS_A_SECOND_MIN)
                target = self._folder_of(stored, version.core)
                target.mkdir(parents=True, exist_ok=True)
                for one in names_in(log):
                    put_snapshot(target, version.core, one.seq, read_snapshot(one))
            except (ReplayError, LogError, subprocess.SubprocessError):
                return

    def copy_to_piece(self, log: Path, stored: StoredLog, piece: int, core: str) -> bool:
        """Copy the snapshot at which a piece begins to the rebuilt piece. False if there is
        none."""
        if piece == 0:
            return True
        seq = stored.segments[piece].first_seq - 1
        found = self._find(stored, core, [seq])
        for one in found:
            shutil.copy(one.path, log)
        return bool(found)

    def _has(self, stored: StoredLog, core: str, seqs: Iterable[int]) -> bool:
        return len(self._find(stored, core, seqs)) == len(stored.segments) - 1

    def _find(self, stored: StoredLog, core: str, seqs: Iterable[int]) -> list[SnapshotName]:
        folder = self._folder_of(stored, core)
        seqs = set(seqs)
        return [one for one in names_in(folder) if one.seq in seqs] if folder.is_dir() else []

    def _folder_of(self, stored: StoredLog, core: str) -> Path:
        return self._folder / f"core={core}" / f"cluster={escaped(stored.cluster)}" / stored.log


def _write_snapshots(version: ShippedVersion, log: Path, timeout_s: float) -> None:
    here = version.on_this_executor()
    subprocess.run(
        [here.python, "-m", "replay.logs.snapshots", str(log)],
        cwd=here.folder,
        env=environment_of(here),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        timeout=timeout_s,
        check=True,
    )
