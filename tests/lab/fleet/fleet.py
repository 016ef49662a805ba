"""A table, the output of the commands of `refold fleet`, and the expected figures of the same
logs."""

import json
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from pyarrow import parquet

from replay.diff.references import Version, find_version
from replay.stock_clusters.imports.importing import ImportResult, Selection, import_source
from tests.replay.diff.versions import LAST_OF_ISR, ROOT, changed
from tests.replay.fleet.plain_count import PlainCount
from tests.replay.fleet.spark_settings import QUICK

Row = dict[str, Any]


@dataclass
class Log:
    """A log of the table: its row of the manifest, its folder (a stock cluster's log is imported
    there), and the expected figures."""

    name: str
    path: Path
    row: Row
    imported: ImportResult | None
    plain: PlainCount

    @property
    def id(self) -> str:
        """The log's name in the table."""
        return str(self.row["log"])


class Fleet:
    """The folder of a table, what the commands printed, and the expected figures of the same
    logs."""

    def __init__(self, folder: Path) -> None:
        self.table = folder / "table"
        self.page = folder / "fleet.html"
        self._folder = folder
        self.printed: dict[str, Row] = {}

    def refold(self, command: str, *arguments: str) -> None:
        """Run a command of `refold fleet`; its JSON output is added to `printed`."""
        spark = [one for name, value in QUICK.items() for one in ("--conf", f"{name}={value}")]
        program = [sys.executable, "-m", "replay.cli.main", "fleet", command]
        done = subprocess.run(
            [*program, *arguments, "--master", "local[2]", *spark],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        if "--json" in arguments:
            self.printed[command] = json.loads(done.stdout)

    @cached_property
    def logs(self) -> list[Log]:
        """The logs with their expected figures."""
        found = []
        for row in rows_below(self.table / "ingested", "batch=*/*.parquet"):
            path, imported = Path(row["path"]), None
            if row["unit"].startswith("stock-"):
                log = self._folder / "imported" / path.name
                imported = import_source(path, log, Selection())
            else:
                log = path.parent
            found.append(Log(log.name, log, row, imported, PlainCount(log)))
        return found

    @property
    def of_daemons(self) -> list[Log]:
        return [one for one in self.logs if one.imported is None]

    @property
    def of_stock(self) -> list[Log]:
        return [one for one in self.logs if one.imported is not None]

    @cached_property
    def defect(self) -> Path:
        """This code with a defect: an election takes the last replica in sync."""
        return changed(self._folder / "defect", LAST_OF_ISR)

    @cached_property
    def versions(self) -> list[Version]:
        """The current version and the defective one."""
        cache = self._folder / "versions"
        return [find_version(str(one), ROOT, cache) for one in (ROOT, self.defect)]

    def rows(self, name: str, log: Log | None = None) -> list[Row]:
        """The rows of a table of the analysis, of all logs or of one."""
        found = parquet.read_table(self.table / "analysis" / name).to_pylist()
        return [one for one in found if log is None or one["log"] == log.id]

    def replays(self, version: Path) -> dict[str, Row]:
        """The results of replays by a version, by log."""
        found = rows_below(self.table / "replays", "batch=*/logs/*.parquet")
        return {one["log"]: one for one in found if one["version"] == str(version)}

    def divergences(self, log: Log) -> list[Row]:
        """The divergences of both versions in a log."""
        found = rows_below(self.table / "replays", "batch=*/divergences/*.parquet")
        return [one for one in found if one["log"] == log.id]


def rows_below(folder: Path, pattern: str) -> list[Row]:
    files = sorted(folder.glob(pattern))
    return [row for file in files for row in parquet.ParquetFile(file).read().to_pylist()]
