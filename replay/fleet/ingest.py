"""Copying logs into the table, each record exactly once across interrupted and repeated runs.

The driver lists the inputs. Executors survey them, read those with new records and write the files.
The steps pass small tables with one row per input on the disk. The driver only counts rows of these
tables, so that its memory does not grow with the number of records or inputs.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial, reduce
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from replay.fleet import manifest
from replay.fleet.day_files import put_in_place
from replay.fleet.ingest_task import (
    IDENTIFIED,
    INPUTS,
    SURVEYED,
    UNITS,
    identify,
    ingest_units,
    survey,
)
from replay.fleet.inputs import Kind, OtherFiles, PassedOverFiles, expand_sources, inputs_below
from replay.fleet.jobs import for_few_rows, reporting_steps, rows_in, spark_errors
from replay.fleet.manifest import INGESTED, LogCompleteness
from replay.fleet.schemas import spark_schema
from replay.fleet.set_aside import SetAsideInput, inputs_set_aside, write_set_aside
from replay.fleet.table import TableFolder, open_table
from replay.progress import Progress, unreported

_TASK_BYTES: Final = 256 << 20
_TASKS_A_CORE: Final = 4
_TASKS_MAX: Final = 10_000
_SURVEYED_A_TASK: Final = 500
_ROWS: Final = 10_000
_EXAMPLES_MAX: Final = 20

_IN_ARCHIVE: Final = "#[0-9]+$"
"""The end of the path of a segment in an archive."""

_INPUTS: Final = "inputs.parquet"
_SURVEYED: Final = "surveyed"
_IDENTIFIED: Final = "identified"
_CHOSEN: Final = "units"
_READ: Final = "read"
_STEPS: Final = {
    step: spark_schema(schema)
    for step, schema in (
        (_SURVEYED, SURVEYED),
        (_IDENTIFIED, IDENTIFIED),
        (_CHOSEN, UNITS),
        (_READ, INGESTED),
    )
}
"""The schemas of the tables between the steps. With a given schema Spark runs no job to infer
it."""

_COUNTS: Final = {
    "segments": "count(*)",
    "logs": "count(distinct cluster, log)",
    "clusters": "count(distinct cluster)",
    "events": "coalesce(sum(events), 0)",
    "commands": "coalesce(sum(commands), 0)",
    "replaced": "count(replaces)",
}
"""Counts over a manifest, in SQL."""


class IngestResult(Struct):
    """The result of an ingest.

    `batch` is the number of the new batch, None if there was nothing new. `set_aside` counts the
    inputs that the table lacks because they could not be read, now or before, `incomplete` the logs
    of the table that lack something. `examples` and `logs_with_notes` name some of them;
    DIR/set_aside.jsonl and the table `logs` of an analysis have all. `replaced` counts logs of
    stock clusters that were ingested before and were replaced. `passed_over` are kinds of files
    that ingest does not read.
    """

    table: str
    inputs: int
    unchanged: int
    segments: int
    logs: int
    clusters: int
    events: int
    commands: int
    replaced: int
    set_aside: int
    examples: list[SetAsideInput]
    incomplete: int
    logs_with_notes: list[LogCompleteness]
    passed_over: list[PassedOverFiles]
    batch: int | None
    seconds: float


def ingest(
    spark: SparkSession,
    sources: Iterable[str],
    out: Path,
    progress: Progress = unreported,
    *,
    replacing: Iterable[str] = (),
) -> IngestResult:
    """Add the new records of the sources to the table in the folder `out`.

    The data of stock clusters in `replacing`, which are sources as well, replace what the table has
    of the same transactions.

    Raises FleetError if a source does not exist or is empty, if the table cannot be used or
    written, or if Spark fails.
    """
    start = time.monotonic()
    failed = spark_errors(f"{out}: Spark failed, nothing was added")
    with open_table(out) as table, failed, reporting_steps(spark, progress) as report_step:
        report_step("looking for logs")
        replaced = [*replacing]
        every = [*sources, *replaced]
        others = OtherFiles()
        inputs, size = _name_inputs(every, table, others)
        paths = frozenset(str(one.path) for one in inputs_below(replaced))
        run = Ingest(for_few_rows(spark, inputs), table, report_step, expand_sources(every), paths)
        run.survey(inputs)
        run.choose()
        run.read(size)
        return run.commit(inputs, others.kinds, start)


def _name_inputs(sources: Iterable[str], table: TableFolder, others: OtherFiles) -> tuple[int, int]:
    """Write the list of inputs; returns their number and their bytes. Raises FleetError."""
    count = size = 0
    with parquet.ParquetWriter(table.results_of(_INPUTS), INPUTS) as writer:
        found = inputs_below(sources, others)
        while some := list(islice(found, _ROWS)):
            rows = [(str(one.kind), str(one.path), one.size) for one in some]
            columns = [pa.array(column) for column in zip(*rows, strict=True)]
            writer.write_batch(pa.record_batch(columns, schema=INPUTS))
            count += len(rows)
            size += sum(one.size for one in some)
    return count, size


class Ingest:
    """One run of an ingest of `sources`, with its steps in order. Inputs in `replacing` are read in
    any case."""

    def __init__(
        self,
        spark: SparkSession,
        table: TableFolder,
        report_step: Callable[[str], None],
        sources: Sequence[Path] = (),
        replacing: frozenset[str] = frozenset(),
    ) -> None:
        self._spark = spark
        self._sources = sources
        self._table = table
        self._report_step = report_step
        self._replacing = replacing
        self._cores = spark.sparkContext.defaultParallelism
        self._is_identified = False

    def survey(self, inputs: int) -> None:
        """Survey every input: which segment of which log it is, and its last event and command."""
        self._report_step("looking at logs")
        reader = self._spark.read.schema(spark_schema(INPUTS))
        named = reader.parquet(self._table.results_of(_INPUTS))
        self._map(named.repartition(self._tasks(inputs)), survey, _SURVEYED)

    def choose(self) -> None:
        """Choose what to read: each segment with new records, and each archive or folder of a stock
        cluster that changed."""
        surveyed = self._step(_SURVEYED).where("reason is null")
        known = manifest.segments(self._spark, self._table.folder)
        none = self._spark.createDataFrame([], _STEPS[_CHOSEN])
        grown = _grown(surveyed.where("container is null"), manifest.latest(known))
        chosen = none.unionByName(grown, allowMissingColumns=True)
        if self._count(_SURVEYED, pc.field("container").is_valid()):
            self._identify(_changed_containers(surveyed, known, self._replacing))
            found = self._step(_IDENTIFIED).where("reason is null")
            for more in (_archives(found), _captures(found)):
                chosen = chosen.unionByName(more, allowMissingColumns=True)
        chosen.select(*UNITS.names).write.parquet(self._table.results_of(_CHOSEN))

    def _identify(self, changed: DataFrame) -> None:
        self._report_step("looking at clusters")
        self._is_identified = True
        tasks = min(max(self._cores * _TASKS_A_CORE, changed.count() // _SURVEYED_A_TASK), 1000)
        self._map(changed.repartition(tasks), identify, _IDENTIFIED)

    def read(self, size: int) -> None:
        """Read the chosen inputs. Logs that are close in time share a task and its files."""
        units = self._count(_CHOSEN)
        if not units:
            return
        self._report_step("reading logs")
        tasks = max(self._cores * _TASKS_A_CORE, size // _TASK_BYTES)
        table = self._table
        work = partial(
            ingest_units, table=table.folder, files=table.written, replacing=self._replacing
        )
        order = ["cluster", "log", "path"]
        spread = self._step(_CHOSEN).repartitionByRange(min(tasks, _TASKS_MAX, units), *order)
        self._map(spread.sortWithinPartitions(*order), work, _READ)

    def commit(self, inputs: int, passed_over: list[PassedOverFiles], start: float) -> IngestResult:
        """Make the records that were read part of the table in one step."""
        self._report_step("committing")
        is_read = self._count(_CHOSEN) > 0
        counts = self._write_manifest() if is_read else dict.fromkeys(_COUNTS, 0)
        batch = None
        if counts["segments"]:
            move = partial(put_in_place, written=self._table.written, table=self._table.files)
            written = self._manifest().where("events + commands > 0").select("token").distinct()
            written.rdd.foreachPartition(move)
            batch = self._table.commit()
        unread = self._unread(is_read)
        unchanged = inputs - self._read_inputs() - unread.count()
        examples, set_aside = self._set_aside(unread, is_read)
        logs = manifest.logs(manifest.segments(self._spark, self._table.folder))
        return IngestResult(
            table=str(self._table.folder),
            inputs=inputs,
            unchanged=max(unchanged, 0),
            set_aside=set_aside,
            examples=examples,
            incomplete=manifest.incomplete(logs).count(),
            logs_with_notes=manifest.completeness_of(manifest.logs_with_notes(logs), _EXAMPLES_MAX),
            passed_over=passed_over,
            # A batch without records says that files were read that have nothing new.
            batch=batch if counts["events"] + counts["commands"] else None,
            seconds=time.monotonic() - start,
            **counts,
        )

    def _read_inputs(self) -> int:
        """The number of inputs that were read."""
        inputs = "size(coalesce(copies, transform(captures, one -> one.path), array(path)))"
        row = self._step(_CHOSEN).agg(sql.expr(f"coalesce(sum({inputs}), 0) as n")).head()
        assert row is not None, "an aggregate has a row"
        return int(row.n)

    def _write_manifest(self) -> dict[str, int]:
        """Write the manifest of the batch and return its counts (_COUNTS)."""
        # A segment may have been read from a file and from an archive, or from two archives. The
        # copy from a file is preferred: it may share Parquet files with other segments.
        is_packed = sql.col("containers").isNotNull()
        order = (is_packed, sql.desc("last_seq"), sql.desc("last_command"), sql.col("path"))
        place = sql.row_number().over(Window.partitionBy("unit").orderBy(*order))
        read = self._step(_READ).where("reason is null").withColumn("place", place)
        kept = read.where("place = 1").select(*INGESTED.names)
        kept.write.parquet(str(self._table.manifest))
        sums = [sql.expr(count).alias(name) for name, count in _COUNTS.items()]
        totals = self._manifest().agg(*sums).head()
        assert totals is not None, "an aggregate has a row"
        return totals.asDict()

    def _manifest(self) -> DataFrame:
        return self._spark.read.schema(_STEPS[_READ]).parquet(str(self._table.manifest))

    def _unread(self, is_read: bool) -> DataFrame:
        """The inputs that could not be read now."""
        unit = sql.lit(None).cast("string").alias("unit")
        frames = [self._step(_SURVEYED).select("path", "reason", "unit")]
        if self._is_identified:
            frames.append(self._step(_IDENTIFIED).select("path", "reason", unit))
        if is_read:
            frames.append(self._step(_READ).select("path", "reason", "unit"))
        every = reduce(DataFrame.union, frames)
        return every.where("reason is not null")

    def _set_aside(self, unread: DataFrame, is_read: bool) -> tuple[list[SetAsideInput], int]:
        """Write the list of inputs that could not be read, now or before; returns some of them, and
        their number."""
        examples: list[SetAsideInput] = []
        count = 0
        read = self._step(_READ) if is_read else self._spark.createDataFrame([], _STEPS[_READ])
        read = read.where("reason is null").select("unit").distinct()
        read = read.withColumn("is_read", sql.lit(True))

        def unread_inputs() -> Iterator[SetAsideInput]:
            nonlocal count
            for frame, is_now in ((unread, True), (self._set_aside_before(), False)):
                for row in frame.join(read, "unit", "left").orderBy("path").toLocalIterator():
                    entry = SetAsideInput(row.path, row.reason, row.unit)
                    # A sound copy of a segment makes up for a damaged one, which is named once.
                    if is_now or not row.is_read:
                        count += 1
                        examples.extend([entry] if len(examples) < _EXAMPLES_MAX else [])
                    if not row.is_read:
                        yield entry

        write_set_aside(self._table.folder, unread_inputs())
        return examples, count

    def _set_aside_before(self) -> DataFrame:
        """The inputs that were set aside before, and that were not named this time or deleted."""
        rows = [
            (one.path, one.reason, one.unit)
            for one in inputs_set_aside(self._table.folder)
            if not self._is_deleted(one)
        ]
        entries = self._spark.createDataFrame(rows, "path string, reason string, unit string")
        entries = entries.withColumn("input", sql.regexp_replace("path", _IN_ARCHIVE, ""))
        again = self._spark.read.parquet(self._table.results_of(_INPUTS)).select("path")
        left = entries.join(again, entries.input == again.path, "left_anti")
        return left.select("path", "reason", "unit")

    def _is_deleted(self, one: SetAsideInput) -> bool:
        """Whether an input is below a named source, and does not exist any more."""
        path = Path(re.sub(_IN_ARCHIVE, "", one.path))
        return not path.exists() and any(path.is_relative_to(source) for source in self._sources)

    def _tasks(self, inputs: int) -> int:
        return min(max(self._cores, inputs // _SURVEYED_A_TASK), _TASKS_MAX)

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
    """Segments with new records (UNITS), each with the copies that have some."""
    in_table = known.select(
        "unit",
        sql.col("log").alias("known_log"),
        sql.struct("last_seq", "last_command", "event_chain", "command_chain").alias("known"),
    )
    ends = known.select(
        "cluster", sql.col("event_chain").alias("before"), sql.col("log").alias("earlier_log")
    ).distinct()
    # A log keeps its name in the table, even after its first segments were deleted. Of copies of
    # a log the one with most segments names it, since a name contains the time of the first one.
    in_folder, of_unit = Window.partitionBy("place"), Window.partitionBy("unit")
    named = (
        of_logs.join(in_table, "unit", "left")
        .join(ends, ["cluster", "before"], "left")
        .withColumn("log", sql.min("log").over(of_unit))
        .withColumn("log", sql.min("log").over(in_folder))
        .withColumn("log", sql.min("log").over(of_unit))
        .withColumn("known_log", sql.coalesce("known_log", "earlier_log"))
        .withColumn("known_log", sql.first("known_log", ignorenulls=True).over(in_folder))
        .withColumn("known_log", sql.first("known_log", ignorenulls=True).over(of_unit))
        .withColumn("log", sql.coalesce("known_log", "log"))
    )
    has_news = "known is null or known.last_seq < last_seq or known.last_command < last_command"
    most_first = sql.struct(-sql.col("last_seq"), -sql.col("last_command"), "path", "size")
    copies = sql.sort_array(sql.collect_list(most_first))
    units = (
        named.where(has_news)
        .groupBy("unit")
        .agg(
            *(sql.first(name).alias(name) for name in ("kind", "cluster", "log", "known")),
            sql.min_by("folder", most_first).alias("folder"),
            copies.alias("copies"),
        )
        .withColumn("path", sql.expr("copies[0].path"))
        .withColumn("size", sql.expr("copies[0].size"))
    )
    return units.withColumn("copies", sql.expr("transform(copies, one -> one.path)"))


def _changed_containers(
    surveyed: DataFrame, known: DataFrame, replacing: frozenset[str]
) -> DataFrame:
    """Archives and folders of stock clusters that are not in the table in their present form, or
    that replace others (SURVEYED)."""
    containers = surveyed.where("container is not null")
    in_table = known.select(sql.explode("containers").alias("container")).distinct()
    changed = containers.join(in_table, "container", "left_anti").select(*SURVEYED.names)
    again = containers.where(sql.col("path").isin([*replacing])).select(*SURVEYED.names)
    return changed.union(again).distinct()


def _archives(identified: DataFrame) -> DataFrame:
    """Archives of logs (UNITS)."""
    found = identified.where(sql.col("kind") == Kind.ARCHIVE.value)
    return found.select("kind", "path", "size", sql.array("container").alias("containers"))


def _captures(identified: DataFrame) -> DataFrame:
    """Stock clusters, each with its captures (UNITS)."""
    found = identified.where(sql.col("kind") == Kind.STOCK.value)
    captures = sql.sort_array(sql.collect_list("capture")).alias("captures")
    path = sql.min("path").alias("path")
    return found.groupBy("kind", "cluster").agg(captures, path, sql.sum("size").alias("size"))
