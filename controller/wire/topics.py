"""Groups encoded partitions by topic, for LeaderAndIsr and UpdateMetadata.

Partitions that a standby has prepared are encoded by topic, ahead of time or when they are sent.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

from controller.core.commands import LeaderAndIsrPartition, UpdateMetadataPartition
from controller.core.prepared_topics import JoinedEntries, TopicEntries
from controller.wire.primitives import NO_TOPIC_ID, Layout

Partition = LeaderAndIsrPartition | UpdateMetadataPartition
Entry = TypeVar("Entry", bound=Partition)


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


def encoded_topic(
    part: TopicEntries[Entry],
    form: str,
    fragments: Callable[[tuple[Entry, ...]], list[bytes]],
    layout: Layout,
    *,
    with_topic_ids: bool,
) -> bytes:
    """The entries of one topic, as an entry of the array of topics; `form` names this encoding."""
    encoded = part.encoded.get(form)
    if encoded is None:
        chunks = _topic(part[0], fragments(part), layout, with_topic_ids)
        encoded = b"".join(chunks)
    return encoded


def joined_array(
    partitions: tuple[Entry, ...],
    encode: Callable[[TopicEntries[Entry]], bytes],
    layout: Layout,
    bytes_max: int,
) -> list[bytes] | None:
    """The array of topics of prepared partitions, in chunks. None if it is longer than `bytes_max`,
    or if the partitions are not prepared."""
    if not isinstance(partitions, JoinedEntries):
        return None
    array = [layout.array_length(len(partitions.parts)), *map(encode, partitions.parts)]
    return array if sum(map(len, array)) <= bytes_max else None


def _topic_array(
    partitions: Sequence[Partition], fragments: list[bytes], layout: Layout, with_topic_ids: bool
) -> list[bytes]:
    """Adjacent partitions of the same topic are written as one topic."""
    starts = _topic_starts(partitions)
    chunks = [layout.array_length(len(starts))]
    for first, last in pairwise([*starts, len(partitions)]):
        chunks += _topic(partitions[first], fragments[first:last], layout, with_topic_ids)
    return chunks


def _topic(
    first: Partition, fragments: list[bytes], layout: Layout, with_topic_ids: bool
) -> list[bytes]:
    """A topic with its encoded partitions, of which `first` is one."""
    topic_id = (first.topic_id or NO_TOPIC_ID) if with_topic_ids else b""
    head = (layout.string(first.topic), topic_id, layout.array_length(len(fragments)))
    return [*head, *fragments, layout.tags]


def _topic_starts(partitions: Sequence[Partition]) -> list[int]:
    """The positions where the topic changes."""
    starts: list[int] = []
    topic: str | None = None
    for at, partition in enumerate(partitions):
        if partition.topic != topic:
            topic = partition.topic
            starts.append(at)
    return starts
