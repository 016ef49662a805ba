"""Summaries of replays, small enough for a terminal or a script."""

import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from replay.fleet.manifest import LogCompleteness, completeness_of, incomplete, logs, segments
from replay.fleet.replaying.results import by_rule, replayed
from replay.fleet.replaying.versions import ShippedVersion
from replay.fleet.set_aside import SetAsideInput, inputs_set_aside

FAILURES_MAX: Final = 20
RULES_MAX: Final = 100

Summary = TypeVar("Summary", bound=Struct)


class VersionSummary(Struct):
    """A version on all logs.

    `decisions` are those that were recorded, or Kafka's. `left` counts logs that the version does
    not follow to the end. `uncompared` counts logs of stock clusters for which the version cannot
    report its agreement; they are not included in the counts. `incomplete` counts logs that lack
    something, `decisions_of_incomplete` their decisions, which are included.
    """

    version: str
    code: str
    core: str
    code_version: str
    logs: int
    failed: int
    left: int
    uncompared: int
    incomplete: int
    decisions: int
    decisions_of_incomplete: int
    agreed: int
    divergences: int
    harmless: int
    explained: int
    unjudged: int


class RuleSummary(Struct):
    """A version, a rule and a cluster, as counted by results.by_rule. `logs_diverging` is the
    number of logs with divergences; `log` and `seq` name one divergence, None if there is none."""

    version: str
    rule: str
    cluster: str
    logs: int
    decisions: int
    agreed: int
    logs_diverging: int
    divergences: int
    first: int
    following: int
    log: str | None
    seq: int | None


class FailedReplay(Struct):
    """A log that a version could not replay, and why."""

    cluster: str
    log: str
    version: str
    reason: str


class ReplayResult(Struct):
    """The result of a replay.

    `todo` is the number of pairs of log and version that were replayed. The other fields cover all
    results of the table: `rules` are the first RULES_MAX of `all_rules`, ordered by divergences,
    `failures` some of `failed`. `incomplete` counts the logs of the table that lack something,
    `incomplete_logs` are some of them; `set_aside` and `examples` are the same for inputs that the
    table lacks. `batch` is None if there was nothing to do.
    """

    table: str
    todo: int
    failed: int
    versions: list[VersionSummary]
    rules: list[RuleSummary]
    all_rules: int
    failures: list[FailedReplay]
    incomplete: int
    incomplete_logs: list[LogCompleteness]
    set_aside: int
    examples: list[SetAsideInput]
    batch: int | None
    seconds: float


def summary(
    spark: SparkSession,
    table: Path,
    versions: Sequence[ShippedVersion],
    todo: int,
    batch: int | None,
    start: float,
) -> ReplayResult:
    """Summarize all results of these versions."""
    named = {one.code: one.reference for one in versions}
    is_named = sql.col("code").isin(list(named))
    results = replayed(spark, table).where(is_named)
    lacking = incomplete(logs(segments(spark, table)))
    of_versions = list(_versions(results, lacking, named))
    set_aside = list(inputs_set_aside(table))
    failed = sum(one.failed for one in of_versions)
    rules = by_rule(spark, table).where(is_named)
    shown = list(_rules(rules, named))
    return ReplayResult(
        str(table),
        todo,
        failed,
        of_versions,
        shown,
        len(shown) if len(shown) < RULES_MAX else rules.count(),
        list(_failures(results, named)) if failed else [],
        lacking.count(),
        completeness_of(lacking, FAILURES_MAX),
        len(set_aside),
        set_aside[:FAILURES_MAX],
        batch,
        time.monotonic() - start,
    )


def _versions(
    results: DataFrame, incomplete: DataFrame, named: dict[str, str]
) -> Iterator[VersionSummary]:
    marked = incomplete.select("cluster", "log", sql.lit(True).alias("is_incomplete"))
    results = results.join(marked, ["cluster", "log"], "left")
    knows_agreement = sql.col("agreed").isNotNull()
    counts = ("decisions", "agreed", "divergences", "harmless", "explained", "unjudged")
    found = results.groupBy("code").agg(
        sql.first("core").alias("core"),
        sql.first("code_version").alias("code_version"),
        sql.count("*").alias("logs"),
        sql.count("reason").alias("failed"),
        sql.count_if(sql.expr("left_at > 0")).alias("left"),
        sql.count_if(sql.expr("reason is null and agreed is null")).alias("uncompared"),
        sql.count("is_incomplete").alias("incomplete"),
        _sum(sql.expr("if(is_incomplete and agreed is not null, decisions, 0)")).alias(
            "decisions_of_incomplete"
        ),
        *(_sum(sql.when(knows_agreement, sql.col(name))).alias(name) for name in counts),
    )
    rows = {row.code: row for row in found.collect()}
    for code, reference in named.items():
        if code in rows:
            yield _of_row(VersionSummary, {**rows[code].asDict(), "version": reference})


def _rules(rules: DataFrame, named: dict[str, str]) -> Iterator[RuleSummary]:
    differing = sql.expr("decisions - agreed").desc()
    most = sql.col("decisions").desc()
    order = (sql.col("divergences").desc(), differing, most, "code", "rule", "cluster")
    for row in rules.orderBy(*order).limit(RULES_MAX).collect():
        yield _of_row(RuleSummary, {**row.asDict(), "version": named[row.code]})


def _failures(results: DataFrame, named: dict[str, str]) -> Iterator[FailedReplay]:
    failures = results.where("reason is not null").orderBy("cluster", "log", "code")
    for row in failures.limit(FAILURES_MAX).collect():
        yield FailedReplay(row.cluster, row.log, named[row.code], row.reason)


def _sum(column: Column) -> Column:
    return sql.coalesce(sql.sum(column), sql.lit(0))


def _of_row(kind: type[Summary], row: dict[str, Any]) -> Summary:
    return msgspec.convert({name: row[name] for name in kind.__struct_fields__}, kind)
