"""The Structured Streaming job that maintains the table of partition health."""

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
from eventstore.mirror.topic import MirrorTopic, cluster_of, errors_of, partitions_of
from replay.fleet.errors import FleetError
from replay.fleet.jobs import for_few_rows, reason_in
from replay.fleet.live.cluster_update import BatchCounts, fold_messages
from replay.fleet.live.folder import LiveFolder
from replay.fleet.live.status import Offsets, publishing_status
from replay.fleet.mirror_stream import messages

_TRIGGER: Final = "1 second"
_MESSAGES_MAX: Final = 200_000
"""The maximum number of messages in a batch; older messages are read in several batches."""
_POLL_S: Final = 1
_LOST: Final = ("data may have been lost", "OffsetOutOfRange", "DATA_LOSS", "data loss")


class BatchResult(Struct, frozen=True):
    """The result of a batch. `lag_s` is the time from the observation of its last event until the
    table contained it; None without new events."""

    number: int
    taken: BatchCounts
    lag_s: float | None


@contextmanager
def owned_folder(out: Path, topic: MirrorTopic) -> Iterator[LiveFolder]:
    """Lock the folder of a job on the topic. Raises FleetError if the topic does not exist, or if
    the folder belongs to another topic."""
    kafka_cluster = _kafka_cluster(topic)
    folder = LiveFolder(out)
    with folder.owned(topic.name, kafka_cluster, core_fingerprint()):
        yield folder


def _kafka_cluster(topic: MirrorTopic) -> str:

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
    topic: MirrorTopic,
    folder: LiveFolder,
    on_batch: Callable[[BatchResult], None],
    *,
    on_start: Callable[[], None],
    on_trouble: Callable[[str], None],
    options: Mapping[str, str],
    once: bool,
) -> None:
    """Fold the messages of the topic until there are no more (`once`), or permanently.

    `on_start` is called when Spark runs the job, `on_batch` after each batch, `on_trouble` when the
    topic cannot be reached and when it is reached again. `options` are additional options of
    Spark's Kafka source. The caller holds the lock of `folder`.

    Raises FleetError if the topic, the folder or Spark cannot be used.
    """
    few = for_few_rows(spark, _MESSAGES_MAX)
    query: StreamingQuery | None = None

    def completed_offsets() -> Offsets | None:
        return None if query is None else _completed_offsets(query, topic.name)

    with publishing_status(topic, folder, completed_offsets, on_trouble):
        try:
            query = _start(few, topic, folder, on_batch, options, once=once)
            on_start()
            _await(query)
        except (PySparkException, Py4JError) as error:
            raise FleetError(f"{topic.place}: {_reason(error)}") from error


def _completed_offsets(query: StreamingQuery, topic: str) -> Offsets | None:
    """The offsets after the completed batches; None before the first one, and while Spark ends."""
    with suppress(PySparkException, Py4JError, OSError):
        progress = query.lastProgress
        offsets = json.loads(progress["sources"][0]["endOffset"] or "{}") if progress else {}
        if topic in offsets:
            return {int(number): end for number, end in offsets[topic].items()}
    return None


def _start(
    spark: SparkSession,
    topic: MirrorTopic,
    folder: LiveFolder,
    on_batch: Callable[[BatchResult], None],
    options: Mapping[str, str],
    *,
    once: bool,
) -> StreamingQuery:
    limits = {"maxOffsetsPerTrigger": str(_MESSAGES_MAX), "failOnDataLoss": "true"}
    servers = str(topic.client["bootstrap_servers"])
    found = messages(spark.readStream, servers, topic.name, {**limits, **options})
    tasks = spark.sparkContext.defaultParallelism

    def fold(batch: DataFrame, number: int) -> None:
        counts = _fold(batch, tasks, folder)
        newest = counts.newest_ms
        on_batch(BatchResult(number, counts, time.time() - newest / 1000 if newest else None))

    writer = found.writeStream.foreachBatch(fold).queryName("refold fleet live")
    writer = writer.option("checkpointLocation", folder.checkpoint)
    writer = writer.trigger(availableNow=True) if once else writer.trigger(processingTime=_TRIGGER)
    return writer.start()


def _fold(batch: DataFrame, tasks: int, folder: LiveFolder) -> BatchCounts:
    """Fold a batch. All messages of a cluster go to one task, those of a log in order."""
    of_clusters = batch.selectExpr("substring_index(key, '/', 1) as cluster", "*")
    order = ["cluster", "key", "kafka_partition", "kafka_offset"]
    spread = of_clusters.repartition(tasks, "cluster").sortWithinPartitions(*order)
    work = partial(fold_messages, folder=folder)
    return spread.rdd.mapPartitions(work).fold(BatchCounts(), lambda one, other: one + other)


def _await(query: StreamingQuery) -> None:
    while not query.awaitTermination(_POLL_S):
        pass


def _reason(error: Exception) -> str:
    text = str(error)
    if any(one in text for one in _LOST):
        return (
            "the next messages were deleted (by retention, or with the topic itself):"
            " start again with a new --out"
        )
    return "Spark failed: " + reason_in(text.split("=== Streaming Query ===")[0], error)
