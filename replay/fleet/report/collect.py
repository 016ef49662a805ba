"""Querying the tables. All results that reach the driver are bounded."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from replay.fleet import decoding
from replay.fleet.errors import FleetError
from replay.fleet.jobs import JAVA_ENDED, has_java_ended, spark_errors
from replay.fleet.replaying import results
from replay.fleet.report import queries
from replay.fleet.report.findings import FleetFindings, FleetIncident, ReportedDivergence, Rows
from replay.fleet.set_aside import inputs_set_aside
from replay.fleet.table import check_table

_EXAMPLES_MAX: Final = 20
_ANALYSE: Final = "run `refold fleet analyse` first"


class _Summary(msgspec.Struct):
    made: str
    options: dict[str, Any] = {}


def collect_findings(spark: SparkSession, folder: Path, incidents: int) -> FleetFindings:
    """The results of the analysis in a table's folder, with up to `incidents` incidents.

    Raises FleetError if there is no table or no analysis, or if Spark fails.
    """
    # Spark and readers of the page may have other working directories.
    folder = folder.absolute()
    check_table(folder)
    made = _read_summary(folder)
    with spark_errors(f"{folder}: Spark failed"):
        of_records = decoding.records(spark, folder)
    try:
        return _collect(spark, folder, of_records, made, incidents)
    except (PySparkException, Py4JError) as error:
        if has_java_ended(error):
            raise FleetError(f"{folder}: Spark failed: {JAVA_ENDED}") from None
        lines = str(error).strip().splitlines() or [type(error).__name__]
        text = f"its analysis cannot be read ({lines[0]}): {_ANALYSE} again"
        raise FleetError(f"{folder}: {text}") from error


def _read_summary(folder: Path) -> _Summary:
    path = folder / "analysis" / "analysis.json"
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Summary)
    except FileNotFoundError:
        raise FleetError(f"{folder} has no analysis: {_ANALYSE}") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise FleetError(f"{path} cannot be read ({error}): {_ANALYSE} again") from None


def _collect(
    spark: SparkSession, folder: Path, of_records: DataFrame, made: _Summary, incidents: int
) -> FleetFindings:
    for name in queries.TABLES:
        spark.read.parquet(str(folder / "analysis" / name)).createOrReplaceTempView(name)
    [totals] = _rows(spark.sql(queries.TOTALS))
    period = _period(totals)
    answers = {name: _rows(spark.sql(text)) for name, text in queries.QUERIES.items()}
    answers["over_time"] = _rows(spark.sql(queries.OVER_TIME.format(period=period)))
    replays = _replays(spark, folder)
    set_aside = list(inputs_set_aside(folder))
    return FleetFindings(
        folder=str(folder),
        options={"made": made.made, **made.options},
        totals=totals,
        period=period,
        answers=answers,
        replays=replays,
        divergences=_divergences(spark, of_records, incidents) if replays else [],
        incidents=_incidents(spark, of_records, incidents),
        set_aside=len(set_aside),
        examples=set_aside[:_EXAMPLES_MAX],
    )


def _period(totals: dict[str, Any]) -> str:
    if totals["first_time"] is None:
        return "day"
    hours = (totals["last_time"] - totals["first_time"]).total_seconds() / 3600
    return next(name for name, most in queries.PERIODS if hours <= most)


def _replays(spark: SparkSession, folder: Path) -> dict[str, Rows] | None:
    """Register the views "replayed" and "divergences". Versions get unique names, since a working
    tree may have changed between replays."""
    found = results.replayed(spark, folder)
    if found.isEmpty():
        return None
    name = sql.expr("concat(version, ' (', left(code, 8), ')')")
    found.withColumn("version", name).createOrReplaceTempView("replayed")
    divergences = results.divergences(spark, folder).withColumn("version", name)
    divergences.createOrReplaceTempView("divergences")
    return {one: _rows(spark.sql(text)) for one, text in queries.REPLAYS.items()}


def _divergences(
    spark: SparkSession, of_records: DataFrame, count: int
) -> list[ReportedDivergence]:
    found = _rows(spark.sql(queries.FIRST_DIVERGENCES.format(count=count)))
    moments = [
        {**one, "until": one["time"], "ended_seq": one["seq"], "subjects": one["partitions"]}
        for one in found
    ]
    events = _events(spark, of_records, moments)
    return [ReportedDivergence(about, events.get(number, [])) for number, about in enumerate(found)]


def _incidents(spark: SparkSession, of_records: DataFrame, count: int) -> list[FleetIncident]:
    found = _rows(spark.sql(queries.INCIDENTS.format(count=count)))
    if not found:
        return []
    _name_incidents(spark, found)
    partitions = _by_incident(_rows(spark.sql(queries.PARTITIONS)))
    for number, one in enumerate(found):
        longest = partitions.get(number, [])
        one["subjects"] = [f"{row['topic']}-{row['partition']}" for row in longest]
    events = _events(spark, of_records, found)
    return [
        FleetIncident(about, partitions.get(number, []), events.get(number, []))
        for number, about in enumerate(found)
    ]


_INCIDENTS: Final = (
    "incident int, cluster string, log string, what string, time timestamp, until timestamp,"
    " seq bigint, ended_seq bigint, brokers array<bigint>, subjects array<string>"
)


def _name_incidents(spark: SparkSession, found: Rows) -> None:
    """Register the view "incidents". Their `subjects` are partitions."""
    keys = [one.split()[0] for one in _INCIDENTS.split(", ")][1:]
    rows = [(number, *(one.get(key) for key in keys)) for number, one in enumerate(found)]
    sql.broadcast(spark.createDataFrame(rows, _INCIDENTS)).createOrReplaceTempView("incidents")


def _events(spark: SparkSession, of_records: DataFrame, found: Rows) -> dict[int, Rows]:
    """The events and writes in the period of each incident."""
    if not found:
        return {}
    _name_incidents(spark, found)
    # Spark cannot derive this filter from the join; it skips files by it.
    clusters, logs = ({one[key] for one in found} for key in ("cluster", "log"))
    named = sql.col("cluster").isin(clusters) & sql.col("log").isin(logs)
    of_records.where(named).createOrReplaceTempView("records")
    return _by_incident(_rows(spark.sql(queries.RECORDS)))


def _by_incident(rows: Iterable[dict[str, Any]]) -> dict[int, Rows]:
    found: dict[int, Rows] = {}
    for row in rows:
        found.setdefault(row["incident"], []).append(row)
    return found


def _rows(frame: DataFrame) -> Rows:
    return [row.asDict(recursive=True) for row in frame.collect()]
