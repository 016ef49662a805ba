"""The manifest of a table: what was ingested of each log, and what each log lacks.

    DIR/ingested/batch=000001/*.parquet     INGESTED, one row per segment and ingest

A batch counts if DIR/records has a batch of the same number: that is the one rename by which an
ingest commits. The log of a stock cluster is one segment. If a later ingest changes what was
ingested of it before, its row `replaces` the earlier ones, and their records are deleted.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType

from replay.fleet.batches import batches
from replay.fleet.day_files import escaped
from replay.fleet.errors import FleetError
from replay.fleet.schemas import spark_schema

RECORDS: Final = "records"
MANIFEST: Final = "ingested"
DECODED: Final = "decoded"

STOCK: Final = "stock"
"""The `kind` of rows of stock clusters' logs."""

_TEXTS: Final = pa.list_(pa.field("element", pa.string()))

INGESTED: Final = pa.schema(
    [
        ("unit", pa.string()),
        ("cluster", pa.string()),
        ("log", pa.string()),
        ("folder", pa.string()),
        ("kind", pa.string()),
        ("path", pa.string()),
        ("containers", _TEXTS),
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
        ("first_zxid", pa.int64()),
        ("last_zxid", pa.int64()),
        ("lacking", _TEXTS),
        ("warnings", _TEXTS),
        ("not_understood", pa.int64()),
        ("contributions", pa.binary()),
        ("import_ended", pa.binary()),
        ("replaces", _TEXTS),
        ("token", pa.string()),
        ("reason", pa.string()),
    ]
)
"""The part of a segment that a batch contains: events from `from_seq` to `last_seq`, the number of
events and commands, and both checksum chains at its end. `folder` is the name of the folder of the
log. `containers` identify the archives and the stock clusters' folders that were read, and their
content. `token` begins the names of its files. `reason` says why it was set aside.

Of a stock cluster's log also: the zxids of its first and last transaction, what is `lacking`,
`warnings` of the import, the number of lines and requests that were `not_understood`, what each
source contributed (imports.joined.Contribution, as msgpack), the last event of the import, and the
tokens of rows that this row `replaces`."""


class KnownRecords(Struct, frozen=True):
    """How much of a segment the table contains."""

    last_seq: int
    last_command: int
    event_chain: bytes
    command_chain: bytes


class LogCompleteness(Struct, frozen=True):
    """The gaps of a log of the table, and the warnings of its import."""

    cluster: str
    log: str
    lacking: list[str]
    warnings: list[str]
    not_understood: int


def committed_manifests(folder: Path) -> list[Path]:
    """The manifests of the batches that are part of the table, oldest first."""
    return [folder / MANIFEST / batch.name for batch in batches(folder / RECORDS)]


def segments(spark: SparkSession, folder: Path) -> DataFrame:
    """The ingested part of each segment, one row per ingest (INGESTED) with its `batch`, without
    rows that were replaced. No rows for a new table.
    """
    schema = spark_schema(INGESTED).add("batch", StringType())
    paths = [str(one) for one in committed_manifests(folder) if one.exists()]
    if not paths:
        return spark.createDataFrame([], schema)
    found = spark.read.schema(schema).option("basePath", str(folder / MANIFEST)).parquet(*paths)
    replaced = sorted(_replaced_tokens(folder))
    return found.where(~sql.col("token").isin(replaced)) if replaced else found


def latest(segments: DataFrame) -> DataFrame:
    """The last row of each segment, with the `tokens` of all of its rows."""
    row = sql.struct(*INGESTED.names)
    order = sql.struct("last_seq", "last_command", "batch")
    found = segments.groupBy("unit").agg(
        sql.max_by(row, order).alias("latest"), sql.collect_set("token").alias("tokens")
    )
    return found.select("latest.*", "tokens")


def logs(segments: DataFrame) -> DataFrame:
    """One row per log: its first header, its folder, and what it lacks. A daemon's log lacks events
    if segments are missing; that it was not closed is no lack."""
    return segments.sparkSession.sql(
        """
        with numbered as (
            select *, lag(last_seq, 1, 0) over (partition by cluster, log order by first_seq)
                as before
            from {segments}
        ), missing as (
            select *, if(first_seq > before + 1, concat('events ', before + 1, ' to ',
                first_seq - 1, ' are missing'), null) as gap from numbered
        )
        select cluster, log, min_by(header, first_seq) as header,
            min_by(folder, first_seq) as folder,
            flatten(collect_list(coalesce(lacking, filter(array(gap), one -> one is not null))))
                as lacking,
            flatten(collect_list(coalesce(warnings, array()))) as warnings,
            coalesce(sum(not_understood), 0) as not_understood
        from missing group by cluster, log
        """,
        segments=latest(segments),
    )


def incomplete(logs: DataFrame) -> DataFrame:
    """The logs that lack something."""
    return logs.where("size(lacking) > 0")


def logs_with_notes(logs: DataFrame) -> DataFrame:
    """The logs that lack something, or whose import has warnings."""
    return logs.where("size(lacking) + size(warnings) + not_understood > 0")


def completeness_of(logs: DataFrame, limit: int) -> list[LogCompleteness]:
    """The completeness of some logs, those that lack something first."""
    names = LogCompleteness.__struct_fields__
    first = logs.orderBy(sql.expr("size(lacking) = 0"), "cluster", "log").limit(limit)
    return [LogCompleteness(**{name: row[name] for name in names}) for row in first.collect()]


def count_rows(folder: Path) -> int:
    """The number of rows of all manifests, from the metadata of the files."""
    return sum(
        parquet.read_metadata(file).num_rows
        for one in committed_manifests(folder)
        for file in _files(one)
    )


def count_records(folder: Path) -> int:
    """The number of records of a table, from its manifests; no Spark job runs."""
    replaced = pa.array(sorted(_replaced_tokens(folder)), pa.string())
    found = 0
    for one in committed_manifests(folder):
        for file in _files(one):
            rows = parquet.read_table(
                file, columns=["events", "commands", "token"], partitioning=None
            )
            kept = rows.filter(pc.invert(pc.is_in(rows["token"], value_set=replaced)))
            found += sum(pc.sum(kept[name]).as_py() or 0 for name in ("events", "commands"))
    return found


def known_records_of(folder: Path, unit: str) -> KnownRecords | None:
    """How much of one segment the table contains, read on an executor; None if it is not in the
    table."""
    names = list(KnownRecords.__struct_fields__)
    found = [KnownRecords(**row) for row in _rows(folder, names, [("unit", "==", unit)])]
    return max(found, key=lambda one: (one.last_seq, one.last_command), default=None)


def name_of_log(folder: Path, cluster: str, units: Sequence[str], chain: bytes) -> str | None:
    """The name in the table of the log that has one of these segments, or the segment that ends
    with this event chain; None if the table has none of them."""
    filters = [
        [("cluster", "==", cluster), ("unit", "in", list(units))],
        [("cluster", "==", cluster), ("event_chain", "==", chain)],
    ]
    return next((str(row["log"]) for row in _rows(folder, ["log"], filters)), None)


def stock_rows(folder: Path, cluster: str) -> list[dict[str, Any]]:
    """The last row of each log of a stock cluster (INGESTED), with the `tokens` of all of its rows
    and all of its `containers`. Read on an executor."""
    filters = [("cluster", "==", cluster), ("kind", "==", STOCK)]
    replaced = _replaced_tokens(folder)
    by_unit: dict[str, list[dict[str, Any]]] = {}
    for row in _rows(folder, INGESTED.names, filters):
        if row["token"] not in replaced:
            by_unit.setdefault(row["unit"], []).append(row)
    return [
        {**rows[-1], "tokens": [one["token"] for one in rows]}
        for _, rows in sorted(by_unit.items())
    ]


def remove_replaced(folder: Path) -> None:
    """Delete the records that the last batch replaces. Repeated after an interruption. Raises
    OSError."""
    for manifest in committed_manifests(folder)[-1:]:
        for file in _files(manifest):
            rows = parquet.read_table(file, columns=["cluster", "replaces"], partitioning=None)
            for row in rows.to_pylist():
                for token in row["replaces"] or ():
                    of_token = f"batch=*/cluster={escaped(row['cluster'])}/date=*/{token}-*.parquet"
                    for name in (DECODED, RECORDS):
                        for old in (folder / name).glob(of_token):
                            old.unlink(missing_ok=True)


def _replaced_tokens(folder: Path) -> set[str]:
    rows = _rows(folder, ["replaces"], ~pc.field("replaces").is_null())
    return {token for row in rows for token in row["replaces"]}


def _rows(folder: Path, columns: Sequence[str], filters: Any) -> Iterator[dict[str, Any]]:
    """Rows of all manifests, in the order of their batches. Raises FleetError."""
    for one in committed_manifests(folder):
        for file in _files(one):
            try:
                found = parquet.read_table(
                    file, columns=list(columns), filters=filters, partitioning=None
                )
            except (OSError, pa.ArrowException) as error:
                raise FleetError(f"{file} cannot be read: {error}") from None
            yield from found.to_pylist()


def _files(manifest: Path) -> list[Path]:
    return sorted(manifest.glob("*.parquet"))
