"""Writing the page to a file."""

from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import SparkSession

from eventstore.folders import replacing
from replay.fleet.errors import FleetError, OutputError
from replay.fleet.report.collect import collect_findings
from replay.fleet.report.page import page_of

_SUFFIXES: Final = (".html", ".htm")


def check_target(target: Path) -> None:
    """Check, before any query runs, that the page can be written to this path. Raises
    FleetError."""
    if target.suffix.lower() not in _SUFFIXES:
        raise FleetError(f"-o {target}: the page is HTML; name a file that ends with .html")
    if target.is_dir():
        raise FleetError(f"-o {target} is a folder: name a file")
    if not target.absolute().parent.is_dir():
        raise FleetError(f"-o {target}: there is no folder {target.parent}")


class WrittenPage(NamedTuple):
    """A page that was written: its size in bytes, the number of logs that lack something, and the
    number of inputs that are set aside."""

    size: int
    incomplete: int
    set_aside: int


def write_report(spark: SparkSession, folder: Path, target: Path, incidents: int) -> WrittenPage:
    """Write the results of an analysis as a page, replacing an existing file.

    Raises FleetError if there is no analysis, OutputError if the page cannot be written.
    """
    findings = collect_findings(spark, folder, incidents)
    body = page_of(findings).encode(errors="replace")
    try:
        with replacing(target) as file:
            file.write(body)
    except OSError as error:
        raise OutputError(f"{target} cannot be written: {error.strerror or error}") from error
    return WrittenPage(len(body), findings.totals["incomplete"], findings.set_aside)
