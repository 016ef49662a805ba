"""CreateTopics, DeleteTopics and CreatePartitions on the wire."""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode

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
    TopicResult,
    TopicToDelete,
)
from controller.core.topic_configs import effective_configs
from controller.wire.admin.admin_api import AdminApi, ResponseBuilder
from controller.wire.request_body import RequestBody

Overrides = tuple[tuple[str, str], ...]

_FIRST_CREATION_THAT_MAY_VALIDATE: Final = 1
_FIRST_CREATION_WITH_CONFIGS: Final = 5
_FIRST_DELETION_BY_ID: Final = 6

# CreateTopics -----------------------------------------------------------------------------------


def _decode_create(body: RequestBody, version: int, request: int) -> CreateTopicsReceived:
    def assignment() -> tuple[int, tuple[int, ...]]:
        return body.int32(), body.int32s()

    def config() -> tuple[str, str | None]:
        return body.string(), body.nullable_string()

    def topic() -> NewTopic:
        return NewTopic(
            name=body.string(),
            partitions=body.int32(),
            replication_factor=body.int16(),
            assignments=body.structures(assignment),
            configs=body.structures(config),
        )

    topics = body.structures(topic)
    timeout_ms = body.int32()
    validate_only = version >= _FIRST_CREATION_THAT_MAY_VALIDATE and body.boolean()
    return CreateTopicsReceived(request, version, timeout_ms, validate_only, topics)


def _create_fields(response: CreateTopicsResponse, builder: ResponseBuilder) -> dict[str, Any]:
    configs: Mapping[Overrides, tuple[Any, ...]] = {}
    if builder.version >= _FIRST_CREATION_WITH_CONFIGS:
        configs = _configs(response, builder)
    topics = tuple(
        builder.make(
            "CreatableTopicResult",
            name=one.name,
            topic_id=_uuid(one.topic_id),
            error_code=ErrorCode(one.error),
            error_message=one.message,
            num_partitions=NOT_GIVEN if one.hides_configs else one.partitions,
            replication_factor=one.replication_factor,
            topic_config_error_code=(
                ErrorCode.topic_authorization_failed if one.hides_configs else ErrorCode.none
            ),
            configs=() if one.error or one.hides_configs else configs.get(one.configs),
        )
        for one in response.topics
    )
    return {"topics": topics}


def _configs(
    response: CreateTopicsResponse, builder: ResponseBuilder
) -> dict[Overrides, tuple[Any, ...]]:
    """The complete configuration of the created topics, by their own configuration."""
    settings = builder.broker_settings
    return {
        overrides: tuple(
            builder.make(
                "CreatableTopicConfigs",
                name=entry.name,
                value=entry.value,
                read_only=False,
                config_source=entry.source,
                is_sensitive=False,
            )
            for entry in effective_configs(dict(overrides), settings, response.release)
        )
        for overrides in dict.fromkeys(one.configs for one in response.topics if not one.error)
    }


# DeleteTopics -----------------------------------------------------------------------------------


def _decode_delete(body: RequestBody, version: int, request: int) -> DeleteTopicsReceived:
    def topic() -> TopicToDelete:
        return TopicToDelete(body.nullable_string(), body.topic_id())

    if version >= _FIRST_DELETION_BY_ID:
        topics = body.structures(topic)
    else:
        topics = [TopicToDelete(name, None) for name in body.strings()]
    return DeleteTopicsReceived(request, version, body.int32(), topics)


def _delete_fields(response: DeleteTopicsResponse, builder: ResponseBuilder) -> dict[str, Any]:
    responses = tuple(
        builder.make(
            "DeletableTopicResult",
            name=one.name,
            topic_id=_uuid(one.topic_id),
            error_code=ErrorCode(response.error or one.error),
            error_message=None,
        )
        for one in response.topics
    )
    return {"responses": responses}


def _uuid(topic_id: bytes | None) -> UUID | None:
    return None if topic_id is None else UUID(bytes=topic_id)


# CreatePartitions -------------------------------------------------------------------------------


def _decode_create_partitions(
    body: RequestBody, version: int, request: int
) -> CreatePartitionsReceived:
    def topic() -> NewPartitions:
        return NewPartitions(body.string(), body.int32(), body.nullable_structures(body.int32s))

    topics = body.structures(topic)
    return CreatePartitionsReceived(request, version, body.int32(), body.boolean(), topics)


def _create_partitions_fields(
    response: CreatePartitionsResponse, builder: ResponseBuilder
) -> dict[str, Any]:
    return {
        "results": named_results(builder, "CreatePartitionsTopicResult", "name", response.topics)
    }


def named_results(
    builder: ResponseBuilder, entity: str, name: str, answers: tuple[TopicResult, ...]
) -> tuple[Any, ...]:
    """One entity with error code and message for each response; `name` is the field of its name."""
    return tuple(
        builder.make(
            entity,
            **{name: one.name},
            error_code=ErrorCode(one.error),
            error_message=one.message,
        )
        for one in answers
    )


CREATE_TOPICS: Final = AdminApi(
    key=19,
    name="CreateTopics",
    first=0,
    last=7,
    first_flexible=5,
    decode=_decode_create,
    response=CreateTopicsResponse,
    fields=_create_fields,
    may_wait=True,
)
DELETE_TOPICS: Final = AdminApi(
    key=20,
    name="DeleteTopics",
    first=0,
    last=6,
    first_flexible=4,
    decode=_decode_delete,
    response=DeleteTopicsResponse,
    fields=_delete_fields,
    may_wait=True,
)
CREATE_PARTITIONS: Final = AdminApi(
    key=37,
    name="CreatePartitions",
    first=0,
    last=3,
    first_flexible=2,
    decode=_decode_create_partitions,
    response=CreatePartitionsResponse,
    fields=_create_partitions_fields,
    may_wait=True,
)
