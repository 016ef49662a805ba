"""Leaders that change."""

from pyspark.sql import DataFrame


def leader_changes(states: DataFrame) -> DataFrame:
    """Each change of a partition's leader, to and from -1 (none), too; a first leader is none."""
    return states.sparkSession.sql(
        """
        with led as (
            select *, lag(leader) over (partition by cluster, log, topic, partition order by seq)
                as from_leader
            from {states} where leader is not null or is_deleted
        )
        select cluster, log, seq, time, term, topic, partition, from_leader, leader as to_leader,
            leader_epoch, rule, code
        from led where leader <> from_leader
        """,
        states=states,
    )


def leader_churn(leader_changes: DataFrame, logs: DataFrame) -> DataFrame:
    """By partition: how often its leader changed, and how often back to the one before."""
    return leader_changes.sparkSession.sql(
        """
        with back as (
            select *, coalesce(to_leader = lag(from_leader) over (
                partition by cluster, log, topic, partition order by seq), false) as is_return
            from {changes}
        ), hours as (select cluster, sum(seconds) / 3600 as hours from {logs} group by cluster)
        select cluster, topic, partition, count(*) as changes,
            count(distinct nullif(to_leader, -1)) as leaders, count_if(is_return) as returns,
            first(hours) as hours, count(*) / nullif(first(hours), 0) as changes_per_hour,
            min(time) as first_time, max(time) as last_time
        from back join hours using (cluster) group by cluster, topic, partition
        """,
        changes=leader_changes,
        logs=logs,
    )
