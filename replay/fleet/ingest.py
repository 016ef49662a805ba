"""Bringing logs into the table: each record once, whenever it is stopped and started again.

The driver names the inputs; executors look at them, then read those with something new, and write
the files themselves. Between the steps stand small tables of one row an input, on the disk: no
record, and no list that grows with the inputs, comes to the driver.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from msgspec import Struct
from pyarrow import parquet
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from replay.fleet.day_files import put_in_place
from replay.fleet.inputs import inputs_below
from replay.fleet.jobs import Progress, spark_errors, telling
from replay.fleet.schemas import spark_schema
from replay.fleet.table import INGESTED, TableFolder, known_segments, open_table
from replay.fleet.units import INPUTS, SURVEYED, UNITS, ingest_units, survey

_TASK_BYTES: Final = 256 << 20
_TASKS_A_CORE: Final = 4
_TASKS_MAX: Final = 10_000
_SURVEYED_A_TASK: Final = 500
_ROWS: Final = 10_000
_TOLD_MAX: Final = 20


class SetAside(Struct):
    """An input that could not be read, and why."""

    path: str
    reason: str


class IngestResult(Struct):
    """What an ingest came to. `batch` is its number, None where nothing was new; `examples` are
    some of those that were set aside, all of which stand in DIR/set_aside.jsonl."""

    table: str
    inputs: int
    unchanged: int
    segments: int
    logs: int
    clusters: int
    events: int
    commands: int
    set_aside: int
    examples: list[SetAside]
    batch: int | None
    seconds: float


def ingest(
    spark: SparkSession,
    sources: Iterable[str],
    out: Path,
    progress: Progress | None = None,
) -> IngestResult:
    """Bring what is new in the sources into the table in the folder `out`.

    Raises FleetError if a source is not there or empty, if the table cannot be used or written, or
    if Spark fails.
    """
    start = time.monotonic()
    failed = spark_errors(f"{out}: Spark failed, nothing was added")
    with open_table(out) as table, failed, telling(spark, progress) as tell:
        run = _Ingest(spark, table, tell)
        inputs, size = run.name_inputs(sources)
        run.survey(inputs)
        run.choose()
        run.read(size)
        return run.commit(inputs, start)


class _Ingest:
    def __init__(self, spark: SparkSession, table: TableFolder, tell: Callable[[str], None]):
        self._spark = spark
        self._table = table
        self._tell = tell
        self._cores = spark.sparkContext.defaultParallelism

    def name_inputs(self, sources: Iterable[str]) -> tuple[int, int]:
        """Write down what there is to read; how many inputs, and their bytes. Raises FleetError."""
        self._tell("looking for logs")
        count = size = 0
        path = self._table.results_of("inputs.parquet")
        with parquet.ParquetWriter(path, INPUTS) as writer:
            found = inputs_below(sources)
            while some := list(islice(found, _ROWS)):
                rows = [(str(one.kind), str(one.path), one.size) for one in some]
                columns = [pa.array(column) for column in zip(*rows, strict=True)]
                writer.write_batch(pa.record_batch(columns, schema=INPUTS))
                count += len(rows)
                size += sum(one.size for one in some)
        return count, size

    def survey(self, inputs: int) -> None:
        """Look at every input: which segment of which log it is, and how far that has come."""
        self._tell("looking at logs")
        tasks = min(max(self._cores, inputs // _SURVEYED_A_TASK), _TASKS_MAX)
        named = self._spark.read.parquet(self._table.results_of("inputs.parquet"))
        self._write(self._mapped(named.repartition(tasks), survey, SURVEYED), "surveyed")

    def choose(self) -> None:
        """Of each segment one copy, if it has something that the table has not."""
        surveyed = self._step("surveyed").where("reason is null")
        known = known_segments(self._spark, self._table.folder)
        of_logs = _one_a_unit(surveyed.where("container is null"))
        behind = known.select(
            "unit",
            sql.col("log").alias("known_log"),
            sql.struct("last_seq", "last_command", "event_chain", "command_chain").alias("known"),
        )
        # A log keeps the name that it has in the table, also when its first segments are gone.
        its_name = sql.first("known_log", ignorenulls=True).over(Window.partitionBy("folder"))
        chosen = (
            of_logs.join(behind, "unit", "left")
            .withColumn("log", sql.coalesce(its_name, "log"))
            .where(
                "known is null or known.last_seq <> last_seq or known.last_command <> last_command"
            )
        )
        in_table = known.where("container is not null").select("container").distinct()
        containers = (
            surveyed.where("container is not null")
            .join(in_table, "container", "left_anti")
            .withColumn("known", sql.lit(None).cast(spark_schema(UNITS)["known"].dataType))
        )
        self._write(chosen.select(*UNITS.names).union(containers.select(*UNITS.names)), "units")

    def read(self, size: int) -> None:
        """Write the records of what was chosen; neighbours in time share a task and its files."""
        self._tell("reading logs")
        units = self._step("units")
        tasks = max(self._cores * _TASKS_A_CORE, size // _TASK_BYTES)
        tasks = min(tasks, _TASKS_MAX, max(units.count(), 1))
        work = partial(ingest_units, table=self._table.folder, files=self._table.written)
        order = ["cluster", "log", "path"]
        spread = units.repartitionByRange(tasks, *order).sortWithinPartitions(*order)
        self._write(self._mapped(spread, work, INGESTED), "read")

    def commit(self, inputs: int, start: float) -> IngestResult:
        """Make what was read part of the table, all at once."""
        self._tell("committing")
        read = self._step("read")
        # A copy in an archive of a segment that was read as a file, too, or in two archives. That
        # which was read as a file may share its files with others, and so stays.
        is_packed = sql.col("container").isNotNull()
        kept = _one_a_unit(read.where("reason is null"), is_packed).select(*INGESTED.names)
        kept.write.parquet(self._table.manifest_path())
        manifest = self._spark.read.schema(spark_schema(INGESTED)).parquet(
            self._table.manifest_path()
        )
        told = manifest.agg(
            sql.count("*").alias("segments"),
            sql.countDistinct("cluster", "log").alias("logs"),
            sql.countDistinct("cluster").alias("clusters"),
            sql.coalesce(sql.sum("events"), sql.lit(0)).alias("events"),
            sql.coalesce(sql.sum("commands"), sql.lit(0)).alias("commands"),
        ).head()
        assert told is not None, "an aggregate has a row"
        counts = told.asDict()
        batch = None
        if counts["segments"]:
            move = partial(put_in_place, written=self._table.written, table=self._table.files)
            written = manifest.where("events + commands > 0").select("token").distinct()
            written.rdd.foreachPartition(move)
            batch = self._table.commit()
        examples, set_aside = self._set_aside()
        units = (
            self._step("units").count() + self._step("surveyed").where("reason is not null").count()
        )
        return IngestResult(
            table=str(self._table.folder),
            inputs=inputs,
            unchanged=inputs - units,
            set_aside=set_aside,
            examples=examples,
            batch=batch,
            seconds=time.monotonic() - start,
            **counts,
        )

    def _set_aside(self) -> tuple[list[SetAside], int]:
        """Tell what could not be read, and why; some of it, and how many."""
        columns = ("path", "reason")
        found = self._step("surveyed").select(*columns).union(self._step("read").select(*columns))
        found = found.where("reason is not null").orderBy("path")
        examples: list[SetAside] = []
        count = 0

        def rows() -> Iterator[dict[str, Any]]:
            nonlocal count
            for row in found.toLocalIterator():
                count += 1
                if len(examples) < _TOLD_MAX:
                    examples.append(SetAside(row.path, row.reason))
                yield row.asDict()

        self._table.tell_set_aside(rows())
        return examples, count

    def _mapped(
        self, frame: DataFrame, work: Callable[[Iterable[Any]], Iterator[Any]], schema: pa.Schema
    ) -> DataFrame:
        """Rows of inputs to rows of inputs, on executors (mapInArrow would need pandas there)."""
        rows = frame.rdd.mapPartitions(work)
        return self._spark.createDataFrame(rows, spark_schema(schema), verifySchema=False)

    def _write(self, frame: DataFrame, step: str) -> None:
        frame.write.mode("overwrite").parquet(self._table.results_of(step))

    def _step(self, step: str) -> DataFrame:
        return self._spark.read.parquet(self._table.results_of(step))


def _one_a_unit(copies: DataFrame, *first: Column) -> DataFrame:
    """Of copies of a segment, of which some were made before it grew, the one that has come
    furthest, after an order of the caller's."""
    order = (*first, sql.desc("last_seq"), sql.desc("last_command"), sql.col("path"))
    place = sql.row_number().over(Window.partitionBy("unit").orderBy(*order))
    return copies.withColumn("place", place).where("place = 1").drop("place")
