"""The logs of a table: what each is, and how long."""

from pyspark.sql import DataFrame


def logs(records: DataFrame, segments: DataFrame) -> DataFrame:
    """One row a log. `version` is of a daemon's log the code's version and 8 digits of the core's
    fingerprint, of an imported one "stock Kafka". `controller` is a daemon's broker id."""
    return records.sparkSession.sql(
        """
        with headers as (
            select cluster, log, min_by(header, first_seq) as header from {segments} group by all
        ), spans as (
            select cluster, log, min(time) as first_time, max(time) as last_time,
                max(seq) as last_seq, count(*) as events,
                count(distinct nullif(term, 0)) as terms
            from {records} where record = 'event' group by all
        ), read as (
            select *, from_json(header, 'kind string, code_version string, core_fingerprint string,
                configuration map<string, string>') as told from headers
        )
        select cluster, log, if(told.kind = 'recorded', 'recorded', 'imported') as kind,
            if(told.kind = 'recorded', concat(told.code_version, ' ',
                left(told.core_fingerprint, 8)), 'stock Kafka') as version,
            if(told.kind = 'recorded', cast(told.configuration['broker_id'] as bigint), null)
                as controller,
            first_time, last_time,
            (unix_micros(last_time) - unix_micros(first_time)) / 1e6 as seconds,
            last_seq, events, terms
        from spans join read using (cluster, log)
        """,
        records=records,
        segments=segments,
    )
