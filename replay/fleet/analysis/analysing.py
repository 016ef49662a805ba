"""Analysing a table of records: each table of results from those before it, written by executors.

Only counts come to the driver.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

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
from replay.fleet.jobs import Progress, rows_in, spark_errors, telling

_BESIDE: Final = ["znodes", "assignments"]


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


def analyse(
    spark: SparkSession, folder: Path, options: Options, progress: Progress | None = None
) -> Analysis:
    """Analyse the table in the folder: tables in `folder`/analysis.

    Raises FleetError if there is no table, nothing in it is wanted, or Spark fails.
    """
    start = time.monotonic()
    failed = spark_errors(f"{folder}: Spark failed, the analysis is as it was")
    records = wanted(tables.records(spark, folder), options)
    segments = tables.segments(spark, folder)
    with open_analysis(folder) as into, failed, telling(spark, progress) as tell:
        run = _Analysis(spark, into, tell)
        run.write_logs(records, segments)
        if not run.rows()["logs"]:
            raise FleetError(f"{folder} holds no log of these clusters and times")
        run.write_all(records, options)
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


class _Analysis:
    def __init__(
        self, spark: SparkSession, into: AnalysisFolder, tell: Callable[[str], None]
    ) -> None:
        self._spark = spark
        self._into = into
        self._tell = tell
        self._tables: dict[str, DataFrame] = {}

    def write_logs(self, records: DataFrame, segments: DataFrame) -> None:
        """The first table, that of the logs."""
        self._write("logs", logs(records, segments))

    def write_all(self, records: DataFrame, options: Options) -> None:
        """Every other table, each after those that it is made of."""
        write, of = self._write, self._tables["logs"]
        told = write("znodes", znodes(records))
        assigned = write("assignments", assignments(told))
        brokers = write("broker_changes", broker_changes(records, told, of))
        states = write("partition_states", partition_states(records, told, assigned, of))
        terms = write("failovers", failovers(records, states, of))
        steps = write("failover_steps", failover_steps(records, terms))
        write("failover_percentiles", failover_percentiles(terms, steps))
        lost = write("outages", outages(states, brokers, of))
        write("outage_seconds", outage_seconds(lost))
        changes = write("leader_changes", leader_changes(states))
        write("leader_churn", leader_churn(changes, of))
        write("reassignments", reassignments(states, of, options.stuck_s))
        write("flapping_brokers", flapping_brokers(brokers, options.flap_s, options.flap_times))
        write("races", races(records, told, assigned, states, brokers, of, options.window_s))
        write("zombies", zombies(records, terms))

    def rows(self) -> dict[str, int]:
        """How many rows each table has that is a result."""
        path_of = self._into.path_of
        return {name: rows_in(path_of(name)) for name in self._tables if name not in _BESIDE}

    def summaries(self) -> list[Summary]:
        """In short."""
        self._tell("summing up")
        return summaries(self._spark, self._tables)

    def _write(self, name: str, frame: DataFrame) -> DataFrame:
        self._tell(name.replace("_", " "))
        path = self._into.path_of(name)
        frame.write.parquet(path)
        # Without a schema Spark runs a job to find it out.
        self._tables[name] = self._spark.read.schema(frame.schema).parquet(path)
        return self._tables[name]
