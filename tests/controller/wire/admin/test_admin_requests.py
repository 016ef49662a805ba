"""Requests of admin tools to the controller, in every version, encoded by kio."""

from datetime import timedelta
from functools import cache
from itertools import repeat
from struct import pack
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_payload_module, load_request_schema
from kio.static.constants import EntityType
from msgspec import structs

from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.features import FeatureUpdate, UpdateFeaturesReceived
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ListPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsReceived,
    ScramDeletion,
    ScramUpsertion,
)
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    MutatingRequest,
    NewPartitions,
    NewTopic,
    TopicToDelete,
)
from controller.wire.admin.apis import (
    ADMIN_APIS,
    ENTRIES_MAX,
    TOPICS_MAX,
    decode_admin_request,
)
from controller.wire.admin.scram_credentials import credential_of
from controller.wire.client_requests import (
    MalformedRequest,
    RequestHead,
    decode_request,
    encode_request,
)
from controller.wire.primitives import unsigned_varint
from tests.controller.api_keys import (
    ALTER_PARTITION_REASSIGNMENTS,
    ALTER_USER_SCRAM_CREDENTIALS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
)
from tests.controller.wire.kio_entities import CLIENT_ID, NO_TAGS, entities, frame_of, tagged_fields

FEWER = settings(max_examples=25)
HEADS = [
    RequestHead(key, version, 5) for key, api in ADMIN_APIS.items() for version in api.versions
]
EVERY_VERSION = pytest.mark.parametrize("head", HEADS)
NUMBER = 12
INT32_MAX = 2**31 - 1


def schema_of(head: RequestHead) -> Any:
    return load_payload_module(head.api_key, head.version, EntityType.request)


def class_of(head: RequestHead) -> Any:
    return load_request_schema(head.api_key, head.version)


def decoded(head: RequestHead, frame: bytes) -> Any:
    return decode_admin_request(head, frame, NUMBER)


def plain(head: RequestHead, request: Any) -> bytes:
    """The request as kio encodes it."""
    return encode_request(head, CLIENT_ID, request)[4:]


def milliseconds(time: timedelta) -> int:
    return time // timedelta(milliseconds=1)


def new_topic_of(topic: Any) -> NewTopic:
    return NewTopic(
        topic.name,
        topic.num_partitions,
        topic.replication_factor,
        [(one.partition_index, one.broker_ids) for one in topic.assignments],
        [(one.name, one.value) for one in topic.configs],
    )


def scram_event_of(request: Any) -> AlterUserScramCredentialsReceived:
    deletions = [ScramDeletion(one.name, one.mechanism) for one in request.deletions]
    upsertions = [
        ScramUpsertion(
            one.name,
            one.mechanism,
            one.iterations,
            credential_of(one.mechanism, one.salt, one.salted_password, one.iterations),
        )
        for one in request.upsertions
    ]
    return AlterUserScramCredentialsReceived(NUMBER, 0, deletions, upsertions)


def event_of(head: RequestHead, request: Any) -> Any:
    """The event for a request of kio, from the client `CLIENT_ID`."""
    event = event_without_client(head, request)
    is_limited = isinstance(event, MutatingRequest)
    return structs.replace(event, client_id=CLIENT_ID) if is_limited else event


def event_without_client(head: RequestHead, request: Any) -> Any:
    version = head.version
    match head.api_key:
        case key if key == CREATE_TOPICS:
            new = [new_topic_of(one) for one in request.topics]
            timeout_ms = milliseconds(request.timeout)
            validate_only = getattr(request, "validate_only", False)
            return CreateTopicsReceived(NUMBER, version, timeout_ms, validate_only, new)
        case key if key == DELETE_TOPICS:
            doomed = [
                TopicToDelete(one.name, one.topic_id.bytes if one.topic_id else None)
                for one in getattr(request, "topics", ())
            ]
            doomed += [TopicToDelete(name, None) for name in getattr(request, "topic_names", ())]
            return DeleteTopicsReceived(NUMBER, version, milliseconds(request.timeout), doomed)
        case key if key == CREATE_PARTITIONS:
            grown = [
                NewPartitions(
                    one.name,
                    one.count,
                    None
                    if one.assignments is None
                    else [each.broker_ids for each in one.assignments],
                )
                for one in request.topics
            ]
            timeout_ms = milliseconds(request.timeout)
            return CreatePartitionsReceived(
                NUMBER, version, timeout_ms, request.validate_only, grown
            )
        case key if key == ELECT_LEADERS:
            kind = "unclean" if getattr(request, "election_type", 0) else "preferred"
            topics = request.topic_partitions
            named = topics and [(one.topic, each) for one in topics for each in one.partitions]
            partitions = None if topics is None else list(named)
            return ElectLeadersReceived(
                NUMBER, version, kind, partitions, milliseconds(request.timeout)
            )
        case key if key == ALTER_PARTITION_REASSIGNMENTS:
            targets = [
                ReassignmentTarget(one.name, each.partition_index, each.replicas)
                for one in request.topics
                for each in one.partitions
            ]
            return AlterPartitionReassignmentsReceived(NUMBER, version, targets)
        case key if key == LIST_PARTITION_REASSIGNMENTS:
            topics = request.topics
            named = topics and [
                (one.name, each) for one in topics for each in one.partition_indexes
            ]
            return ListPartitionReassignmentsReceived(
                NUMBER, version, None if topics is None else list(named)
            )
        case key if key == ALTER_USER_SCRAM_CREDENTIALS:
            return scram_event_of(request)
        case _:
            updates = [
                FeatureUpdate(
                    one.feature,
                    one.max_version_level,
                    one.upgrade_type if version >= 1 else 2 if one.allow_downgrade else 1,
                )
                for one in request.feature_updates
            ]
            timeout_ms = milliseconds(request.timeout)
            validate_only = getattr(request, "validate_only", False)
            return UpdateFeaturesReceived(NUMBER, version, timeout_ms, validate_only, updates)


@cache
def requests_of(head: RequestHead) -> st.SearchStrategy[Any]:
    """Requests of that API and version. Elections have a known type."""
    if head.api_key == ELECT_LEADERS and head.version:
        return entities(class_of(head), election_type=st.integers(0, 1))
    return entities(class_of(head))


@EVERY_VERSION
@FEWER
@given(data=st.data())
def test_requests_encoded_by_kio_are_decoded(head: RequestHead, data: st.DataObject) -> None:
    request = data.draw(requests_of(head))
    frame = plain(head, request)
    assert frame == frame_of(head, request, repeat(NO_TAGS)), "the test's client id"
    assert decoded(head, frame) == event_of(head, request)


@EVERY_VERSION
@FEWER
@given(data=st.data(), more=st.binary(max_size=20))
def test_unknown_tagged_fields_and_trailing_bytes_are_ignored(
    head: RequestHead, data: st.DataObject, more: bytes
) -> None:
    request = data.draw(requests_of(head))
    tags = iter(lambda: data.draw(st.just(NO_TAGS) | tagged_fields()), None)
    assert decoded(head, frame_of(head, request, tags) + more) == event_of(head, request)


@EVERY_VERSION
@FEWER
@given(data=st.data())
def test_truncated_request_is_malformed(head: RequestHead, data: st.DataObject) -> None:
    frame = plain(head, data.draw(requests_of(head)))
    with pytest.raises(MalformedRequest):
        decoded(head, frame[: data.draw(st.integers(0, len(frame) - 1))])


@EVERY_VERSION
@FEWER
@given(data=st.data())
def test_damaged_request_is_malformed_or_decoded_as_by_kio(
    head: RequestHead, data: st.DataObject
) -> None:
    """Some bytes of the body are replaced."""
    good = plain(head, data.draw(requests_of(head)))
    at = data.draw(st.integers(body_at(head), len(good)))
    end = data.draw(st.integers(at, len(good)))
    frame = good[:at] + data.draw(st.binary(max_size=8)) + good[end:]
    try:
        event = decoded(head, frame)
    except MalformedRequest:
        return
    try:
        request = decode_request(head, frame)
    except MalformedRequest:
        return  # It has unknown tagged fields, or a null other than -1.
    again = plain(head, request)
    if frame.startswith(again):
        assert event == event_of(head, request)


def body_at(head: RequestHead) -> int:
    """Where the body begins in the result of `plain`."""
    return 10 + len(CLIENT_ID) + class_of(head).__flexible__


def test_every_negative_length_is_a_null() -> None:
    head = RequestHead(ELECT_LEADERS, 1, 5)
    frame = pack(">hhihbii", *head, -1, 0, -2, 0)
    assert decoded(head, frame).partitions is None


BODIES_WITH_NULL = {
    "topics": (RequestHead(CREATE_TOPICS, 7, 5), b"\0" + bytes(6)),
    "topics, not compact": (RequestHead(CREATE_TOPICS, 4, 5), pack(">i", -1) + bytes(5)),
    "a topic's name": (RequestHead(CREATE_TOPICS, 7, 5), b"\2\0" + bytes(20)),
    "assignments": (RequestHead(CREATE_TOPICS, 7, 5), b"\2\2t" + bytes(6) + b"\0\1\0" + bytes(6)),
    "names": (RequestHead(DELETE_TOPICS, 5, 5), b"\2\0" + bytes(5)),
    "brokers": (RequestHead(CREATE_PARTITIONS, 3, 5), b"\2\2t" + bytes(4) + b"\2\0" + bytes(9)),
    "a salt": (
        RequestHead(ALTER_USER_SCRAM_CREDENTIALS, 0, 5),
        b"\1\2\2u\1" + bytes(4) + b"\0" + b"\2x\0\0",
    ),
    "partitions": (RequestHead(ELECT_LEADERS, 2, 5), b"\0\2\2t\0" + bytes(6)),
}


@pytest.mark.parametrize("what", BODIES_WITH_NULL)
def test_null_in_a_required_field_is_malformed(what: str) -> None:
    head, body = BODIES_WITH_NULL[what]
    flexible = class_of(head).__flexible__
    frame = pack(">hhih", *head, -1) + NO_TAGS * flexible + body
    with pytest.raises(MalformedRequest, match="is null"):
        decoded(head, frame)


def test_unknown_election_type_is_malformed() -> None:
    head = RequestHead(ELECT_LEADERS, 2, 5)
    request = class_of(head)(election_type=2, topic_partitions=None)
    with pytest.raises(MalformedRequest, match="no election type 2"):
        decoded(head, plain(head, request))


@pytest.mark.parametrize("head", HEADS)
def test_unsupported_version_is_malformed(head: RequestHead) -> None:
    last = ADMIN_APIS[head.api_key].last
    for version in (-1, last + 1):
        with pytest.raises(MalformedRequest, match=f"version {version} is not supported"):
            decoded(head._replace(version=version), bytes(50))


def test_number_of_named_entities_is_limited() -> None:
    head = RequestHead(LIST_PARTITION_REASSIGNMENTS, 0, 5)
    before = pack(">hhih", *head, -1) + NO_TAGS + bytes(4) + b"\2\2t"

    def partitions(count: int) -> bytes:
        return before + unsigned_varint(count + 1) + bytes(4 * count) + NO_TAGS * 2

    # The topic is an entry, too.
    assert len(decoded(head, partitions(ENTRIES_MAX - 1)).partitions) == ENTRIES_MAX - 1
    with pytest.raises(MalformedRequest, match="too many entries"):
        decoded(head, partitions(ENTRIES_MAX))


@pytest.mark.parametrize(
    ("api", "version", "topic", "after"),
    [
        (DELETE_TOPICS, 5, b"\2t", bytes(4)),
        (CREATE_TOPICS, 7, b"\2t" + bytes(6) + b"\1\1" + NO_TAGS, bytes(5)),
        (CREATE_PARTITIONS, 3, b"\2t" + bytes(4) + b"\0" + NO_TAGS, bytes(5)),
    ],
)
def test_number_of_topics_is_limited(api: int, version: int, topic: bytes, after: bytes) -> None:
    head = RequestHead(api, version, 5)
    before = pack(">hhih", *head, -1) + NO_TAGS

    def topics(count: int) -> bytes:
        return before + unsigned_varint(count + 1) + topic * count + after + NO_TAGS

    assert len(decoded(head, topics(TOPICS_MAX)).topics) == TOPICS_MAX
    with pytest.raises(MalformedRequest, match="has more than 100000 topics"):
        decoded(head, topics(TOPICS_MAX + 1))


def test_false_count_is_malformed() -> None:
    """No memory is allocated for it."""
    head = RequestHead(ALTER_PARTITION_REASSIGNMENTS, 0, 5)
    frame = pack(">hhih", *head, -1) + NO_TAGS + bytes(4) + unsigned_varint(ENTRIES_MAX) + b"\2t"
    with pytest.raises(MalformedRequest, match="cannot be read"):
        decoded(head, frame)
