"""Copying logs into the table, each record exactly once across interrupted and repeated runs.

The driver lists the inputs. Executors survey them, read those with new records and write the files.
The steps pass small tables with one row per input on the disk. The driver only counts rows of these
tables, so that its memory does not grow with the number of records or inputs.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial, reduce
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyarrow import parquet
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from replay.fleet.day_files import put_in_place
from replay.fleet.ingest_task import INPUTS, SURVEYED, UNITS, ingest_units, survey
from replay.fleet.inputs import inputs_below
from replay.fleet.jobs import for_few_rows, reporting_steps, rows_in, spark_errors
from replay.fleet.schemas import spark_schema
from replay.fleet.table import INGESTED, TableFolder, known_segments, open_table
from replay.progress import Progress, unreported

_TASK_BYTES: Final = 256 << 20
_TASKS_A_CORE: Final = 4
_TASKS_MAX: Final = 10_000
_SURVEYED_A_TASK: Final = 500
_ROWS: Final = 10_000
_EXAMPLES_MAX: Final = 20

_INPUTS: Final = "inputs.parquet"
_SURVEYED: Final = "surveyed"
_CHOSEN: Final = "units"
_READ: Final = "read"
_STEPS: Final = {
    step: spark_schema(schema)
    for step, schema in ((_SURVEYED, SURVEYED), (_CHOSEN, UNITS), (_READ, INGESTED))
}
"""The schemas of the tables between the steps. With a given schema Spark runs no job to infer
it."""

_COUNTS: Final = {
    "segments": "count(*)",
    "logs": "count(distinct cluster, log)",
    "clusters": "count(distinct cluster)",
    "events": "coalesce(sum(events), 0)",
    "commands": "coalesce(sum(commands), 0)",
}
"""Counts over a manifest, in SQL."""


class SetAside(Struct):
    """An input that could not be read, and why."""

    path: str
    reason: str


class IngestResult(Struct):
    """The result of an ingest.

    `batch` is the number of the new batch, None if there was nothing new. `examples` holds some of
    the inputs that were set aside; DIR/set_aside.jsonl lists all of them.
    """

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
    progress: Progress = unreported,
) -> IngestResult:
    """Add the new records of the sources to the table in the folder `out`.

    Raises FleetError if a source does not exist or is empty, if the table cannot be used or
    written, or if Spark fails.
    """
    start = time.monotonic()
    failed = spark_errors(f"{out}: Spark failed, nothing was added")
    with open_table(out) as table, failed, reporting_steps(spark, progress) as report_step:
        report_step("looking for logs")
        inputs, size = _name_inputs(sources, table)
        run = Ingest(for_few_rows(spark, inputs), table, report_step)
        run.survey(inputs)
        run.choose()
        run.read(size)
        return run.commit(inputs, start)


def _name_inputs(sources: Iterable[str], table: TableFolder) -> tuple[int, int]:
    """Write the list of inputs; returns their number and their bytes. Raises FleetError."""
    count = size = 0
    with parquet.ParquetWriter(table.results_of(_INPUTS), INPUTS) as writer:
        found = inputs_below(sources)
        while some := list(islice(found, _ROWS)):
            rows = [(str(one.kind), str(one.path), one.size) for one in some]
            columns = [pa.array(column) for column in zip(*rows, strict=True)]
            writer.write_batch(pa.record_batch(columns, schema=INPUTS))
            count += len(rows)
            size += sum(one.size for one in some)
    return count, size


class Ingest:
    """One run of an ingest, with its steps in order."""

    def __init__(self, spark: SparkSession, table: TableFolder, report_step: Callable[[str], None]):
        self._spark = spark
        self._table = table
        self._report_step = report_step
        self._cores = spark.sparkContext.defaultParallelism

    def survey(self, inputs: int) -> None:
        """Survey every input: which segment of which log it is, and its last event and command."""
        self._report_step("looking at logs")
        tasks = min(max(self._cores, inputs // _SURVEYED_A_TASK), _TASKS_MAX)
        reader = self._spark.read.schema(spark_schema(INPUTS))
        named = reader.parquet(self._table.results_of(_INPUTS))
        self._map(named.repartition(tasks), survey, _SURVEYED)

    def choose(self) -> None:
        """Choose what to read: one copy of each segment with new records, and each archive or
        folder of a stock cluster that changed."""
        surveyed = self._step(_SURVEYED).where("reason is null")
        known = known_segments(self._spark, self._table.folder)
        chosen = _grown(surveyed.where("container is null"), known)
        if self._count(_SURVEYED, pc.field("container").is_valid()):
            chosen = chosen.union(_changed(surveyed.where("container is not null"), known))
        chosen.write.parquet(self._table.results_of(_CHOSEN))

    def read(self, size: int) -> None:
        """Read the chosen inputs. Logs that are close in time share a task and its files."""
        units = self._count(_CHOSEN)
        if not units:
            return
        self._report_step("reading logs")
        tasks = max(self._cores * _TASKS_A_CORE, size // _TASK_BYTES)
        work = partial(ingest_units, table=self._table.folder, files=self._table.written)
        order = ["cluster", "log", "path"]
        spread = self._step(_CHOSEN).repartitionByRange(min(tasks, _TASKS_MAX, units), *order)
        self._map(spread.sortWithinPartitions(*order), work, _READ)

    def commit(self, inputs: int, start: float) -> IngestResult:
        """Make the records that were read part of the table in one step."""
        self._report_step("committing")
        units = self._count(_CHOSEN)
        counts = self._write_manifest() if units else dict.fromkeys(_COUNTS, 0)
        batch = None
        if counts["segments"]:
            move = partial(put_in_place, written=self._table.written, table=self._table.files)
            written = self._manifest().where("events + commands > 0").select("token").distinct()
            written.rdd.foreachPartition(move)
            batch = self._table.commit()
        steps = [_SURVEYED, _READ] if units else [_SURVEYED]
        examples, set_aside = self._set_aside(steps)
        return IngestResult(
            table=str(self._table.folder),
            inputs=inputs,
            unchanged=inputs - units - self._count(_SURVEYED, pc.field("reason").is_valid()),
            set_aside=set_aside,
            examples=examples,
            batch=batch,
            seconds=time.monotonic() - start,
            **counts,
        )

    def _write_manifest(self) -> dict[str, int]:
        """Write the manifest of the batch and return its counts (_COUNTS)."""
        # A segment may have been read from a file and from an archive, or from two archives. The
        # copy from a file is preferred: it may share Parquet files with other segments.
        is_packed = sql.col("container").isNotNull()
        kept = _one_per_unit(self._step(_READ).where("reason is null"), is_packed)
        kept.select(*INGESTED.names).write.parquet(self._table.manifest_path())
        sums = [sql.expr(count).alias(name) for name, count in _COUNTS.items()]
        totals = self._manifest().agg(*sums).head()
        assert totals is not None, "an aggregate has a row"
        return totals.asDict()

    def _manifest(self) -> DataFrame:
        return self._spark.read.schema(_STEPS[_READ]).parquet(self._table.manifest_path())

    def _set_aside(self, steps: list[str]) -> tuple[list[SetAside], int]:
        """Write the list of inputs that could not be read; returns some of them, and their
        number."""
        has_reason = pc.field("reason").is_valid()
        count = sum(self._count(step, has_reason) for step in steps)
        examples: list[SetAside] = []

        def rows() -> Iterator[dict[str, Any]]:
            totals = [self._step(step).select("path", "reason") for step in steps]
            found = reduce(DataFrame.union, totals).where("reason is not null").orderBy("path")
            for row in found.toLocalIterator():
                if len(examples) < _EXAMPLES_MAX:
                    examples.append(SetAside(row.path, row.reason))
                yield row.asDict()

        self._table.write_set_aside(rows() if count else iter(()))
        return examples, count

    def _map(
        self, frame: DataFrame, work: Callable[[Iterable[Any]], Iterator[Any]], step: str
    ) -> None:
        """Map rows of inputs to rows on executors (mapInArrow would require pandas there)."""
        rows = frame.rdd.mapPartitions(work)
        done = self._spark.createDataFrame(rows, _STEPS[step], verifySchema=False)
        done.write.parquet(self._table.results_of(step))

    def _step(self, step: str) -> DataFrame:
        return self._spark.read.schema(_STEPS[step]).parquet(self._table.results_of(step))

    def _count(self, step: str, condition: pc.Expression | None = None) -> int:
        return rows_in(self._table.results_of(step), condition)


def _grown(of_logs: DataFrame, known: DataFrame) -> DataFrame:
    """Segments with new records (UNITS)."""
    in_table = known.select(
        "unit",
        sql.col("log").alias("known_log"),
        sql.struct("last_seq", "last_command", "event_chain", "command_chain").alias("known"),
    )
    # A log keeps its name in the table, even after its first segments were deleted.
    its_name = sql.first("known_log", ignorenulls=True).over(Window.partitionBy("folder"))
    has_news = "known is null or known.last_seq <> last_seq or known.last_command <> last_command"
    return (
        _one_per_unit(of_logs)
        .join(in_table, "unit", "left")
        .withColumn("log", sql.coalesce(its_name, "log"))
        .where(has_news)
        .select(*UNITS.names)
    )


def _changed(containers: DataFrame, known: DataFrame) -> DataFrame:
    """Archives and folders of stock clusters that are not in the table in their present form
    (UNITS)."""
    in_table = known.where("container is not null").select("container").distinct()
    return (
        containers.join(in_table, "container", "left_anti")
        .withColumn("known", sql.lit(None).cast(_STEPS[_CHOSEN]["known"].dataType))
        .select(*UNITS.names)
    )


def _one_per_unit(copies: DataFrame, *first: Column) -> DataFrame:
    """For each segment the copy with the most records. `first` are columns to order copies by
    before that."""
    order = (*first, sql.desc("last_seq"), sql.desc("last_command"), sql.col("path"))
    place = sql.row_number().over(Window.partitionBy("unit").orderBy(*order))
    return copies.withColumn("place", place).where("place = 1").drop("place")
