"""AlterPartitionReassignments and ListPartitionReassignments on the wire."""

from typing import Any, Final

from kio.schema.errors import ErrorCode

from controller.core import error_codes
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsReceived,
    ListPartitionReassignmentsResponse,
    ReassignmentTarget,
)
from controller.wire.admin.admin_api import AdminApi, ResponseBuilder
from controller.wire.admin.partitions import by_topic, message_of, read_partitions
from controller.wire.request_body import RequestBody

_TEXTS: Final = {
    error_codes.NONE: "",
    error_codes.NOT_CONTROLLER: error_codes.NOT_CONTROLLER_TEXT,
    error_codes.CLUSTER_AUTHORIZATION_FAILED: error_codes.CLUSTER_AUTHORIZATION_TEXT,
}
"""Kafka's own texts for error codes of whole requests. Without an error the text is empty."""


def _decode_alter(
    body: RequestBody, version: int, request: int
) -> AlterPartitionReassignmentsReceived:
    def partition() -> tuple[int, tuple[int, ...] | None]:
        return body.int32(), body.nullable_int32s()

    def topic() -> list[ReassignmentTarget]:
        name = body.string()
        return [ReassignmentTarget(name, *one) for one in body.structures(partition)]

    body.int32()  # The timeout: a reassignment is started and not waited for.
    targets = [one for topics in body.structures(topic) for one in topics]
    return AlterPartitionReassignmentsReceived(request, version, targets)


def _alter_fields(
    response: AlterPartitionReassignmentsResponse, builder: ResponseBuilder
) -> dict[str, Any]:
    responses = tuple(
        builder.make(
            "ReassignableTopicResponse",
            name=topic,
            partitions=tuple(
                builder.make(
                    "ReassignablePartitionResponse",
                    partition_index=one.partition,
                    error_code=ErrorCode(one.error),
                    error_message=message_of(one),
                )
                for one in partitions
            ),
        )
        for topic, partitions in by_topic(response.partitions).items()
    )
    return {**_error_fields(response.error), "responses": responses}


def _decode_list(
    body: RequestBody, version: int, request: int
) -> ListPartitionReassignmentsReceived:
    body.int32()  # The timeout: the response does not wait.
    return ListPartitionReassignmentsReceived(request, version, read_partitions(body))


def _list_fields(
    response: ListPartitionReassignmentsResponse, builder: ResponseBuilder
) -> dict[str, Any]:
    topics = tuple(
        builder.make(
            "OngoingTopicReassignment",
            name=topic,
            partitions=tuple(
                builder.make(
                    "OngoingPartitionReassignment",
                    partition_index=one.partition,
                    replicas=one.assignment.replicas,
                    adding_replicas=one.assignment.adding,
                    removing_replicas=one.assignment.removing,
                )
                for one in partitions
            ),
        )
        for topic, partitions in by_topic(response.partitions).items()
    )
    return {**_error_fields(response.error), "topics": topics}


def _error_fields(error: int) -> dict[str, Any]:
    return {"error_code": ErrorCode(error), "error_message": _TEXTS.get(error)}


ALTER_PARTITION_REASSIGNMENTS: Final = AdminApi(
    key=45,
    name="AlterPartitionReassignments",
    first=0,
    last=0,
    first_flexible=0,
    decode=_decode_alter,
    response=AlterPartitionReassignmentsResponse,
    fields=_alter_fields,
)
LIST_PARTITION_REASSIGNMENTS: Final = AdminApi(
    key=46,
    name="ListPartitionReassignments",
    first=0,
    last=0,
    first_flexible=0,
    decode=_decode_list,
    response=ListPartitionReassignmentsResponse,
    fields=_list_fields,
)
