"""The states of each partition over time: leader, ISR, assigned replicas; changes of leaders.

There is one row per change. In a daemon's log a state is known from the reply to the write, or from
reading the znode; in a stock cluster's log from the transaction.
"""

from typing import Final

from pyspark.sql import DataFrame

from controller.core.procedures.reassignment.assignments import STORE
from controller.core.procedures.reassignment.rollback import STORE_ORIGINALS

_KEY: Final = "cluster, log, topic, partition"
_OF_ASSIGNMENTS: Final = f"'{STORE}', '{STORE_ORIGINALS}'"
"""The rules whose choices are of assignments, not of leaders."""


def assignments(znodes: DataFrame) -> DataFrame:
    """The assignment of each partition in the topic's znode: `replicas`, including the ones being
    added (`adding`) and removed (`removing`), and the topic's id in hex."""
    return znodes.sparkSession.sql(
        """
        with topics as (
            select cluster, log, seq, place, time, term, rule, decided_seq, is_found, topic,
                from_json(data, 'partitions map<string, array<bigint>>, topic_id string,
                    adding_replicas map<string, array<bigint>>,
                    removing_replicas map<string, array<bigint>>') as parsed
            from {znodes}
            where error = 0 and action <> 'delete' and znode = 'topic'
        )
        select cluster, log, seq, place, time, term, topic, cast(number as bigint) as partition,
            replicas, coalesce(parsed.adding_replicas[number], array()) as adding,
            coalesce(parsed.removing_replicas[number], array()) as removing,
            lower(hex(unbase64(translate(parsed.topic_id, '-_', '+/')))) as topic_id,
            rule, decided_seq, is_found
        from topics lateral view explode(parsed.partitions) as number, replicas
        """,
        znodes=znodes,
    )


def partition_states(
    records: DataFrame, znodes: DataFrame, assignments: DataFrame, logs: DataFrame
) -> DataFrame:
    """Every change of a partition's state or assignment, with the values that hold from then on.

    `replicas` does not include replicas being added. The last row of a deleted partition has
    `is_deleted`. If the body of a daemon's write is not stored (above 4 KiB), the leader is known
    but the ISR is not.
    """
    changes = _states(znodes, records).unionByName(_unstored_leaders(records))
    changes = changes.unionByName(_deletions(znodes, assignments))
    changes = changes.unionByName(_assignment_changes(assignments))
    return records.sparkSession.sql(
        f"""
        with lives as (
            -- A topic that is created again under the same name starts without history.
            select *, coalesce(sum(int(is_deleted)) over (partition by {_KEY} order by seq, place
                rows between unbounded preceding and 1 preceding), 0) as life
            from {{changes}}
        ), kept as (
            select *, last(state, true) over upto as now, last(assigned, true) over upto as has
            from lives
            window upto as (partition by {_KEY}, life order by seq, place)
        ), changes as (
            select *, row_number() over ordered as number,
                lag(struct(now, has, is_deleted)) over ordered as before
            from kept window ordered as (partition by {_KEY}, life order by seq, place)
        ), changed as (
            select * from changes
            where if(is_deleted, number > 1 and not before.is_deleted,
                number = 1 or not (before.now <=> now and before.has <=> has))
        ), rows as (
            -- One event may change a partition several times: the last change holds.
            select * from (select *, row_number() over (partition by {_KEY}, seq
                order by place desc) as from_last from changed) where from_last = 1
        )
        select r.cluster, r.log, r.seq, r.time, r.term, r.topic, r.partition,
            if(is_deleted, null, now.leader) as leader,
            if(is_deleted, null, now.leader_epoch) as leader_epoch,
            if(is_deleted, null, now.isr) as isr,
            array_except(has.replicas, has.adding) as replicas, has.adding, has.removing,
            rule, code, decided_seq, is_deleted, is_found,
            coalesce(lead(r.seq) over ordered, l.last_seq) as until_seq,
            coalesce(lead(r.time) over ordered, l.last_time) as until_time,
            lead(r.seq) over ordered is null as is_last
        from rows as r join {{logs}} as l on r.cluster = l.cluster and r.log = l.log
        window ordered as (partition by r.cluster, r.log, topic, partition order by r.seq)
        """,
        changes=changes,
        logs=logs,
    )


def leader_changes(states: DataFrame) -> DataFrame:
    """Each change of a partition's leader, also to and from -1 (no leader). The first leader is not
    a change."""
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
    """For each partition how often its leader changed, and how often it changed back to the one
    before."""
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


_COLUMNS: Final = "cluster, log, seq, place, time, term, topic, partition, state, assigned, rule"
_NO_STATE: Final = "cast(null as struct<leader: bigint, leader_epoch: bigint, isr: array<bigint>>)"
_NO_ASSIGNMENT: Final = (
    "cast(null as struct<replicas: array<bigint>, adding: array<bigint>, removing: array<bigint>>)"
)


def _states(znodes: DataFrame, records: DataFrame) -> DataFrame:
    """The content of the state znodes, with the code of the decision that wrote it."""
    return znodes.sparkSession.sql(
        f"""
        with states as (
            select *,
                from_json(data, 'leader bigint, leader_epoch bigint, isr array<bigint>') as state
            from {{znodes}}
            where error = 0 and action <> 'delete' and znode = 'state'
        ), codes as (
            select cluster, log, seq as decided_seq, one.topic, one.partition,
                first(one.code, true) as code
            from {{records}} lateral view explode(partitions) as one
            where record = 'command' and kind = 'write_znodes' group by all
        )
        select {_COLUMNS}, code, decided_seq, false as is_deleted, is_found
        from (select *, {_NO_ASSIGNMENT} as assigned from states where state.leader is not null)
        left join codes using (cluster, log, decided_seq, topic, partition)
        """,
        znodes=znodes,
        records=records,
    )


def _unstored_leaders(records: DataFrame) -> DataFrame:
    """Leaders that a daemon chose in successful writes whose body is not stored."""
    return records.sparkSession.sql(
        f"""
        with replies as (
            select cluster, log, cause, ordinal, max(seq) as seq, max(time) as time
            from {{records}} where record = 'event' and kind = 'znodes_written'
            group by all having bool_and(error = 0)
        ), chosen as (
            select cluster, log, seq as decided_seq, ordinal, term, rule,
                posexplode(partitions) as (place, one)
            from {{records}}
            where record = 'command' and kind = 'write_znodes' and payload is null
        ), states as (
            select c.*, r.seq, r.time, one.topic, one.partition, one.code,
                named_struct('leader', one.leader, 'leader_epoch', bigint(null),
                    'isr', cast(null as array<bigint>)) as state, {_NO_ASSIGNMENT} as assigned
            from chosen as c join replies as r on c.cluster = r.cluster and c.log = r.log
                and c.decided_seq = r.cause and c.ordinal = r.ordinal
            where one.leader is not null and coalesce(rule, '') not in ({_OF_ASSIGNMENTS})
        )
        select {_COLUMNS}, code, decided_seq, false as is_deleted, false as is_found from states
        """,
        records=records,
    )


def _deletions(znodes: DataFrame, assignments: DataFrame) -> DataFrame:
    """A partition is deleted with its state znode or with its topic's znode."""
    return znodes.sparkSession.sql(
        f"""
        with deleted as (
            select * except (partition), partition as only
            from {{znodes}}
            where error = 0 and action = 'delete' and znode in ('topic', 'state')
        ), partitions as (select distinct {_KEY} from {{assignments}}),
        states as (
            select d.*, p.partition, {_NO_STATE} as state, {_NO_ASSIGNMENT} as assigned
            from deleted as d join partitions as p on d.cluster = p.cluster and d.log = p.log
                and d.topic = p.topic
            where only is null or only = partition
        )
        select {_COLUMNS}, cast(null as string) as code, decided_seq, true as is_deleted,
            false as is_found
        from states
        """,
        znodes=znodes,
        assignments=assignments,
    )


def _assignment_changes(assignments: DataFrame) -> DataFrame:
    return assignments.sparkSession.sql(
        f"""
        select {_COLUMNS}, cast(null as string) as code, decided_seq, false as is_deleted, is_found
        from (select *, {_NO_STATE} as state, struct(replicas, adding, removing) as assigned
            from {{assignments}})
        """,
        assignments=assignments,
    )
