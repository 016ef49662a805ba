"""Registrations and departures of brokers, and brokers that flap.

A daemon's log shows when the controller noticed a change: it opens and closes channels. The log of
a stock cluster shows when the broker's znode was written, or deleted with its session.
"""

from typing import Final

from pyspark.sql import DataFrame

_KEY: Final = "cluster, log, broker"


def broker_changes(records: DataFrame, znodes: DataFrame, logs: DataFrame) -> DataFrame:
    """The registrations and departures of each broker.

    `bounced`: the broker registered again before the controller noticed its departure; only
    recorded logs show it. The `cause` of a departure is `controlled_shutdown` if the broker
    requested one since its registration (`asked_seq`), else `failure`. `is_found`: the state at the
    beginning of the log or of a term.
    """
    observed = _of_channels(records).unionByName(_of_registrations(records, znodes))
    return records.sparkSession.sql(
        f"""
        with ordered as (
            select *, lag(struct(is_there, epoch)) over (partition by {_KEY} order by seq) as before
            from {{observed}}
        ), changes as (
            select *, case
                when not is_there then 'gone'
                when before.is_there then 'bounced'
                else 'registered' end as change
            from ordered
            where if(is_there, before is null or not before.is_there or before.epoch <> epoch,
                before.is_there)
        ), asked as ({_ASKED}), caused as (
            select c.cluster, c.log, c.seq, c.broker, max(a.seq) as asked_seq
            from (select *, lag(seq) over (partition by {_KEY} order by seq) as since
                from changes) as c
            join asked as a on c.cluster = a.cluster and c.log = a.log and c.broker = a.broker
                and a.seq < c.seq and a.seq > coalesce(c.since, 0)
            where change in ('gone', 'bounced') group by all
        )
        select c.cluster, c.log, c.seq, c.time, c.term, c.broker, change,
            case when change = 'registered' then null when asked_seq is null then 'failure'
                else 'controlled_shutdown' end as cause,
            asked_seq, c.is_found, coalesce(lead(c.seq) over following, l.last_seq) as until_seq,
            coalesce(lead(c.time) over following, l.last_time) as until_time,
            lead(c.seq) over following is null as is_last
        from changes as c left join caused as a on c.cluster = a.cluster and c.log = a.log
            and c.seq = a.seq and c.broker = a.broker
        join {{logs}} as l on c.cluster = l.cluster and c.log = l.log
        window following as (partition by c.cluster, c.log, c.broker order by c.seq)
        """,
        records=records,
        observed=observed,
        logs=logs,
    )


_ASKED: Final = """
    select cluster, log, seq, broker from {records}
    where record = 'event' and kind = 'controlled_shutdown_received'
    union all
    select cluster, log, seq,
        cast(regexp_extract(payload, 'Shutting down broker ([0-9]+)', 1) as bigint) as broker
    from {records}
    where record = 'event' and kind = 'controller_logged'
        and payload like '%Shutting down broker %'
    """


def _of_channels(records: DataFrame) -> DataFrame:
    """Brokers that the controller knows. A failover reads the registered brokers; brokers that are
    not registered any more are gone at that time."""
    return records.sparkSession.sql(
        f"""
        with channels as (
            select {_KEY}, seq, time, term, kind = 'open_channel' as is_there, rule = 'failover'
                as is_found, from_json(payload, 'broker_epoch bigint').broker_epoch as epoch
            from {{records}} where record = 'command' and kind in ('open_channel', 'close_channel')
                and rule <> 'resignation'
        ), failovers as (
            select distinct cluster, log, seq, time, term from channels where is_found
        ), absent as (
            select f.cluster, f.log, b.broker, f.seq, f.time, f.term, false as is_there,
                true as is_found, bigint(null) as epoch
            from failovers as f
            join (select distinct {_KEY} from channels) as b using (cluster, log)
        )
        select {_KEY}, seq, time, term, is_there, is_found, epoch from (
            select *, row_number() over (partition by {_KEY}, seq order by is_there desc) as choice
            from (select * from channels union all select * from absent)
        ) where choice = 1
        """,
        records=records,
    )


def _of_registrations(records: DataFrame, znodes: DataFrame) -> DataFrame:
    """The znodes below /brokers/ids. A znode is deleted with its session at the latest."""
    return records.sparkSession.sql(
        f"""
        with registrations as (
            select * from {{znodes}} where action in ('create', 'delete') and znode = 'broker'
        ), closed as (
            select cluster, log, channel, seq, time, term from {{records}}
            where record = 'event' and kind = 'transaction' and payload like '%"close_session"%'
        ), expired as (
            select c.cluster, c.log, r.broker, c.seq, c.time, c.term, false as is_there,
                false as is_found, bigint(null) as epoch
            from registrations as r join closed as c on r.cluster = c.cluster and r.log = c.log
                and r.channel = c.channel
            where r.action = 'create'
        ), observed as (
            select {_KEY}, seq, time, term, action = 'create' as is_there, is_found,
                if(action = 'create', seq, null) as epoch
            from registrations
            union all select * from expired
        )
        select {_KEY}, seq, time, term, is_there, is_found, epoch from (
            select *, row_number() over (partition by {_KEY}, seq order by is_there) as choice
            from observed
        ) where choice = 1
        """,
        records=records,
        znodes=znodes,
    )


def flapping_brokers(broker_changes: DataFrame, window_s: float, times_min: int) -> DataFrame:
    """Brokers that departed or bounced at least `times_min` times within `window_s` seconds."""
    return broker_changes.sparkSession.sql(
        f"""
        with lasting as (
            select *, lag(time) over (partition by {_KEY} order by seq) as up_since
            from {{changes}}
        ), gone as (
            select *, unix_micros(time) as at, (unix_micros(time) - unix_micros(up_since)) / 1e6
                as up_s
            from lasting where change in ('gone', 'bounced')
        ), counted as (
            select *, count(*) over (partition by {_KEY} order by at
                range between {int(window_s * 1_000_000)} preceding and current row) as within
            from gone
        )
        select cluster, log, broker, count(*) as times_gone, max(within) as most_in_window,
            min(seq) as seq, min(time) as time, max(time) as last_time, min(up_s) as shortest_up_s
        from counted group by cluster, log, broker having most_in_window >= {int(times_min)}
        """,
        changes=broker_changes,
    )
