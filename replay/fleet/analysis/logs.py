"""The logs of a table: their kind, version and length, and what they lack."""

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
