"""Answers to admin tools, in every version, decoded by kio."""

from typing import Any
from uuid import UUID

import pytest

from controller.core.api_requests import ApiResponse
from controller.core.api_requests.elections import ElectLeadersResponse
from controller.core.api_requests.features import UpdateFeaturesResponse
from controller.core.api_requests.partition_result import PartitionResult
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsResponse,
    OngoingReassignment,
)
from controller.core.api_requests.scram_credentials import (
    AlterUserScramCredentialsResponse,
    UserResult,
)
from controller.core.api_requests.topics import (
    CreatedTopic,
    CreatePartitionsResponse,
    CreateTopicsResponse,
    DeletedTopic,
    DeleteTopicsResponse,
    TopicResult,
)
from controller.core.error_codes import (
    ELECTION_NOT_NEEDED,
    INVALID_REQUEST,
    NO_REASSIGNMENT_IN_PROGRESS,
    NOT_CONTROLLER,
    UNACCEPTABLE_CREDENTIAL,
    UNKNOWN_TOPIC_ID,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from controller.core.values import Assignment
from controller.wire.admin.apis import encode_admin_response
from controller.wire.client_requests import RequestHead, decode_response
from tests.controller.api_keys import (
    ALTER_PARTITION_REASSIGNMENTS,
    ALTER_USER_SCRAM_CREDENTIALS,
    CREATE_PARTITIONS,
    CREATE_TOPICS,
    DELETE_TOPICS,
    ELECT_LEADERS,
    LIST_PARTITION_REASSIGNMENTS,
    UPDATE_FEATURES,
)

TOPIC_ID = bytes(range(16))
NOT_CONTROLLER_TEXT = "This is not the correct controller for this cluster."


def read(
    api_key: int, version: int, answer: ApiResponse, settings: dict[str, str] | None = None
) -> Any:
    """The response as kio decodes it, without its throttle time."""
    head = RequestHead(api_key, version, 5)
    frame = encode_admin_response(head, answer, settings or {})
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    return decode_response(head, frame[4:])


CREATED = CreatedTopic("t", 0, None, TOPIC_ID, 3, 2, (("retention.ms", "5"),))
REFUSED = CreatedTopic("ü", UNKNOWN_TOPIC_OR_PARTITION, "why")


@pytest.mark.parametrize("version", range(8))
def test_create_topics_is_answered_in_every_version(version: int) -> None:
    settings = {"log.segment.bytes": "1000", "log.retention.hours": "24"}
    answer = read(CREATE_TOPICS, version, CreateTopicsResponse(1, (CREATED, REFUSED)), settings)
    good, bad = answer.topics
    assert (good.name, good.error_code, bad.name, bad.error_code) == ("t", 0, "ü", 3)
    if version >= 1:
        assert (good.error_message, bad.error_message) == (None, "why")
    if version >= 5:
        assert (good.num_partitions, good.replication_factor) == (3, 2)
        assert (bad.num_partitions, bad.replication_factor, bad.configs) == (-1, -1, ())
        configs = {one.name: (one.value, one.config_source) for one in good.configs}
        assert len(configs) == 36
        assert configs["retention.ms"] == ("5", 1)
        assert configs["segment.bytes"] == ("1000", 4)
        assert configs["max.message.bytes"] == ("1048588", 5)
        assert not any(one.read_only or one.is_sensitive for one in good.configs)
        assert (good.topic_config_error_code, bad.topic_config_error_code) == (0, 0)
    if version >= 7:
        assert (good.topic_id, bad.topic_id) == (UUID(bytes=TOPIC_ID), None)


def test_topics_have_their_own_configurations() -> None:
    other = CreatedTopic("u", 0, None, None, 1, 1, ())
    topics = read(CREATE_TOPICS, 7, CreateTopicsResponse(1, (CREATED, other))).topics
    values = [{each.name: each.value for each in one.configs}["retention.ms"] for one in topics]
    assert values == ["5", "604800000"]


def test_older_controller_describes_known_configurations() -> None:
    answer = CreateTopicsResponse(1, (CREATED,), (2, 8))
    (topic,) = read(CREATE_TOPICS, 7, answer, {"inter.broker.protocol.version": "2.8"}).topics
    described = {one.name: one.value for one in topic.configs}
    assert described["message.format.version"] == "2.8-IV1"
    assert "remote.storage.enable" not in described


def test_configuration_that_the_client_may_not_see_is_left_out_with_an_error() -> None:
    answer = CreateTopicsResponse(1, (CREATED.without_configs(),))
    (topic,) = read(CREATE_TOPICS, 7, answer).topics
    assert (topic.error_code, topic.topic_config_error_code) == (0, 29)
    assert (topic.num_partitions, topic.replication_factor, topic.configs) == (-1, -1, ())


def test_empty_message_differs_from_no_message() -> None:
    refused = CreatedTopic("t", NOT_CONTROLLER, "")
    (topic,) = read(CREATE_TOPICS, 7, CreateTopicsResponse(1, (refused,))).topics
    assert topic.error_message == ""


@pytest.mark.parametrize("version", range(7))
def test_delete_topics_is_answered_in_every_version(version: int) -> None:
    topics = [DeletedTopic("t", TOPIC_ID if version >= 6 else None)]
    if version >= 6:
        topics.append(DeletedTopic(None, TOPIC_ID, UNKNOWN_TOPIC_ID))
    answer = read(DELETE_TOPICS, version, DeleteTopicsResponse(1, 0, tuple(topics)))
    assert (answer.responses[0].name, answer.responses[0].error_code) == ("t", 0)
    assert getattr(answer.responses[0], "error_message", None) is None
    if version >= 6:
        unknown = answer.responses[1]
        assert (unknown.name, unknown.topic_id) == (None, UUID(bytes=TOPIC_ID))
        assert unknown.error_code == UNKNOWN_TOPIC_ID


def test_error_of_a_whole_deletion_is_the_error_of_each_topic() -> None:
    answer = DeleteTopicsResponse(1, INVALID_REQUEST, (DeletedTopic("t", TOPIC_ID),))
    (topic,) = read(DELETE_TOPICS, 6, answer).responses
    assert (topic.name, topic.error_code) == ("t", INVALID_REQUEST)


@pytest.mark.parametrize("version", range(4))
def test_create_partitions_is_answered_in_every_version(version: int) -> None:
    topics = (TopicResult("t"), TopicResult("u", INVALID_REQUEST, "why"))
    results = read(CREATE_PARTITIONS, version, CreatePartitionsResponse(1, topics)).results
    assert [(one.name, one.error_code, one.error_message) for one in results] == [
        ("t", 0, None),
        ("u", INVALID_REQUEST, "why"),
    ]


MIXED = (
    PartitionResult("t", 1, 0),
    PartitionResult("u", 0, UNKNOWN_TOPIC_OR_PARTITION, "why"),
    PartitionResult("t", 0, 0),
)


def test_partitions_of_a_reassignment_are_answered_by_topic() -> None:
    nothing = PartitionResult("u", 7, NO_REASSIGNMENT_IN_PROGRESS)
    answer = AlterPartitionReassignmentsResponse(1, 0, (*MIXED, nothing))
    read_answer = read(ALTER_PARTITION_REASSIGNMENTS, 0, answer)
    assert (read_answer.error_code, read_answer.error_message) == (0, "")
    assert [
        (one.name, [(each.partition_index, each.error_message) for each in one.partitions])
        for one in read_answer.responses
    ] == [
        ("t", [(1, None), (0, None)]),
        ("u", [(0, "why"), (7, "No partition reassignment is in progress.")]),
    ]


def test_ongoing_reassignments_are_answered_by_topic() -> None:
    assignment = Assignment((1, 2, 3), (3,), (1,))
    ongoing = tuple(OngoingReassignment("t", one, assignment) for one in (0, 4))
    answer = read(
        LIST_PARTITION_REASSIGNMENTS, 0, ListPartitionReassignmentsResponse(1, 0, ongoing)
    )
    (topic,) = answer.topics
    assert [
        (one.partition_index, one.replicas, one.adding_replicas, one.removing_replicas)
        for one in topic.partitions
    ] == [(0, (1, 2, 3), (3,), (1,)), (4, (1, 2, 3), (3,), (1,))]
    assert (answer.error_code, answer.error_message) == (0, "")


@pytest.mark.parametrize(
    ("api_key", "answer"),
    [
        (ALTER_PARTITION_REASSIGNMENTS, AlterPartitionReassignmentsResponse(1, NOT_CONTROLLER)),
        (LIST_PARTITION_REASSIGNMENTS, ListPartitionReassignmentsResponse(1, NOT_CONTROLLER)),
    ],
)
def test_reassignment_requests_can_be_refused_as_a_whole(api_key: int, answer: ApiResponse) -> None:
    refused = read(api_key, 0, answer)
    assert (refused.error_code, refused.error_message) == (NOT_CONTROLLER, NOT_CONTROLLER_TEXT)


@pytest.mark.parametrize("version", range(3))
def test_elections_are_answered_by_topic(version: int) -> None:
    needless = PartitionResult("u", 7, ELECTION_NOT_NEEDED)
    answer = read(ELECT_LEADERS, version, ElectLeadersResponse(1, 0, (*MIXED, needless)))
    assert getattr(answer, "error_code", 0) == 0
    assert [
        (one.topic, [(each.partition_id, each.error_message) for each in one.partition_result])
        for one in answer.replica_election_results
    ] == [
        ("t", [(1, None), (0, None)]),
        ("u", [(0, "why"), (7, "Leader election not needed for topic partition.")]),
    ]


@pytest.mark.parametrize("version", [1, 2])
def test_not_controller_is_reported_per_partition_of_an_election(version: int) -> None:
    """An election without named partitions has only the error code, since a standby knows no
    partitions."""
    refused = (PartitionResult("t", 0, NOT_CONTROLLER),)
    answer = read(ELECT_LEADERS, version, ElectLeadersResponse(1, NOT_CONTROLLER, refused))
    (topic,) = answer.replica_election_results
    (partition,) = topic.partition_result
    assert (partition.error_code, partition.error_message) == (NOT_CONTROLLER, None)
    assert answer.error_code == 0
    answer = read(ELECT_LEADERS, version, ElectLeadersResponse(1, NOT_CONTROLLER))
    assert answer.error_code == NOT_CONTROLLER


def test_user_credentials_are_answered() -> None:
    users = (UserResult("ann"), UserResult("bob", UNACCEPTABLE_CREDENTIAL, "why"))
    answer = read(ALTER_USER_SCRAM_CREDENTIALS, 0, AlterUserScramCredentialsResponse(1, users))
    assert [(one.user, one.error_code, one.error_message) for one in answer.results] == [
        ("ann", 0, None),
        ("bob", UNACCEPTABLE_CREDENTIAL, "why"),
    ]


@pytest.mark.parametrize("version", [0, 1])
def test_features_are_answered_in_every_version(version: int) -> None:
    features = (TopicResult("f", INVALID_REQUEST, "why"),)
    answer = read(UPDATE_FEATURES, version, UpdateFeaturesResponse(1, 0, None, features))
    assert (answer.error_code, answer.error_message) == (0, None)
    (result,) = answer.results
    assert (result.feature, result.error_code, result.error_message) == (
        "f",
        INVALID_REQUEST,
        "why",
    )
    whole = UpdateFeaturesResponse(1, INVALID_REQUEST, "disabled")
    answer = read(UPDATE_FEATURES, version, whole)
    assert (answer.error_code, answer.error_message) == (INVALID_REQUEST, "disabled")
    assert answer.results == ()
