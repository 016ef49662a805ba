"""The mirror's topic through Spark's Kafka source: its messages, and the records in them.

    messages = mirror_stream.messages(spark.readStream, "kafka-1:9092", "refold-log")
    mirror_stream.records(messages).writeStream ...

A record that was published in several parts is joined within one task. All parts of a record are in
one Kafka transaction, and Spark reads transactions as a whole unless `maxOffsetsPerTrigger` or
`minPartitions` splits them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, cast

import msgspec
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader
from pyspark.sql import functions as sql
from pyspark.sql.streaming.readwriter import DataStreamReader

from eventstore.frames import CommandsFrame, EventsFrame, decode
from replay.fleet.columns import RECORDS, Batches, Origin, clocks_from
from replay.fleet.errors import FleetError
from replay.fleet.schemas import spark_schema

KAFKA_SOURCE: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
"""The Maven coordinates of the newest Kafka connector for Spark 4, which Spark 4.3 can use, too."""

_NS_IN_MS: Final = 1_000_000
_NO_SOURCE_TEXTS: Final = ("Failed to find data source: kafka", "KafkaSourceProvider")


class PartJoiner:
    """Joins the messages of a record that was published in parts."""

    def __init__(self, begun: list[bytes] | None = None) -> None:
        self.begun = begun or []
        """The parts of a record whose last part has not arrived."""

    def add(self, value: bytes, part: str | None) -> bytes | None:
        """Return a record if this message completes one.

        `part` is the message's header "part", for example "2/5". A repeated part is ignored, and so
        is a part without its predecessors.
        """
        if part is None:
            self.begun = []
            return value
        number, _, count = part.partition("/")
        if number == "1":
            self.begun = []
        if int(number) != len(self.begun) + 1:
            return None
        self.begun.append(value)
        if number != count:
            return None
        whole, self.begun = b"".join(self.begun), []
        return whole


def messages(
    reader: DataFrameReader | DataStreamReader,
    servers: str,
    topic: str,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The committed messages of the topic from its beginning: `key`, `value`, `part`,
    `kafka_partition`, `kafka_offset`, `stamp_ms` (the record's timestamp). `options` are those of
    Spark's Kafka source.

    Raises FleetError if Spark has no Kafka source.
    """
    parameters = {
        "kafka.bootstrap.servers": servers,
        "kafka.isolation.level": "read_committed",
        "subscribe": topic,
        "startingOffsets": "earliest",
        "includeHeaders": "true",
        **(options or {}),
    }
    try:
        found = reader.format("kafka").options(**parameters).load()
    except PySparkException as error:
        if any(one in str(error) for one in _NO_SOURCE_TEXTS):
            raise FleetError(_no_source()) from None
        raise
    part = "get(filter(headers, one -> one.key = 'part'), 0).value"
    return found.selectExpr(
        "cast(key as string) as key",
        "value",
        f"cast({part} as string) as part",
        "partition as kafka_partition",
        "offset as kafka_offset",
        "unix_millis(timestamp) as stamp_ms",
    ).where("key like '%/%'")


def records(found: DataFrame) -> DataFrame:
    """The records in messages, with the columns of the table of records.

    `log` is the name of the log's folder. A command has the timestamp of its message: `time` and
    `wall_ns` have a precision of 1 ms, `mono_ns` is null.
    """
    # A table function that uses Arrow would require pandas.
    function = sql.udtf(_Records, returnType=spark_schema(RECORDS), useArrow=False)
    made = cast(Callable[..., DataFrame], function)
    columns = [sql.col(one).outer() for one in ("key", "value", "part", "stamp_ms")]
    return found.lateralJoin(made(*columns)).select(*RECORDS.names)


class _Records:
    """Spark's table function: maps a message to the rows of the record that it completes."""

    def __init__(self) -> None:
        self._batches: dict[str, Batches] = {}
        self._parts: dict[str, PartJoiner] = {}

    def eval(
        self, key: str, value: bytes, part: str | None, stamp_ms: int
    ) -> Iterator[tuple[Any, ...]]:
        """Take the next message of a partition."""
        whole = self._parts.setdefault(key, PartJoiner()).add(value, part)
        if whole is None:
            return
        if key not in self._batches:
            cluster, _, log = key.partition("/")
            self._batches[key] = Batches(RECORDS, Origin(cluster, log))
        try:
            frame = decode(whole)
        except msgspec.MsgspecError as error:
            raise FleetError(f"a message of log {key} cannot be decoded: {error}") from None
        match frame:
            case EventsFrame(rows=rows):
                batch = self._batches[key].events(rows)
            case CommandsFrame(rows=rows):
                clocks = {row[0]: (stamp_ms * _NS_IN_MS, None) for row in rows}
                batch = self._batches[key].commands(rows, clocks_from(clocks))
            case _:
                return
        for row in batch.to_pylist():
            yield tuple(row.values())


def _no_source() -> str:
    return (
        f"Spark has no Kafka source: add --conf spark.jars.packages={KAFKA_SOURCE}, or name its"
        " jars with --conf spark.jars=..."
    )
