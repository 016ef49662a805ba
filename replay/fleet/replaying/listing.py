"""Single divergences, for people and scripts."""

from pathlib import Path

import msgspec
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from replay.fleet.jobs import spark_errors
from replay.fleet.replaying.judging import Difference
from replay.fleet.replaying.results import COUNTED, divergences


class Wanted(Struct, frozen=True):
    """Which ones; None: whatever it is."""

    version: str | None = None
    rule: str | None = None
    cluster: str | None = None
    log: str | None = None
    partition: str | None = None
    seq: int | None = None
    with_harmless: bool = False


class Listed(Struct, frozen=True):
    """One of them, as results.DIVERGENCES has it."""

    cluster: str
    log: str
    seq: int
    time: str
    version: str
    code: str
    what: str
    kind: str
    target: str
    rule: str
    partitions: list[str]
    differences: list[Difference]
    details: list[str]
    is_first: bool
    first_seq: int
    first_rule: str
    is_harmless: bool
    explained: str


def listed(
    spark: SparkSession, table: Path, wanted: Wanted, limit: int
) -> tuple[int, list[Listed]]:
    """How many there are, and the first ones. Raises FleetError."""
    with spark_errors(f"{table}: Spark failed"):
        found = _chosen(divergences(spark, table), wanted)
        count = found.count()
        first = found.orderBy("cluster", "log", "seq", "version", "first_seq").limit(limit)
        rows = first.withColumn("time", sql.date_format("time", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"))
        return count, [_listed(row.asDict(recursive=True)) for row in rows.collect()]


def _chosen(found: DataFrame, wanted: Wanted) -> DataFrame:
    if not wanted.with_harmless:
        found = found.where(COUNTED)
    for name in ("version", "cluster", "log", "seq"):
        value = getattr(wanted, name)
        if value is not None:
            found = found.where(sql.col(name) == value)
    if wanted.rule is not None:
        found = found.where(
            (sql.col("rule") == wanted.rule) | (sql.col("first_rule") == wanted.rule)
        )
    if wanted.partition is not None:
        found = found.where(sql.array_contains("partitions", wanted.partition))
    return found


def _listed(row: dict[str, object]) -> Listed:
    return msgspec.convert({name: row[name] for name in Listed.__struct_fields__}, Listed)
