"""API requests to a controller are read from its broker's request log, in each version."""

import json
import re
from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.core.api_requests import ApiRequest
from controller.core.api_requests.alter_partition import AlterPartitionReceived, ProposedState
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.features import FeatureUpdate, UpdateFeaturesReceived
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ListPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from controller.core.api_requests.scram_credentials import AlterUserScramCredentialsReceived
from controller.core.api_requests.topics import (
    CreatePartitionsReceived,
    CreateTopicsReceived,
    DeleteTopicsReceived,
)
from replay.stock_clusters.imported_log.api_requests import (
    OF_REQUEST,
    ControllerRequest,
    UnreadableRequestError,
    api_request_of,
    errors_of,
)
from replay.stock_clusters.imported_log.events import RequestServed

T_ID, T_HEX = "7fRFnxkAQKqhjQCUoz-mcw", "edf4459f190040aaa18d0094a33fa673"
APIS = (
    "ALTER_PARTITION",
    "ALTER_ISR",
    "CONTROLLED_SHUTDOWN",
    "ALLOCATE_PRODUCER_IDS",
    "ALTER_PARTITION_REASSIGNMENTS",
    "ELECT_LEADERS",
    "UPDATE_FEATURES",
)

WITHOUT_EVENT = {
    ListPartitionReassignmentsReceived,
    CreateTopicsReceived,
    CreatePartitionsReceived,
    DeleteTopicsReceived,
    AlterUserScramCredentialsReceived,
}
"""Requests that change nothing, or whose changes a stock broker writes to ZooKeeper itself."""


def parsed(api: str, version: int, request: Any) -> ApiRequest | None:
    body = json.dumps(request).encode()
    return api_request_of(RequestServed(2, api, version, "3", 5, "", 100, body, b"{}"), 17)


def alter_partition(**state: Any) -> dict[str, Any]:
    partition = {"partitionIndex": 4, "leaderEpoch": 6} | state
    return {"brokerId": 3, "brokerEpoch": 70, "topics": [{"partitions": [partition]}]}


@pytest.mark.parametrize(
    ("api", "version", "topic", "state", "expected"),
    [
        # Version 3 has the epochs of brokers, which the controller does not use.
        (
            "ALTER_PARTITION",
            3,
            {"topicId": T_ID},
            {
                "newIsrWithEpochs": [{"brokerId": 1, "brokerEpoch": 9}, {"brokerId": 3}],
                "leaderRecoveryState": 1,
                "partitionEpoch": 8,
            },
            ProposedState(T_HEX, 4, 6, (1, 3), 1, 8),
        ),
        (
            "ALTER_PARTITION",
            2,
            {"topicId": T_ID},
            {"newIsr": [3], "leaderRecoveryState": 0, "partitionEpoch": 8},
            ProposedState(T_HEX, 4, 6, (3,), 0, 8),
        ),
        (
            "ALTER_PARTITION",
            1,
            {"topicName": "t"},
            {"newIsr": [3, 1], "partitionEpoch": 0},
            ProposedState("t", 4, 6, (3, 1), 0, 0),
        ),
        (
            "ALTER_ISR",
            0,
            {"name": "t"},
            {"newIsr": [3], "currentIsrVersion": 8},
            ProposedState("t", 4, 6, (3,), 0, 8),
        ),
    ],
)
def test_proposed_isr_is_parsed(
    api: str, version: int, topic: dict[str, str], state: dict[str, Any], expected: ProposedState
) -> None:
    request = alter_partition(**state)
    request["topics"][0] |= topic
    assert parsed(api, version, request) == AlterPartitionReceived(17, version, 3, 70, [expected])


def test_partitions_keep_the_order_of_the_request() -> None:
    states = [{"partitionIndex": number, "leaderEpoch": 0, "newIsr": [1]} for number in (5, 2)]
    topics = [{"topicName": name, "partitions": states} for name in ("u", "t")]
    found = parsed("ALTER_PARTITION", 1, {"brokerId": 3, "brokerEpoch": 70, "topics": topics})
    assert isinstance(found, AlterPartitionReceived)
    assert [(one.topic, one.partition) for one in found.partitions] == [
        ("u", 5),
        ("u", 2),
        ("t", 5),
        ("t", 2),
    ]


@pytest.mark.parametrize(
    ("api", "version", "request_", "expected"),
    [
        (
            "CONTROLLED_SHUTDOWN",
            3,
            {"brokerId": 2, "brokerEpoch": 70},
            ControlledShutdownReceived(17, 3, 2, 70),
        ),
        ("CONTROLLED_SHUTDOWN", 1, {"brokerId": 2}, ControlledShutdownReceived(17, 1, 2, -1)),
        (
            "ALLOCATE_PRODUCER_IDS",
            0,
            {"brokerId": 2, "brokerEpoch": 70},
            AllocateProducerIdsReceived(17, 0, 2, 70),
        ),
        (
            "ALTER_PARTITION_REASSIGNMENTS",
            0,
            {
                "timeoutMs": 60000,
                "topics": [
                    {
                        "name": "t",
                        "partitions": [
                            {"partitionIndex": 0, "replicas": [3, 1]},
                            {"partitionIndex": 1, "replicas": None},
                            {"partitionIndex": 2, "replicas": []},
                        ],
                    }
                ],
            },
            AlterPartitionReassignmentsReceived(
                17,
                0,
                [
                    ReassignmentTarget("t", 0, (3, 1)),
                    ReassignmentTarget("t", 1, None),
                    ReassignmentTarget("t", 2, ()),
                ],
            ),
        ),
        (
            "ELECT_LEADERS",
            2,
            {"electionType": 1, "topicPartitions": [{"topic": "t", "partitions": [2, 0]}]},
            ElectLeadersReceived(17, 2, "unclean", [("t", 2), ("t", 0)]),
        ),
        (
            "ELECT_LEADERS",
            2,
            {"electionType": 0, "topicPartitions": None},
            ElectLeadersReceived(17, 2, "preferred", None),
        ),
        # Version 0 has preferred elections only.
        (
            "ELECT_LEADERS",
            0,
            {"topicPartitions": [{"topic": "t", "partitions": [0]}]},
            ElectLeadersReceived(17, 0, "preferred", [("t", 0)]),
        ),
        (
            "UPDATE_FEATURES",
            1,
            {
                "timeoutMs": 10,
                "validateOnly": True,
                "featureUpdates": [
                    {"feature": "f", "maxVersionLevel": 1, "upgradeType": 3},
                    {"feature": "g", "maxVersionLevel": 2, "upgradeType": 1},
                ],
            },
            UpdateFeaturesReceived(
                17, 1, 10, True, [FeatureUpdate("f", 1, 3), FeatureUpdate("g", 2, 1)]
            ),
        ),
        (
            "UPDATE_FEATURES",
            0,
            {
                "timeoutMs": 10,
                "featureUpdates": [
                    {"feature": "f", "maxVersionLevel": 0, "allowDowngrade": True},
                    {"feature": "g", "maxVersionLevel": 2, "allowDowngrade": False},
                ],
            },
            UpdateFeaturesReceived(
                17, 0, 10, False, [FeatureUpdate("f", 0, 2), FeatureUpdate("g", 2, 1)]
            ),
        ),
    ],
)
def test_request_is_parsed_into_the_folds_event(
    api: str, version: int, request_: Any, expected: ApiRequest
) -> None:
    assert parsed(api, version, request_) == expected


def test_each_request_is_decoded_or_has_no_controller_event() -> None:
    assert set(get_args(ApiRequest)) - set(get_args(ControllerRequest)) == WITHOUT_EVENT
    assert OF_REQUEST.keys() == set(get_args(ControllerRequest))


@pytest.mark.parametrize("kind", get_args(ApiRequest))
def test_request_log_is_decoded_for_each_request_with_a_controller_event(kind: type) -> None:
    name = kind.__name__.removesuffix("Received")
    api = re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper()
    request = {"brokerId": 1, "brokerEpoch": 2, "topics": [], "featureUpdates": []}
    expected = kind if kind in get_args(ControllerRequest) else type(None)
    assert type(parsed(api, 1, request)) is expected


@pytest.mark.parametrize("api", ["LEADER_AND_ISR", "CREATE_TOPICS", "ALTER_CONFIGS", "", "nothing"])
def test_request_without_a_controller_event_is_ignored(api: str) -> None:
    assert parsed(api, 0, {"brokerId": 1}) is None


@pytest.mark.parametrize("api", [one for one in APIS if one != "ELECT_LEADERS"])
@pytest.mark.parametrize("request_", [None, [], {"brokerId": "3"}, {"topics": 3}])
def test_unreadable_request_is_rejected_with_its_api(api: str, request_: Any) -> None:
    with pytest.raises(UnreadableRequestError, match=f"{api} of broker 2: "):
        parsed(api, 0, request_)


def test_invalid_topic_id_is_rejected_with_its_api() -> None:
    request = alter_partition(newIsr=[1])
    request["topics"][0]["topicId"] = "a"
    with pytest.raises(UnreadableRequestError, match="ALTER_PARTITION of broker 2: "):
        parsed("ALTER_PARTITION", 2, request)


@given(st.sampled_from(APIS), st.integers(0, 5), st.binary(max_size=60))
def test_arbitrary_bytes_cause_no_traceback(api: str, version: int, body: bytes) -> None:
    found = None
    with suppress(UnreadableRequestError):
        found = api_request_of(RequestServed(2, api, version, "3", 5, "", 100, body, b"{}"), 17)
    assert found is None or found.request == 17


@pytest.mark.parametrize(("error", "is_taken"), [(0, True), (77, True), (41, False)])
def test_request_that_a_broker_refused_as_not_controller_is_ignored(
    error: int, is_taken: bool
) -> None:
    request = b'{"brokerId":3,"brokerEpoch":6}'
    response = b'{"errorCode":%d}' % error
    served = RequestServed(2, "ALLOCATE_PRODUCER_IDS", 0, "3", 5, "", 100, request, response)
    assert (api_request_of(served, 17) is not None) == is_taken


@pytest.mark.parametrize(
    ("api", "response", "errors"),
    [
        (
            "ALTER_PARTITION_REASSIGNMENTS",
            {
                "errorCode": 0,
                "responses": [
                    {"name": "t", "partitions": [{"partitionIndex": 1, "errorCode": 85}]}
                ],
            },
            (0, {("t", 1): 85}),
        ),
        (
            "ELECT_LEADERS",
            {
                "errorCode": 31,
                "replicaElectionResults": [
                    {"topic": "t", "partitionResult": [{"partitionId": 2, "errorCode": 31}]}
                ],
            },
            (31, {("t", 2): 31}),
        ),
        ("CREATE_TOPICS", {"topics": [{"name": "t", "errorCode": 36}]}, (0, {})),
    ],
)
def test_errors_of_a_response_are_known_by_partition(
    api: str, response: Any, errors: tuple[int, dict[tuple[str, int], int]]
) -> None:
    body = json.dumps(response).encode()
    assert errors_of(RequestServed(2, api, 1, "c", 5, "", 100, b"{}", body)) == errors


def test_unreadable_response_is_rejected_with_its_api() -> None:
    served = RequestServed(2, "ELECT_LEADERS", 1, "c", 5, "", 100, b"{}", b"[")
    with pytest.raises(UnreadableRequestError, match="ELECT_LEADERS of broker 2"):
        errors_of(served)
