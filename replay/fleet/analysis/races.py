"""Races: two events from different channels about one subject, close in time, and the next
decision.

The order of events is defined within a channel only, so the two could have been handled in the
other order. A pair consists of an event and the previous event about the same partition or broker,
if that event came from another channel. Errors of brokers, and proposed ISRs as events about their
brokers, form pairs with other events only.

The decision is the first one about the subject since the later event; for a broker that comes or
goes, before it does so again. The verdict says whether the decision *considered* the later event,
or *missed* it.
"""

from typing import Final

from pyspark.sql import DataFrame

from replay.fleet.analysis.znodes import ZNODE

_SUBJECT: Final = "cluster, log, subject, topic, partition, broker"

_VERDICT: Final = """
    case when decision is null and answered_seq is null then 'undecided'
        -- Requests wait in the queue: a decision made before did not know them.
        when request is not null then if(decision is null or answered_seq <= decision.decided_seq
            or array_sort(decision.isr) = array_sort(proposed)
            or what = 'isr_proposed' and decision.rule = 'AlterPartition'
            or what = 'reassignment_requested' and decision.rule like 'reassignment%'
            or what = 'election_requested' and decision.rule like '%replica election',
            'considered', 'missed')
        when decision.is_refused then 'missed'
        when what = 'broker_gone' and (decision.leader = broker
            or size(decision.isr) > 1 and array_contains(decision.isr, broker)) then 'missed'
        when what = 'shutdown_requested' and decision.leader = broker and size(decision.isr) > 1
            then 'missed'
        when what in ('broker_registered', 'broker_bounced') and decision.leader = -1
            and array_contains(decision.isr, broker) then 'missed'
        when what = 'topic_changed' and size(array_except(decision.isr, decision.assigned)) > 0
            then 'missed'
        else 'considered' end"""


def races(
    records: DataFrame,
    znodes: DataFrame,
    assignments: DataFrame,
    states: DataFrame,
    broker_changes: DataFrame,
    logs: DataFrame,
    window_s: float,
) -> DataFrame:
    """One row per pair of events at most `window_s` seconds apart (docs/fleet-tables.md, Races).

    A pair is `missed` if the decision

    - was refused because the znode had changed
    - elected, or kept in sync, a broker that was gone or shutting down
    - left a partition without a leader although a broker of its ISR had returned
    - wrote an ISR that is not part of the new assignment
    - was made before the waiting request was handled

    It is `undecided` if no decision follows in the log.
    """
    touches = _of_partitions(records, znodes, assignments).unionByName(
        _of_brokers(records, broker_changes)
    )
    pairs = _pairs(touches, window_s)
    return records.sparkSession.sql(
        f"""
        with answers as (
            select cluster, log, cast(substr(target, 9) as bigint) as request,
                min(seq) as answered_seq
            from {{records}} where record = 'command' and kind like 'answer_%'
                and target like 'request %' group by all
        ), decided as (
            select p.*, d.decision, a.answered_seq
            from {{pairs}} as p
            left join {{found}} as d
                on p.cluster = d.cluster and p.log = d.log and p.subject = d.subject
                and p.topic <=> d.topic and p.partition <=> d.partition and p.broker <=> d.broker
                and p.seq = d.seq
            left join answers as a on p.cluster = a.cluster and p.log = a.log
                and p.request = a.request
        )
        select cluster, log, l.version, subject, topic, partition, broker,
            first.seq as first_seq, first.time as first_time, first.channel as first_channel,
            first.what as first_what, seq, time, channel, what, gap_s, {_VERDICT} as verdict,
            decision.decided_seq as decision_seq, decision.time as decision_time,
            decision.rule as decision_rule, decision.topic as decision_topic,
            decision.partition as decision_partition, decision.leader as decision_leader,
            decision.isr as decision_isr
        from decided join {{logs}} as l using (cluster, log)
        """,
        records=records,
        pairs=pairs,
        found=_first_decisions(pairs, _decisions(znodes, states)),
        logs=logs,
    )


def _pairs(touches: DataFrame, window_s: float) -> DataFrame:
    """Each event with the previous event about the same subject, if they race."""
    return touches.sparkSession.sql(
        f"""
        with ordered as (
            select *, if(is_weak, last(if(is_weak, null, struct(seq, time, channel, what)), true)
                    over before, last(struct(seq, time, channel, what)) over before) as first
            from (select *,
                    row_number() over (partition by {_SUBJECT}, seq order by what) as choice,
                    what = 'partition_error' or subject = 'broker' and what = 'isr_proposed'
                        as is_weak
                from {{touches}}) where choice = 1
            window before as (partition by {_SUBJECT} order by seq
                rows between unbounded preceding and 1 preceding)
        )
        select *, (unix_micros(time) - unix_micros(first.time)) / 1e6 as gap_s
        from ordered where channel <> first.channel
            and unix_micros(time) - unix_micros(first.time) <= {window_s * 1e6:.0f}
        """,
        touches=touches,
    )


def _first_decisions(pairs: DataFrame, decisions: DataFrame) -> DataFrame:
    """For each pair the first decision about its subject since the later event."""
    return pairs.sparkSession.sql(
        """
        with of_partitions as (
            select p.cluster, p.log, p.subject, p.topic, p.partition, p.broker, p.seq,
                min_by(struct(d.* except (cluster, log)), d.decided_seq) as decision
            from {pairs} as p join {decisions} as d on p.cluster = d.cluster and p.log = d.log
                and p.topic = d.topic and p.partition = d.partition and d.decided_seq >= p.seq
            where p.subject = 'partition' group by all
        ), of_brokers as (
            select p.cluster, p.log, p.subject, p.topic, p.partition, p.broker, p.seq,
                min_by(struct(d.* except (cluster, log, of)),
                    struct(d.decided_seq, d.topic, d.partition)) as decision
            from {pairs} as p
            join (select *, explode(involved) as of from {decisions}) as d
                on p.cluster = d.cluster and p.log = d.log and p.broker = d.of
                and d.decided_seq >= p.seq
                and d.decided_seq <= coalesce(p.until_seq, d.decided_seq)
            where p.subject = 'broker' group by all
        )
        select * from of_partitions union all select * from of_brokers
        """,
        pairs=pairs,
        decisions=decisions,
    )


def _decisions(znodes: DataFrame, states: DataFrame) -> DataFrame:
    """The states of partitions that controllers wrote, including refused writes. `involved` are the
    brokers in the state before and after the write."""
    return states.sparkSession.sql(
        """
        with written as (
            select *, lag(struct(leader, isr)) over (
                partition by cluster, log, topic, partition order by seq) as before
            from {states}
        ), refused as (
            select *, from_json(data, 'leader bigint, isr array<bigint>') as state
            from {znodes} where error not in (0, -1000) and znode = 'state'
        )
        select cluster, log, topic, partition, decided_seq, time, rule, leader, isr,
            array_union(replicas, adding) as assigned, false as is_refused,
            array_distinct(filter(concat(coalesce(isr, array()), coalesce(before.isr, array()),
                array(leader, before.leader)), one -> one >= 0)) as involved
        from written where decided_seq is not null and leader is not null
        union all
        select cluster, log, topic, partition, decided_seq, time, rule, state.leader, state.isr,
            null, true, array_distinct(array_append(state.isr, state.leader))
        from refused where state.leader is not null
        """,
        znodes=znodes,
        states=states,
    )


def _of_partitions(records: DataFrame, znodes: DataFrame, assignments: DataFrame) -> DataFrame:
    """Events about partitions. An event about a topic counts for each of its partitions."""
    return records.sparkSession.sql(
        f"""
        with ids as (
            select distinct cluster, log, topic_id, topic from {{assignments}}
            where topic_id is not null
        ), named as (
            select cluster, log, seq, time, channel,
                case kind when 'alter_partition_received' then 'isr_proposed'
                    when 'elect_leaders_received' then 'election_requested'
                    when 'broker_answered' then 'partition_error'
                    else 'reassignment_requested' end as what,
                one.topic as topic_or_id, one.partition, one.isr as proposed,
                from_json(payload, 'request bigint').request as request
            from {{records}} lateral view explode(partitions) as one
            where record = 'event' and kind in ('alter_partition_received', 'broker_answered',
                'elect_leaders_received', 'alter_partition_reassignments_received')
        ), requests as (
            select n.*, coalesce(i.topic, n.topic_or_id) as topic
            from named as n left join ids as i
                on n.cluster = i.cluster and n.log = i.log and n.topic_or_id = i.topic_id
        ), own as (
            -- A daemon's watches also fire for its own writes.
            select distinct cluster, log, path, decided_seq, seq from {{znodes}}
            where decided_seq < seq and error = 0
        ), watched as (
            select w.cluster, w.log, w.seq, w.time, w.channel, w.topic, w.partition,
                {ZNODE} as znode
            from {{records}} as w left anti join own as o on w.cluster = o.cluster and w.log = o.log
                and w.path = o.path and w.seq between o.decided_seq and o.seq
            where w.record = 'event' and w.kind = 'watch_fired' and w.topic is not null
        ), foreign as (
            select cluster, log, seq, time, channel, topic, partition, znode
            from {{znodes}} where decided_seq is null and not is_found
                and znode in ('topic', 'state', 'topic deletion')
        ), changed as (
            select *, case znode when 'topic deletion' then 'topic_deletion_requested'
                when 'state' then 'state_written' else 'topic_changed' end as what
            from (select * from watched union all select * from foreign)
        ), partitions as (select distinct cluster, log, topic, partition from {{assignments}}),
        spread as (
            select c.cluster, c.log, c.seq, c.time, c.channel, c.what, c.topic, p.partition
            from changed as c join partitions as p on c.cluster = p.cluster and c.log = p.log
                and c.topic = p.topic
            where c.partition is null or c.partition = p.partition
        )
        select cluster, log, seq, time, channel, what, 'partition' as subject, topic, partition,
            bigint(null) as broker, proposed, request, bigint(null) as until_seq
        from requests where topic is not null
        union all
        select cluster, log, seq, time, channel, what, 'partition', topic, partition, null, null,
            null, null
        from spread
        """,
        records=records,
        znodes=znodes,
        assignments=assignments,
    )


def _of_brokers(records: DataFrame, broker_changes: DataFrame) -> DataFrame:
    """Events about brokers. A proposed ISR counts for each broker in it."""
    return records.sparkSession.sql(
        """
        with changed as (
            select c.cluster, c.log, c.seq, c.time, e.channel, concat('broker_', c.change) as what,
                c.broker, if(c.is_last, null, c.until_seq) as until_seq
            from {changes} as c join {records} as e on c.cluster = e.cluster and c.log = e.log
                and c.seq = e.seq
            where e.record = 'event' and not c.is_found
        ), reported as (
            select cluster, log, seq, time, channel, 'shutdown_requested' as what, broker,
                bigint(null) as until_seq
            from {records} where record = 'event' and kind = 'controlled_shutdown_received'
            union all
            select cluster, log, seq, time, channel, 'shutdown_requested',
                cast(regexp_extract(payload, 'Shutting down broker ([0-9]+)', 1) as bigint), null
            from {records} where record = 'event' and kind = 'controller_logged'
                and payload like '%Shutting down broker %'
            union all
            select cluster, log, seq, time, channel, 'channel_fault', broker, null
            from {records} where record = 'event' and kind = 'channel_fault'
                and from_json(payload, 'kind string').kind <> 'recovered'
        ), proposed as (
            select cluster, log, seq, time, channel, explode(one.isr) as broker, one.isr,
                from_json(payload, 'request bigint').request as request
            from {records} lateral view explode(partitions) as one
            where record = 'event' and kind = 'alter_partition_received'
        )
        select cluster, log, seq, time, channel, what, 'broker' as subject,
            cast(null as string) as topic, bigint(null) as partition, broker,
            cast(null as array<bigint>) as proposed, bigint(null) as request, until_seq
        from (select * from changed union all select * from reported)
        union all
        select cluster, log, seq, time, channel, 'isr_proposed', 'broker', null, null, broker, isr,
            request, null
        from proposed
        """,
        changes=broker_changes,
        records=records,
    )
