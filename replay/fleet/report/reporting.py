"""Writing the page."""

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from replay.fleet.errors import FleetError, OutputError
from replay.fleet.report.gathering import gather
from replay.fleet.report.page import page_of

_SUFFIXES: Final = (".html", ".htm")


def check_target(target: Path) -> None:
    """Raises FleetError where no page can be written, before anything is asked."""
    if target.suffix.lower() not in _SUFFIXES:
        raise FleetError(f"-o {target}: the page is HTML: name a file that ends with .html")
    if target.is_dir():
        raise FleetError(f"-o {target} is a folder: name a file")
    if not target.absolute().parent.is_dir():
        raise FleetError(f"-o {target}: there is no folder {target.parent}")


def write_report(spark: SparkSession, folder: Path, target: Path, incidents: int) -> int:
    """Write what an analysis found as a page, in the place of one that is there; its bytes.

    Raises FleetError where there is no analysis, OutputError where it cannot be written.
    """
    body = page_of(gather(spark, folder, incidents)).encode(errors="replace")
    partial = target.with_name(f".{target.name}.partial")
    try:
        partial.write_bytes(body)
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OutputError(f"{target} cannot be written: {error.strerror or error}") from error
    return len(body)
