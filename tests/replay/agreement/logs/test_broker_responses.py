"""Brokers' responses, read from state-change.log and from the request log."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.agreement.logs.broker_responses import (
    Response,
    response_of_line,
    response_of_request,
)
from replay.stock_clusters.imported_log.events import RequestServed, StateChangeLogged

T_ID, T_HEX = "7fRFnxkAQKqhjQCUoz-mcw", "edf4459f190040aaa18d0094a33fa673"
U_ID, U_HEX = "00DDhgdvQ3uETdLN0KoLyw", "d340c386076f437b844dd2cdd0aa0bcb"

HEAD = "[Controller id=2 epoch=1] Received response "


def tail(api: str, broker: int) -> str:
    return (
        f" for request {api} with correlation id 14 sent to broker 127.0.0.1:19403 (id: {broker}"
        " rack: null)"
    )


def of_line(text: str) -> Response | None:
    return response_of_line(StateChangeLogged(2, 1, "response", [], text))


@pytest.mark.parametrize(
    ("response", "api", "broker", "answer"),
    [
        ("UpdateMetadataResponseData(errorCode=0)", "UPDATE_METADATA", 2, (0, [])),
        ("UpdateMetadataResponseData(errorCode=11)", "UPDATE_METADATA", 3, (11, [])),
        (
            "LeaderAndIsrResponseData(errorCode=0, partitionErrors=[], topics=["
            f"LeaderAndIsrTopicError(topicId={T_ID}, partitionErrors=[LeaderAndIsrPartitionError("
            "topicName='', partitionIndex=2, errorCode=11), LeaderAndIsrPartitionError("
            "topicName='', partitionIndex=4, errorCode=0)]),"
            f" LeaderAndIsrTopicError(topicId={U_ID}, partitionErrors=[LeaderAndIsrPartitionError("
            "topicName='', partitionIndex=3, errorCode=56)])])",
            "LEADER_AND_ISR",
            3,
            (0, [(T_HEX, 2, 11), (U_HEX, 3, 56)]),
        ),
        (
            "LeaderAndIsrResponseData(errorCode=0, partitionErrors=[LeaderAndIsrPartitionError("
            "topicName='t', partitionIndex=0, errorCode=0), LeaderAndIsrPartitionError("
            "topicName='t.x-1', partitionIndex=12, errorCode=11)], topics=[])",
            "LEADER_AND_ISR",
            1,
            (0, [("t.x-1", 12, 11)]),
        ),
        (
            "StopReplicaResponseData(errorCode=0, partitionErrors=[StopReplicaPartitionError("
            "topicName='t.78', partitionIndex=5, errorCode=56), StopReplicaPartitionError("
            "topicName='t_88', partitionIndex=0, errorCode=0)])",
            "STOP_REPLICA",
            1,
            (0, [("t.78", 5, 56)]),
        ),
        (
            "StopReplicaResponseData(errorCode=11, partitionErrors=[])",
            "STOP_REPLICA",
            3,
            (11, []),
        ),
    ],
)
def test_line_has_the_broker_the_request_and_the_errors(
    response: str, api: str, broker: int, answer: tuple[int, list[tuple[str, int, int]]]
) -> None:
    assert of_line(f"{HEAD}{response}{tail(api, broker)}") == Response(broker, api, *answer)


@given(st.text(max_size=200))
def test_unreadable_line_is_no_answer(text: str) -> None:
    assert of_line(text) is None
    assert of_line(f"{HEAD}{text}") is None


def served(api: str, request: Any, response: Any) -> RequestServed:
    return RequestServed(
        3, api, 7, "2", 14, "", 0, json.dumps(request).encode(), json.dumps(response).encode()
    )


@pytest.mark.parametrize("api", ["LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA"])
def test_request_log_has_the_same_answer(api: str) -> None:
    by_id = {"topicId": T_ID, "partitionErrors": [{"partitionIndex": 2, "errorCode": 11}]}
    response = {
        "errorCode": 0,
        "partitionErrors": [
            {"topicName": "t", "partitionIndex": 1, "errorCode": 56},
            {"topicName": "t", "partitionIndex": 2, "errorCode": 0},
        ],
        "topics": [by_id],
    }
    found = response_of_request(served(api, {"controllerEpoch": 4, "more": 1}, response))
    assert found == (4, Response(3, api, 0, [("t", 1, 56), (T_HEX, 2, 11)]))
    refused = served(api, {"controllerEpoch": 4}, {"errorCode": 11})
    assert response_of_request(refused) == (4, Response(3, api, 11, []))
    to_one_run = served(api, {"controllerEpoch": 4, "brokerEpoch": 70}, {"errorCode": 0})
    assert response_of_request(to_one_run) == (4, Response(3, api, 0, [], 70))


def test_answer_to_another_api_is_ignored() -> None:
    assert response_of_request(served("ALTER_PARTITION", {"controllerEpoch": 4}, {})) is None


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_unreadable_request_is_no_answer(request: bytes, response: bytes) -> None:
    good = b'{"controllerEpoch":4}'
    for one, other in ((request, response), (request, b"{}"), (good, response + b"x")):
        assert (
            response_of_request(RequestServed(3, "STOP_REPLICA", 3, "2", 1, "", 0, one, other))
            is None
        )


@pytest.mark.parametrize("text", ["a", "Aä"])
def test_invalid_topic_id_is_kept_as_text(text: str) -> None:
    response = {
        "topics": [{"topicId": text, "partitionErrors": [{"partitionIndex": 0, "errorCode": 3}]}]
    }
    found = response_of_request(served("LEADER_AND_ISR", {"controllerEpoch": 4}, response))
    assert found is not None
    assert found[1].failed == [(text, 0, 3)]
