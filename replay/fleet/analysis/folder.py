"""The folder of an analysis, which is prepared under another name and then renamed.

DIR/analysis/<table>/*.parquet     the tables
DIR/analysis/analysis.json         when it was made, its options, rows per table
DIR/analysis.partial/              an analysis in preparation
"""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from eventstore.folders import sync_folder
from replay.fleet.errors import converting_os_errors
from replay.fleet.locking import deleting_folder, exclusive

NAME: Final = "analysis"
_SUMMARY: Final = "analysis.json"
_PARTIAL: Final = "analysis.partial"
_BEFORE: Final = "analysis.before"
_LOCK: Final = "analysis.lock"


class AnalysisFolder:
    """The folder in which the tables of an analysis are written until `commit`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._partial = folder / _PARTIAL

    def path_of(self, table: str) -> str:
        """The path at which a table is written."""
        return str(self._partial / table)

    def commit(self, summary: Struct, intermediate: list[str]) -> None:
        """Replace DIR/analysis by this analysis, without its `intermediate` tables."""
        for table in intermediate:
            shutil.rmtree(self._partial / table)
        (self._partial / _SUMMARY).write_bytes(msgspec.json.encode(summary))
        place, before = self.folder / NAME, self.folder / _BEFORE
        if place.exists():
            place.rename(before)
        self._partial.rename(place)
        sync_folder(self.folder)
        shutil.rmtree(before, ignore_errors=True)


@contextmanager
def open_analysis(folder: Path) -> Iterator[AnalysisFolder]:
    """Begin a new analysis of the table in `folder`; one process at a time. Raises FleetError."""
    lock = exclusive(folder / _LOCK, "another analysis")
    with converting_os_errors(folder), lock, deleting_folder(folder / _PARTIAL):
        _restore_previous(folder)
        yield AnalysisFolder(folder)


def _restore_previous(folder: Path) -> None:
    """Restore the previous analysis if a process was killed between two renames."""
    if (folder / _BEFORE).exists() and not (folder / NAME).exists():
        (folder / _BEFORE).rename(folder / NAME)
    shutil.rmtree(folder / _BEFORE, ignore_errors=True)
