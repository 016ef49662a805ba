"""What admin tools ask about topics and features, in words."""

from collections.abc import Iterable, Sequence

from controller.core.topic_requests import (
    NOT_GIVEN,
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    NewPartitions,
    NewTopic,
    TopicRequest,
    UpdateFeaturesReceived,
)
from controller.core.znodes import write_topic_id


def described_topic_request(request: TopicRequest) -> list[str]:
    """How it is asked, then a line for each topic or feature."""
    match request:
        case CreateTopicsReceived(validate_only=dry, timeout_ms=timeout_ms, topics=new):
            return [_how(dry, timeout_ms), *map(_new_topic, new)]
        case CreatePartitionsReceived(validate_only=dry, timeout_ms=timeout_ms, topics=grown):
            return [_how(dry, timeout_ms), *map(_new_partitions, grown)]
        case DeleteTopicsReceived(timeout_ms=timeout_ms, topics=doomed):
            named = (topic_in_words(one.name, one.topic_id) for one in doomed)
            return [_how(False, timeout_ms), *named]
        case UpdateFeaturesReceived(validate_only=dry, timeout_ms=timeout_ms, updates=updates):
            return [
                _how(dry, timeout_ms),
                *(f"{one.feature} to {one.level}, type {one.upgrade_type}" for one in updates),
            ]


def _how(dry: bool, timeout_ms: int) -> str:
    return f"{', validate only' if dry else ''}, within {timeout_ms} ms"


def _new_topic(topic: NewTopic) -> str:
    if topic.assignments:
        wanted = _assigned(topic.assignments)
    else:
        wanted = f"partitions {_count(topic.partitions)} of {_count(topic.replication_factor)}"
    configs = "".join(f" {key}={value}" for key, value in topic.configs)
    return f"{topic.name} {wanted}{configs}"


def _count(count: int) -> str:
    return "by default" if count == NOT_GIVEN else str(count)


def _new_partitions(asked: NewPartitions) -> str:
    given = "" if asked.assignments is None else f" {_assigned(enumerate(asked.assignments))}"
    return f"{asked.topic} to {asked.count}{given}"


def _assigned(assignments: Iterable[tuple[int, Sequence[int]]]) -> str:
    return " ".join(f"{number}:[{','.join(map(str, ids))}]" for number, ids in assignments)


def topic_in_words(name: str | None, topic_id: bytes | None) -> str:
    """A topic's name and id, as far as they are known."""
    return " ".join(
        one for one in (name, f"id {write_topic_id(topic_id)}" if topic_id else "") if one
    )
