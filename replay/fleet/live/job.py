"""The Structured Streaming job that keeps the health of partitions up."""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio
from msgspec import Struct
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from controller.fingerprint import core_fingerprint
from eventstore.errors import MirrorFailed
from eventstore.mirror.topic import Topic, cluster_of, errors_of, partitions_of
from replay.fleet.errors import FleetError
from replay.fleet.jobs import for_few_rows, reason_in
from replay.fleet.live.cluster import Taken, take_messages
from replay.fleet.live.folder import LiveFolder
from replay.fleet.live.watching import Offsets, watched
from replay.fleet.mirror_stream import messages

_TRIGGER: Final = "1 second"
_MESSAGES_MAX: Final = 200_000
"""In a batch: what was there before the job is taken in pieces."""
_POLL_S: Final = 1
_LOST: Final = ("data may have been lost", "OffsetOutOfRange", "DATA_LOSS", "data loss")


class Batch(Struct, frozen=True):
    """What a batch came to. `lag_s`: from when its last event was observed until the table had it;
    None without new events."""

    number: int
    taken: Taken
    lag_s: float | None


@contextmanager
def owned_folder(out: Path, topic: Topic) -> Iterator[LiveFolder]:
    """The folder of a job on the topic, for this process alone. Raises FleetError where there is no
    such topic, or the folder is of another one."""
    kafka_cluster = _kafka_cluster(topic)
    folder = LiveFolder(out)
    with folder.owned(topic.name, kafka_cluster, core_fingerprint()):
        yield folder


def _kafka_cluster(topic: Topic) -> str:

    async def look() -> str:
        async with errors_of(topic):
            await partitions_of(topic)
            return await cluster_of(topic)

    try:
        return anyio.run(look)
    except MirrorFailed as error:
        raise FleetError(str(error)) from None


def follow(
    spark: SparkSession,
    topic: Topic,
    folder: LiveFolder,
    tell: Callable[[Batch], None],
    *,
    tell_start: Callable[[], None],
    tell_trouble: Callable[[str], None],
    options: Mapping[str, str],
    once: bool,
) -> None:
    """Take what the topic has, and with `once` end there, else go on without an end.
    `tell_start` is called once Spark runs the job, `tell` after each batch, `tell_trouble` where
    the topic cannot be reached, and can again. `options` are those of Spark's Kafka source, beside
    what says where the topic is; `folder` is owned.

    Raises FleetError where the topic, the folder or Spark cannot be used.
    """
    few = for_few_rows(spark, _MESSAGES_MAX)
    query: StreamingQuery | None = None

    def taken() -> Offsets | None:
        return None if query is None else _taken(query, topic.name)

    with watched(topic, folder, taken, tell_trouble):
        try:
            query = _start(few, topic, folder, tell, options, once=once)
            tell_start()
            _await(query)
        except (PySparkException, Py4JError) as error:
            raise FleetError(f"{topic.place}: {_reason(error)}") from error


def _taken(query: StreamingQuery, topic: str) -> Offsets | None:
    """What the batches took that are done; None before the first one, and where Spark ends."""
    with suppress(PySparkException, Py4JError, OSError):
        told = query.lastProgress
        offsets = json.loads(told["sources"][0]["endOffset"] or "{}") if told else {}
        if topic in offsets:
            return {int(number): end for number, end in offsets[topic].items()}
    return None


def _start(
    spark: SparkSession,
    topic: Topic,
    folder: LiveFolder,
    tell: Callable[[Batch], None],
    options: Mapping[str, str],
    *,
    once: bool,
) -> StreamingQuery:
    limits = {"maxOffsetsPerTrigger": str(_MESSAGES_MAX), "failOnDataLoss": "true"}
    servers = str(topic.client["bootstrap_servers"])
    found = messages(spark.readStream, servers, topic.name, {**limits, **options})
    tasks = spark.sparkContext.defaultParallelism

    def take(batch: DataFrame, number: int) -> None:
        taken = _take(batch, tasks, folder)
        newest = taken.newest_ms
        tell(Batch(number, taken, time.time() - newest / 1000 if newest else None))

    writer = found.writeStream.foreachBatch(take).queryName("refold fleet live")
    writer = writer.option("checkpointLocation", folder.checkpoint)
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=_TRIGGER)
    return writer.start()


def _take(batch: DataFrame, tasks: int, folder: LiveFolder) -> Taken:
    """All messages of a cluster are taken by one task, those of a log in their order."""
    of_clusters = batch.selectExpr("substring_index(key, '/', 1) as cluster", "*")
    order = ["cluster", "key", "kafka_partition", "kafka_offset"]
    spread = of_clusters.repartition(tasks, "cluster").sortWithinPartitions(*order)
    work = partial(take_messages, folder=folder)
    return spread.rdd.mapPartitions(work).fold(Taken(), lambda one, other: one + other)


def _await(query: StreamingQuery) -> None:
    while not query.awaitTermination(_POLL_S):
        pass


def _reason(error: Exception) -> str:
    text = str(error)
    if any(one in text for one in _LOST):
        return (
            "it does not hold any more what comes next (its retention, or it was made anew):"
            " begin again with a new --out"
        )
    return "Spark failed: " + reason_in(text.split("=== Streaming Query ===")[0], error)
