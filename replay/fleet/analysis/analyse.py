"""Running an analysis: each table of results is computed from earlier ones and written by
executors.

Only counts reach the driver. Independent tables are computed in parallel: for a small table most of
the time is Spark's planning, which occupies one thread of the driver.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from replay.fleet import decoding
from replay.fleet.analysis.brokers import broker_changes, flapping_brokers
from replay.fleet.analysis.failovers import failover_percentiles, failover_steps, failovers
from replay.fleet.analysis.folder import NAME, AnalysisFolder, open_analysis
from replay.fleet.analysis.logs import logs
from replay.fleet.analysis.outages import outage_seconds, outages
from replay.fleet.analysis.partitions import (
    assignments,
    leader_changes,
    leader_churn,
    partition_states,
)
from replay.fleet.analysis.races import races
from replay.fleet.analysis.reassignment_races import (
    reassignment_changes,
    reassignment_pairs,
    reassignment_races,
    reassignment_steps,
)
from replay.fleet.analysis.reassignments import reassignments
from replay.fleet.analysis.summary import SummaryTable, summaries
from replay.fleet.analysis.znodes import znodes
from replay.fleet.analysis.zombies import zombies
from replay.fleet.errors import FleetError, check_known
from replay.fleet.jobs import for_few_rows, reporting_steps, rows_in, spark_errors
from replay.fleet.manifest import count_records, segments
from replay.fleet.set_aside import SetAsideInput, inputs_set_aside
from replay.fleet.table import check_table
from replay.progress import Progress, unreported

_INTERMEDIATE: Final = [
    "znodes",
    "assignments",
    "reassignment_changes",
    "reassignment_steps",
    "reassignment_pairs",
]
_THREADS: Final = 4
_EXAMPLES_MAX: Final = 20
_CLUSTERS_MAX: Final = 100_000
_FEW_ROWS: Final = 300_000
"""For larger tables, compiling the queries saves more time than it takes."""
_BRIEF_ROWS: Final = 1_000_000

_Source = DataFrame | Future[DataFrame]


class AnalysisOptions(Struct, frozen=True):
    """The logs to analyse, and the thresholds. `begin` and `end` are wall clocks in ms since 1970,
    both inclusive: logs with records in this range are analysed completely. If `clusters` is empty,
    all clusters are analysed.
    """

    window_s: float = 1.0
    flap_s: float = 300.0
    flap_times: int = 3
    stuck_s: float = 600.0
    begin: int | None = None
    end: int | None = None
    clusters: tuple[str, ...] = ()


class Analysis(Struct):
    """The result of an analysis: rows per table, and summaries. It is also stored next to the
    tables. `incomplete` counts logs that lack something, `set_aside` inputs that the table lacks;
    `examples` are some of these."""

    folder: str
    made: str
    options: AnalysisOptions
    tables: dict[str, int]
    incomplete: int
    set_aside: int
    examples: list[SetAsideInput]
    summaries: list[SummaryTable]
    seconds: float


def is_brief(folder: Path) -> bool:
    """Whether the table is so small that thorough JIT compilation does not pay off. Raises
    FleetError if there is no table."""
    check_table(folder)
    return count_records(folder) <= _BRIEF_ROWS


def analyse(
    spark: SparkSession, folder: Path, options: AnalysisOptions, progress: Progress = unreported
) -> Analysis:
    """Analyse the table in the folder and write the results to `folder`/analysis.

    Raises FleetError if there is no table, if no log matches the options, or if Spark fails.
    """
    start = time.monotonic()
    failed = spark_errors(f"{folder}: Spark failed; the previous analysis is kept")
    check_table(folder)
    rows = count_records(folder)
    if rows <= _FEW_ROWS:
        spark = for_few_rows(spark, rows)
    ingested = segments(spark, folder)
    for cluster in options.clusters:
        names = ingested.select("cluster").distinct().limit(_CLUSTERS_MAX).collect()
        check_known("--cluster", cluster, [row.cluster for row in names])
    with (
        open_analysis(folder) as into,
        failed,
        reporting_steps(spark, progress) as report_step,
        _threads(spark) as pool,
    ):
        records = filter_records(decoding.records(spark, folder, report_step), options)
        run = AnalysisRun(spark, into, report_step, pool)
        run.start_all(records, ingested, options)
        run.await_all()
        set_aside = list(inputs_set_aside(folder))
        analysis = Analysis(
            folder=str(folder / NAME),
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            options=options,
            tables=run.rows(),
            incomplete=run.incomplete(),
            set_aside=len(set_aside),
            examples=set_aside[:_EXAMPLES_MAX],
            summaries=run.summaries(),
            seconds=time.monotonic() - start,
        )
        into.commit(analysis, _INTERMEDIATE)
    return analysis


@contextmanager
def _threads(spark: SparkSession) -> Iterator[ThreadPoolExecutor]:
    """A pool of threads. If the block fails, Spark's jobs are cancelled."""
    pool = ThreadPoolExecutor(_THREADS, "table")
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        spark.sparkContext.cancelAllJobs()
        raise
    finally:
        pool.shutdown()


def filter_records(records: DataFrame, options: AnalysisOptions) -> DataFrame:
    """The records of the clusters and logs that match the options."""
    if options.clusters:
        records = records.where(sql.col("cluster").isin(*options.clusters))
    if options.begin is None and options.end is None:
        return records
    at = sql.unix_millis("time")
    spans = records.groupBy("cluster", "log").agg(sql.min(at).alias("a"), sql.max(at).alias("z"))
    if options.begin is not None:
        spans = spans.where(sql.col("z") >= options.begin)
    if options.end is not None:
        spans = spans.where(sql.col("a") <= options.end)
    # Logs are kept complete: a part of a log does not contain the state before it.
    return records.join(spans, ["cluster", "log"], "left_semi")


class AnalysisRun:
    """The tables of one analysis, which threads of a pool compute and write into its folder. A
    table waits for the tables that it is computed from."""

    def __init__(
        self,
        spark: SparkSession,
        into: AnalysisFolder,
        report_step: Callable[[str], None],
        pool: ThreadPoolExecutor,
    ) -> None:
        self._spark = spark
        self._into = into
        self._report_step = report_step
        self._pool = pool
        self._tables: dict[str, Future[DataFrame]] = {}

    def start_all(self, records: DataFrame, segments: DataFrame, options: AnalysisOptions) -> None:
        """Start all tables. Each waits for the tables that it is computed from."""
        write = self._start
        of = write("logs", logs, records, segments)
        observed = write("znodes", znodes, records)
        assigned = write("assignments", assignments, observed)
        brokers = write("broker_changes", broker_changes, records, observed, of)
        states = write("partition_states", partition_states, records, observed, assigned, of)
        flap = partial(flapping_brokers, window_s=options.flap_s, times_min=options.flap_times)
        write("flapping_brokers", flap, brokers)
        terms = write("failovers", failovers, records, states, of)
        race = partial(races, window_s=options.window_s)
        write("races", race, records, observed, assigned, states, brokers, of)
        asked = write("reassignment_changes", reassignment_changes, records, observed, terms)
        done = write("reassignment_steps", reassignment_steps, assigned, observed)
        pair = partial(reassignment_pairs, window_s=options.window_s)
        pairs = write("reassignment_pairs", pair, asked, done, observed, terms)
        write("reassignment_races", reassignment_races, records, observed, asked, done, pairs, of)
        lost = write("outages", outages, states, brokers, of)
        changes = write("leader_changes", leader_changes, states)
        write("reassignments", partial(reassignments, stuck_s=options.stuck_s), states, of)
        steps = write("failover_steps", failover_steps, records, terms)
        write("zombies", zombies, records, terms)
        write("outage_seconds", outage_seconds, lost)
        write("leader_churn", leader_churn, changes, of)
        write("failover_percentiles", failover_percentiles, terms, steps)

    def await_all(self) -> None:
        """Wait for all tables. Raises FleetError if no log matches the options, or the first
        table's error."""
        # In the order in which they were started: a table follows those that it depends on.
        for table in self._tables.values():
            table.result()

    def rows(self) -> dict[str, int]:
        """The number of rows of each result table."""
        return {name: self._rows_of(name) for name in self._tables if name not in _INTERMEDIATE}

    def incomplete(self) -> int:
        """The number of logs that lack something."""
        return rows_in(self._into.path_of("logs"), ~pc.field("is_complete"))

    def summaries(self) -> list[SummaryTable]:
        """The summaries of the results."""
        self._report_step("summing up")
        made = {name: table.result() for name, table in self._tables.items()}
        return summaries(self._spark, made, self._pool)

    def _start(
        self, name: str, make: Callable[..., DataFrame], *sources: _Source
    ) -> Future[DataFrame]:
        def made() -> DataFrame:
            # The sources were started earlier, so any number of threads avoids a deadlock.
            frames = [one if isinstance(one, DataFrame) else one.result() for one in sources]
            self._report_step(name.replace("_", " "))
            return self.write(name, make(*frames))

        self._tables[name] = self._pool.submit(made)
        return self._tables[name]

    def write(self, name: str, frame: DataFrame) -> DataFrame:
        """Store a table, and return it as read from its files. Raises FleetError if no log is
        selected."""
        path = self._into.path_of(name)
        frame.write.parquet(path)
        if name == "logs" and not self._rows_of(name):
            raise FleetError(f"{self._into.folder} contains no log of these clusters and times")
        # Without a schema Spark runs a job to infer it.
        return self._spark.read.schema(frame.schema).parquet(path)

    def _rows_of(self, name: str) -> int:
        return rows_in(self._into.path_of(name))
