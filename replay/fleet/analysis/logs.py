"""The logs of a table: their kind, version and length, and what they lack."""

from collections.abc import Iterable

from pyspark.sql import DataFrame

from replay.fleet import manifest


def logs(records: DataFrame, segments: DataFrame) -> DataFrame:
    """One row per log. For a daemon's log `version` is the version of the code and 8 digits of the
    core's fingerprint, for an imported log "stock Kafka". `controller` is a daemon's broker id,
    `folder` the name of its folder. A log that is not `is_complete` lacks what `lacking` says."""
    return records.sparkSession.sql(
        """
        with spans as (
            select cluster, log, min(time) as first_time, max(time) as last_time,
                max(seq) as last_seq, count(*) as events,
                count(distinct nullif(term, 0)) as terms
            from {records} where record = 'event' group by all
        ), read as (
            select *, from_json(header, 'kind string, code_version string, core_fingerprint string,
                configuration map<string, string>') as parsed from {ingested}
        )
        select cluster, log, if(parsed.kind = 'recorded', 'recorded', 'imported') as kind,
            if(parsed.kind = 'recorded', concat(parsed.code_version, ' ',
                left(parsed.core_fingerprint, 8)), 'stock Kafka') as version,
            if(parsed.kind = 'recorded', cast(parsed.configuration['broker_id'] as bigint), null)
                as controller,
            folder, first_time, last_time,
            (unix_micros(last_time) - unix_micros(first_time)) / 1e6 as seconds,
            last_seq, events, terms, size(lacking) = 0 as is_complete, lacking, warnings,
            not_understood
        from spans join read using (cluster, log)
        """,
        records=records,
        ingested=manifest.logs(segments),
    )


def resting_on_incomplete_logs(tables: Iterable[str], reference: str = "{name}") -> str:
    """A query that counts, for each of these tables of an analysis, the rows from incomplete logs.
    `reference` is how the query names a table."""
    logs = reference.format(name="logs")
    return " union all ".join(
        f"""select * from (select '{name}' as total, count(*) as rows,
            count_if(not is_complete) as of_incomplete_logs,
            count(distinct if(is_complete, null, cluster)) as clusters
            from {reference.format(name=name)} join {logs} using (cluster, log))
        where of_incomplete_logs > 0"""
        for name in tables
    )
