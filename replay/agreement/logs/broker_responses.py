"""Brokers' responses to a controller's requests, from state-change.log or the brokers' request
logs."""

import re
from typing import Final, NamedTuple

import msgspec
from msgspec import Struct

from controller.core.values import UNKNOWN_BROKER_EPOCH
from replay.stock_clusters.imported_log.api_requests import topic_id_bytes
from replay.stock_clusters.imported_log.events import RequestServed, StateChangeLogged

_LINE: Final = re.compile(
    r"Received response \w+\(errorCode=(\d+)(.*)\) for request (\w+) with correlation id \d+"
    r" sent to broker .*\(id: (-?\d+) rack: "
)
_NAMED: Final = re.compile(r"topicName='([^']*)', partitionIndex=(\d+), errorCode=(\d+)")
_TOPIC: Final = re.compile(r"topicId=([\w-]{22}), partitionErrors=\[(.*?)\]\)")
_ERROR: Final = re.compile(r"partitionIndex=(\d+), errorCode=(\d+)")


class Response(NamedTuple):
    """A broker's response to its first unanswered request of a kind.

    With a `broker_epoch`, the request was sent to the run of the broker with that epoch.
    """

    broker: int
    kind: str
    error: int
    failed: list[tuple[str, int, int]]
    broker_epoch: int = UNKNOWN_BROKER_EPOCH


def response_of_line(logged: StateChangeLogged) -> Response | None:
    """The response that a line reports; None if the line cannot be parsed."""
    found = _LINE.search(logged.text)
    if found is None:
        return None
    failed = [
        (topic, int(number), int(error))
        for topic, number, error in _NAMED.findall(found[2])
        if topic and error != "0"
    ]
    for topic, partitions in _TOPIC.findall(found[2]):
        name = _hex(topic)
        failed += [
            (name, int(number), int(error))
            for number, error in _ERROR.findall(partitions)
            if error != "0"
        ]
    return Response(int(found[4]), found[3], int(found[1]), failed)


class _Partition(Struct):
    partitionIndex: int
    errorCode: int
    topicName: str = ""


class _Topic(Struct):
    topicId: str
    partitionErrors: list[_Partition]


class _Response(Struct):
    errorCode: int = 0
    partitionErrors: list[_Partition] = []
    topics: list[_Topic] = []


class _Request(Struct):
    controllerEpoch: int
    brokerEpoch: int = UNKNOWN_BROKER_EPOCH


CONTROLLER_APIS: Final = ("LEADER_AND_ISR", "UPDATE_METADATA", "STOP_REPLICA")
_response_decoder: Final = msgspec.json.Decoder(_Response)
_request_decoder: Final = msgspec.json.Decoder(_Request)


def response_of_request(served: RequestServed) -> tuple[int, Response] | None:
    """The controller epoch of a controller's request, and the response; None for other requests."""
    if served.api not in CONTROLLER_APIS:
        return None
    try:
        request = _request_decoder.decode(served.request)
        response = _response_decoder.decode(served.response)
    except msgspec.DecodeError:
        return None
    failed = [
        (one.topicName, one.partitionIndex, one.errorCode)
        for one in response.partitionErrors
        if one.errorCode
    ]
    for topic in response.topics:
        name = _hex(topic.topicId)
        failed += [
            (name, one.partitionIndex, one.errorCode)
            for one in topic.partitionErrors
            if one.errorCode
        ]
    answer = Response(served.broker, served.api, response.errorCode, failed, request.brokerEpoch)
    return request.controllerEpoch, answer


def _hex(topic_id: str) -> str:
    try:
        return topic_id_bytes(topic_id).hex()
    except ValueError:
        return topic_id
