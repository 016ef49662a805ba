"""The changes between two moments."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from replay.cluster_view.views import ClusterView
from replay.names import broker_name
from replay.structural_diff import NOTHING, differences


class Change(Struct, frozen=True):
    """One difference. `what` is the field; "" for the whole subject, which was created (`before`
    is None) or removed (`after` is None)."""

    subject: str
    what: str
    before: Any
    after: Any


def changes(before: ClusterView, after: ClusterView) -> list[Change]:
    """All differences, by subject: the controller, brokers, topics, partitions, and so on."""
    return changes_of(_subjects(before), _subjects(after))


def changes_of(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """The differences between two mappings of subjects."""
    found = []
    for (subject, *field), was, now in differences(before, after, depth=2):
        old, new = (None if one is NOTHING else one for one in (was, now))
        if old != new:
            found.append(Change(subject, "".join(field), old, new))
    return found


def _subjects(cluster: ClusterView) -> dict[str, Any]:
    found: dict[str, Any] = {"controller": msgspec.to_builtins(cluster.controller)}
    for broker in cluster.brokers:
        found[broker_name(broker.id)] = msgspec.to_builtins(broker)
    for topic in cluster.topics:
        found[f"topic {topic.name}"] = {"id": topic.id, "partitions": len(topic.partitions)}
        for one in topic.partitions:
            found[f"partition {one.name}"] = msgspec.to_builtins(one)
    for move in cluster.reassignments:
        found[f"reassignment of {move.partition}"] = msgspec.to_builtins(move)
    for deletion in cluster.deletions:
        found[f"deletion of {deletion.topic}"] = msgspec.to_builtins(deletion)
    for left in cluster.replica_deletions:
        found[f"deletion of the replica of {left.partition} on broker {left.broker}"] = (
            msgspec.to_builtins(left)
        )
    if cluster.procedure is not None:
        found["procedure"] = msgspec.to_builtins(cluster.procedure)
    return found
