"""Summaries of an analysis: a few small tables for people and scripts."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from msgspec import Struct
from pyspark.sql import DataFrame, SparkSession

from replay.fleet.analysis.failovers import TOTAL
from replay.fleet.analysis.logs import resting_on_incomplete_logs

_COUNTED: Final = (
    "failovers", "outages", "leader_changes", "reassignments", "broker_changes", "races",
    "reassignment_races", "zombies",
)  # fmt: skip

INCOMPLETE_LOGS: Final = "incomplete logs"

_RACES: Final = """
        select first_what as first, what as then, count_if(verdict = 'considered') as considered,
            count_if(verdict = 'missed') as missed, count_if(verdict = 'undecided') as undecided
        from {{{table}}} group by first_what, what order by missed desc, count(*) desc, first, then
        limit 20"""

_QUERIES: Final = {
    INCOMPLETE_LOGS: """
        select cluster, log, array_join(slice(lacking, 1, 3), '; ') as lacking,
            array_join(slice(warnings, 1, 3), '; ') as warnings, not_understood
        from {logs} where size(lacking) + size(warnings) + not_understood > 0
        order by is_complete, cluster, log limit 20""",
    "totals that rest on incomplete logs": resting_on_incomplete_logs(_COUNTED, "{{{name}}}"),
    "failovers": f"""
        select step, failovers, p50, p90, p99, max from {{failover_percentiles}} where by = 'all'
        order by step <> '{TOTAL}', p50 desc, step""",
    "slowest failovers": """
        select cluster, log, term, seq,
            date_format(time, "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'") as time, seconds, partitions, version
        from {failovers}
        where outcome = 'done' order by seconds desc, cluster, log, seq limit 5""",
    "outages": """
        select what, cause, sum(outages) as outages, count(*) as clusters,
            sum(partition_seconds) as partition_seconds, max(longest) as longest
        from {outage_seconds} group by what, cause order by partition_seconds desc, what, cause""",
    "leader churn": """
        select cluster, topic, partition, changes, returns, changes_per_hour from {leader_churn}
        order by changes desc, cluster, topic, partition limit 5""",
    "reassignments": """
        select outcome, count(*) as partitions, percentile(seconds, 0.5) as p50,
            percentile(seconds, 0.99) as p99, max(seconds) as max
        from {reassignments} group by outcome order by partitions desc, outcome""",
    "races": _RACES.format(table="races"),
    "races of reassignments": _RACES.format(table="reassignment_races"),
    "flapping brokers": """
        select cluster, log, broker, times_gone, most_in_window, shortest_up_s
        from {flapping_brokers} order by times_gone desc, cluster, log, broker limit 5""",
    "zombie controllers": """
        select how, count(*) as acts, count(distinct cluster) as clusters from {zombies}
        group by how order by acts desc, how""",
}


class SummaryTable(Struct):
    """A small table with at most 20 rows; each row has one value per column."""

    title: str
    columns: list[str]
    rows: list[list[Any]]


def summaries(
    spark: SparkSession, tables: dict[str, DataFrame], pool: ThreadPoolExecutor
) -> list[SummaryTable]:
    """Totals of each topic, or the entries with the highest values; at most 20 rows each."""

    def summary(title: str, query: str) -> SummaryTable:
        used: dict[str, Any] = {
            name: frame for name, frame in tables.items() if f"{{{name}}}" in query
        }
        found = spark.sql(query, **used)
        return SummaryTable(title, found.columns, [list(row) for row in found.take(20)])

    return list(pool.map(summary, _QUERIES.keys(), _QUERIES.values()))
