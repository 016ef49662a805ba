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


class StockApi(Struct, frozen=True, kw_only=True):
    """An API whose requests are events of a stock controller, as the logs of the cluster show it.

    - `names`: the API's names in request logs of all releases. `layout`: its requests there.
    - `line`: the level at which the event writes a line to controller.log; "" if it writes none.
    - `writes`: the kinds of the controller's writes for such an event that has no line.
    - `is_in_zookeeper`: its transactions show the request, before the controller's decisions.
    - `has_partition_errors`: a response has the error of each partition.
    """

    request: type[ControllerRequest]
    names: tuple[str, ...]
    layout: type[_Decoded]
    line: Literal["INFO", "DEBUG", ""] = ""
    writes: tuple[str, ...] = ()
    is_in_zookeeper: bool = False
    has_partition_errors: bool = False

    @property
    def event(self) -> str:
        """The name of the controller event (`trigger_name`)."""
        return self.request.__name__.removesuffix("Received")


STOCK_APIS: Final = (
    StockApi(
        request=AlterPartitionReceived,
        names=("ALTER_PARTITION", "ALTER_ISR"),
        layout=_AlterPartition,
        line="DEBUG",
    ),
    StockApi(
        request=ControlledShutdownReceived,
        names=("CONTROLLED_SHUTDOWN",),
        layout=_BrokerRequest,
        line="INFO",
    ),
    StockApi(
        request=AllocateProducerIdsReceived,
        names=("ALLOCATE_PRODUCER_IDS",),
        layout=_BrokerRequest,
        writes=("producer_ids",),
    ),
    StockApi(
        request=AlterPartitionReassignmentsReceived,
        names=("ALTER_PARTITION_REASSIGNMENTS",),
        layout=_Reassignments,
        writes=("assignment", "reassign_partitions"),
        is_in_zookeeper=True,
        has_partition_errors=True,
    ),
    StockApi(
        request=ElectLeadersReceived,
        names=("ELECT_LEADERS",),
        layout=_ElectLeaders,
        line="INFO",
        has_partition_errors=True,
    ),
    StockApi(
        request=UpdateFeaturesReceived,
        names=("UPDATE_FEATURES",),
        layout=_UpdateFeatures,
        writes=("feature",),
    ),
)
"""All of them."""
OF_REQUEST: Final[Mapping[type, StockApi]] = {one.request: one for one in STOCK_APIS}
_of_name: Final = {name: one for one in STOCK_APIS for name in one.names}
_decoders: Final[Mapping[str, msgspec.json.Decoder[Any]]] = {
    name: msgspec.json.Decoder(one.layout) for name, one in _of_name.items()
}


class _PartitionResponse(Struct):
    errorCode: int = 0
    partitionIndex: int = -1
    partitionId: int = -1


class _TopicResponse(Struct):
    name: str = ""
    topic: str = ""
    partitions: list[_PartitionResponse] = []
    partitionResult: list[_PartitionResponse] = []


class _Response(Struct):
    errorCode: int = 0


class _ResponseByPartition(_Response):
    responses: list[_TopicResponse] = []
    replicaElectionResults: list[_TopicResponse] = []


_response_decoder: Final = msgspec.json.Decoder(_Response)
_by_partition_decoder: Final = msgspec.json.Decoder(_ResponseByPartition)

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
        if _response_decoder.decode(served.response or b"{}").errorCode == _NOT_CONTROLLER:
            return None
        return _request(decoder.decode(served.request), served, number)
    except ValueError as error:  # also msgspec's errors
        raise UnreadableRequestError(f"{served.api} of broker {served.broker}: {error}") from None


def errors_of(served: RequestServed) -> tuple[int, dict[Name, int]]:
    """The error of the response to a request for reassignments or elections, and the error of each
    partition. Another request has none. Raises UnreadableRequestError."""
    api = _of_name.get(served.api)
    if api is None or not api.has_partition_errors:
        return NONE, {}
    try:
        response = _by_partition_decoder.decode(served.response or b"{}")
    except ValueError as error:
        raise UnreadableRequestError(f"{served.api} of broker {served.broker}: {error}") from None
    return response.errorCode, {
        (topic.name or topic.topic, max(one.partitionIndex, one.partitionId)): one.errorCode
        for topic in (*response.responses, *response.replicaElectionResults)
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
