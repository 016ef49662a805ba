"""Batches of files. Each batch becomes part of a table by one rename."""

from pathlib import Path
from typing import Final

from eventstore.folders import sync_folder

_NAME: Final = "batch="


def batches(folder: Path) -> list[Path]:
    """The batch folders in `folder`, oldest first."""
    return sorted(folder.glob(f"{_NAME}*"))


def next_batch(folder: Path) -> str:
    """The name of the batch that `add_batch` adds next."""
    return f"{_NAME}{_last_number(folder) + 1:06d}"


def add_batch(made: Path, folder: Path) -> int:
    """Rename the folder `made` to the next batch and return its number. Raises OSError."""
    made.rename(folder / next_batch(folder))
    sync_folder(folder)
    return _last_number(folder)


def _last_number(folder: Path) -> int:
    return max((int(one.name.removeprefix(_NAME)) for one in batches(folder)), default=0)
