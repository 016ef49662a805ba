"""Replaying the logs of a table by several versions of the code: choosing the work and running the
steps.

The driver knows versions and paths. Executors rebuild logs from the table, fold them and compare.
The steps pass small tables with one row per log on the disk: neither records nor decisions reach
the driver.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as sql

from replay.diff.references import Version
from replay.fleet import manifest
from replay.fleet.jobs import for_few_rows, reporting_steps, spark_errors
from replay.fleet.replaying import results
from replay.fleet.replaying.results import (
    DIVERGENCES,
    REPLAYED,
    RULE_COUNTS,
    ReplayFolder,
    open_replays,
)
from replay.fleet.replaying.summary import ReplayResult, summary
from replay.fleet.replaying.units import (
    OUTCOMES,
    PASSED,
    SEGMENT,
    UNITS,
    Job,
    make_snapshots,
    replay_units,
)
from replay.fleet.replaying.versions import ship
from replay.fleet.schemas import spark_schema
from replay.fleet.table import check_table
from replay.progress import Progress, unreported

PATIENCE_S: Final = 600.0
SPLIT_EVENTS: Final = 500_000

_TASKS_A_CORE: Final = 4
_LOGS_A_TASK: Final = 200
_TASKS_MAX: Final = 10_000
_LOG: Final = ["cluster", "log"]
_EXTENT: Final = ["last_seq", "commands", "is_closed", "content"]
_WHOLE: Final = "cast(null as bigint)"
_COUNTS: Final = (
    "events", "decisions", "agreed", "divergences", "harmless", "explained", "unjudged", "seconds",
)  # fmt: skip


class Workload(NamedTuple):
    """How much there is to do: logs that are not split, pieces of split logs, pairs of split log
    and version for which snapshots are made, and pairs of log and version in total."""

    whole: int
    pieces: int
    passes: int
    folds: int


def replay(
    spark: SparkSession,
    table: Path,
    versions: Sequence[Version],
    progress: Progress = unreported,
    *,
    patience_s: float = PATIENCE_S,
    split_events: int = SPLIT_EVENTS,
) -> ReplayResult:
    """Replay each log of the table by each version that has not replayed it in its present length.

    `patience_s` is how long a version may report no progress. A log of more than `split_events`
    events is split at its segments.

    Raises FleetError if there is no table, if its folder cannot be written or if Spark fails,
    DiffError if a version does not start.
    """
    start = time.monotonic()
    check_table(table)
    with (
        TemporaryDirectory(prefix="refold-fleet-") as scratch,
        spark_errors(f"{table}: Spark failed; nothing was added"),
        reporting_steps(spark, progress) as report_step,
        open_replays(table) as folder,
    ):
        report_step("trying versions")
        shipped = tuple(ship(spark, versions, Path(scratch)))
        job = Job(table.absolute(), folder.snapshots.absolute(), shipped, patience_s)
        few = for_few_rows(spark, manifest.count_rows(table))
        run = _Replay(few, folder, job, report_step, split_events)
        workload = run.choose()
        batch = run.replay(workload)
        report_step("counting")
        return summary(few, table, shipped, workload.folds, batch, start)


class _Replay:
    def __init__(
        self,
        spark: SparkSession,
        folder: ReplayFolder,
        job: Job,
        report_step: Callable[[str], None],
        split_events: int,
    ) -> None:
        self._spark = spark
        self._folder = folder
        self._job = job
        self._report_step = report_step
        self._cores = spark.sparkContext.defaultParallelism
        # A segment begins where the daemon's fold was idle.
        self._is_split = sql.expr(
            f"kind = 'recorded' and size(segments) > 1 and last_seq > {split_events}"
        )

    def choose(self) -> Workload:
        """Write the list of logs, each with the versions that have not replayed it yet."""
        self._report_step("looking for logs")
        key = [*_LOG, *_EXTENT]
        codes = sql.array(*(sql.lit(one.code) for one in self._job.versions))
        done = (
            results.replayed(self._spark, self._job.table)
            .where("reason is null")
            .groupBy(*key)
            .agg(sql.collect_set("code").alias("done"))
        )
        none = sql.array().cast("array<string>")
        logs = _logs(self._spark, self._job.table).join(done, key, "left")
        logs = logs.withColumn("codes", sql.array_except(codes, sql.coalesce("done", none)))
        logs = logs.drop("done").where("size(codes) > 0")
        logs.write.parquet(self._folder.results_of("logs"))
        counts = (
            self._logs()
            .withColumn("is_split", self._is_split)
            .agg(
                sql.expr("count_if(not is_split) as whole"),
                sql.expr("coalesce(sum(if(is_split, size(segments), 0)), 0) as pieces"),
                sql.expr("coalesce(sum(if(is_split, size(codes), 0)), 0) as passes"),
                sql.expr("coalesce(sum(size(codes)), 0) as folds"),
            )
            .head()
        )
        assert counts is not None, "an aggregate has a row"
        return Workload(**counts.asDict())

    def replay(self, workload: Workload) -> int | None:
        """Replay the logs and add the results; returns the number of the batch, None if there is
        nothing to do."""
        if not workload.folds:
            return None
        logs = self._logs()
        whole = logs.where(~self._is_split).withColumn("piece", sql.expr(_WHOLE))
        if workload.pieces:
            steps = self._replay_split(whole, logs.where(self._is_split), workload)
        else:
            steps = ["first"]
            self._report_step("replaying")
            self._fold(whole, workload.whole, "first")
        self._report_step("writing what was found")
        self._write(steps, has_pieces=bool(workload.pieces))
        return self._folder.commit()

    def _replay_split(self, whole: DataFrame, split: DataFrame, workload: Workload) -> list[str]:
        """Replay pieces together with logs that are not split. Then replay as a whole the logs that
        a version does not follow. Returns the steps with results."""
        self._report_step("making snapshots")
        each = split.select("*", sql.explode("codes").alias("code"))
        each = each.withColumn("codes", sql.array("code")).withColumn("piece", sql.expr(_WHOLE))
        self._run_tasks(
            each, workload.passes, partial(make_snapshots, job=self._job), PASSED, "passed"
        )
        self._report_step("replaying")
        pieces = split.select("*", sql.posexplode("segments").alias("piece", "segment"))
        units = whole.unionByName(pieces.select(*whole.columns))
        self._fold(units, workload.whole + workload.pieces, "first")
        left = self._logs_to_replay_whole()
        count = left.count()
        if not count:
            return ["first"]
        self._report_step("replaying split logs that a version leaves")
        again = split.drop("codes").join(left, _LOG).withColumn("piece", sql.expr(_WHOLE))
        self._fold(again, count, "again")
        return ["first", "again"]

    def _fold(self, units: DataFrame, count: int, step: str) -> None:
        self._run_tasks(units, count, partial(replay_units, job=self._job), OUTCOMES, step)

    def _logs_to_replay_whole(self) -> DataFrame:
        """The logs and versions where the version does not follow a piece; they are replayed as a
        whole."""
        pieces = self._results("first").where("piece is not null")
        follows = sql.bool_and(sql.coalesce("follows", sql.lit(False))).alias("follows")
        by_version = pieces.groupBy(*_LOG, "code").agg(follows).where("not follows")
        return by_version.groupBy(*_LOG).agg(sql.collect_list("code").alias("codes"))

    def _write(self, steps: Sequence[str], *, has_pieces: bool) -> None:
        whole = [self._results(step).where("piece is null") for step in steps]
        found = [self._divergences(step) for step in steps]
        if has_pieces:
            whole.append(self._joined_pieces())
        rows = [one.select(*REPLAYED.names) for one in whole]
        _union(rows).coalesce(self._cores).write.parquet(self._folder.logs)
        _union(found).write.parquet(self._folder.divergences)

    def _joined_pieces(self) -> DataFrame:
        """The results of logs that a version follows in all pieces."""
        pieces = self._results("first").where("piece is not null")
        key = [*_LOG, "code"]
        same = [
            name
            for name in REPLAYED.names
            if name not in (*key, *_COUNTS, "left_at", "pieces", "rules", "reason")
        ]
        by_rule = (
            pieces.select(*key, sql.inline("rules"))
            .groupBy(*key, "rule")
            .agg(sql.sum("decisions").alias("decisions"), sql.sum("agreed").alias("agreed"))
            .groupBy(*key)
            .agg(sql.sort_array(sql.collect_list(sql.struct(*RULE_COUNTS))).alias("rules"))
        )
        return (
            pieces.groupBy(*key)
            .agg(
                *(sql.first(name).alias(name) for name in same),
                *(sql.sum(name).alias(name) for name in _COUNTS),
                sql.count("*").alias("pieces"),
                sql.lit(0).cast("bigint").alias("left_at"),
                sql.lit(None).cast("string").alias("reason"),
                sql.bool_and(sql.coalesce("follows", sql.lit(False))).alias("follows"),
            )
            .where("follows")
            .join(by_rule, key, "left")
        )

    def _results(self, step: str) -> DataFrame:
        return self._outcomes(step).where("result is not null").select("result.*")

    def _divergences(self, step: str) -> DataFrame:
        found = self._outcomes(step).where("divergence is not null").select("divergence.*")
        return found.select(*DIVERGENCES.names)

    def _outcomes(self, step: str) -> DataFrame:
        path = self._folder.results_of(step)
        return self._spark.read.schema(spark_schema(OUTCOMES)).parquet(path)

    def _logs(self) -> DataFrame:
        return self._spark.read.parquet(self._folder.results_of("logs"))

    def _run_tasks(
        self,
        units: DataFrame,
        count: int,
        work: Callable[[Iterable[Any]], Iterator[Any]],
        schema: pa.Schema,
        step: str,
    ) -> None:
        """Distribute units over tasks, large ones evenly, and write their results."""
        tasks = max(self._cores * _TASKS_A_CORE, count // _LOGS_A_TASK)
        tasks = max(1, min(tasks, _TASKS_MAX, count))
        events = "if(piece is null, last_seq, segments[piece].last_seq - segments[piece].first_seq)"
        # Similar logs may be at regular intervals; without mixing one task would get all of them.
        mixed = sql.xxhash64(*_LOG, "piece")
        by_size = Window.orderBy(sql.expr(events).desc(), mixed, *_LOG, "piece")
        place = ((sql.row_number().over(by_size) - 1) % tasks).alias("place")
        placed = units.select(place, *UNITS.names)
        rows = (
            placed.rdd.map(lambda row: (row.place, row))
            .partitionBy(tasks, int)
            .values()
            .mapPartitions(work)
        )
        frame = self._spark.createDataFrame(rows, spark_schema(schema), verifySchema=False)
        frame.write.parquet(self._folder.results_of(step))


def _logs(spark: SparkSession, table: Path) -> DataFrame:
    """The logs of the table: UNITS without versions and pieces."""
    units = manifest.latest(manifest.segments(spark, table))
    segment = sql.struct(
        *(
            sql.col("last_command" if field.name == "commands" else field.name).alias(field.name)
            for field in SEGMENT
        )
    )
    header = sql.col("segments")[0]["header"]
    last = "element_at(segments, -1)"
    content = f"concat_ws('-', hex({last}.event_chain), md5({last}.import_ended))"
    return (
        units.groupBy(*_LOG)
        .agg(
            sql.sort_array(sql.collect_list(segment)).alias("segments"),
            sql.max("last_seq").alias("last_seq"),
            sql.sum("last_command").alias("commands"),
            sql.max("is_closed").alias("is_closed"),
            sql.array_distinct(sql.flatten(sql.collect_list("tokens"))).alias("tokens"),
        )
        .withColumn("kind", sql.get_json_object(header, "$.kind"))
        .withColumn("content", sql.expr(content))
        .withColumn("recorded_by", sql.get_json_object(header, "$.core_fingerprint"))
    )


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    first, *rest = frames
    for one in rest:
        first = first.unionByName(one)
    return first
