"""The contents of znodes with which administrators request something from the controller."""

from collections.abc import Iterable, Mapping
from typing import Any

Name = tuple[str, int]
"""A partition: its topic and number."""

Targets = dict[Name, list[int]]
"""The new replicas of partitions."""


def reassignment_request(targets: Mapping[Name, list[int]]) -> dict[str, Any]:
    """The content of /admin/reassign_partitions."""
    listed = [
        {"topic": topic, "partition": number, "replicas": replicas}
        for (topic, number), replicas in targets.items()
    ]
    return {"version": 1, "partitions": listed}


def targets_of(request: Mapping[str, Any]) -> Targets:
    """The requested replicas in such a content."""
    return {(one["topic"], one["partition"]): one["replicas"] for one in request["partitions"]}


def election_request(names: Iterable[Name]) -> dict[str, Any]:
    """The content of /admin/preferred_replica_election."""
    listed = [{"topic": topic, "partition": number} for topic, number in names]
    return {"version": 1, "partitions": listed}
