"""Batches of files, each of which becomes part of a table by one rename."""

from pathlib import Path
from typing import Final

from eventstore.folders import sync_folder

_NAME: Final = "batch="


def batches(folder: Path) -> list[Path]:
    """Those that are there, in order."""
    return sorted(folder.glob(f"{_NAME}*"))


def add_batch(made: Path, folder: Path) -> int:
    """Make a folder of files the next batch; its number. Raises OSError."""
    number = max((int(one.name.removeprefix(_NAME)) for one in batches(folder)), default=0) + 1
    made.rename(folder / f"{_NAME}{number:06d}")
    sync_folder(folder)
    return number
