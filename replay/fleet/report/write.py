"""Writing the page to a file."""

from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from eventstore.folders import replacing
from replay.fleet.errors import FleetError, OutputError
from replay.fleet.report.collect import collect_findings
from replay.fleet.report.page import page_of

_SUFFIXES: Final = (".html", ".htm")


def check_target(target: Path) -> None:
    """Raises FleetError if the page cannot be written to this path, before any query runs."""
    if target.suffix.lower() not in _SUFFIXES:
        raise FleetError(f"-o {target}: the page is HTML; name a file that ends with .html")
    if target.is_dir():
        raise FleetError(f"-o {target} is a folder: name a file")
    if not target.absolute().parent.is_dir():
        raise FleetError(f"-o {target}: there is no folder {target.parent}")


def write_report(spark: SparkSession, folder: Path, target: Path, incidents: int) -> int:
    """Write the results of an analysis as a page, replacing an existing file; returns its size in
    bytes.

    Raises FleetError if there is no analysis, OutputError if the page cannot be written.
    """
    body = page_of(collect_findings(spark, folder, incidents)).encode(errors="replace")
    try:
        with replacing(target) as file:
            file.write(body)
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error.strerror or error}") from error
    return len(body)
