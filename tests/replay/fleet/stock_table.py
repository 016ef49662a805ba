"""A table of stock clusters without Spark, and captures of a recording."""

import shutil
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from eventstore.reader import LogReader
from replay.fleet import manifest
from replay.fleet.day_files import put_in_place
from replay.fleet.stock_ingest import StockIngest, capture_of
from replay.fleet.table import open_table
from replay.stock_clusters.imports.importing import Selection, import_source

RECORDINGS = Path(__file__).parents[2] / "recordings"

Row = dict[str, Any]
Record = tuple[int, str, bytes, int]


def unpacked(recording: str, folder: Path) -> Path:
    """The folder of a recording."""
    with tarfile.open(RECORDINGS / f"{recording}.tar.xz") as tar:
        tar.extractall(folder, filter="data")
    return folder / recording


def capture(source: Path, target: Path, without: Iterable[str] = ()) -> Path:
    """A copy of a source without files of these names."""
    shutil.copytree(source, target)
    for file in sorted(target.rglob("*")):
        if file.name in set(without):
            file.unlink()
    return target


class StockTable:
    """A table into which captures are ingested as executors and the driver do it. `reasons` has the
    captures that were set aside by the last ingest."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.reasons: dict[str, str] = {}

    def ingest(self, *captures: Path, replacing: Sequence[Path] = ()) -> list[Row]:
        """Ingest captures of one cluster; returns the new rows of the manifest."""
        found = [(capture_of(path), path) for path in (*captures, *replacing)]
        [cluster] = {cluster for (cluster, _), _ in found}
        units = [
            {
                "path": one.path,
                "first_zxid": one.first_zxid,
                "last_zxid": one.last_zxid,
                "container": f"{path} {path.stat().st_mtime_ns}",
            }
            for (_, one), path in found
        ]
        with open_table(self.folder) as table:
            names = frozenset(map(str, replacing))
            work = StockIngest(table.folder, table.written, cluster, names)
            rows = list(work.ingest(units))
            self.reasons = {one["path"]: one["reason"] for one in rows if one.get("reason")}
            kept = [one for one in rows if not one.get("reason")]
            if kept:
                table.manifest.mkdir()
                made = pa.Table.from_pylist(kept, manifest.INGESTED)
                parquet.write_table(made, table.manifest / "1.parquet")
                tokens = [SimpleNamespace(token=one["token"]) for one in kept if one["events"]]
                put_in_place(tokens, table.written, table.files)
                table.commit()
        return kept

    @property
    def records(self) -> dict[str, list[Record]]:
        """All records by log, in order."""
        found: dict[str, list[Record]] = {}
        for file in (self.folder / "records").rglob("*"):
            if file.is_file():
                for row in parquet.ParquetFile(file).read().to_pylist():
                    record = row["seq"], row["kind"], row["stored"], row["wall_ns"]
                    found.setdefault(row["log"], []).append(record)
        return {log: sorted(rows) for log, rows in found.items()}

    @property
    def only_log(self) -> list[Record]:
        """The records of the only log, without the first one, which names the source."""
        [records] = self.records.values()
        return records[1:]

    @property
    def logs(self) -> list[Row]:
        """The last row of the manifest for each log, of the only cluster."""
        cluster = next((self.folder / "records").glob("batch=*/cluster=*")).name.partition("=")[2]
        return manifest.stock_rows(self.folder, cluster)


def imported(source: Path, log: Path) -> list[Record]:
    """The records of an import by `refold import`, without those about the import itself."""
    import_source(source, log, Selection())
    return [
        (one.seq, one.kind, one.payload, one.wall_ns)
        for one in LogReader(log).events()
        if one.kind not in ("world_begun", "import_ended")
    ]
