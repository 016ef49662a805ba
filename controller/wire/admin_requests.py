"""Decodes requests of admin tools to events. Pure."""

from collections.abc import Callable
from typing import Final, Literal

from controller.core.events import (
    AdminRequest,
    AlterPartitionReassignmentsReceived,
    ElectLeadersReceived,
    ListPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from controller.core.scram_requests import (
    AlterUserScramCredentialsReceived,
    ScramDeletion,
    ScramUpsertion,
)
from controller.core.topic_requests import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
    DoomedTopic,
    FeatureUpdate,
    NewPartitions,
    NewTopic,
    UpdateFeaturesReceived,
)
from controller.wire.client_requests import MalformedRequest, RequestHead, read_header
from controller.wire.reading import UNREADABLE
from controller.wire.request_body import RequestBody
from controller.wire.scram import credential_of

CREATE_TOPICS: Final = 19
DELETE_TOPICS: Final = 20
CREATE_PARTITIONS: Final = 37
ELECT_LEADERS: Final = 43
ALTER_PARTITION_REASSIGNMENTS: Final = 45
LIST_PARTITION_REASSIGNMENTS: Final = 46
ALTER_USER_SCRAM_CREDENTIALS: Final = 51
UPDATE_FEATURES: Final = 57

SPOKEN_WITH_TOOLS: Final = {
    CREATE_TOPICS: (0, 7),
    DELETE_TOPICS: (0, 6),
    CREATE_PARTITIONS: (0, 3),
    ELECT_LEADERS: (0, 2),
    ALTER_PARTITION_REASSIGNMENTS: (0, 0),
    LIST_PARTITION_REASSIGNMENTS: (0, 0),
    ALTER_USER_SCRAM_CREDENTIALS: (0, 0),
    UPDATE_FEATURES: (0, 1),
}
"""The first and last supported version of each, those of a Kafka 3.9 broker."""

MAY_WAIT: Final = frozenset({CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS})
"""Their responses wait for brokers, up to the request's timeout."""

ENTRIES_MAX: Final = 1_000_000
"""The maximum total of topics, partitions, replicas and configurations in one request."""

_FIRST_FLEXIBLE: Final = {
    CREATE_TOPICS: 5,
    DELETE_TOPICS: 4,
    CREATE_PARTITIONS: 2,
    ELECT_LEADERS: 2,
    ALTER_PARTITION_REASSIGNMENTS: 0,
    LIST_PARTITION_REASSIGNMENTS: 0,
    ALTER_USER_SCRAM_CREDENTIALS: 0,
    UPDATE_FEATURES: 0,
}
_FIRST_CREATION_THAT_MAY_VALIDATE: Final = 1
_FIRST_DELETION_BY_ID: Final = 6
_FIRST_ELECTION_WITH_TYPE: Final = 1
_ELECTIONS: Final[dict[int, Literal["preferred", "unclean"]]] = {0: "preferred", 1: "unclean"}
_PREFERRED: Final = 0
_FIRST_UPDATE_WITH_TYPE: Final = 1
_UPGRADE, _SAFE_DOWNGRADE = 1, 2


def decode_admin_request(head: RequestHead, frame: bytes, request: int) -> AdminRequest:
    """Decode a whole request to an event with the number `request`. Raises `MalformedRequest`.

    Bytes after the body and tagged fields, which these versions do not have, are ignored, as in
    Kafka. Unlike in Kafka, an unknown election type (UNKNOWN_SERVER_ERROR there) and more than
    `ENTRIES_MAX` entries are malformed.
    """
    first, last = SPOKEN_WITH_TOOLS[head.api_key]
    if not first <= head.version <= last:
        raise MalformedRequest(f"{head.description} is not supported")
    flexible = head.version >= _FIRST_FLEXIBLE[head.api_key]
    _, at = read_header(frame, flexible=flexible)
    body = RequestBody(frame, at, flexible=flexible, entries_max=ENTRIES_MAX)
    try:
        event = _READERS[head.api_key](body, head.version, request)
        body.end()
    except UNREADABLE as fault:
        raise MalformedRequest(f"{head.description} cannot be read: {fault!r}") from fault
    return event


def _create_topics(body: RequestBody, version: int, request: int) -> CreateTopicsReceived:
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


def _delete_topics(body: RequestBody, version: int, request: int) -> DeleteTopicsReceived:
    def topic() -> DoomedTopic:
        return DoomedTopic(body.nullable_string(), body.topic_id())

    if version >= _FIRST_DELETION_BY_ID:
        topics = body.structures(topic)
    else:
        topics = [DoomedTopic(name, None) for name in body.strings()]
    return DeleteTopicsReceived(request, version, body.int32(), topics)


def _create_partitions(body: RequestBody, version: int, request: int) -> CreatePartitionsReceived:
    def topic() -> NewPartitions:
        return NewPartitions(body.string(), body.int32(), body.nullable_structures(body.int32s))

    topics = body.structures(topic)
    return CreatePartitionsReceived(request, version, body.int32(), body.boolean(), topics)


def _elect_leaders(body: RequestBody, version: int, request: int) -> ElectLeadersReceived:
    kind = body.int8() if version >= _FIRST_ELECTION_WITH_TYPE else _PREFERRED
    if kind not in _ELECTIONS:
        raise ValueError(f"there is no election type {kind}")
    partitions = _partitions(body)
    return ElectLeadersReceived(request, version, _ELECTIONS[kind], partitions, body.int32())


def _alter_reassignments(
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


def _list_reassignments(
    body: RequestBody, version: int, request: int
) -> ListPartitionReassignmentsReceived:
    body.int32()
    return ListPartitionReassignmentsReceived(request, version, _partitions(body))


def _alter_scram_credentials(
    body: RequestBody, version: int, request: int
) -> AlterUserScramCredentialsReceived:
    """The salted password stays here: the event has only the credential that brokers store."""

    def deletion() -> ScramDeletion:
        return ScramDeletion(body.string(), body.int8())

    def upsertion() -> ScramUpsertion:
        user, mechanism, iterations = body.string(), body.int8(), body.int32()
        credential = credential_of(mechanism, body.octets(), body.octets(), iterations)
        return ScramUpsertion(user, mechanism, iterations, credential)

    deletions = body.structures(deletion)
    return AlterUserScramCredentialsReceived(
        request, version, deletions, body.structures(upsertion)
    )


def _update_features(body: RequestBody, version: int, request: int) -> UpdateFeaturesReceived:
    def update() -> FeatureUpdate:
        feature, level = body.string(), body.int16()
        if version >= _FIRST_UPDATE_WITH_TYPE:
            return FeatureUpdate(feature, level, body.int8())
        return FeatureUpdate(feature, level, _SAFE_DOWNGRADE if body.boolean() else _UPGRADE)

    timeout_ms = body.int32()
    updates = body.structures(update)
    validate_only = version >= _FIRST_UPDATE_WITH_TYPE and body.boolean()
    return UpdateFeaturesReceived(request, version, timeout_ms, validate_only, updates)


def _partitions(body: RequestBody) -> list[tuple[str, int]] | None:
    """Topics with partition numbers; None means all."""

    def topic() -> list[tuple[str, int]]:
        name = body.string()
        return [(name, number) for number in body.int32s()]

    topics = body.nullable_structures(topic)
    return None if topics is None else [one for each in topics for one in each]


_READERS: Final[dict[int, Callable[[RequestBody, int, int], AdminRequest]]] = {
    CREATE_TOPICS: _create_topics,
    DELETE_TOPICS: _delete_topics,
    CREATE_PARTITIONS: _create_partitions,
    ELECT_LEADERS: _elect_leaders,
    ALTER_PARTITION_REASSIGNMENTS: _alter_reassignments,
    LIST_PARTITION_REASSIGNMENTS: _list_reassignments,
    ALTER_USER_SCRAM_CREDENTIALS: _alter_scram_credentials,
    UPDATE_FEATURES: _update_features,
}
