"""Reassignments of partitions: their duration, phases and outcome."""

from pyspark.sql import DataFrame


def reassignments(states: DataFrame, logs: DataFrame, stuck_s: float) -> DataFrame:
    """One row per reassignment of a partition, from the write that begins it to the write that ends
    it.

    `catching_up_s` is the time until the ISR contains all target replicas, `handing_over_s` the
    time from then to the end. `outcome` is `completed`; `cancelled` (the replicas are the original
    ones); `replaced` (by another reassignment, or by a different assignment); `deleted` (with its
    topic). At the end of the log it is `stuck` after `stuck_s` seconds, else `ongoing`. `is_found`:
    it was in progress when the log began.
    """
    return states.sparkSession.sql(
        f"""
        with moving as (
            select *, coalesce(size(adding) + size(removing) > 0 and not is_deleted, false)
                as is_moving, struct(array_sort(adding), array_sort(removing)) as move
            from {{states}}
        ), marked as (
            select *, lag(struct(is_moving, move)) over ordered as before
            from moving window ordered as (partition by cluster, log, topic, partition order by seq)
        ), numbered as (
            select *, sum(int(is_moving and not coalesce(before.is_moving and before.move = move,
                false))) over (partition by cluster, log, topic, partition order by seq) as number
            from marked
        ), begun as (
            -- Original and target replicas; `replicas` does not include replicas being added.
            select *, first(struct(seq, time, is_found, replicas, adding, removing,
                array_except(array_union(replicas, adding), removing) as target)) over upto as first
            from numbered where number > 0
            window upto as (partition by cluster, log, topic, partition, number order by seq)
        ), summed as (
            select cluster, log, topic, partition, number, first(first) as first,
                min(if(size(array_except(first.target, isr)) = 0 and is_moving,
                    struct(seq, time), null)) as caught_up,
                min(if(is_moving, null, struct(seq, time, is_deleted, replicas))) as ended,
                max(struct(until_seq, until_time)) as last, max(number) over (partition by
                    cluster, log, topic, partition) as numbers
            from begun group by cluster, log, topic, partition, number
        ), closed as (
            -- A replaced reassignment ends where the next one begins.
            select *, coalesce(ended.seq, if(number < numbers, last.until_seq, null)) as ended_seq,
                coalesce(ended.time, if(number < numbers, last.until_time, null)) as ended_time,
                unix_micros(coalesce(ended.time, last.until_time)) - unix_micros(first.time)
                    as micros
            from summed
        )
        select cluster, log, l.version, topic, partition, first.seq, first.time, ended_seq,
            ended_time, greatest(0, micros) / 1e6 as seconds,
            case when ended.is_deleted then 'deleted'
                when ended is null and ended_seq is not null then 'replaced'
                when ended is null and micros >= {stuck_s * 1e6:.0f} then 'stuck'
                when ended is null then 'ongoing'
                when array_sort(ended.replicas) = array_sort(first.target) then 'completed'
                when array_sort(ended.replicas) = array_sort(first.replicas) then 'cancelled'
                else 'replaced' end as outcome,
            first.replicas as from_replicas, first.target as to_replicas, first.adding,
            first.removing,
            (unix_micros(caught_up.time) - unix_micros(first.time)) / 1e6 as catching_up_s,
            (unix_micros(ended_time) - unix_micros(caught_up.time)) / 1e6 as handing_over_s,
            first.is_found
        from closed join {{logs}} as l using (cluster, log)
        """,
        states=states,
        logs=logs,
    )
