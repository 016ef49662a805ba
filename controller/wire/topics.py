"""Encoded partitions put together by topic, as LeaderAndIsr and UpdateMetadata carry them."""

from collections.abc import Iterator, Sequence

from controller.core.commands import LeaderAndIsrPartition, UpdateMetadataPartition
from controller.wire.primitives import NO_TOPIC_ID, Layout

Partition = LeaderAndIsrPartition | UpdateMetadataPartition


def topic_arrays(
    partitions: Sequence[Partition],
    fragments: list[bytes],
    layout: Layout,
    *,
    with_topic_ids: bool,
    bytes_max: int,
) -> list[list[bytes]]:
    """The arrays of topics that hold all partitions in order, one a request body.

    `fragments` are the encoded partitions. An array is at most `bytes_max` long, but where a single
    partition is longer. Each comes as chunks that the caller joins: no byte is copied here.
    """
    arrays: list[list[bytes]] = []
    chunks: list[bytes] = []
    topics = size = 0
    for first, last in _topic_spans(partitions):
        topic = _topic_name(partitions[first], layout, with_topic_ids)
        for block, block_size in _blocks(fragments[first:last], bytes_max - len(topic)):
            block_size += len(topic)
            if topics and size + block_size > bytes_max:
                arrays.append([layout.array_length(topics), *chunks])
                chunks, topics, size = [], 0, 0
            chunks += (topic, layout.array_length(len(block)), *block, layout.tags)
            topics += 1
            size += block_size
    arrays.append([layout.array_length(topics), *chunks])
    return arrays


def _topic_spans(partitions: Sequence[Partition]) -> Iterator[tuple[int, int]]:
    """Where each run of partitions of one topic begins and ends."""
    first, topic = 0, partitions[0].topic if partitions else ""
    for at, partition in enumerate(partitions):
        if partition.topic != topic:
            yield first, at
            first, topic = at, partition.topic
    if partitions:
        yield first, len(partitions)


def _topic_name(partition: Partition, layout: Layout, with_topic_id: bool) -> bytes:
    name = layout.string(partition.topic)
    return name + (partition.topic_id or NO_TOPIC_ID) if with_topic_id else name


_FRAME_BYTES = 16
"""Room for the lengths and tags around a topic and around the array, rounded up."""


def _blocks(fragments: list[bytes], bytes_max: int) -> Iterator[tuple[list[bytes], int]]:
    """The partitions of one topic, halved until each piece fits, with the size of each."""
    size = sum(map(len, fragments)) + _FRAME_BYTES
    if size <= bytes_max or len(fragments) == 1:
        yield fragments, size
        return
    middle = len(fragments) // 2
    yield from _blocks(fragments[:middle], bytes_max)
    yield from _blocks(fragments[middle:], bytes_max)
