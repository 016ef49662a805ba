"""Changes of znodes in a log: one table for daemons' logs and imported logs.

Columns: `seq`, `time`, `term` and `channel` of the event; `place` within the event; `action`
(`create`, `set`, `delete`, `read`); `path`, `data`; `error` (0, or why the write was refused);
`rule` and `decided_seq` if a controller decided the write, else null; `is_found` for content that
is older than the event.

- From a daemon's log: its writes with their replies, and what it read
- From a stock cluster's log: each transaction, the initial state, and the differences that are
  found after missing transactions. The ephemeral znodes of a session are deleted with it

The subject of the path is in `znode` (a kind of `replay.subjects`), `broker`, `topic` and
`partition`. Znodes without a kind are left out.

Writes and reads whose paths are not stored (a body above 4 KiB, an event above 64 KiB) are missing.
"""

from typing import Final

from pyspark.sql import DataFrame

from replay.subjects import PATTERNS

_ACTION: Final = "case tag when 'set_data' then 'set' when 'create_ttl' then 'create'"
_OPERATION: Final = "struct<tag: string, path: string, data: string>"
ZNODE: Final = " ".join(
    ["case", *(f"when path rlike '{one}' then '{kind}'" for kind, one in PATTERNS.items()), "end"]
)
"""The kind of the znode with a path, in SQL; null for other znodes."""


def _group(*kinds: str, number: int = 1) -> str:
    """A group of the kinds' patterns, in SQL; null for other znodes."""
    found = [
        f"when '{kind}' then regexp_extract(path, '{one}', {number})"
        for kind, one in PATTERNS.items()
        if kind in kinds
    ]
    return f"case znode {' '.join(found)} end"


def znodes(records: DataFrame) -> DataFrame:
    """Changes of the znodes that have a kind, in any chroot."""
    found = _daemon_writes(records).unionByName(_daemon_reads(records))
    found = found.unionByName(_transactions(records)).unionByName(_restored_znodes(records))
    found = found.unionByName(_gone(records))
    found = found.selectExpr("*", f"{ZNODE} as znode").where("znode is not null")
    return found.selectExpr(
        "*",
        f"cast({_group('broker')} as bigint) as broker",
        f"{_group('topic', 'state', 'topic deletion', 'reassignment')} as topic",
        f"cast({_group('state', 'reassignment', number=2)} as bigint) as partition",
    )


def _daemon_writes(records: DataFrame) -> DataFrame:
    """A daemon's writes, each with its result."""
    return records.sparkSession.sql(
        f"""
        with commands as (
            select cluster, log, seq, ordinal, term, rule,
                from_json(payload, 'operations array<{_OPERATION}>').operations as operations
            from {{records}}
            where record = 'command' and kind in ('write_znodes', 'write_atomically')
        ), replies as (
            select cluster, log, seq, cause, ordinal, time, channel,
                from_json(payload, 'offset int, errors array<int>') as parsed
            from {{records}} where record = 'event' and kind = 'znodes_written'
        ), operations as (
            select cluster, log, seq, ordinal, term, rule, place, operation
            from commands lateral view posexplode(operations) as place, operation
        )
        select cluster, log, r.seq, r.time, o.term, r.channel, o.place, o.operation.tag as action,
            o.operation.path, o.operation.data, r.parsed.errors[o.place - r.parsed.offset] as error,
            o.rule, o.seq as decided_seq, false as is_found
        from operations as o join replies as r using (cluster, log)
        where r.cause = o.seq and r.ordinal = o.ordinal
            and o.place >= r.parsed.offset and o.place < r.parsed.offset + size(r.parsed.errors)
        """,
        records=records,
    )


def _daemon_reads(records: DataFrame) -> DataFrame:
    """Znodes that a daemon read and that existed."""
    return records.sparkSession.sql(
        """
        with commands as (
            select cluster, log, seq, ordinal,
                from_json(payload, 'paths array<string>').paths as paths
            from {records} where record = 'command' and kind = 'read_znodes'
        ), replies as (
            select cluster, log, seq, cause, ordinal, time, term, channel,
                from_json(payload, 'offset int, errors array<int>, data array<string>') as parsed
            from {records} where record = 'event' and kind = 'znodes_read'
        ), found as (
            select r.*, c.paths,
                posexplode(arrays_zip(r.parsed.errors, r.parsed.data)) as (place, item)
            from commands as c join replies as r
            on c.cluster = r.cluster and c.log = r.log
                and r.cause = c.seq and r.ordinal = c.ordinal
        )
        select cluster, log, seq, time, term, channel, place, 'read' as action,
            paths[parsed.offset + place] as path, item.data as data, 0 as error,
            cast(null as string) as rule, cast(null as bigint) as decided_seq, true as is_found
        from found where item.errors = 0
        """,
        records=records,
    )


def _transactions(records: DataFrame) -> DataFrame:
    """Transactions of ZooKeeper. The znode of a registration is deleted with its session, also if
    the server (before 3.6) does not list it."""
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


def _restored_znodes(records: DataFrame) -> DataFrame:
    """The initial state of a stock cluster, and what missing transactions wrote. The channel is the
    session that owns the znode."""
    return records.sparkSession.sql(
        """
        with restored as (
            select cluster, log, seq, time, term,
                from_json(payload, 'paths array<string>, data array<string>, owners array<bigint>')
                    as parsed
            from {records} where record = 'event' and kind = 'znodes_restored'
        ), found as (
            select *,
                posexplode(arrays_zip(parsed.paths, parsed.data, parsed.owners)) as (place, item)
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
    """The znodes that missing transactions deleted."""
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
