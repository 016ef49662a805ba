"""The folder of the table of records, and how a batch of files becomes part of it.

    DIR/refold-fleet.json                               marks the folder as a table; its layout
    DIR/records/batch=000001/cluster=C/date=D/*.parquet the records as stored in logs (STORED)
    DIR/records/batch=000001/_ingested/*.parquet        the segments they come from (INGESTED)
    DIR/staging/...                                     a batch in preparation
    DIR/set_aside.jsonl                                 what the last ingest could not read, and why

A batch is prepared under `staging` and then renamed, so that its records and its manifest appear at
the same time. Readers need only the files below `records`. Spark ignores names that begin with an
underscore.
"""

import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyarrow import dataset, parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType

from eventstore.folders import replacing
from replay.fleet.batches import add_batch, batches
from replay.fleet.columns import STORED
from replay.fleet.errors import FleetError, usable
from replay.fleet.jobs import rows_in
from replay.fleet.locking import exclusive, staging
from replay.fleet.schemas import spark_schema

LAYOUT: Final = 2
_MARKER: Final = "refold-fleet.json"
_LOCK: Final = "lock"
_RECORDS: Final = "records"
_INGESTED: Final = "_ingested"
_STAGING: Final = "staging"
_SET_ASIDE: Final = "set_aside.jsonl"

INGESTED: Final = pa.schema(
    [
        ("unit", pa.string()),
        ("cluster", pa.string()),
        ("log", pa.string()),
        ("kind", pa.string()),
        ("path", pa.string()),
        ("container", pa.string()),
        ("header", pa.string()),
        ("first_seq", pa.int64()),
        ("from_seq", pa.int64()),
        ("last_seq", pa.int64()),
        ("events", pa.int64()),
        ("commands", pa.int64()),
        ("last_command", pa.int64()),
        ("event_chain", pa.binary()),
        ("command_chain", pa.binary()),
        ("is_closed", pa.bool_()),
        ("token", pa.string()),
        ("reason", pa.string()),
    ]
)
"""What a batch contains of a segment: events from `from_seq` to `last_seq`, the number of events
and commands, and both checksum chains at its end. `container` identifies the archive or the stock
cluster's folder that was read, and its content. `token` begins the names of its files. `reason`
says why it was set aside."""


class _Marker(Struct):
    layout: int


class Known(Struct, frozen=True):
    """How much of a segment the table contains."""

    last_seq: int
    last_command: int
    event_chain: bytes
    command_chain: bytes


class TableFolder:
    """The folder of a table, locked while it is open for writing. Tasks write below `written`;
    `files` becomes the next batch."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.staging = folder / _STAGING / uuid.uuid4().hex
        self.written = self.staging / "written"
        self.files = self.staging / "records"

    def results_of(self, step: str) -> str:
        """The folder in which a step of an ingest stores the input of the next step."""
        return str(self.staging / step)

    def manifest_path(self) -> str:
        """The folder for the manifest of the batch in preparation."""
        return str(self.files / _INGESTED)

    def commit(self) -> int:
        """Make `files` part of the table; returns the number of the batch. Raises FleetError."""
        try:
            return add_batch(self.files, self.folder / _RECORDS)
        except OSError as error:
            raise FleetError(f"{self.folder} cannot be written: {error}") from error

    def write_set_aside(self, rows: Iterator[dict[str, Any]]) -> None:
        """Replace the list of inputs that could not be read. Raises FleetError."""
        target = self.folder / _SET_ASIDE
        try:
            with replacing(target) as file:
                for row in rows:
                    file.write(msgspec.json.encode(row) + b"\n")
        except OSError as error:
            raise FleetError(f"{target} cannot be written: {error}") from error


@contextmanager
def open_table(folder: Path) -> Iterator[TableFolder]:
    """Open a table for writing, and create it if it does not exist. One process at a time.

    Leftovers of an ingest that was killed are removed. If the ingest fails before its first batch,
    a new folder is removed. Raises FleetError.
    """
    with usable(folder), _removed_if_for_nothing(folder):
        _make(folder)
        with exclusive(folder / _LOCK, "another ingest"), staging(folder / _STAGING):
            # Executors have a different working directory.
            table = TableFolder(folder.absolute())
            table.files.mkdir(parents=True)
            yield table


@contextmanager
def _removed_if_for_nothing(folder: Path) -> Iterator[None]:
    is_new = not folder.exists()
    try:
        yield
    except BaseException:
        if is_new and not batches(folder / _RECORDS):
            shutil.rmtree(folder, ignore_errors=True)
        raise


def check_table(folder: Path) -> None:
    """Raises FleetError if there is no table, or if it has no records."""
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
    return Path(folder) / _RECORDS


def segments(spark: SparkSession, folder: Path | str) -> DataFrame:
    """What was ingested of each segment, one row per ingest (INGESTED). Raises FleetError."""
    paths = [f"{path}/{_INGESTED}" for path in _paths(Path(folder))]
    return spark.read.schema(spark_schema(INGESTED)).parquet(*paths)


def segment_rows(folder: Path) -> int:
    """The number of rows of `segments`. Raises FleetError."""
    return sum(rows_in(f"{path}/{_INGESTED}") for path in _paths(folder))


def rows(folder: Path) -> int:
    """The number of records of a table, from the manifests of its batches; no Spark job runs.
    Raises FleetError."""
    found = 0
    for path in (Path(one) / _INGESTED for one in _paths(folder)):
        if path.exists():
            manifest = dataset.dataset(path, format="parquet")
            for part in manifest.to_batches(columns=["events", "commands"]):
                found += sum(pc.sum(column).as_py() or 0 for column in part.columns)
    return found


def known_segments(spark: SparkSession, folder: Path) -> DataFrame:
    """How much of each segment the table contains; no rows for a new table."""
    if not batches(folder / _RECORDS):
        return spark.createDataFrame([], spark_schema(INGESTED))
    progress = sql.struct("last_seq", "last_command")
    latest = sql.max_by(sql.struct(*INGESTED.names), progress).alias("latest")
    return segments(spark, folder).groupBy("unit").agg(latest).select("latest.*")


def known_of(folder: Path, unit: str) -> Known | None:
    """How much of one segment the table contains, read on an executor; None if it is not in the
    table."""
    found: list[Known] = []
    for batch in batches(folder / _RECORDS):
        for file in sorted((batch / _INGESTED).glob("*.parquet")):
            rows = parquet.read_table(
                file,
                columns=list(Known.__struct_fields__),
                filters=[("unit", "==", unit)],
                partitioning=None,
            )
            found += [Known(**row) for row in rows.to_pylist()]
    return max(found, key=lambda one: (one.last_seq, one.last_command), default=None)


def _make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    marker = folder / _MARKER
    if not marker.exists() and any(one.name != _LOCK for one in folder.iterdir()):
        raise FleetError(f"{folder} contains other files: name a new folder with --out")
    if not marker.exists():
        with replacing(marker) as file:
            file.write(msgspec.json.encode(_Marker(LAYOUT)))
    _check_layout(folder)
    (folder / _RECORDS).mkdir(exist_ok=True)


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
    found = [str(path) for path in batches(folder / _RECORDS)]
    if not found:
        raise FleetError(f"{folder} contains no records: add logs with `refold fleet ingest`")
    return found
