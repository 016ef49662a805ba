"""The part of a cluster that is about one topic or one partition."""

from collections.abc import Collection
from difflib import get_close_matches

from msgspec import structs

from replay.cluster_view.views import ClusterView
from replay.errors import ReplayError
from replay.names import partition_named

_SHOWN = 20


def selected(
    cluster: ClusterView,
    topics: Collection[str] = (),
    partition: tuple[str, int] | None = None,
    *,
    is_required: bool = True,
) -> ClusterView:
    """The cluster without other topics or partitions, if any are given. Raises ReplayError if a
    topic or partition `is_required` and does not exist."""
    wanted = topics if partition is None else (partition[0],)
    if not wanted:
        return cluster
    for name in wanted if is_required else ():
        require(cluster, name, partition[1] if partition is not None else None)
    found = [one for one in cluster.topics if one.name in wanted]
    if partition is not None:
        found = [
            structs.replace(
                one, partitions=[each for each in one.partitions if each.partition == partition[1]]
            )
            for one in found
        ]
    names = {each.name for one in found for each in one.partitions}
    return structs.replace(
        cluster,
        topics=found,
        reassignments=[one for one in cluster.reassignments if one.partition in names],
        deletions=[one for one in cluster.deletions if one.topic in wanted],
        replica_deletions=[
            one
            for one in cluster.replica_deletions
            if one.partition in names or (partition is None and _topic_of(one.partition) in wanted)
        ],
    )


def _topic_of(partition: str) -> str:
    return partition_named(partition)[0]


def require(cluster: ClusterView, topic: str, partition: int | None = None) -> None:
    """Check that a topic, and a partition of it, exists. Raises ReplayError, which names what
    exists."""
    found = cluster.topic(topic)
    if found is None:
        names = [one.name for one in cluster.topics]
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        known = f"there are {', '.join(names[:_SHOWN])}{more}" if names else "there are none then"
        similar = get_close_matches(topic, names, n=3)
        known = f"did you mean {' or '.join(similar)}? {known}" if similar else known
        raise ReplayError(f"no topic {topic} at event {cluster.seq}; {known}")
    numbers = [one.partition for one in found.partitions]
    if partition is not None and partition not in numbers:
        raise ReplayError(
            f"no partition {topic}-{partition} at event {cluster.seq}; "
            f"topic {topic} has {ranges(numbers)}"
        )


def ranges(numbers: list[int]) -> str:
    """Numbers as "0-3, 7"; "none" for none."""
    spans: list[list[int]] = []
    for one in sorted(numbers):
        if spans and one == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], one]
        else:
            spans.append([one, one])
    texts = [f"{first}" if first == end else f"{first}-{end}" for first, end in spans]
    return ", ".join(texts) or "none"
