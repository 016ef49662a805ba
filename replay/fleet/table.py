"""The folder of the table of records, and how a batch of files becomes part of it.

    DIR/refold-fleet.json                               marks the folder as a table; its layout
    DIR/records/batch=000001/cluster=C/date=D/*.parquet the records as stored in logs (STORED)
    DIR/ingested/batch=000001/*.parquet                 the segments they come from (`manifest`)
    DIR/staging/...                                     a batch in preparation
    DIR/set_aside.jsonl                                 what could not be read, and why

A batch is prepared under `staging`. Its manifest is renamed first; the batch becomes part of the
table when its records are renamed. The folder `records` contains records and nothing else.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType

from eventstore.folders import replacing, sync_folder
from replay.fleet.batches import add_batch, batches, next_batch
from replay.fleet.columns import STORED
from replay.fleet.errors import FleetError, converting_os_errors
from replay.fleet.locking import StagingFolder, exclusive
from replay.fleet.manifest import MANIFEST, RECORDS, remove_replaced
from replay.fleet.schemas import spark_schema

LAYOUT: Final = 3
_MARKER: Final = "refold-fleet.json"
_LOCK: Final = "lock"


class _Marker(Struct):
    layout: int


class TableFolder(StagingFolder):
    """The folder of a table, locked while it is open for writing. Tasks write below `written`;
    `files` becomes the next batch."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.written = self.staging / "written"
        self.files = self.staging / "records"
        self.manifest = self.staging / "manifest"

    def commit(self) -> int:
        """Make `files` and `manifest` part of the table, and delete the records that they replace;
        returns the number of the batch. Raises FleetError."""
        manifests = self.folder / MANIFEST
        try:
            manifests.mkdir(exist_ok=True)
            place = manifests / next_batch(self.folder / RECORDS)
            # An ingest may have been killed before its batch counted.
            shutil.rmtree(place, ignore_errors=True)
            self.manifest.rename(place)
            sync_folder(manifests)
            number = add_batch(self.files, self.folder / RECORDS)
            remove_replaced(self.folder)
        except OSError as error:
            raise FleetError(f"{self.folder} cannot be written: {error}") from error
        return number


@contextmanager
def open_table(folder: Path) -> Iterator[TableFolder]:
    """Open a table for writing, and create it if it does not exist. One process at a time.

    Leftovers of an ingest that was killed are removed. If the ingest fails before its first batch,
    a new folder is removed. Raises FleetError.
    """
    with converting_os_errors(folder), _removing_unused_folder(folder):
        _make(folder)
        # Executors have a different working directory.
        table = TableFolder(folder.absolute())
        with exclusive(folder / _LOCK, "another ingest"), table.deleting_leftovers():
            remove_replaced(folder)
            table.files.mkdir(parents=True)
            yield table


@contextmanager
def _removing_unused_folder(folder: Path) -> Iterator[None]:
    is_new = not folder.exists()
    try:
        yield
    except BaseException:
        if is_new and not batches(folder / RECORDS):
            _remove(folder)
        raise


def _remove(folder: Path) -> None:
    """Remove a table. Spark may still write files: then the marker of the table stays, so that the
    folder can be used again."""
    for one in folder.iterdir():
        if one.is_dir():
            shutil.rmtree(one, ignore_errors=True)
    if not any(one.is_dir() for one in folder.iterdir()):
        shutil.rmtree(folder, ignore_errors=True)


def check_table(folder: Path) -> None:
    """Check that there is a table, and that it has records. Raises FleetError."""
    _paths(folder)


def records(spark: SparkSession, folder: Path | str) -> DataFrame:
    """The records of a table as stored in logs: STORED, `batch`, `cluster` and `date`. Use
    decoding.records for decoded columns. Raises FleetError."""
    return records_in(spark, folder_of_records(folder), _paths(Path(folder)), STORED)


def records_in(
    spark: SparkSession, folder: Path, paths: Sequence[str], schema: pa.Schema
) -> DataFrame:
    """The files of records in these batches below `folder`/batch=.../cluster=.../date=...."""
    columns = spark_schema(schema)
    for name in ("batch", "cluster", "date"):
        columns = columns.add(name, StringType())
    return spark.read.schema(columns).option("basePath", str(folder)).parquet(*paths)


def folder_of_records(folder: Path | str) -> Path:
    """The folder with the batches of records."""
    return Path(folder) / RECORDS


def _make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / _MARKER
    if not marker.exists() and any(one.name != _LOCK for one in folder.iterdir()):
        raise FleetError(f"{folder} contains other files: name a new folder with --out")
    if not marker.exists():
        with replacing(marker) as file:
            file.write(msgspec.json.encode(_Marker(LAYOUT)))
    _check_layout(folder)
    (folder / RECORDS).mkdir(exist_ok=True)


def _check_layout(folder: Path) -> None:
    try:
        marker = msgspec.json.decode((folder / _MARKER).read_bytes(), type=_Marker)
    except FileNotFoundError:
        raise FleetError(
            f"{folder} is not a table: create one with `refold fleet ingest`"
        ) from None
    except (OSError, msgspec.MsgspecError) as error:
        raise FleetError(f"{folder / _MARKER} cannot be read: {error}") from None
    if marker.layout != LAYOUT:
        text = f"created by another version of refold (layout {marker.layout}, not {LAYOUT})"
        raise FleetError(f"{folder} was {text}: use that version, or ingest into a new folder")


def _paths(folder: Path) -> list[str]:
    _check_layout(folder)
    found = [str(path) for path in batches(folder / RECORDS)]
    if not found:
        raise FleetError(f"{folder} contains no records: add logs with `refold fleet ingest`")
    with converting_os_errors(folder):
        remove_replaced(folder)
    return found
