"""Actions of controllers whose term is over, stopped by the controller epoch or not.

- `fenced_write`: ZooKeeper refused the write, because /controller_epoch had changed
- `stale_request`: a broker rejected the request (STALE_CONTROLLER_EPOCH)
- `late_write`: a write of an older term that succeeded
"""

from typing import Final

from pyspark.sql import DataFrame

_FENCED: Final = -1000
_STALE_CONTROLLER_EPOCH: Final = 11


def zombies(records: DataFrame, failovers: DataFrame) -> DataFrame:
    """One row per action. `term` is the term at that time (null for a daemon's log), `zombie_term`
    the term of the actor. `seconds_after` is the time since a newer term began, where the log
    contains it."""
    return records.sparkSession.sql(
        f"""
        with refused as (
            select cluster, log, seq, time, bigint(null) as term, term as zombie_term,
                bigint(null) as controller, 'fenced_write' as how, cause, ordinal
            from {{records}} where record = 'event' and kind = 'znodes_written'
                and array_contains(from_json(payload, 'errors array<int>').errors, {_FENCED})
            union all
            select cluster, log, seq, time, bigint(null), term, null, 'stale_request', cause,
                ordinal
            from {{records}} where record = 'event' and kind = 'broker_answered'
                and from_json(payload, 'error int').error = {_STALE_CONTROLLER_EPOCH}
        ), own as (
            select r.cluster, r.log, r.seq, r.time, r.term, zombie_term, l.controller, how,
                c.path, c.topic, c.partition
            from refused as r left join (select * from {{records}} where record = 'command') as c
                on r.cluster = c.cluster and r.log = c.log and r.cause = c.seq
                and r.ordinal = c.ordinal
            left join (select distinct cluster, log, controller from {{failovers}}
                where kind = 'recorded') as l on r.cluster = l.cluster and r.log = l.log
        ), observed as (
            select cluster, log, cause as seq, time, term,
                nullif(from_json(payload, 'epoch bigint').epoch, 0) as zombie_term,
                broker as controller, rule
            from {{records}} where record = 'event' and kind = 'observed'
        ), written as (
            select o.cluster, o.log, o.seq, o.time, o.term, zombie_term, controller,
                if(o.rule = 'fenced', 'fenced_write', 'late_write') as how, t.path, t.topic,
                t.partition
            from observed as o join {{records}} as t on o.cluster = t.cluster and o.log = t.log
                and o.seq = t.seq and t.record = 'event'
            where o.rule = 'fenced'
                or o.rule not in ('refused', 'election', 'controller_epoch')
                    and zombie_term < o.term
        ), served as (
            select *, from_json(payload, 'request string, response string') as parsed
            from {{records}} where record = 'event' and kind = 'request_served'
        ), answered as (
            select *, from_json(parsed.request, 'controllerId bigint, controllerEpoch bigint')
                as requested, from_json(parsed.response, 'errorCode int').errorCode as code
            from served
        ), acts as (
            select * from own union all select * from written
            union all
            select cluster, log, seq, time, term, requested.controllerEpoch, requested.controllerId,
                'stale_request', path, topic, partition
            from answered
            where code = {_STALE_CONTROLLER_EPOCH} and requested.controllerEpoch is not null
        )
        select a.cluster, a.log, a.seq, first(a.time) as time, first(a.term) as term,
            first(zombie_term) as zombie_term, first(coalesce(a.controller, -1)) as controller,
            first(how) as how, first(path) as path, first(topic) as topic,
            first(partition) as partition,
            (unix_micros(first(a.time)) - unix_micros(max(f.time))) / 1e6 as seconds_after
        from acts as a left join {{failovers}} as f on a.cluster = f.cluster and a.log = f.log
            and f.kind = 'imported' and f.seq < a.seq
        group by a.cluster, a.log, a.seq
        """,
        records=records,
        failovers=failovers,
    )
