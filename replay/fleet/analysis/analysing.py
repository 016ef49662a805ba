"""Analysing a table of records: each table of results from those before it, written by executors.

Only counts come to the driver. Tables that do not need each other are made side by side: most of
what a small one takes is Spark's planning on the driver, a thread's work.
"""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Final

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from replay.fleet import decoding
from replay.fleet import table as tables
from replay.fleet.analysis.brokers import broker_changes, flapping_brokers
from replay.fleet.analysis.folder import NAME, AnalysisFolder, open_analysis
from replay.fleet.analysis.leaders import leader_changes, leader_churn
from replay.fleet.analysis.logs import logs
from replay.fleet.analysis.outages import outage_seconds, outages
from replay.fleet.analysis.partitions import assignments, partition_states
from replay.fleet.analysis.races import races
from replay.fleet.analysis.reassignments import reassignments
from replay.fleet.analysis.summary import Summary, summaries
from replay.fleet.analysis.terms import failover_percentiles, failover_steps, failovers
from replay.fleet.analysis.znodes import znodes
from replay.fleet.analysis.zombies import zombies
from replay.fleet.errors import FleetError
from replay.fleet.jobs import for_few_rows, rows_in, spark_errors, telling
from replay.progress import Progress, unreported

_BESIDE: Final = ["znodes", "assignments"]
_AT_ONCE: Final = 4
_FEW_ROWS: Final = 300_000
"""With more, queries that Spark compiles are worth their time."""
_BRIEF_ROWS: Final = 1_000_000

_Source = DataFrame | Future[DataFrame]


class Options(Struct, frozen=True):
    """What is analysed, and what counts as what. `begin` and `end` are wall clocks in ms since
    1970, both included: the logs with records in between, whole. `clusters` empty: all."""

    window_s: float = 1.0
    flap_s: float = 300.0
    flap_times: int = 3
    stuck_s: float = 600.0
    begin: int | None = None
    end: int | None = None
    clusters: tuple[str, ...] = ()


class Analysis(Struct):
    """What an analysis came to: rows by table, and in short; stored beside the tables, too."""

    folder: str
    made: str
    options: Options
    tables: dict[str, int]
    summaries: list[Summary]
    seconds: float


def is_brief(folder: Path) -> bool:
    """Whether the table is so small that Java had better not compile thoroughly. Raises FleetError
    if there is none."""
    return tables.rows(folder) <= _BRIEF_ROWS


def analyse(
    spark: SparkSession, folder: Path, options: Options, progress: Progress = unreported
) -> Analysis:
    """Analyse the table in the folder: tables in `folder`/analysis.

    Raises FleetError if there is no table, nothing in it is wanted, or Spark fails.
    """
    start = time.monotonic()
    failed = spark_errors(f"{folder}: Spark failed, the analysis is as it was")
    rows = tables.rows(folder)
    if rows <= _FEW_ROWS:
        spark = for_few_rows(spark, rows)
    segments = tables.segments(spark, folder)
    with (
        open_analysis(folder) as into,
        failed,
        telling(spark, progress) as tell,
        _side_by_side(spark) as pool,
    ):
        records = wanted(decoding.records(spark, folder, tell), options)
        run = AnalysisRun(spark, into, tell, pool)
        run.begin_all(records, segments, options)
        run.await_all()
        analysis = Analysis(
            folder=str(folder / NAME),
            made=datetime.now(UTC).isoformat(timespec="seconds"),
            options=options,
            tables=run.rows(),
            summaries=run.summaries(),
            seconds=time.monotonic() - start,
        )
        into.commit(analysis, _BESIDE)
    return analysis


@contextmanager
def _side_by_side(spark: SparkSession) -> Iterator[ThreadPoolExecutor]:
    """What goes on when all is lost is ended."""
    pool = ThreadPoolExecutor(_AT_ONCE, "table")
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        spark.sparkContext.cancelAllJobs()
        raise
    finally:
        pool.shutdown()


def wanted(records: DataFrame, options: Options) -> DataFrame:
    """Of the records those of the clusters and logs that are asked for."""
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
    # A part of a log would not tell what stood before.
    return records.join(spans, ["cluster", "log"], "left_semi")


class AnalysisRun:
    def __init__(
        self,
        spark: SparkSession,
        into: AnalysisFolder,
        tell: Callable[[str], None],
        pool: ThreadPoolExecutor,
    ) -> None:
        self._spark = spark
        self._into = into
        self._tell = tell
        self._pool = pool
        self._tables: dict[str, Future[DataFrame]] = {}

    def begin_all(self, records: DataFrame, segments: DataFrame, options: Options) -> None:
        """Every table, each as soon as those are there that it is made of."""
        write = self._begin
        of = write("logs", logs, records, segments)
        told = write("znodes", znodes, records)
        assigned = write("assignments", assignments, told)
        brokers = write("broker_changes", broker_changes, records, told, of)
        states = write("partition_states", partition_states, records, told, assigned, of)
        flap = partial(flapping_brokers, window_s=options.flap_s, times_min=options.flap_times)
        write("flapping_brokers", flap, brokers)
        terms = write("failovers", failovers, records, states, of)
        race = partial(races, window_s=options.window_s)
        write("races", race, records, told, assigned, states, brokers, of)
        lost = write("outages", outages, states, brokers, of)
        changes = write("leader_changes", leader_changes, states)
        write("reassignments", partial(reassignments, stuck_s=options.stuck_s), states, of)
        steps = write("failover_steps", failover_steps, records, terms)
        write("zombies", zombies, records, terms)
        write("outage_seconds", outage_seconds, lost)
        write("leader_churn", leader_churn, changes, of)
        write("failover_percentiles", failover_percentiles, terms, steps)

    def await_all(self) -> None:
        """Raises FleetError where no log is wanted, or what the first table failed by."""
        # In the order in which they were begun: one that lacks another one is behind it.
        for table in self._tables.values():
            table.result()

    def rows(self) -> dict[str, int]:
        """How many rows each table has that is a result."""
        return {name: self._rows_of(name) for name in self._tables if name not in _BESIDE}

    def summaries(self) -> list[Summary]:
        """In short."""
        self._tell("summing up")
        made = {name: table.result() for name, table in self._tables.items()}
        return summaries(self._spark, made, self._pool)

    def _begin(
        self, name: str, make: Callable[..., DataFrame], *sources: _Source
    ) -> Future[DataFrame]:
        def made() -> DataFrame:
            # These were begun before: whatever the number of threads, one of them goes on.
            frames = [one if isinstance(one, DataFrame) else one.result() for one in sources]
            self._tell(name.replace("_", " "))
            return self.write(name, make(*frames))

        self._tables[name] = self._pool.submit(made)
        return self._tables[name]

    def write(self, name: str, frame: DataFrame) -> DataFrame:
        """Store a table; it as it is read back. Raises FleetError where no log is wanted."""
        path = self._into.path_of(name)
        frame.write.parquet(path)
        if name == "logs" and not self._rows_of(name):
            raise FleetError(f"{self._into.folder} holds no log of these clusters and times")
        # Without a schema Spark runs a job to find it out.
        return self._spark.read.schema(frame.schema).parquet(path)

    def _rows_of(self, name: str) -> int:
        return rows_in(self._into.path_of(name))
