"""The SQL queries over the tables of an analysis, of replays and of records.

Each result is bounded by a limit, or by the number of kinds (causes, verdicts, versions).
"""

from typing import Final

from replay.fleet.analysis.logs import resting_on_incomplete_logs
from replay.fleet.replaying.results import COUNTED

TABLES: Final = (
    "logs",
    "failovers",
    "failover_percentiles",
    "outages",
    "outage_seconds",
    "leader_churn",
    "reassignments",
    "flapping_brokers",
    "races",
    "reassignment_races",
    "zombies",
)
"""The tables of the analysis."""

RECORDS_OF_INCIDENT: Final = 150
PARTITIONS_OF_INCIDENT: Final = 20
PAYLOAD_CHARACTERS: Final = 600
AROUND: Final = 10
"""How many events before the first and after the last event of an incident are included."""
_BROKERS: Final = 100
_PAUSE_S: Final = 10

_RACES: Final = """(
          select cluster, log, seq, first_what, what, verdict, gap_s from races
          union all
          select cluster, log, seq, first_what, what, verdict, gap_s from reassignment_races)"""

TOTALS: Final = f"""
select (select count(*) from logs) as logs,
       (select count(distinct cluster) from logs) as clusters,
       (select coalesce(sum(events), 0) from logs) as events,
       (select coalesce(sum(seconds), 0) / 3600 from logs) as hours,
       (select min(first_time) from logs) as first_time,
       (select max(last_time) from logs) as last_time,
       (select count(*) from failovers) as failovers,
       (select coalesce(sum(partition_seconds), 0) from outage_seconds
         where what = 'unavailable') as unavailable_s,
       (select coalesce(sum(partition_seconds), 0) from outage_seconds
         where what = 'under_replicated') as under_replicated_s,
       (select count(*) from {_RACES} where verdict = 'missed') as missed_races,
       (select count(*) from zombies) as zombies,
       (select count_if(not is_complete) from logs) as incomplete
"""

PERIODS: Final = (("hour", 5 * 24), ("day", 400 * 24), ("week", 2000 * 24), ("month", 1 << 62))
"""The period by which a chart counts, with the maximum number of hours for it."""

OVER_TIME: Final = """
select date_trunc('{period}', time) as period,
       sum(if(what = 'unavailable', seconds, 0)) as unavailable_s,
       sum(if(what = 'under_replicated', seconds, 0)) as under_replicated_s
  from outages group by 1 order by 1 limit 600
"""

QUERIES: Final = {
    "incomplete": """
        select cluster, log, is_complete, lacking, warnings, not_understood from logs
         where size(lacking) + size(warnings) + not_understood > 0
         order by is_complete, cluster, log limit 50""",
    "resting": resting_on_incomplete_logs(
        ("failovers", "outages", "reassignments", "races", "reassignment_races", "zombies")
    ),
    "causes": """
        select what, cause, sum(partition_seconds) as seconds, sum(outages) as outages,
               max(longest) as longest
          from outage_seconds group by what, cause order by what desc, seconds desc limit 50""",
    "clusters": """
        select cluster,
               sum(if(what = 'unavailable', partition_seconds, 0)) as unavailable_s,
               sum(if(what = 'under_replicated', partition_seconds, 0)) as under_replicated_s,
               sum(outages) as outages
          from outage_seconds group by cluster
         order by unavailable_s desc, under_replicated_s desc, cluster limit 15""",
    "failovers_by_cluster": """
        select value, failovers, p50, p90, p99, max from failover_percentiles
         where by = 'cluster' and step = 'total' and p99 is not null
         order by p99 desc, value limit 15""",
    "failovers_by_group": """
        select by, value, failovers, p50, p90, p99, max from failover_percentiles
         where by in ('all', 'version', 'size') and step = 'total'
         order by by, value limit 40""",
    "failover_steps": """
        select step, failovers, p50, p90, p99, max from failover_percentiles
         where by = 'all' and step <> 'total' and p99 is not null
         order by p50 desc limit 25""",
    "churn": """
        select cluster, topic, partition, changes, leaders, returns, changes_per_hour
          from leader_churn where changes > 0
         order by changes desc, cluster, topic, partition limit 15""",
    "reassignments": """
        select outcome, count(*) as count, percentile_approx(seconds, 0.5) as median,
               max(seconds) as longest
          from reassignments group by outcome order by count desc limit 20""",
    "races": f"""
        select first_what, what, verdict, count(*) as count, min(gap_s) as closest,
               min_by(named_struct('cluster', cluster, 'log', log, 'seq', seq), gap_s) as example
          from {_RACES} group by first_what, what, verdict
         order by verdict = 'missed' desc, count desc limit 20""",
    "flapping": """
        select cluster, broker, sum(times_gone) as times_gone, max(most_in_window) as most,
               min(shortest_up_s) as shortest_up_s
          from flapping_brokers group by cluster, broker
         order by most desc, times_gone desc limit 15""",
    "zombies": """
        select cluster, how, controller, count(*) as count, max(seconds_after) as latest
          from zombies group by cluster, how, controller order by count desc limit 15""",
}

REPLAYS: Final = {
    "versions": """
        select version, count(*) as logs, count(reason) as failed,
               sum(decisions) filter (where agreed is not null) as decisions,
               sum(agreed) as agreed, sum(divergences) as divergences
          from replayed group by version order by version limit 20""",
    "divergences": f"""
        select version, rule, what, count(*) as count, count(distinct cluster) as clusters,
               min_by(named_struct('cluster', cluster, 'log', log, 'seq', seq), seq) as example
          from divergences where {COUNTED}
         group by version, rule, what order by count desc limit 20""",
}

FIRST_DIVERGENCES: Final = f"""
select * from (
  select version, cluster, log, seq, time, rule, what, kind, target, partitions, differences,
         details,
         count(*) over (partition by version, cluster, log) as of_all,
         row_number() over (partition by version, cluster, log
                            order by seq, is_first desc, subject, target) as place
    from divergences where {COUNTED})
 where place = 1 order by of_all desc, version, cluster, log limit {{count}}
"""
"""For each version and log, ordered by the number of divergences."""

INCIDENTS: Final = f"""
with ended as (
  select *, coalesce(ended_time, time + make_dt_interval(0, 0, 0, seconds)) as until from outages),
apart as (
  select *, max(until) over (partition by cluster, log, what order by time, seq
                             rows between unbounded preceding and 1 preceding) as before
    from ended),
numbered as (
  select *, sum(if(before is null or time > before + interval {_PAUSE_S} seconds, 1, 0))
            over (partition by cluster, log, what order by time, seq
                  rows unbounded preceding) as period
    from apart),
periods as (
  select cluster, log, what, period, min(time) as time, max(until) as until, min(seq) as seq,
         max(coalesce(ended_seq, seq)) as ended_seq, bool_or(is_open) as is_open,
         count(distinct topic, partition) as partitions, sum(seconds) as partition_seconds,
         max_by(cause, seconds) as cause, max_by(broker, seconds) as broker,
         slice(array_sort(collect_set(broker)), 1, {_BROKERS}) as brokers
    from numbered group by cluster, log, what, period),
of_kind as (
  select *, row_number() over (partition by what order by partition_seconds desc, time, cluster,
                               log) as place
    from periods),
chosen as (
  select * from of_kind where place <= {{count}}
   order by place <= {{count}} / 2 desc, what = 'unavailable' desc, place limit {{count}})
select * from chosen
 order by what = 'unavailable' desc, partition_seconds desc, time, cluster, log
"""
"""Half of the places are reserved for each kind; otherwise many short unavailable periods would
leave no place for under-replicated ones. Places that one kind does not fill go to the other."""

PARTITIONS: Final = f"""
select * from (
  select incident, o.topic, o.partition, o.cause, o.broker, o.seq, o.time, o.seconds, o.is_open,
         o.leader, o.isr, o.replicas,
         row_number() over (partition by incident order by o.seconds desc, o.topic, o.partition,
                            o.seq) as place
    from outages o join incidents i
      on o.cluster = i.cluster and o.log = i.log and o.what = i.what
     and o.time between i.time and i.until)
 where place <= {PARTITIONS_OF_INCIDENT} order by incident, place
"""

_IS_ABOUT: Final = """(
           coalesce(array_contains(i.brokers, r.broker), false)
           or coalesce(array_contains(i.subjects, concat(r.topic, '-', r.partition)), false)
           or coalesce(exists(r.partitions, one ->
                array_contains(i.subjects, concat(one.topic, '-', one.partition))), false))"""

RECORDS: Final = f"""
select * from (
  select incident, r.seq, r.ordinal, r.time, r.record, r.kind, r.channel, r.target, r.rule, r.error,
         r.path, r.broker, r.topic, r.partition, size(r.partitions) as partitions, r.leader, r.isr,
         left(r.payload, {PAYLOAD_CHARACTERS}) as payload,
         row_number() over (partition by incident order by {_IS_ABOUT} desc,
                            least(abs(r.seq - i.seq), abs(r.seq - i.ended_seq)), r.seq,
                            r.record = 'command', r.ordinal) as place,
         count(*) over (partition by incident) as of_all
    from records r join incidents i
      on r.cluster = i.cluster and r.log = i.log
     and r.seq between i.seq - {AROUND} and i.ended_seq + {AROUND}
   where r.origin = 'exogenous' or r.error <> 0
      or r.kind in ('write_znodes', 'write_atomically', 'become_controller', 'observed'))
 where place <= {RECORDS_OF_INCIDENT} order by incident, seq, record = 'command', ordinal
"""
"""Events and writes, without reads and successful requests. If there are too many, those about the
incident's partitions and brokers, close to its beginning and end, are preferred."""
