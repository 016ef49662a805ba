"""Failovers: one per term, with their steps, and percentiles of both.

In a daemon's log, commands mark the steps: a step lasts from its first command to the first command
of the next step. In a stock cluster's log, lines of controller.log mark the steps, if it was
imported.
"""

from typing import Final

from pyspark.sql import DataFrame

from controller.core.znodes import BROKER_IDS, ISR_CHANGES, LOG_DIR_EVENTS, TOPICS

TOTAL: Final = "total"

_STEP_OF_COMMAND: Final = f"""
    case when rule = 'failover: feature versioning' then 'features'
        when rule = 'failover' and kind = 'read_stats' then 'watches'
        when rule = 'failover: delete old notifications'
            or path in ('{LOG_DIR_EVENTS}', '{ISR_CHANGES}')
            then 'notifications'
        when rule = 'dynamic configuration' then 'configuration'
        when path = '{BROKER_IDS}' and rule = 'failover' then 'brokers'
        when path = '{TOPICS}' and rule = 'failover'
            or rule = 'topic ids and repaired assignments' then 'topics'
        when rule = 'failover' and kind = 'read_znodes' and topics_read >= 2 then 'leaders'
        when rule like 'topic deletion%' then 'deletions'
        when rule like 'failover: replicas%' then 'replica states'
        when rule in ('create first leader', 'failover: elect for partitions without a leader',
            'offline partition leader election') then 'partition states'
        when rule like '%reassignment%' then 'reassignments'
        when rule = 'preferred replica election' then 'preferred election' end"""

_STEP_OF_LINE: Final = """
    case when text like '%Registering handlers%' then 'watches'
        when text like '%Deleting log dir event%' or text like '%Deleting isr change%'
            then 'notifications'
        when text like '%Initializing controller context%' then 'brokers'
        when text like '%Initialized broker epochs cache%' then 'topics'
        when text like '%Fetching topic deletions%' then 'deletions'
        when text like '[ReplicaStateMachine%' then 'replica states'
        when text like '[PartitionStateMachine%' then 'partition states'
        when text like '%Ready to serve as the new controller%' then 'reassignments'
        when text like '%undergoing preferred replica election%' then 'preferred election' end"""


def failovers(records: DataFrame, states: DataFrame, logs: DataFrame) -> DataFrame:
    """One row per term that began in a log. `seconds` is null unless the outcome is `done`. Without
    controller.log the outcome of an imported term is `unknown`."""
    return records.sparkSession.sql(
        """
        with terms as (
            select * from {recorded} union all select * from {imported}
        ), lives as (
            select cluster, log, seq, int(not is_deleted) - int(was_there) as more
            from (select *, coalesce(lag(not is_deleted) over (
                partition by cluster, log, topic, partition order by seq), false) as was_there
                from {states})
        ), sizes as (
            select * from (
                select cluster, log, term, sum(more) over (partition by cluster, log
                    order by seq, place) as partitions
                from (select cluster, log, bigint(null) as term, seq, 0 as place, more from lives
                    union all
                    select cluster, log, term, coalesce(ended_seq, seq), 1, 0 from terms)
            ) where term is not null
        ), sized as (
            select t.* except (logged_partitions), coalesce(logged_partitions, partitions, 0)
                as partitions
            from terms as t left join sizes as s using (cluster, log, term)
        )
        select cluster, log, l.kind, l.version, term, coalesce(s.controller, l.controller)
            as controller, trigger, seq, time, ended_seq, ended_time,
            if(outcome = 'done', greatest(0, unix_micros(ended_time) - unix_micros(time)) / 1e6,
                null) as seconds,
            outcome, partitions, case when partitions < 10 then '0-9'
                else concat(rpad('1', length(partitions), '0'), '-', rpad('9', length(partitions),
                    '9')) end as size
        from sized as s join {logs} as l using (cluster, log)
        """,
        recorded=_recorded_terms(records),
        imported=_imported_terms(records),
        states=states,
        logs=logs,
    )


def _recorded_terms(records: DataFrame) -> DataFrame:
    """A daemon's terms: from the start of its election to the notice that the failover is done."""
    return records.sparkSession.sql(
        """
        with notices as (
            select cluster, log, term, seq, ordinal, time, rule, payload,
                max(if(rule = 'controller election' and kind = 'read_stats', struct(seq, time),
                    null)) over (partition by cluster, log order by seq, ordinal) as stood
            from {records} where record = 'command' and (kind = 'notice' or kind = 'read_stats')
        ), terms as (
            select cluster, log, term, min_by(stood, seq) filter (where rule = 'elected') as stood,
                min(if(rule in ('failover_done', 'failover_failed', 'resigned'),
                    struct(seq, ordinal, time, rule, payload), null)) as ended
            from notices where rule in ('elected', 'failover_done', 'failover_failed', 'resigned')
            group by all having stood is not null
        ), triggers as (
            select cluster, log, seq, kind from {records}
            where record = 'event' and kind in ('session_connected', 'watch_fired')
        )
        select cluster, log, term, bigint(null) as controller,
            case g.kind when 'session_connected' then 'session_began'
                when 'watch_fired' then 'controller_gone' else 'other' end as trigger,
            stood.seq, stood.time, ended.seq as ended_seq, ended.time as ended_time,
            case when ended is null then 'unfinished' when ended.rule = 'failover_done' then 'done'
                else 'failed' end as outcome,
            cast(nullif(regexp_extract(ended.payload, ', ([0-9]+) partitions', 1), '') as bigint)
                as logged_partitions
        from (select *, stood.seq from terms) left join triggers as g using (cluster, log, seq)
        """,
        records=records,
    )


def _imported_terms(records: DataFrame) -> DataFrame:
    """A stock controller's terms: from the transaction of its election to the last line about its
    failover."""
    return records.sparkSession.sql(
        """
        with elected as (
            select cluster, log, broker as controller, cause as seq, time,
                from_json(payload, 'epoch bigint').epoch as term
            from {records} where record = 'event' and kind = 'observed' and rule = 'election'
                and error = 0
        ), terms as (
            select *, lead(seq) over ordered as next_seq, lag(seq) over ordered as previous
            from elected window ordered as (partition by cluster, log order by seq)
        ), lines as (
            select cluster, log, broker, seq, time,
                payload like '%Starting the controller scheduler%' as is_done
            from {records} where record = 'event' and kind = 'controller_logged'
        ), ended as (
            select t.cluster, t.log, t.term, count(*) as lines,
                min(if(is_done, struct(l.seq, l.time), null)) as done
            from terms as t join lines as l on t.cluster = l.cluster and t.log = l.log
                and t.controller = l.broker and l.seq > t.seq
                and l.seq < coalesce(t.next_seq, l.seq + 1)
            group by all
        )
        select cluster, log, term, controller,
            if(previous is null, 'other', 'controller_gone') as trigger, seq, time,
            done.seq as ended_seq, done.time as ended_time,
            case when lines is null then 'unknown' when done is null then 'unfinished'
                else 'done' end as outcome, bigint(null) as logged_partitions
        from terms left join ended using (cluster, log, term)
        """,
        records=records,
    )


def failover_steps(records: DataFrame, failovers: DataFrame) -> DataFrame:
    """The steps of completed failovers in order. A step that occurs twice has two rows. The time
    from the start of the election to the election is step `election`."""
    return records.sparkSession.sql(
        f"""
        with done as (select * from {{failovers}} where outcome = 'done'),
        issued as (
            select f.cluster, f.log, f.term, r.seq, r.time, r.ordinal, r.rule, r.kind, r.path,
                max(if(r.rule = 'failover' and r.path = '{TOPICS}', r.seq, null))
                    over (partition by f.cluster, f.log, f.term) as topics_seq
            from done as f join {{records}} as r on f.cluster = r.cluster and f.log = r.log
                and f.term = r.term and r.seq <= f.ended_seq
            where f.kind = 'recorded' and r.record = 'command'
        ), commands as (
            select *, count_if(kind = 'read_znodes' and rule = 'failover' and seq >= topics_seq)
                over (partition by cluster, log, term order by seq, ordinal) as topics_read
            from issued
        ), lines as (
            select f.cluster, f.log, f.term, r.seq, r.time, bigint(0) as ordinal,
                from_json(r.payload, 'text string').text as text
            from done as f join {{records}} as r on f.cluster = r.cluster and f.log = r.log
                and r.broker = f.controller and r.seq > f.seq and r.seq <= f.ended_seq
                and r.kind = 'controller_logged'
        ), labelled as (
            select cluster, log, term, seq, time, bigint(-1) as ordinal, 'election' as step
            from done
            union all select cluster, log, term, seq, time, ordinal, {_STEP_OF_COMMAND}
                from commands
            union all select cluster, log, term, seq, time, ordinal, {_STEP_OF_LINE} from lines
        ), begun as (
            select *, lag(step) over (partition by cluster, log, term order by seq, ordinal)
                as before
            from labelled where step is not null
        ), steps as (
            select *, row_number() over ordered as place, lead(seq) over ordered as next_seq,
                lead(time) over ordered as next_time
            from begun where not step <=> before
            window ordered as (partition by cluster, log, term order by seq, ordinal)
        )
        select cluster, log, f.kind, f.version, term, place, step, s.seq, s.time,
            coalesce(next_seq, f.ended_seq) as ended_seq,
            greatest(0, unix_micros(coalesce(next_time, f.ended_time)) - unix_micros(s.time)) / 1e6
                as seconds
        from steps as s join done as f using (cluster, log, term)
        """,
        records=records,
        failovers=failovers,
    )


def failover_percentiles(failovers: DataFrame, steps: DataFrame) -> DataFrame:
    """Durations of failovers and their steps: overall, by cluster, by version and by size."""
    return failovers.sparkSession.sql(
        f"""
        with durations as (
            select cluster, log, term, step, sum(seconds) as seconds from {{steps}} group by all
            union all
            select cluster, log, term, '{TOTAL}', seconds from {{failovers}}
            where seconds is not null
        ), grouped as (
            select step, d.seconds, explode(map('all', '', 'cluster', cluster,
                'version', f.version, 'size', f.size)) as (by, value)
            from durations as d join {{failovers}} as f using (cluster, log, term)
        )
        select by, value, step, count(*) as failovers, percentile(seconds, 0.5) as p50,
            percentile(seconds, 0.9) as p90, percentile(seconds, 0.99) as p99,
            max(seconds) as max, mean(seconds) as mean
        from grouped group by by, value, step
        """,
        failovers=failovers,
        steps=steps,
    )
