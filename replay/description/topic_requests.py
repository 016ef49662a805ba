"""What admin tools ask about topics and features, and the answers, in words."""

from collections.abc import Iterable, Sequence

from controller.core.topic_requests import (
    NOT_GIVEN,
    AnswerCreatePartitions,
    AnswerCreateTopics,
    AnswerDeleteTopics,
    AnswerTopicRequest,
    AnswerUpdateFeatures,
    CreatedTopic,
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeletedTopic,
    DeleteTopicsReceived,
    NewPartitions,
    NewTopic,
    TopicAnswer,
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
            named = (_topic(one.name, one.topic_id) for one in doomed)
            return [_how(False, timeout_ms), *named]
        case UpdateFeaturesReceived(validate_only=dry, timeout_ms=timeout_ms, updates=updates):
            return [
                _how(dry, timeout_ms),
                *(f"{one.feature} to {one.level}, type {one.upgrade_type}" for one in updates),
            ]


def described_topic_answer(answer: AnswerTopicRequest) -> list[str]:
    """The error of all of it, if it has one, then a line for each topic or feature."""
    match answer:
        case AnswerCreateTopics(topics=created):
            return ["", *map(_created, created)]
        case AnswerCreatePartitions(topics=grown):
            return ["", *map(_answered, grown)]
        case AnswerDeleteTopics(error=error, topics=deleted):
            return [f"code {error}", *map(_deleted, deleted)]
        case AnswerUpdateFeatures(error=error, message=message, features=features):
            return [_coded("", error, message), *map(_answered, features)]


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


def _created(one: CreatedTopic) -> str:
    if one.error:
        return _coded(one.name, one.error, one.message)
    named = f" id {write_topic_id(one.topic_id)}" if one.topic_id else ""
    configs = "".join(f" {key}={value}" for key, value in one.configs)
    return f"{one.name} {one.partitions} partitions of {one.replication_factor}{named}{configs}"


def _answered(one: TopicAnswer) -> str:
    return _coded(one.name, one.error, one.message)


def _deleted(one: DeletedTopic) -> str:
    return _coded(_topic(one.name, one.topic_id), one.error, None)


def _coded(what: str, error: int, message: str | None) -> str:
    return f"{what} code {error} {message or ''}".strip()


def _topic(name: str | None, topic_id: bytes | None) -> str:
    return " ".join(
        one for one in (name, f"id {write_topic_id(topic_id)}" if topic_id else "") if one
    )
