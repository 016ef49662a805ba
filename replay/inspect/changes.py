"""What changed between two moments."""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from replay.cluster_view.views import Cluster
from replay.structural_diff import NOTHING, differences


class Change(Struct, frozen=True):
    """One thing that is otherwise. `what` is the field; "" for the whole subject, which is new
    (`before` None) or gone (`after` None)."""

    subject: str
    what: str
    before: Any
    after: Any


def changes(before: Cluster, after: Cluster) -> list[Change]:
    """All that differs, by subject: the controller, brokers, topics, partitions, and so on."""
    return list(_changes(_subjects(before), _subjects(after)))


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for (subject, *field), was, now in differences(before, after, depth=2):
        before_it, after_it = (None if one is NOTHING else one for one in (was, now))
        if before_it != after_it:
            yield Change(subject, "".join(field), before_it, after_it)


def _subjects(cluster: Cluster) -> dict[str, Any]:
    found: dict[str, Any] = {"controller": msgspec.to_builtins(cluster.controller)}
    for broker in cluster.brokers:
        found[f"broker {broker.id}"] = msgspec.to_builtins(broker)
    for topic in cluster.topics:
        found[f"topic {topic.name}"] = {"id": topic.id, "partitions": len(topic.partitions)}
        for one in topic.partitions:
            found[f"partition {one.name}"] = msgspec.to_builtins(one)
    for move in cluster.reassignments:
        found[f"reassignment of {move.partition}"] = msgspec.to_builtins(move)
    for deletion in cluster.deletions:
        found[f"deletion of {deletion.topic}"] = msgspec.to_builtins(deletion)
    if cluster.procedure is not None:
        found["procedure"] = msgspec.to_builtins(cluster.procedure)
    return found
