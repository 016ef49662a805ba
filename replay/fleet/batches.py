"""Batches of files. Each batch becomes part of a table by one rename."""

from pathlib import Path
from typing import Final

from eventstore.folders import sync_folder

_NAME: Final = "batch="


def batches(folder: Path) -> list[Path]:
    """The batch folders in `folder`, oldest first."""
    return sorted(folder.glob(f"{_NAME}*"))


def add_batch(made: Path, folder: Path) -> int:
    """Rename the folder `made` to the next batch and return its number. Raises OSError."""
    number = max((int(one.name.removeprefix(_NAME)) for one in batches(folder)), default=0) + 1
    made.rename(folder / f"{_NAME}{number:06d}")
    sync_folder(folder)
    return number
