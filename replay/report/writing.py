"""Writes a page, and replaces no other file."""

from pathlib import Path

from replay.errors import ReplayError
from replay.report.html import MARKER

_HEAD_BYTES = 4096


def require_writable(path: Path, *, force: bool = False) -> None:
    """Raises ReplayError if a file exists that is not a report, unless `force`; or if the folder
    does not exist."""
    if path.is_dir():
        raise ReplayError(f"{path} is a folder: give the name of a file with --out")
    if not path.parent.is_dir():
        raise ReplayError(f"the folder {path.parent} does not exist: create it first")
    if force or not path.exists():
        return
    with path.open("rb") as file:
        if MARKER.encode() not in file.read(_HEAD_BYTES):
            raise ReplayError(
                f"{path} exists and is not a report: give another name with --out, or --force"
            )


def write_page(path: Path, page: str) -> None:
    """Write the file. Raises ReplayError."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise ReplayError(f"{path} cannot be written: {error.strerror}") from error
