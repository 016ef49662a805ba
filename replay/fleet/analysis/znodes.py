"""What a log tells of the cluster's znodes: one table for daemons' logs and imported ones.

Columns: `seq`, `time`, `term`, `channel` of the event that tells it, `place` among those of the
event, `action` (`create`, `set`, `delete`, `read`), `path`, `data`, `error` (0, or why the write
was refused), `rule` and `decided_seq` where a controller decided it (else null), `is_found` for
what was so before.

- Of a daemon its own writes, by the replies to them, and what it read
- Of a stock cluster each transaction, the first state, and what is otherwise where all is known
  again behind missing transactions; what a session held goes with it

Of writes and reads whose paths are not stored (a body above 4 KiB, an event above 64 KiB) there
is nothing here.
"""

from typing import Final

from pyspark.sql import DataFrame

_ACTION: Final = "case tag when 'set_data' then 'set' when 'create_ttl' then 'create'"
_OPERATION: Final = "struct<tag: string, path: string, data: string>"


def znodes(records: DataFrame) -> DataFrame:
    """All that is told of znodes below /brokers and /admin/delete_topics, of any chroot."""
    found = _written(records).unionByName(_read(records))
    found = found.unionByName(_transactions(records)).unionByName(_restored(records))
    found = found.unionByName(_gone(records))
    return found.where("path rlike '/brokers/(ids|topics)/' or path rlike '/admin/delete_topics/'")


def _written(records: DataFrame) -> DataFrame:
    """A daemon's writes, each with its own result."""
    return records.sparkSession.sql(
        f"""
        with commands as (
            select cluster, log, seq, ordinal, term, rule,
                from_json(payload, 'operations array<{_OPERATION}>').operations as operations
            from {{records}}
            where record = 'command' and kind in ('write_znodes', 'write_atomically')
        ), replies as (
            select cluster, log, seq, cause, ordinal, time, channel,
                from_json(payload, 'offset int, errors array<int>') as told
            from {{records}} where record = 'event' and kind = 'znodes_written'
        ), operations as (
            select cluster, log, seq, ordinal, term, rule, place, operation
            from commands lateral view posexplode(operations) as place, operation
        )
        select cluster, log, r.seq, r.time, o.term, r.channel, o.place, o.operation.tag as action,
            o.operation.path, o.operation.data, r.told.errors[o.place - r.told.offset] as error,
            o.rule, o.seq as decided_seq, false as is_found
        from operations as o join replies as r using (cluster, log)
        where r.cause = o.seq and r.ordinal = o.ordinal
            and o.place >= r.told.offset and o.place < r.told.offset + size(r.told.errors)
        """,
        records=records,
    )


def _read(records: DataFrame) -> DataFrame:
    """What a daemon read, where there was something."""
    return records.sparkSession.sql(
        """
        with commands as (
            select cluster, log, seq, ordinal,
                from_json(payload, 'paths array<string>').paths as paths
            from {records} where record = 'command' and kind = 'read_znodes'
        ), replies as (
            select cluster, log, seq, cause, ordinal, time, term, channel,
                from_json(payload, 'offset int, errors array<int>, data array<string>') as told
            from {records} where record = 'event' and kind = 'znodes_read'
        ), found as (
            select r.*, posexplode(arrays_zip(r.told.errors, r.told.data)) as (place, item), c.paths
            from commands as c join replies as r
            on c.cluster = r.cluster and c.log = r.log
                and r.cause = c.seq and r.ordinal = c.ordinal
        )
        select cluster, log, seq, time, term, channel, place, 'read' as action,
            paths[told.offset + place] as path, item.data as data, 0 as error,
            cast(null as string) as rule, cast(null as bigint) as decided_seq, true as is_found
        from found where item.errors = 0
        """,
        records=records,
    )


def _transactions(records: DataFrame) -> DataFrame:
    """What ZooKeeper carried out; a session's registration goes with the session, also where the
    server (before 3.6) does not name it."""
    return records.sparkSession.sql(
        f"""
        with transactions as (
            select cluster, log, seq, time, term, channel,
                from_json(payload, 'content struct<tag: string, path: string, data: string,
                    paths: array<string>, operations: array<{_OPERATION}>>').content as content
            from {{records}} where record = 'event' and kind = 'transaction' and error = 0
        ), decisions as (
            select cluster, log, cause as seq, first(rule) as rule
            from {{records}} where record = 'event' and kind = 'observed' group by all
        ), operations as (
            select cluster, log, seq, time, term, channel, posexplode(
                case content.tag
                    when 'multi' then content.operations
                    when 'close_session' then transform(content.paths,
                        one -> named_struct('tag', 'delete', 'path', one, 'data', string(null)))
                    else array(named_struct('tag', content.tag, 'path', content.path,
                        'data', content.data))
                end) as (place, operation)
            from transactions
        ), named as (
            select o.*, operation.tag, d.rule, if(d.seq is null, null, o.seq) as decided_seq
            from operations as o left join decisions as d using (cluster, log, seq)
        )
        select cluster, log, seq, time, term, channel, place, {_ACTION} else tag end as action,
            operation.path, operation.data, 0 as error, rule, decided_seq, false as is_found
        from named
        where tag in ('create', 'create_ttl', 'set_data', 'delete')
        """,
        records=records,
    )


def _restored(records: DataFrame) -> DataFrame:
    """The first state of a stock cluster, and what was written in transactions that are missing;
    the channel is the session that holds a znode."""
    return records.sparkSession.sql(
        """
        with restored as (
            select cluster, log, seq, time, term,
                from_json(payload, 'paths array<string>, data array<string>, owners array<bigint>')
                    as told
            from {records} where record = 'event' and kind = 'znodes_restored'
        ), found as (
            select *, posexplode(arrays_zip(told.paths, told.data, told.owners)) as (place, item)
            from restored
        )
        select cluster, log, seq, time, term,
            concat('session 0x', lower(hex(item.owners))) as channel, place, 'create' as action,
            item.paths as path, item.data as data, 0 as error, cast(null as string) as rule,
            cast(null as bigint) as decided_seq, true as is_found
        from found
        """,
        records=records,
    )


def _gone(records: DataFrame) -> DataFrame:
    """What a stock cluster lost in transactions that are missing."""
    return records.sparkSession.sql(
        """
        with gone as (
            select *, posexplode(from_json(payload, 'paths array<string>').paths) as (place, gone)
            from {records} where record = 'event' and kind = 'znodes_gone'
        )
        select cluster, log, seq, time, term, channel, place, 'delete' as action, gone as path,
            cast(null as string) as data, 0 as error, cast(null as string) as rule,
            cast(null as bigint) as decided_seq, true as is_found
        from gone
        """,
        records=records,
    )
