"""The results of replays: their folder, and their columns.

    DIR/replays/batch=000001/logs/*.parquet             REPLAYED, one row per log and version
    DIR/replays/batch=000001/divergences/*.parquet      DIVERGENCES
    DIR/replays/snapshots/core=F/cluster=C/LOG/...      the snapshots at which logs are split
    DIR/replays/staging/...                             a batch in preparation

A batch is added by one rename. A log that a version replays again has a row in each batch; the last
one is valid.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sql
from pyspark.sql.types import StringType

from replay.diff.grouping import IDS_IN_RULES
from replay.fleet.batches import add_batch, batches
from replay.fleet.errors import FleetError, converting_os_errors
from replay.fleet.locking import StagingFolder, exclusive
from replay.fleet.schemas import spark_schema
from replay.fleet.table import check_table

_REPLAYS: Final = "replays"
_KEY: Final = ("cluster", "log", "code")

COUNTED: Final = "not is_harmless and explained = ''"
"""An SQL condition for divergences that count."""

RULE_COUNTS: Final = ("rule", "decisions", "agreed")

_RULE: Final = pa.struct(list(zip(RULE_COUNTS, (pa.string(), pa.int64(), pa.int64()), strict=True)))

REPLAYED: Final = pa.schema(
    [
        ("cluster", pa.string()),
        ("log", pa.string()),
        ("kind", pa.string()),
        ("recorded_by", pa.string()),
        ("version", pa.string()),
        ("code", pa.string()),
        ("core", pa.string()),
        ("code_version", pa.string()),
        ("last_seq", pa.int64()),
        ("commands", pa.int64()),
        ("is_closed", pa.bool_()),
        ("content", pa.string()),
        ("events", pa.int64()),
        ("decisions", pa.int64()),
        ("agreed", pa.int64()),
        ("divergences", pa.int64()),
        ("harmless", pa.int64()),
        ("explained", pa.int64()),
        ("unjudged", pa.int64()),
        ("left_at", pa.int64()),
        ("pieces", pa.int64()),
        ("seconds", pa.float64()),
        ("rules", pa.list_(pa.field("element", _RULE))),
        ("reason", pa.string()),
    ]
)
"""The result of a log and a version; see docs/fleet-tables.md for the columns. `last_seq`,
`commands`, `is_closed` and `content` (a digest) describe the log at that time."""

_PART: Final = pa.struct(
    [("part", pa.string()), ("recorded", pa.string()), ("version", pa.string())]
)

DIVERGENCES: Final = pa.schema(
    [
        ("cluster", pa.string()),
        ("log", pa.string()),
        ("version", pa.string()),
        ("code", pa.string()),
        ("subject", pa.string()),
        ("what", pa.string()),
        ("kind", pa.string()),
        ("target", pa.string()),
        ("rule", pa.string()),
        ("seq", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("zxid", pa.int64()),
        ("event", pa.string()),
        ("cause", pa.string()),
        ("partitions", pa.list_(pa.field("element", pa.string()))),
        ("differences", pa.list_(pa.field("element", _PART))),
        ("details", pa.list_(pa.field("element", pa.string()))),
        ("is_first", pa.bool_()),
        ("first_seq", pa.int64()),
        ("first_rule", pa.string()),
        ("group", pa.string()),
        ("counted_rule", pa.string()),
        ("is_harmless", pa.bool_()),
        ("explained", pa.string()),
    ]
)
"""One decision that differs between a log and a version."""


class ReplayFolder(StagingFolder):
    """The folder of a table's replays, locked while it is open for writing."""

    def __init__(self, table: Path) -> None:
        super().__init__(table / _REPLAYS)
        self.table = table
        self.snapshots = self.folder / "snapshots"
        self._made = self.staging / "batch"

    @property
    def logs(self) -> str:
        """The folder for the rows of REPLAYED of the batch in preparation."""
        return str(self._made / "logs")

    @property
    def divergences(self) -> str:
        """The folder for the rows of DIVERGENCES of the batch in preparation."""
        return str(self._made / "divergences")

    def commit(self) -> int:
        """Add the batch to the results and return its number. Raises FleetError."""
        try:
            return add_batch(self._made, self.folder)
        except OSError as error:
            raise FleetError(f"{self.folder} cannot be written: {error}") from error


@contextmanager
def open_replays(table: Path) -> Iterator[ReplayFolder]:
    """Open the replays of a table for writing; one process at a time. Leftovers of a killed process
    are removed. Raises FleetError."""
    folder = ReplayFolder(table)
    with converting_os_errors(folder.folder):
        folder.folder.mkdir(exist_ok=True)
        lock = exclusive(folder.folder / "lock", "another replay")
        with lock, folder.deleting_leftovers():
            folder.staging.mkdir(parents=True)
            yield folder


def check_replays(table: Path) -> None:
    """Check that there is a table, and that it was replayed. Raises FleetError."""
    check_table(table)
    if not batches(table / _REPLAYS):
        raise FleetError(f"{table} was not replayed: run `refold fleet replay` first")


def replayed(spark: SparkSession, table: Path | str) -> DataFrame:
    """The last result of each log and version: REPLAYED, and `batch`. It may have no rows."""
    found = _read_batches(spark, Path(table), "logs", REPLAYED)
    latest = Window.partitionBy(*_KEY).orderBy(sql.col("batch").desc())
    return found.withColumn("place", sql.row_number().over(latest)).where("place = 1").drop("place")


def divergences(spark: SparkSession, table: Path | str) -> DataFrame:
    """The divergences of the last results: DIVERGENCES, and `batch`."""
    found = _read_batches(spark, Path(table), "divergences", DIVERGENCES)
    return found.join(replayed(spark, table).select(*_KEY, "batch"), [*_KEY, "batch"], "left_semi")


def general_rule(rule: str) -> Column:
    """grouping.without_ids of the rules in a column."""
    return sql.regexp_replace(rule, IDS_IN_RULES.pattern, "N")


def by_rule(spark: SparkSession, table: Path | str) -> DataFrame:
    """Decisions, agreeing decisions and divergences by version, rule without ids, and cluster.

    `first` counts divergences that do not follow from another one, `following` those that follow
    from them, under any rule. `log` and `seq` name one of the divergences, a first one if possible.
    """
    key = ["code", "rule", "cluster"]

    def counts_by(rule: str, rows: DataFrame, *counted: Column) -> DataFrame:
        return rows.withColumn("rule", general_rule(rule)).groupBy(*key).agg(*counted)

    decided = counts_by(
        "rule",
        replayed(spark, table).select("code", "cluster", "log", sql.inline("rules")),
        sql.count_distinct("log").alias("logs"),
        sql.sum("decisions").alias("decisions"),
        sql.sum("agreed").alias("agreed"),
    )
    different = divergences(spark, table).where(COUNTED)
    found = counts_by(
        "counted_rule",
        different,
        sql.count_distinct("log").alias("logs_diverging"),
        sql.count("*").alias("divergences"),
        sql.count_if("is_first").alias("first"),
        sql.min(sql.struct(~sql.col("is_first"), "log", "seq")).alias("one"),
    )
    following = counts_by(
        "first_rule", different.where("not is_first"), sql.count("*").alias("following")
    )
    both = decided.join(found, key, "full").join(following, key, "full")
    counts = ("logs", "decisions", "agreed", "logs_diverging", "divergences", "first", "following")
    return both.select(
        *key,
        *(sql.coalesce(name, sql.lit(0)).alias(name) for name in counts),
        sql.col("one.log").alias("log"),
        sql.col("one.seq").alias("seq"),
    )


def _read_batches(spark: SparkSession, table: Path, what: str, columns: pa.Schema) -> DataFrame:
    schema = spark_schema(columns).add("batch", StringType())
    paths = [str(batch / what) for batch in batches(table / _REPLAYS)]
    if not paths:
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).option("basePath", f"{table}/{_REPLAYS}").parquet(*paths)
