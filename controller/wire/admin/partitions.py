"""Partitions in requests and responses about reassignments and elections: grouped by topic, with
Kafka's texts of their errors."""

from collections.abc import Iterable
from typing import Final, TypeVar

from controller.core import error_codes
from controller.core.api_requests.partition_result import PartitionResult
from controller.core.api_requests.reassignments import OngoingReassignment
from controller.wire.request_body import RequestBody

OfPartition = TypeVar("OfPartition", PartitionResult, OngoingReassignment)

_TEXTS: Final = {
    error_codes.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    error_codes.ELIGIBLE_LEADERS_NOT_AVAILABLE: (
        "Eligible topic partition leaders are not available."
    ),
    error_codes.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    error_codes.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
}
"""Kafka's own texts for error codes of partitions without a specific message."""


def read_partitions(body: RequestBody) -> list[tuple[str, int]] | None:
    """Topics with partition numbers; None means all."""

    def topic() -> list[tuple[str, int]]:
        name = body.string()
        return [(name, number) for number in body.int32s()]

    topics = body.nullable_structures(topic)
    return None if topics is None else [one for each in topics for one in each]


def by_topic(partitions: Iterable[OfPartition]) -> dict[str, list[OfPartition]]:
    """Grouped by topic; topics and partitions keep their order."""
    topics: dict[str, list[OfPartition]] = {}
    for one in partitions:
        topics.setdefault(one.topic, []).append(one)
    return topics


def message_of(answer: PartitionResult) -> str | None:
    """The message for one partition, or None."""
    return answer.message or _TEXTS.get(answer.error)
