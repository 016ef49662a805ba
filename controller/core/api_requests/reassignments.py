"""AlterPartitionReassignments and ListPartitionReassignments (KB 7.3, 11.6)."""

from typing import ClassVar

from msgspec import Struct

from controller.core.api_requests.partition_result import PartitionResult
from controller.core.api_requests.received_request import ReceivedRequest
from controller.core.error_codes import CLUSTER_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_TEXT
from controller.core.values import Assignment


class ReassignmentTarget(Struct, frozen=True, array_like=True, gc=False):
    """One partition of an AlterPartitionReassignments request: the target replicas; None cancels
    the reassignment."""

    topic: str
    partition: int
    replicas: tuple[int, ...] | None


class AlterPartitionReassignmentsReceived(
    ReceivedRequest, frozen=True, array_like=True, tag="alter_partition_reassignments_received"
):
    """An admin tool asks for other replicas of partitions."""

    RULE: ClassVar[str] = "reassignment"
    CLUSTER_OPERATION: ClassVar[str | None] = "Alter"
    CONTROLLER_EVENT: ClassVar[str] = "ApiPartitionReassignment"
    CONTROLLER_STATE: ClassVar[str] = "AlterPartitionReassignment"

    partitions: list[ReassignmentTarget]

    def refusal(self, error: int) -> "AlterPartitionReassignmentsResponse":
        """The response without partitions. As in Kafka, a client without rights gets its error for
        each partition, too."""
        if error != CLUSTER_AUTHORIZATION_FAILED:
            return AlterPartitionReassignmentsResponse(self.request, error)
        refused = tuple(
            PartitionResult(one.topic, one.partition, error, CLUSTER_AUTHORIZATION_TEXT)
            for one in self.partitions
        )
        return AlterPartitionReassignmentsResponse(self.request, error, refused)


class AlterPartitionReassignmentsResponse(
    Struct, frozen=True, array_like=True, tag="answer_alter_partition_reassignments"
):
    """The response to an `AlterPartitionReassignmentsReceived`, in the order of the request."""

    request: int
    error: int
    partitions: tuple[PartitionResult, ...] = ()


class ListPartitionReassignmentsReceived(
    ReceivedRequest, frozen=True, array_like=True, tag="list_partition_reassignments_received"
):
    """An admin tool lists the reassignments under way. `partitions` is None for all."""

    RULE: ClassVar[str] = "reassignment"
    CLUSTER_OPERATION: ClassVar[str | None] = "Describe"
    CONTROLLER_EVENT: ClassVar[str] = "ListPartitionReassignments"
    CONTROLLER_STATE: ClassVar[str] = "ListPartitionReassignment"

    partitions: list[tuple[str, int]] | None

    def refusal(self, error: int) -> "ListPartitionReassignmentsResponse":
        """The response without partitions."""
        return ListPartitionReassignmentsResponse(self.request, error)


class OngoingReassignment(Struct, frozen=True, array_like=True, gc=False):
    """One partition that is being reassigned."""

    topic: str
    partition: int
    assignment: Assignment


class ListPartitionReassignmentsResponse(
    Struct, frozen=True, array_like=True, tag="answer_list_partition_reassignments"
):
    """The response to a `ListPartitionReassignmentsReceived`, sorted by topic and number."""

    request: int
    error: int
    partitions: tuple[OngoingReassignment, ...] = ()
