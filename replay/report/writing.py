"""Writes a report to a file, and replaces no other file."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Literal

from msgspec import Struct

from eventstore.folders import replacing
from replay.errors import ReplayError
from replay.report import html, markdown, perfetto
from replay.report.document import Report

_HEAD_BYTES: Final = 4096

FormatName = Literal["html", "perfetto", "markdown"]


class ReportFormat(Struct, frozen=True):
    """A format: the default file, what a file of this format contains near its beginning, and what
    writes it."""

    file: str
    marker: str
    write: Callable[[Sequence[Report]], str]


FORMATS: Final[dict[FormatName, ReportFormat]] = {
    "html": ReportFormat("report.html", html.MARKER, html.page_of),
    "perfetto": ReportFormat("report.perfetto.json", perfetto.MARKER, perfetto.trace_of),
    "markdown": ReportFormat("report.md", markdown.MARKER, markdown.markdown_of),
}


def require_writable(path: Path, format: ReportFormat, *, force: bool = False) -> None:
    """Check, before any work, that the report can be written: the folder exists, and the file is
    missing or a report in this format. `force`: another file may be replaced. Raises
    ReplayError."""
    if path.is_dir():
        raise ReplayError(f"{path} is a folder: give the name of a file with --out")
    if not path.parent.is_dir():
        raise ReplayError(f"the folder {path.parent} does not exist: create it first")
    if force or not path.exists():
        return
    with path.open("rb") as file:
        if format.marker.encode() not in file.read(_HEAD_BYTES):
            raise ReplayError(
                f"{path} exists and is not such a report: give another name with --out, or --force"
            )


def write_report(path: Path, text: str) -> None:
    """Write the file, which only this user may read, as the log. Raises ReplayError."""
    try:
        with replacing(path, is_durable=False, is_private=True) as file:
            file.write(text.encode())
    except OSError as error:
        raise ReplayError(f"{path} cannot be written: {error.strerror}") from error
