"""AlterPartitionReassignments and ListPartitionReassignments (KB 7.3, 11.6)."""

from typing import ClassVar

from msgspec import Struct

from controller.core.api_requests.partition_answer import PartitionAnswer
from controller.core.api_requests.received_request import ReceivedRequest
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

    partitions: list[ReassignmentTarget]

    def refusal(self, error: int) -> "AnswerAlterPartitionReassignments":
        """The answer without partitions."""
        return AnswerAlterPartitionReassignments(self.request, error)


class AnswerAlterPartitionReassignments(
    Struct, frozen=True, array_like=True, tag="answer_alter_partition_reassignments"
):
    """The answer to an `AlterPartitionReassignmentsReceived`, in the order of the request."""

    request: int
    error: int
    partitions: tuple[PartitionAnswer, ...] = ()


class ListPartitionReassignmentsReceived(
    ReceivedRequest, frozen=True, array_like=True, tag="list_partition_reassignments_received"
):
    """An admin tool lists the reassignments under way. `partitions` is None for all."""

    RULE: ClassVar[str] = "reassignment"

    partitions: list[tuple[str, int]] | None

    def refusal(self, error: int) -> "AnswerListPartitionReassignments":
        """The answer without partitions."""
        return AnswerListPartitionReassignments(self.request, error)


class OngoingReassignment(Struct, frozen=True, array_like=True, gc=False):
    """One partition that is being reassigned."""

    topic: str
    partition: int
    assignment: Assignment


class AnswerListPartitionReassignments(
    Struct, frozen=True, array_like=True, tag="answer_list_partition_reassignments"
):
    """The answer to a `ListPartitionReassignmentsReceived`, sorted by topic and number."""

    request: int
    error: int
    partitions: tuple[OngoingReassignment, ...] = ()
