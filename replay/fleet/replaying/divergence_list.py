"""Listing single divergences, for people and scripts."""

from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sql

from replay.diff.grouping import without_ids
from replay.fleet.errors import check_known
from replay.fleet.jobs import spark_errors
from replay.fleet.replaying.comparison import VersionDifference
from replay.fleet.replaying.results import COUNTED, divergences, general_rule, replayed

_NAMES_MAX: Final = 100_000


class DivergenceFilter(Struct, frozen=True):
    """The divergences to list; None matches all values."""

    version: str | None = None
    rule: str | None = None
    cluster: str | None = None
    log: str | None = None
    partition: str | None = None
    seq: int | None = None
    with_harmless: bool = False


class ListedDivergence(Struct, frozen=True):
    """One divergence, with the fields of results.DIVERGENCES."""

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
    differences: list[VersionDifference]
    details: list[str]
    is_first: bool
    first_seq: int
    first_rule: str
    is_harmless: bool
    explained: str


def list_divergences(
    spark: SparkSession, table: Path, criteria: DivergenceFilter, limit: int
) -> tuple[int, list[ListedDivergence]]:
    """The number of matching divergences, and the first ones. Raises FleetError, also if nothing
    was replayed that has the name of a criterion."""
    with spark_errors(f"{table}: Spark failed"):
        _check_names(spark, table, criteria)
        found = _filtered(divergences(spark, table), criteria)
        count = found.count()
        first = found.orderBy("cluster", "log", "seq", "version", "first_seq").limit(limit)
        rows = first.withColumn("time", sql.date_format("time", "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'"))
        return count, [_from_row(row.asDict(recursive=True)) for row in rows.collect()]


def _check_names(spark: SparkSession, table: Path, criteria: DivergenceFilter) -> None:
    results = replayed(spark, table)
    for name in ("version", "cluster", "log"):
        value = getattr(criteria, name)
        if value is not None:
            check_known(f"--{name}", value, _names(results.select(name)))
    if criteria.rule is not None:
        rules = results.select(sql.explode("rules.rule").alias("rule"))
        found = divergences(spark, table)
        for name in ("rule", "first_rule"):
            rules = rules.union(found.select(name))
        names = _names(rules)
        check_known("--rule", criteria.rule, {*names, *map(without_ids, names)})


def _names(column: DataFrame) -> list[str]:
    return [row[0] for row in column.distinct().limit(_NAMES_MAX).collect() if row[0] is not None]


def _filtered(found: DataFrame, criteria: DivergenceFilter) -> DataFrame:
    if not criteria.with_harmless:
        found = found.where(COUNTED)
    for name in ("version", "cluster", "log", "seq"):
        value = getattr(criteria, name)
        if value is not None:
            found = found.where(sql.col(name) == value)
    if criteria.rule is not None:
        names = (
            sql.col("rule"),
            sql.col("first_rule"),
            general_rule("rule"),
            general_rule("first_rule"),
        )
        found = found.where(sql.lit(criteria.rule).isin(*names))
    if criteria.partition is not None:
        found = found.where(sql.array_contains("partitions", criteria.partition))
    return found


def _from_row(row: dict[str, object]) -> ListedDivergence:
    return msgspec.convert(
        {name: row[name] for name in ListedDivergence.__struct_fields__}, ListedDivergence
    )
