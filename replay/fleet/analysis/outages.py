"""Periods in which a partition was unavailable or under-replicated, and their causes.

- Unavailable: the leader is -1, or a broker that is gone
- Under-replicated: fewer replicas in sync than assigned, not counting those being added (like
  Kafka's metric); not computed where the ISR is not known

Adjacent pieces are joined to one outage: from the loss of the leader, with or without a time
without leader, to the new leader.
"""

from typing import Final

from pyspark.sql import DataFrame

UNAVAILABLE: Final = "unavailable"
UNDER_REPLICATED: Final = "under_replicated"
_KEY: Final = "cluster, log, topic, partition, what"


def outages(states: DataFrame, broker_changes: DataFrame, logs: DataFrame) -> DataFrame:
    """One row per outage. `cause` and `broker` are those of its beginning; `leader`, `isr` and
    `replicas` are the partition's state then. `is_open`: it lasts until the end of the log."""
    return states.sparkSession.sql(
        f"""
        with joined as (
            select *, coalesce(max(ended_seq) over (partition by {_KEY} order by seq, ended_seq
                rows between unbounded preceding and 1 preceding) < seq, true) as is_new
            from {{pieces}}
        ), numbered as (
            select *, sum(int(is_new)) over (partition by {_KEY} order by seq, ended_seq) as number
            from joined
        ), joined_pieces as (
            select {_KEY}, min_by(struct(cause, broker, leader, isr, replicas), seq) as first,
                min(seq) as seq, min(time) as time, max(ended_seq) as ended_seq,
                max(ended_time) as ended_time, bool_or(is_open) as is_open
            from numbered group by {_KEY}, number
        )
        select cluster, log, l.version, topic, partition, what, first.cause, first.broker, seq,
            time, if(is_open, null, ended_seq) as ended_seq,
            if(is_open, null, ended_time) as ended_time,
            greatest(0, unix_micros(ended_time) - unix_micros(time)) / 1e6 as seconds, is_open,
            first.leader, first.isr, first.replicas
        from joined_pieces join {{logs}} as l using (cluster, log)
        """,
        pieces=_pieces(states, broker_changes),
        logs=logs,
    )


def _pieces(states: DataFrame, broker_changes: DataFrame) -> DataFrame:
    """The pieces of outages, one per partition and state, with their causes."""
    return states.sparkSession.sql(
        f"""
        with departures as (
            select cluster, log, broker, seq, time, until_seq, until_time, is_last,
                if(cause = 'failure', 'broker_failure', cause) as cause,
                coalesce(asked_seq, seq) as from_seq
            from {{changes}} where change = 'gone'
        ), lost as (
            select s.*, d.seq as gone_seq, d.time as gone_time, d.until_seq as back_seq,
                d.until_time as back_time, d.is_last as is_away, d.cause, d.broker
            from {{states}} as s join departures as d on s.cluster = d.cluster and s.log = d.log
                and s.leader = d.broker and d.seq < s.until_seq
                and (d.until_seq > s.seq or d.is_last)
        ), short as (
            select * from {{states}} where leader = -1 or size(isr) < size(replicas)
        ), missing as (
            select s.cluster, s.log, s.topic, s.partition, s.seq,
                min_by(struct(d.cause, d.broker), d.broker) as found
            from short as s join departures as d on s.cluster = d.cluster and s.log = d.log
                and d.from_seq <= s.seq and (d.until_seq > s.seq or d.is_last)
                and array_contains(if(s.leader = -1, s.replicas,
                    array_except(s.replicas, s.isr)), d.broker)
            group by all
        ), found as (
            select s.*, m.found.broker as broker, coalesce(m.found.cause, case
                when s.is_found then 'before_the_log'
                when s.leader = -1 then 'no_eligible_replica'
                when s.rule like 'controlled shutdown%' then 'controlled_shutdown'
                when size(s.adding) > 0 then 'reassignment'
                else 'follower_lag' end) as cause
            from short as s left join missing as m using (cluster, log, topic, partition, seq)
        )
        select cluster, log, topic, partition, '{UNAVAILABLE}' as what, cause, broker, leader,
            isr, replicas, greatest(seq, gone_seq) as seq, greatest(time, gone_time) as time,
            least(until_seq, back_seq) as ended_seq, least(until_time, back_time) as ended_time,
            is_last and is_away as is_open
        from lost
        union all
        select cluster, log, topic, partition, '{UNAVAILABLE}', cause, broker, leader, isr,
            replicas, seq, time, until_seq, until_time, is_last
        from found where leader = -1
        union all
        select cluster, log, topic, partition, '{UNDER_REPLICATED}', cause, broker, leader,
            isr, replicas, seq, time, until_seq, until_time, is_last
        from found where size(isr) < size(replicas)
        """,
        states=states,
        changes=broker_changes,
    )


def outage_seconds(outages: DataFrame) -> DataFrame:
    """Partition-seconds by cluster and cause."""
    return outages.sparkSession.sql(
        """
        select cluster, what, cause, count(*) as outages,
            count(distinct topic, partition) as partitions, sum(seconds) as partition_seconds,
            max(seconds) as longest
        from {outages} group by cluster, what, cause
        """,
        outages=outages,
    )
