"""The part of a cluster that is about one topic or one partition, and messages about names of
topics, partitions and brokers that do not exist."""

from collections.abc import Collection, Iterable, Mapping

from msgspec import structs

from controller.core.znodes import Name
from controller.suggestions import there_are
from replay.cluster_view.views import ClusterView
from replay.description.phrases import broker_list
from replay.errors import ReplayError
from replay.names import partition_name, partition_named


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
            if one.partition in names
            or (partition is None and partition_named(one.partition)[0] in wanted)
        ],
    )


def require(cluster: ClusterView, topic: str, partition: int | None = None) -> None:
    """Check that a topic, and a partition of it, exists. Raises ReplayError, which names what
    exists."""
    partitions = {one.name: [each.partition for each in one.partitions] for one in cluster.topics}
    require_among(partitions, topic, partition, f"no {{}} at event {cluster.seq}")


def require_among(
    partitions: Mapping[str, Collection[int]], topic: str, partition: int | None, absent: str
) -> None:
    """Check that a topic, and a partition of it, is among the partitions by topic. Raises
    ReplayError with the text `absent`, in which {} is what is missing, and with what exists."""
    if topic not in partitions:
        exist = there_are("topics", topic, partitions)
        raise ReplayError(f"{absent.format(f'topic {topic}')}; {exist}")
    if partition is not None and partition not in partitions[topic]:
        missing = absent.format(f"partition {partition_name(topic, partition)}")
        raise ReplayError(f"{missing}; topic {topic} has {ranges(partitions[topic])}")


def require_broker_among(known: Iterable[int], broker: int, absent: str) -> None:
    """Check that a broker is known. Raises as `require_among` does."""
    ids = set(known)
    if broker not in ids:
        raise ReplayError(
            f"{absent.format(f'broker {broker}')}; brokers: {broker_list(sorted(ids))}"
        )


def partitions_by_topic(names: Iterable[Name]) -> dict[str, set[int]]:
    """The numbers of partitions by their topic."""
    found: dict[str, set[int]] = {}
    for topic, number in names:
        found.setdefault(topic, set()).add(number)
    return found


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as "0-3, 7"; "none" for none."""
    spans: list[list[int]] = []
    for one in sorted(numbers):
        if spans and one == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], one]
        else:
            spans.append([one, one])
    texts = [f"{first}" if first == end else f"{first}-{end}" for first, end in spans]
    return ", ".join(texts) or "none"
