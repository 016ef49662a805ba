"""Races of reassignments: two events about one partition's reassignment, close in time, and the
next decision about it.

The znodes of reassignments (docs/kip-236.md) have several writers: tools write the entries, the
extra entries, the requests and the cancellation; the controller moves and removes them. A daemon
sees all changes in one channel, so `races` does not find them.

A pair consists of a change by another client and the last event about the same partition before it:
another such change; a step of the controller, which began or ended the reassignment, or read the
znode before it wrote it; or a term of another controller.
"""

from typing import Final

from pyspark.sql import DataFrame

from replay.fleet.analysis.znodes import ZNODE

_PLACE: Final = "cluster, log, seq, time, channel, znode, path"
_CONTENT: Final = """legacy boolean, force boolean,
    partitions array<struct<topic: string, partition: bigint, replicas: array<bigint>>>,
    assignments map<string, map<string, array<bigint>>>"""
_TARGETS: Final = """
    coalesce(if(znode = 'requests',
        flatten(transform(map_entries(parsed.assignments), one -> transform(map_entries(one.value),
            each -> struct(one.key as topic, cast(each.key as bigint) as partition,
                each.value as target)))),
        transform(parsed.partitions,
            one -> struct(one.topic, one.partition, one.replicas as target))), array())"""
_WRITTEN: Final = """
    case znode when 'entries' then 'entry' when 'extra entries' then 'extra'
        when 'requests' then if(parsed.legacy, 'legacy_request', 'request') end"""
_LATER: Final = "9223372036854775807"
_VERDICT: Final = """
    case when decision is null then 'undecided'
        when decision.what = 'write_refused' then 'missed'
        when decision.what = 'rejected' then 'considered'
        when is_cancelled and decision.what in ('reassignment_begun', 'reassignment_replaced')
            then 'missed'
        when what = 'cancel_deleted'
            then if(decision.what = 'reassignment_rolled_back', 'missed', 'considered')
        when what like 'cancel%' and decision.what = 'reassignment_completed'
            then if(decision.is_legacy, 'missed', 'considered')
        when what like 'cancel%' then 'considered'
        when decision.target = target then 'considered'
        when decision.what = 'reassignment_rolled_back' then if(
            is_cancelled or target is null or what like 'extra%', 'considered', 'missed')
        when array_sort(decision.target) = array_sort(target) then 'considered'
        else 'missed' end"""


def reassignment_changes(records: DataFrame, znodes: DataFrame, failovers: DataFrame) -> DataFrame:
    """The changes that clients wrote into the znodes of reassignments or requested by Kafka's API,
    one row per change and partition. Cancellations have no partition."""
    changes = _written_targets(records, znodes, failovers).unionByName(_requested_targets(records))
    return changes.unionByName(_cancels(records, znodes, failovers))


def reassignment_pairs(
    changes: DataFrame, steps: DataFrame, znodes: DataFrame, failovers: DataFrame, window_s: float
) -> DataFrame:
    """Each change by a client with the last event about the same partition, if they are at most
    `window_s` seconds apart. A change that a failover finds after a term of another controller is
    paired with that term."""
    touches = changes.where("topic is not null").unionByName(_own_steps(steps, changes, znodes))
    touches = touches.unionByName(_of_each(changes, touches, window_s))
    return _pairs(touches, failovers, window_s)


def reassignment_races(
    records: DataFrame,
    znodes: DataFrame,
    changes: DataFrame,
    steps: DataFrame,
    pairs: DataFrame,
    logs: DataFrame,
) -> DataFrame:
    """The pairs, each with its decision and the verdict (docs/fleet-tables.md, Races of
    reassignments)."""
    return records.sparkSession.sql(
        f"""
        with decided as (
            select p.*, d.decision from {{pairs}} as p left join {{found}} as d
                on p.cluster = d.cluster and p.log = d.log and p.topic = d.topic
                and p.partition = d.partition and p.seq = d.seq and p.path <=> d.path
        ), cancels as (select * from {{changes}} where topic is null),
        judged as (
            select d.*, coalesce(
                max_by(c.what, c.seq) not in ('cancel_deleted'), false) as is_cancelled
            from decided as d left join cancels as c on d.cluster = c.cluster
                and d.log = c.log and c.seq <= d.decision.decided_seq
            group by all
        )
        select cluster, log, l.version, topic, partition, first.seq as first_seq,
            first.time as first_time, first.channel as first_channel, first.what as first_what,
            seq, time, channel, what, target, gap_s, {_VERDICT} as verdict,
            decision.decided_seq as decision_seq, decision.time as decision_time,
            decision.rule as decision_rule, decision.what as decision_what,
            decision.target as decision_target
        from judged join {{logs}} as l using (cluster, log)
        """,
        pairs=pairs,
        found=_first_decisions(pairs, _decisions(records, steps, changes), _refused_writes(znodes)),
        changes=changes,
        logs=logs,
    )


def _written_targets(records: DataFrame, znodes: DataFrame, failovers: DataFrame) -> DataFrame:
    """The changes by other clients, in the entries, the extra entries and the requests, by
    partition.

    A change counts from the watch event that reported it. A change that a failover reads first
    counts as found, because the time of its write is unknown.
    """
    return records.sparkSession.sql(
        f"""
        with written as (
            select {_PLACE}, place, action, decided_seq, data,
                from_json(if(action = 'delete', null, data), '{_CONTENT}') as parsed
            from {{znodes}} where error = 0 and znode in ('entries', 'extra entries', 'requests')
        ), own as (
            -- A legacy request is read under the name that ZooKeeper completed.
            select distinct cluster, log, data from written where action = 'create_sequential'
        ), watched as (
            select cluster, log, seq, time, channel, {ZNODE} as znode, path,
                from_json(payload, 'change string').change as change
            from {{records}} where record = 'event' and kind = 'watch_fired'
        ), contents as (
            select {_PLACE}, place, action, w.data, decided_seq is not null or o.data is not null
                as is_own, {_WRITTEN} as what, {_TARGETS} as targets
            from written as w left join own as o using (cluster, log, data)
            union all
            select {_PLACE}, 0, 'delete', null, true, null, array() from watched
            where znode in ('entries', 'extra entries') and change = 'deleted'
        ), compared as (
            select *, lag(targets) over ordered as before, lag(seq) over ordered as before_seq
            from contents window ordered as (
                partition by cluster, log, path order by seq, place)
        ), reported as (
            select *, last(fired, true) over (partition by cluster, log, znode
                order by seq, place rows between unbounded preceding and 1 preceding) as watch
            from (select c.*, cast(null as struct<seq: bigint, time: timestamp>) as fired
                from compared as c
                union all
                select {_PLACE}, 0, 'watch', null, true, null, array(), null, null,
                    struct(seq, time) from watched
                where znode in ('entries', 'extra entries', 'requests'))
        ), fresh as (
            select *, watch.seq > coalesce(before_seq, 0) as is_reported,
                array_except(targets, coalesce(before, array())) as wanted
            from reported where not is_own
        ), found as (
            select f.*, max(t.seq) is not null as is_found
            from fresh as f left join {{failovers}} as t on f.cluster = t.cluster and f.log = t.log
                and t.kind = 'recorded' and f.seq between t.seq and coalesce(t.ended_seq, f.seq)
                and not coalesce(is_reported, false)
            group by all
        )
        select cluster, log, if(is_reported, watch.seq, seq) as seq,
            if(is_reported, watch.time, time) as time, channel,
            concat(what, if(is_found, '_found', '_written')) as what, one.topic, one.partition,
            one.target, znode, path, is_found, false as is_own
        from (select *, explode(wanted) as one from found)
        """,
        records=records,
        znodes=znodes,
        failovers=failovers,
    )


def _requested_targets(records: DataFrame) -> DataFrame:
    """Targets that clients request by Kafka's API; null cancels."""
    return records.sparkSession.sql(
        """
        with requests as (
            select *, explode(from_json(payload, 'partitions array<struct<topic: string,
                partition: bigint, replicas: array<bigint>>>').partitions) as one
            from {records}
            where record = 'event' and kind = 'alter_partition_reassignments_received'
        )
        select cluster, log, seq, time, channel, 'reassignment_requested' as what, one.topic,
            one.partition, one.replicas as target, cast(null as string) as znode,
            cast(null as string) as path, false as is_found, false as is_own
        from requests
        """,
        records=records,
    )


def _cancels(records: DataFrame, znodes: DataFrame, failovers: DataFrame) -> DataFrame:
    """Creations, changes and deletions of the cancellation, and what a failover reads of it."""
    return records.sparkSession.sql(
        f"""
        with contents as (
            select {_PLACE}, action, coalesce(from_json(data, 'force boolean').force, false)
                as is_forced
            from {{znodes}} where error = 0 and znode = 'cancellation'
        ), watched as (
            select *, coalesce(lead(seq) over (partition by cluster, log order by seq),
                {_LATER}) as until_seq
            from (select cluster, log, seq, time, channel, {ZNODE} as znode, path,
                    from_json(payload, 'change string').change as change
                from {{records}} where record = 'event' and kind = 'watch_fired')
            where znode = 'cancellation'
        ), changed as (
            select w.cluster, w.log, w.seq, w.time, w.channel, w.path, w.change, false as is_found,
                coalesce(min_by(c.is_forced, c.seq), false) as is_forced
            from watched as w left join contents as c on w.cluster = c.cluster and w.log = c.log
                and c.seq > w.seq and c.seq < w.until_seq
            group by all
            union all
            select cluster, log, seq, time, channel, path,
                case action when 'create' then 'created' when 'delete' then 'deleted'
                    else 'data' end, false, is_forced
            from contents where action <> 'read'
            union all
            select c.cluster, c.log, min(c.seq), min(c.time), min(c.channel), min(c.path),
                'created', true, min_by(is_forced, c.seq)
            from contents as c join {{failovers}} as t on c.cluster = t.cluster and c.log = t.log
                and t.kind = 'recorded' and c.seq between t.seq and coalesce(t.ended_seq, c.seq)
            left anti join watched as w on c.cluster = w.cluster and c.log = w.log
                and w.seq between t.seq and c.seq
            where c.action = 'read' group by c.cluster, c.log, t.seq
        )
        select cluster, log, seq, time, channel, case when change = 'deleted' then 'cancel_deleted'
                when is_forced then 'cancel_forced' when is_found then 'cancel_found'
                when change = 'created' then 'cancel_created' else 'cancel_changed' end as what,
            cast(null as string) as topic, cast(null as bigint) as partition,
            cast(null as array<bigint>) as target, 'cancellation' as znode, path, is_found,
            false as is_own
        from changed
        """,
        records=records,
        znodes=znodes,
        failovers=failovers,
    )


def _of_each(changes: DataFrame, touches: DataFrame, window_s: float) -> DataFrame:
    """The cancellations, for each partition with an event about its reassignment close in time, or
    found by the same failover."""
    return changes.sparkSession.sql(
        f"""
        select distinct c.* except (topic, partition, target), t.topic, t.partition,
            cast(null as array<bigint>) as target
        from {{changes}} as c join {{touches}} as t on c.cluster = t.cluster and c.log = t.log
        where c.topic is null and (c.is_found and t.is_found
            or abs(unix_micros(c.time) - unix_micros(t.time)) <= {window_s * 1e6:.0f})
        """,
        changes=changes,
        touches=touches,
    )


def reassignment_steps(assignments: DataFrame, znodes: DataFrame) -> DataFrame:
    """The writes of topics' znodes that begin or end a reassignment. `is_legacy`: as its record
    says; true if it has none, as under a stock controller."""
    return assignments.sparkSession.sql(
        """
        with assigned as (
            select *, coalesce(size(adding) + size(removing) > 0, false) as is_moving,
                array_except(replicas, removing) as target,
                array_except(replicas, adding) as origin
            from {assignments}
        ), compared as (
            select *, lag(struct(is_moving, target, origin)) over (
                partition by cluster, log, topic, partition order by seq, place) as before
            from assigned
        ), named as (
            select *, case
                when is_moving and not coalesce(before.is_moving, false) then 'reassignment_begun'
                when is_moving and before.target <> target then 'reassignment_replaced'
                when is_moving or not coalesce(before.is_moving, false) then null
                when array_sort(target) = array_sort(before.target) then 'reassignment_completed'
                when array_sort(target) = array_sort(before.origin) then 'reassignment_rolled_back'
                else 'reassignment_replaced' end as what
            from compared
        ), records as (
            select cluster, log, topic, partition, seq, place,
                from_json(data, 'legacy boolean').legacy as is_legacy
            from {znodes} where znode = 'reassignment' and error = 0 and action <> 'delete'
        ), both as (
            select cluster, log, topic, partition, seq, time, decided_seq, what, rule, target,
                is_found, cast(null as boolean) as recorded from named where what is not null
            union all
            select cluster, log, topic, partition, seq, null, null, null, null, null, null,
                is_legacy from records
        )
        select * except (recorded) from (select *, coalesce(last(recorded, true) over (
                partition by cluster, log, topic, partition order by seq
                range between unbounded preceding and current row), true) as is_legacy from both)
        where what is not null
        """,
        assignments=assignments,
        znodes=znodes,
    )


def _own_steps(steps: DataFrame, changes: DataFrame, znodes: DataFrame) -> DataFrame:
    """The first events of pairs that are not changes by clients: what the controller decided, and
    its reads of a znode that then was not as it had read it."""
    return steps.sparkSession.sql(
        """
        with refused as (
            select cluster, log, znode, seq, decided_seq from {refused}
        ), reads as (
            select r.cluster, r.log, r.znode, r.seq as refused_seq, max_by(
                struct(z.seq, z.time, z.channel, z.path), z.seq) as read
            from refused as r join {znodes} as z on r.cluster = z.cluster and r.log = z.log
                and r.znode = z.znode and z.action = 'read' and z.seq <= r.decided_seq
            group by all
        )
        select cluster, log, decided_seq as seq, time, 'controller' as channel, what, topic,
            partition, target, cast(null as string) as znode, cast(null as string) as path,
            false as is_found, true as is_own
        from {steps} where decided_seq is not null
        union all
        select distinct c.cluster, c.log, read.seq, read.time, read.channel,
            if(c.znode = 'entries', 'entries_read', 'extra_read'), c.topic, c.partition,
            cast(null as array<bigint>), c.znode, read.path, false, true
        from reads as r join {changes} as c on r.cluster = c.cluster and r.log = c.log
            and r.znode = c.znode and c.seq > r.read.seq and c.seq < r.refused_seq
        """,
        steps=steps,
        changes=changes,
        znodes=znodes,
        refused=_refused_writes(znodes),
    )


def _refused_writes(znodes: DataFrame) -> DataFrame:
    """Writes of a controller that ZooKeeper refused because another client had written the
    znode."""
    return znodes.sparkSession.sql(
        """
        select cluster, log, znode, seq, time, decided_seq, rule from {znodes}
        where error not in (0, -1000) and decided_seq is not null
            and znode in ('entries', 'extra entries')
        """,
        znodes=znodes,
    )


def _pairs(touches: DataFrame, failovers: DataFrame, window_s: float) -> DataFrame:
    """Each change by a client with the last event about the same partition, if they race."""
    return touches.sparkSession.sql(
        f"""
        with ordered as (
            select *, lag(struct(seq, time, channel, what, is_own)) over (
                partition by cluster, log, topic, partition
                order by seq, is_own, path nulls first) as first
            from {{touches}}
        ), close as (
            select * except (first), struct(first.seq, first.time, first.channel, first.what)
                as first, greatest(0, unix_micros(time) - unix_micros(first.time)) / 1e6 as gap_s
            from ordered where first is not null and not is_own and not is_found
                and (first.is_own or first.channel <> channel or channel like 'zookeeper:%')
        ), others as (
            select * from {{failovers}} as f where kind = 'recorded' and term > 1
                and not exists (select 1 from {{failovers}} as b where b.kind = 'recorded'
                    and b.cluster = f.cluster and b.term = f.term - 1)
        )
        select * from close where gap_s <= {window_s}
        union all
        select t.*, struct(o.seq, o.time, 'controller' as channel, 'other_controller' as what),
            greatest(0, unix_micros(t.time) - unix_micros(o.time)) / 1e6
        from {{touches}} as t join others as o on t.cluster = o.cluster and t.log = o.log
            and t.is_found and t.seq between o.seq and coalesce(o.ended_seq, t.seq)
        """,
        touches=touches,
        failovers=failovers,
    )


def _decisions(records: DataFrame, steps: DataFrame, changes: DataFrame) -> DataFrame:
    """Decisions about the reassignment of a partition: its steps, and rejected or cancelled
    entries and requests. A rejection concerns the last change before it (`of_seq`)."""
    return records.sparkSession.sql(
        """
        with noted as (
            select cluster, log, seq, time, rule, target as subject from {records}
            where record = 'command' and kind = 'notice'
                and rule in ('reassignment_refused', 'reassignment_cancelled')
            union all
            select cluster, log, seq, time, rule, concat(one.topic, '-', one.partition)
            from {records} lateral view explode(partitions) as one
            where record = 'command' and kind = 'answer_alter_partition_reassignments'
                and one.code <> '0'
        )
        select cluster, log, topic, partition, seq, time, decided_seq, what, rule, target,
            is_legacy, cast(null as bigint) as of_seq
        from {steps} where decided_seq is not null
        union all
        select n.cluster, n.log, c.topic, c.partition, n.seq + 1, n.time, n.seq, 'rejected', n.rule,
            null, null, if(n.rule = 'reassignment_cancelled', null, max(c.seq))
        from noted as n join {changes} as c on n.cluster = c.cluster and n.log = c.log
            and n.subject = concat(c.topic, '-', c.partition) and c.seq <= n.seq
        group by n.cluster, n.log, c.topic, c.partition, n.seq, n.time, n.rule
        """,
        steps=steps,
        records=records,
        changes=changes,
    )


def _first_decisions(pairs: DataFrame, decisions: DataFrame, refused: DataFrame) -> DataFrame:
    """For each pair the first decision whose result is known after the later event. A decision that
    was made before that event may not have considered it."""
    return pairs.sparkSession.sql(
        """
        with candidates as (
            select p.cluster, p.log, p.topic, p.partition, p.seq, p.path, d.seq as known_seq,
                struct(d.time, d.decided_seq, d.what, d.rule, d.target, d.is_legacy) as decision
            from {pairs} as p join {decisions} as d on p.cluster = d.cluster and p.log = d.log
                and p.topic = d.topic and p.partition = d.partition and d.seq > p.seq
                and coalesce(d.of_seq = p.seq, true)
            union all
            select p.cluster, p.log, p.topic, p.partition, p.seq, p.path, r.seq,
                struct(r.time, r.decided_seq, 'write_refused' as what, r.rule,
                    cast(null as array<bigint>) as target, cast(null as boolean) as is_legacy)
            from {pairs} as p join {refused} as r on p.cluster = r.cluster and p.log = r.log
                and p.znode = r.znode and r.seq > p.seq and r.decided_seq < p.seq
        )
        select cluster, log, topic, partition, seq, path, min_by(decision, known_seq) as decision
        from candidates group by all
        """,
        pairs=pairs,
        decisions=decisions,
        refused=refused,
    )
