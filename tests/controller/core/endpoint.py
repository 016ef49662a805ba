"""API requests to a simulated controller, and its responses."""

from typing import Any

from controller.core.api_requests import ApiRequest, ApiResponse
from controller.core.api_requests.alter_partition import (
    AlterPartitionReceived,
    AlterPartitionResponse,
    ProposedState,
)
from controller.core.api_requests.controlled_shutdown import (
    ControlledShutdownReceived,
    ControlledShutdownResponse,
)
from controller.core.api_requests.producer_ids import (
    AllocateProducerIdsReceived,
    AllocateProducerIdsResponse,
)
from controller.core.values import LeaderAndIsr
from tests.controller.core.cluster import Cluster


def answers(cluster: Cluster) -> list[ApiResponse]:
    """Every response so far."""
    return [one.command for one in cluster.commands() if isinstance(one.command, ApiResponse)]


def call(cluster: Cluster, request: ApiRequest) -> Any:
    """Receive a request and return its one answer."""
    cluster.happen(request, "api:1")
    [answer] = [one for one in answers(cluster) if one.request == request.request]
    return answer


def next_request(cluster: Cluster) -> int:
    """A request number that is not used yet."""
    return len(answers(cluster)) + 1


def proposal(
    cluster: Cluster, of_topic: str, number: int, *, by_id: bool = True, **changed: Any
) -> ProposedState:
    """The present state of a partition as its leader would send it, with changes."""
    state = cluster.partition(of_topic, number).leadership
    assert isinstance(state, LeaderAndIsr)
    topic_id = cluster.topic(of_topic).topic_id
    fields: dict[str, Any] = {
        "topic": topic_id.hex() if by_id else of_topic,
        "partition": number,
        "leader_epoch": state.leader_epoch,
        "isr": state.isr,
        "recovery_state": state.recovery_state,
        "partition_epoch": state.partition_epoch,
    }
    return ProposedState(**(fields | changed))


def alter_partition(
    cluster: Cluster,
    broker: int,
    *proposals: ProposedState,
    version: int = 3,
    broker_epoch: int | None = None,
) -> AlterPartitionResponse:
    """A broker sends AlterPartition."""
    epoch = cluster.broker_epoch(broker) if broker_epoch is None else broker_epoch
    request = AlterPartitionReceived(next_request(cluster), version, broker, epoch, list(proposals))
    answer = call(cluster, request)
    assert isinstance(answer, AlterPartitionResponse)
    return answer


def controlled_shutdown(
    cluster: Cluster, broker: int, broker_epoch: int | None = None
) -> ControlledShutdownResponse:
    """A broker requests a controlled shutdown."""
    epoch = cluster.broker_epoch(broker) if broker_epoch is None else broker_epoch
    answer = call(cluster, ControlledShutdownReceived(next_request(cluster), 3, broker, epoch))
    assert isinstance(answer, ControlledShutdownResponse)
    return answer


def allocate_producer_ids(
    cluster: Cluster, broker: int, broker_epoch: int | None = None
) -> AllocateProducerIdsResponse:
    """A broker requests a block of producer ids."""
    epoch = cluster.broker_epoch(broker) if broker_epoch is None else broker_epoch
    answer = call(cluster, AllocateProducerIdsReceived(next_request(cluster), 0, broker, epoch))
    assert isinstance(answer, AllocateProducerIdsResponse)
    return answer
