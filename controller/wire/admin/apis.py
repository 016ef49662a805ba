"""The APIs for admin tools that the controller serves. Pure."""

import sys
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from msgspec import structs

from controller.core.api_requests import AdminRequest, ApiResponse
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
)
from controller.wire.admin.admin_api import AdminApi, ResponseBuilder
from controller.wire.admin.elections import ELECT_LEADERS
from controller.wire.admin.features import UPDATE_FEATURES
from controller.wire.admin.reassignments import (
    ALTER_PARTITION_REASSIGNMENTS,
    LIST_PARTITION_REASSIGNMENTS,
)
from controller.wire.admin.scram_credentials import ALTER_USER_SCRAM_CREDENTIALS
from controller.wire.admin.topics import CREATE_PARTITIONS, CREATE_TOPICS, DELETE_TOPICS
from controller.wire.client_requests import (
    MalformedRequest,
    RequestHead,
    encode_response,
    read_header,
    response_schema,
)
from controller.wire.reading import UNREADABLE
from controller.wire.request_body import RequestBody

ADMIN_APIS: Final[Mapping[int, AdminApi[Any]]] = {
    api.key: api
    for api in (
        CREATE_TOPICS,
        DELETE_TOPICS,
        CREATE_PARTITIONS,
        ELECT_LEADERS,
        ALTER_PARTITION_REASSIGNMENTS,
        LIST_PARTITION_REASSIGNMENTS,
        ALTER_USER_SCRAM_CREDENTIALS,
        UPDATE_FEATURES,
    )
}
"""By API key. The front routes, advertises, decodes and answers by this table."""

ENTRIES_MAX: Final = 1_000_000
"""The maximum total of topics, partitions, replicas and configurations in one request."""
TOPICS_MAX: Final = 100_000
"""The maximum number of topics that one request creates, deletes or adds partitions to."""


def decode_admin_request(head: RequestHead, frame: bytes, request: int) -> AdminRequest:
    """Decode a whole request to an event with the number `request`. Raises `MalformedRequest`.

    Bytes after the body and tagged fields, which these versions do not have, are ignored, as in
    Kafka. Unlike in Kafka, an unknown election type (UNKNOWN_SERVER_ERROR there) and more than
    `ENTRIES_MAX` entries or `TOPICS_MAX` topics are malformed.
    """
    api = ADMIN_APIS[head.api_key]
    if head.version not in api.versions:
        raise MalformedRequest(f"{head.description} is not supported")
    flexible = api.is_flexible(head.version)
    client_id, at = read_header(frame, flexible=flexible)
    body = RequestBody(frame, at, flexible=flexible, entries_max=ENTRIES_MAX)
    try:
        event = api.decode(body, head.version, request)
        body.end()
    except UNREADABLE as fault:
        raise MalformedRequest(f"{head.description} cannot be read: {fault!r}") from fault
    if isinstance(event, CreateTopicsReceived | DeleteTopicsReceived | CreatePartitionsReceived):
        if len(event.topics) > TOPICS_MAX:
            raise MalformedRequest(f"{head.description} has more than {TOPICS_MAX} topics")
        return structs.replace(event, client_id=client_id)
    return event


def encode_admin_response(
    head: RequestHead,
    response: ApiResponse,
    broker_settings: Mapping[str, str],
    throttle_ms: int = 0,
) -> bytes:
    """Encode the response to a request with kio. `broker_settings` determine the configuration of
    new topics that they do not set themselves (topic_configs.py)."""
    api = ADMIN_APIS[head.api_key]
    assert isinstance(response, api.response), "a response has the kind of its request"
    schema = response_schema(head)
    builder = ResponseBuilder(sys.modules[schema.__module__], head.version, broker_settings)
    fields = api.fields(response, builder)
    throttle_time = timedelta(milliseconds=throttle_ms)
    entity = builder.make(schema.__name__, throttle_time=throttle_time, **fields)
    return encode_response(head, entity)
