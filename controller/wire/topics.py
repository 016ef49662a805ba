"""Groups encoded partitions by topic, for LeaderAndIsr and UpdateMetadata."""

from collections.abc import Sequence
from itertools import pairwise

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
    """The arrays of topics with all partitions in order, one array per request body.

    `fragments` are the encoded partitions. An array longer than `bytes_max` is halved until it fits
    or has a single partition. Each array is a list of chunks for the caller to join, so that no
    byte is copied.
    """
    array = _topic_array(partitions, fragments, layout, with_topic_ids)
    if len(partitions) < 2 or sum(map(len, array)) <= bytes_max:
        return [array]
    middle = len(partitions) // 2
    return [
        part
        for half in (slice(middle), slice(middle, None))
        for part in topic_arrays(
            partitions[half],
            fragments[half],
            layout,
            with_topic_ids=with_topic_ids,
            bytes_max=bytes_max,
        )
    ]


def _topic_array(
    partitions: Sequence[Partition], fragments: list[bytes], layout: Layout, with_topic_ids: bool
) -> list[bytes]:
    """Adjacent partitions of the same topic are written as one topic."""
    starts = _topic_starts(partitions)
    chunks = [layout.array_length(len(starts))]
    for first, last in pairwise([*starts, len(partitions)]):
        topic = partitions[first]
        chunks.append(layout.string(topic.topic))
        if with_topic_ids:
            chunks.append(topic.topic_id or NO_TOPIC_ID)
        chunks.append(layout.array_length(last - first))
        chunks += fragments[first:last]
        chunks.append(layout.tags)
    return chunks


def _topic_starts(partitions: Sequence[Partition]) -> list[int]:
    """The positions where the topic changes."""
    starts: list[int] = []
    topic: str | None = None
    for at, partition in enumerate(partitions):
        if partition.topic != topic:
            topic = partition.topic
            starts.append(at)
    return starts
