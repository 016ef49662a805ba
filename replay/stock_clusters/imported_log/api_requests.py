"""API requests to a controller, from its broker's request log."""

import base64
from collections.abc import Mapping
from typing import Any, Final, Literal, assert_never

import msgspec
from msgspec import Struct

from controller.core.api_requests.alter_partition import AlterPartitionReceived, ProposedState
from controller.core.api_requests.controlled_shutdown import ControlledShutdownReceived
from controller.core.api_requests.elections import ElectLeadersReceived
from controller.core.api_requests.features import FeatureUpdate, UpdateFeaturesReceived
from controller.core.api_requests.producer_ids import AllocateProducerIdsReceived
from controller.core.api_requests.reassignments import (
    AlterPartitionReassignmentsReceived,
    ReassignmentTarget,
)
from controller.core.error_codes import NONE
from controller.core.values import RECOVERED, UNKNOWN_BROKER_EPOCH
from controller.core.znodes import Name
from replay.errors import ReplayError
from replay.stock_clusters.imported_log.events import RequestServed

ControllerRequest = (
    AlterPartitionReceived
    | ControlledShutdownReceived
    | AllocateProducerIdsReceived
    | AlterPartitionReassignmentsReceived
    | ElectLeadersReceived
    | UpdateFeaturesReceived
)
"""Requests that a stock controller processes as controller events, and that change something."""


class _WithEpoch(Struct):
    brokerId: int


class _State(Struct):
    partitionIndex: int
    leaderEpoch: int
    newIsr: tuple[int, ...] = ()
    newIsrWithEpochs: tuple[_WithEpoch, ...] = ()
    leaderRecoveryState: int = RECOVERED
    partitionEpoch: int | None = None
    currentIsrVersion: int = -1


class _StateTopic(Struct):
    partitions: list[_State]
    topicId: str = ""
    topicName: str = ""
    name: str = ""


class _BrokerRequest(Struct):
    brokerId: int
    brokerEpoch: int = UNKNOWN_BROKER_EPOCH


class _AlterPartition(_BrokerRequest):
    topics: list[_StateTopic] = []


class _Target(Struct):
    partitionIndex: int
    replicas: tuple[int, ...] | None = None


class _TargetTopic(Struct):
    name: str
    partitions: list[_Target]


class _Reassignments(Struct):
    topics: list[_TargetTopic]


class _ElectedTopic(Struct):
    topic: str
    partitions: list[int]


class _ElectLeaders(Struct):
    electionType: int = 0
    topicPartitions: list[_ElectedTopic] | None = None


class _Feature(Struct):
    feature: str
    maxVersionLevel: int
    upgradeType: int = 1
    allowDowngrade: bool = False


class _UpdateFeatures(Struct):
    featureUpdates: list[_Feature]
    timeoutMs: int = 60_000
    validateOnly: bool = False


_Decoded = _AlterPartition | _BrokerRequest | _Reassignments | _ElectLeaders | _UpdateFeatures

_decoders: Final[Mapping[str, msgspec.json.Decoder[Any]]] = {
    "ALTER_PARTITION": msgspec.json.Decoder(_AlterPartition),
    "ALTER_ISR": msgspec.json.Decoder(_AlterPartition),
    "CONTROLLED_SHUTDOWN": msgspec.json.Decoder(_BrokerRequest),
    "ALLOCATE_PRODUCER_IDS": msgspec.json.Decoder(_BrokerRequest),
    "ALTER_PARTITION_REASSIGNMENTS": msgspec.json.Decoder(_Reassignments),
    "ELECT_LEADERS": msgspec.json.Decoder(_ElectLeaders),
    "UPDATE_FEATURES": msgspec.json.Decoder(_UpdateFeatures),
}


class _PartitionAnswer(Struct):
    errorCode: int = 0
    partitionIndex: int = -1
    partitionId: int = -1


class _TopicAnswer(Struct):
    name: str = ""
    topic: str = ""
    partitions: list[_PartitionAnswer] = []
    partitionResult: list[_PartitionAnswer] = []


class _Answer(Struct):
    errorCode: int = 0


class _AnswerByPartition(_Answer):
    responses: list[_TopicAnswer] = []
    replicaElectionResults: list[_TopicAnswer] = []


_answer_decoder: Final = msgspec.json.Decoder(_Answer)
_by_partition_decoder: Final = msgspec.json.Decoder(_AnswerByPartition)
_BY_PARTITION: Final = ("ALTER_PARTITION_REASSIGNMENTS", "ELECT_LEADERS")

_SAFE_DOWNGRADE: Final = 2
_NOT_CONTROLLER: Final = 41


class UnreadableRequestError(ReplayError):
    """A line of a request log has unknown fields."""


def api_request_of(served: RequestServed, number: int) -> ControllerRequest | None:
    """The request as an event of the fold; topics are named, or have their ids in hex.

    Returns None for requests that no controller event processes, and for those that the broker
    refused because it was not the controller. Raises UnreadableRequestError.
    """
    decoder = _decoders.get(served.api)
    if decoder is None:
        return None
    try:
        if _answer_decoder.decode(served.response or b"{}").errorCode == _NOT_CONTROLLER:
            return None
        return _request(decoder.decode(served.request), served, number)
    except ValueError as error:  # also msgspec's errors
        raise UnreadableRequestError(f"{served.api} of broker {served.broker}: {error}") from None


def errors_of(served: RequestServed) -> tuple[int, dict[Name, int]]:
    """The error of the response to a request for reassignments or elections, and the error of each
    partition. Another request has none. Raises UnreadableRequestError."""
    if served.api not in _BY_PARTITION:
        return NONE, {}
    try:
        answer = _by_partition_decoder.decode(served.response or b"{}")
    except ValueError as error:
        raise UnreadableRequestError(f"{served.api} of broker {served.broker}: {error}") from None
    return answer.errorCode, {
        (topic.name or topic.topic, max(one.partitionIndex, one.partitionId)): one.errorCode
        for topic in (*answer.responses, *answer.replicaElectionResults)
        for one in (*topic.partitions, *topic.partitionResult)
    }


def _request(decoded: _Decoded, served: RequestServed, number: int) -> ControllerRequest:
    version = served.version
    match decoded:
        case _AlterPartition(brokerId=broker, brokerEpoch=epoch, topics=topics):
            states = [state for topic in topics for state in _states(topic)]
            # Versions 0 and 1 name topics; ids came with version 2.
            return AlterPartitionReceived(number, version, broker, epoch, states)
        case _BrokerRequest(brokerId=broker, brokerEpoch=epoch):
            if served.api == "CONTROLLED_SHUTDOWN":
                return ControlledShutdownReceived(number, version, broker, epoch)
            return AllocateProducerIdsReceived(number, version, broker, epoch)
        case _Reassignments(topics=named):
            targets = [
                ReassignmentTarget(topic.name, one.partitionIndex, one.replicas)
                for topic in named
                for one in topic.partitions
            ]
            return AlterPartitionReassignmentsReceived(number, version, targets)
        case _ElectLeaders(electionType=kind, topicPartitions=chosen):
            election: Literal["preferred", "unclean"] = "unclean" if kind == 1 else "preferred"
            partitions = None
            if chosen is not None:
                partitions = [(one.topic, each) for one in chosen for each in one.partitions]
            return ElectLeadersReceived(number, version, election, partitions)
        case _UpdateFeatures(featureUpdates=updates, timeoutMs=timeout, validateOnly=dry):
            wanted = [
                FeatureUpdate(
                    one.feature,
                    one.maxVersionLevel,
                    _SAFE_DOWNGRADE if one.allowDowngrade else one.upgradeType,
                )
                for one in updates
            ]
            return UpdateFeaturesReceived(number, version, timeout, dry, wanted)
        case _:
            assert_never(decoded)


def _states(topic: _StateTopic) -> list[ProposedState]:
    named = topic.topicName or topic.name
    name = named or topic_id_bytes(topic.topicId).hex()
    return [
        ProposedState(
            name,
            one.partitionIndex,
            one.leaderEpoch,
            one.newIsr or tuple(each.brokerId for each in one.newIsrWithEpochs),
            one.leaderRecoveryState,
            one.currentIsrVersion if one.partitionEpoch is None else one.partitionEpoch,
        )
        for one in topic.partitions
    ]


def topic_id_bytes(text: str) -> bytes:
    """Decode a topic id from Kafka's text form. Raises ValueError."""
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
