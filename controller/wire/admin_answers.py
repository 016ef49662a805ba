"""Encodes the controller's responses to admin tools, with kio."""

import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from controller.core import error_codes
from controller.core.commands import (
    AnswerAlterPartitionReassignments,
    AnswerElectLeaders,
    AnswerListPartitionReassignments,
    ApiAnswer,
    OngoingReassignment,
    PartitionAnswer,
)
from controller.core.scram_requests import AnswerAlterUserScramCredentials
from controller.core.topic_configs import effective
from controller.core.topic_requests import (
    AnswerCreatePartitions,
    AnswerCreateTopics,
    AnswerDeleteTopics,
    AnswerTopicRequest,
    AnswerUpdateFeatures,
    CreatedTopic,
    TopicAnswer,
)
from controller.wire.client_requests import RequestHead, encode_response, response_schema

_FIRST_CREATION_WITH_CONFIGS: Final = 5
_UNTHROTTLED: Final = timedelta(0)
_TEXTS: Final = {
    error_codes.PREFERRED_LEADER_NOT_AVAILABLE: "The preferred leader was not available.",
    error_codes.ELIGIBLE_LEADERS_NOT_AVAILABLE: (
        "Eligible topic partition leaders are not available."
    ),
    error_codes.ELECTION_NOT_NEEDED: "Leader election not needed for topic partition.",
    error_codes.NO_REASSIGNMENT_IN_PROGRESS: "No partition reassignment is in progress.",
}
"""Kafka's own texts for error codes of partitions without a specific message."""
_TEXTS_OF_ALL: Final = {
    error_codes.NONE: "",
    error_codes.NOT_CONTROLLER: error_codes.NOT_CONTROLLER_TEXT,
}
"""The same for whole requests about reassignments. Without an error the text is empty."""

AdminAnswer = (
    AnswerAlterPartitionReassignments
    | AnswerListPartitionReassignments
    | AnswerElectLeaders
    | AnswerAlterUserScramCredentials
    | AnswerTopicRequest
)
Make = Callable[..., Any]
"""Creates a kio entity by name and fields. Fields that its version does not have are omitted."""
Overrides = tuple[tuple[str, str], ...]
OfPartition = TypeVar("OfPartition", PartitionAnswer, OngoingReassignment)


def encode_admin_answer(
    head: RequestHead, answer: ApiAnswer, broker_settings: Mapping[str, str]
) -> bytes:
    """Encode the response to a request. `broker_settings` determine the configuration of new
    topics that they do not set themselves (topic_configs.py)."""
    assert isinstance(answer, AdminAnswer), "an answer has the kind of its request"
    schema = response_schema(head)
    make = _maker(sys.modules[schema.__module__])
    configs = {}
    if isinstance(answer, AnswerCreateTopics) and head.version >= _FIRST_CREATION_WITH_CONFIGS:
        configs = _configs(answer, make, broker_settings)
    fields = _fields(answer, make, configs)
    return encode_response(head, make(schema.__name__, throttle_time=_UNTHROTTLED, **fields))


def _maker(module: Any) -> Make:
    def make(entity_name: str, /, **fields: Any) -> Any:
        entity = getattr(module, entity_name)
        known = entity.__dataclass_fields__
        return entity(**{field: value for field, value in fields.items() if field in known})

    return make


def _fields(
    answer: AdminAnswer, make: Make, configs: Mapping[Overrides, tuple[Any, ...]]
) -> dict[str, Any]:
    match answer:
        case AnswerCreateTopics(topics=created):
            return {"topics": _created(created, make, configs)}
        case AnswerDeleteTopics():
            return {"responses": _deleted(answer, make)}
        case AnswerCreatePartitions(topics=grown):
            return {"results": _named(make, "CreatePartitionsTopicResult", "name", grown)}
        case AnswerAlterPartitionReassignments(error=error, partitions=targets):
            return {**_of_all(error), "responses": _reassigned(targets, make)}
        case AnswerListPartitionReassignments(error=error, partitions=ongoing):
            return {**_of_all(error), "topics": _ongoing(ongoing, make)}
        case AnswerElectLeaders(partitions=elected):
            return {
                "error_code": ErrorCode(_of_all_elections(answer)),
                "replica_election_results": _elected(elected, make),
            }
        case AnswerAlterUserScramCredentials(users=users):
            results = tuple(
                make(
                    "AlterUserScramCredentialsResult",
                    user=one.user,
                    error_code=ErrorCode(one.error),
                    error_message=one.message,
                )
                for one in users
            )
            return {"results": results}
        case AnswerUpdateFeatures(features=updated):
            return {
                "error_code": ErrorCode(answer.error),
                "error_message": answer.message,
                "results": _named(make, "UpdatableFeatureResult", "feature", updated),
            }


def _created(
    topics: tuple[CreatedTopic, ...], make: Make, configs: Mapping[Overrides, tuple[Any, ...]]
) -> tuple[Any, ...]:
    return tuple(
        make(
            "CreatableTopicResult",
            name=one.name,
            topic_id=_uuid(one.topic_id),
            error_code=ErrorCode(one.error),
            error_message=one.message,
            num_partitions=one.partitions,
            replication_factor=one.replication_factor,
            configs=() if one.error else configs.get(one.configs),
        )
        for one in topics
    )


def _configs(
    answer: AnswerCreateTopics, make: Make, broker_settings: Mapping[str, str]
) -> dict[Overrides, tuple[Any, ...]]:
    """The complete configuration of the created topics, by their own configuration."""
    return {
        overrides: tuple(
            make(
                "CreatableTopicConfigs",
                name=entry.name,
                value=entry.value,
                read_only=False,
                config_source=entry.source,
                is_sensitive=False,
            )
            for entry in effective(dict(overrides), broker_settings, answer.release)
        )
        for overrides in dict.fromkeys(one.configs for one in answer.topics if not one.error)
    }


def _deleted(answer: AnswerDeleteTopics, make: Make) -> tuple[Any, ...]:
    return tuple(
        make(
            "DeletableTopicResult",
            name=one.name,
            topic_id=_uuid(one.topic_id),
            error_code=ErrorCode(answer.error or one.error),
            error_message=None,
        )
        for one in answer.topics
    )


def _named(make: Make, entity: str, name: str, answers: tuple[TopicAnswer, ...]) -> tuple[Any, ...]:
    return tuple(
        make(
            entity,
            **{name: one.name},
            error_code=ErrorCode(one.error),
            error_message=one.message,
        )
        for one in answers
    )


def _of_all(error: int) -> dict[str, Any]:
    return {"error_code": ErrorCode(error), "error_message": _TEXTS_OF_ALL.get(error)}


def _of_all_elections(answer: AnswerElectLeaders) -> int:
    """Kafka reports NOT_CONTROLLER for each partition and no error for the whole request."""
    is_told = answer.error == error_codes.NOT_CONTROLLER and answer.partitions
    return error_codes.NONE if is_told else answer.error


def _reassigned(targets: tuple[PartitionAnswer, ...], make: Make) -> tuple[Any, ...]:
    return tuple(
        make(
            "ReassignableTopicResponse",
            name=topic,
            partitions=tuple(
                make(
                    "ReassignablePartitionResponse",
                    partition_index=one.partition,
                    error_code=ErrorCode(one.error),
                    error_message=_message(one),
                )
                for one in partitions
            ),
        )
        for topic, partitions in _by_topic(targets).items()
    )


def _ongoing(reassignments: tuple[OngoingReassignment, ...], make: Make) -> tuple[Any, ...]:
    return tuple(
        make(
            "OngoingTopicReassignment",
            name=topic,
            partitions=tuple(
                make(
                    "OngoingPartitionReassignment",
                    partition_index=one.partition,
                    replicas=one.assignment.replicas,
                    adding_replicas=one.assignment.adding,
                    removing_replicas=one.assignment.removing,
                )
                for one in partitions
            ),
        )
        for topic, partitions in _by_topic(reassignments).items()
    )


def _elected(elections: tuple[PartitionAnswer, ...], make: Make) -> tuple[Any, ...]:
    return tuple(
        make(
            "ReplicaElectionResult",
            topic=topic,
            partition_result=tuple(
                make(
                    "PartitionResult",
                    partition_id=one.partition,
                    error_code=ErrorCode(one.error),
                    error_message=_message(one),
                )
                for one in partitions
            ),
        )
        for topic, partitions in _by_topic(elections).items()
    )


def _by_topic(partitions: Iterable[OfPartition]) -> dict[str, list[OfPartition]]:
    """Grouped by topic; topics and partitions keep their order."""
    topics: dict[str, list[OfPartition]] = {}
    for one in partitions:
        topics.setdefault(one.topic, []).append(one)
    return topics


def _message(answer: PartitionAnswer) -> str | None:
    return answer.message or _TEXTS.get(answer.error)


def _uuid(topic_id: bytes | None) -> UUID | None:
    return None if topic_id is None else UUID(bytes=topic_id)
