"""ElectLeaders: an admin tool asks for elections (KB 3.9, 11.5)."""

from typing import ClassVar, Literal

from msgspec import Struct

from controller.core.api_requests.partition_result import PartitionResult
from controller.core.api_requests.received_request import ReceivedRequest


class ElectLeadersReceived(
    ReceivedRequest, frozen=True, array_like=True, tag="elect_leaders_received"
):
    """An admin tool asks for elections. `partitions` is None for all. `timeout_ms`: how long the
    response may wait until brokers know the new leaders; 0: not at all."""

    CLUSTER_OPERATION: ClassVar[str | None] = "Alter"
    CONTROLLER_EVENT: ClassVar[str] = "ReplicaLeaderElection"
    CONTROLLER_STATE: ClassVar[str] = "ManualLeaderBalance"

    election: Literal["preferred", "unclean"]
    partitions: list[tuple[str, int]] | None
    timeout_ms: int = 0

    @property
    def rule(self) -> str:
        """The rule names the type of election."""
        return f"{self.election} leader election by request"

    def refusal(self, error: int) -> "ElectLeadersResponse":
        """The response with the error for each partition that is named."""
        answers = tuple(PartitionResult(*name, error) for name in self.partitions or ())
        return ElectLeadersResponse(self.request, error, answers)


class ElectLeadersResponse(Struct, frozen=True, array_like=True, tag="answer_elect_leaders"):
    """The response to an `ElectLeadersReceived`, in the order of the request.

    If all partitions were requested, they are sorted, without those that needed no election.
    """

    request: int
    error: int
    partitions: tuple[PartitionResult, ...] = ()
