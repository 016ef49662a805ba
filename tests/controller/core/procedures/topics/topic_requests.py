"""Requests of admin tools about topics and features, and their responses."""

from collections.abc import Sequence

from controller.core.api_requests import ApiRequest
from controller.core.api_requests.topics import (
    NOT_GIVEN,
    CreatePartitionsReceived,
    CreatePartitionsResponse,
    CreateTopicsReceived,
    CreateTopicsResponse,
    DeleteTopicsReceived,
    DeleteTopicsResponse,
    NewPartitions,
    NewTopic,
    TopicToDelete,
)
from controller.core.commands import CancelTimer, StartTimer
from controller.core.events import TimerFired
from tests.controller.core.cluster import Cluster, Seen
from tests.controller.core.endpoint import answers, call, next_request

TIMEOUT_MS = 30_000
FIRST_TIMER = "request:1"
"""The timer of request 1."""

Brokers = Sequence[int]


def new_topic(
    name: str,
    partitions: int = NOT_GIVEN,
    replication_factor: int = NOT_GIVEN,
    given: dict[int, Brokers] | None = None,
    configs: dict[str, str | None] | None = None,
) -> NewTopic:
    """One topic of CreateTopics."""
    assignments = [(number, tuple(brokers)) for number, brokers in (given or {}).items()]
    return NewTopic(
        name, partitions, replication_factor, assignments, list((configs or {}).items())
    )


def create(
    cluster: Cluster,
    *topics: NewTopic,
    timeout_ms: int = TIMEOUT_MS,
    validate_only: bool = False,
) -> CreateTopicsResponse:
    """Send CreateTopics and return the response."""
    request = CreateTopicsReceived(
        next_request(cluster), 7, timeout_ms, validate_only, list(topics)
    )
    answer = call(cluster, request)
    assert isinstance(answer, CreateTopicsResponse)
    return answer


def grow(
    cluster: Cluster,
    topic: str,
    count: int,
    *given: Brokers,
    validate_only: bool = False,
    timeout_ms: int = TIMEOUT_MS,
) -> CreatePartitionsResponse:
    """Send CreatePartitions for one topic and return the response."""
    asked = NewPartitions(topic, count, [tuple(one) for one in given] or None)
    request = CreatePartitionsReceived(next_request(cluster), 3, timeout_ms, validate_only, [asked])
    answer = call(cluster, request)
    assert isinstance(answer, CreatePartitionsResponse)
    return answer


def delete(
    cluster: Cluster,
    *topics: str | bytes | TopicToDelete,
    version: int = 6,
    timeout_ms: int = TIMEOUT_MS,
) -> DeleteTopicsResponse:
    """Send DeleteTopics by names and ids and return the response."""
    request = DeleteTopicsReceived(
        next_request(cluster), version, timeout_ms, list(map(_doomed, topics))
    )
    answer = call(cluster, request)
    assert isinstance(answer, DeleteTopicsResponse)
    return answer


def _doomed(topic: str | bytes | TopicToDelete) -> TopicToDelete:
    if isinstance(topic, TopicToDelete):
        return topic
    return TopicToDelete(topic, None) if isinstance(topic, str) else TopicToDelete(None, topic)


def ask_without_answer(cluster: Cluster, request: ApiRequest) -> None:
    """Receive a request that is not answered yet."""
    before = len(answers(cluster))
    cluster.happen(request, "api:1")
    assert len(answers(cluster)) == before


def error_by_name(cluster: Cluster) -> list[tuple[str | None, int]]:
    """The names and codes of the one answer so far."""
    [answer] = answers(cluster)
    assert isinstance(
        answer, CreateTopicsResponse | CreatePartitionsResponse | DeleteTopicsResponse
    )
    return [(one.name, one.error) for one in answer.topics]


def errors(
    answer: CreateTopicsResponse | CreatePartitionsResponse | DeleteTopicsResponse,
) -> list[int]:
    """The error codes of a response."""
    return [one.error for one in answer.topics]


def refused(answer: CreateTopicsResponse | CreatePartitionsResponse) -> tuple[int, str | None]:
    """The error message for the one topic of a response."""
    [one] = answer.topics
    return one.error, one.message


def timers(seen: Seen) -> list[str]:
    """The running timers of requests."""
    running: dict[str, None] = {}
    for recorded, issued in seen.history:
        if isinstance(recorded.event, TimerFired):
            running.pop(recorded.event.timer, None)
        for command in (one.command for one in issued):
            if isinstance(command, StartTimer) and command.timer.startswith("request:"):
                running[command.timer] = None
            elif isinstance(command, CancelTimer):
                running.pop(command.timer, None)
    return list(running)
