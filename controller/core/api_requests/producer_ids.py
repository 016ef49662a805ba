"""AllocateProducerIds: a broker asks for a block of producer ids (KB 11.4)."""

from typing import ClassVar

from msgspec import Struct

from controller.core.api_requests.received_request import BrokerRequestReceived
from controller.core.error_codes import UNKNOWN_SERVER_ERROR


class AllocateProducerIdsReceived(
    BrokerRequestReceived, frozen=True, array_like=True, tag="allocate_producer_ids_received"
):
    """A broker asks for a block of producer ids."""

    RULE: ClassVar[str] = "allocate producer ids"
    CONTROLLER_EVENT: ClassVar[str] = "AllocateProducerIds"
    FENCED_ERROR: ClassVar[int] = UNKNOWN_SERVER_ERROR

    def refusal(self, error: int) -> "AllocateProducerIdsResponse":
        """The response without a block."""
        return AllocateProducerIdsResponse(self.request, error)


class AllocateProducerIdsResponse(
    Struct, frozen=True, array_like=True, tag="answer_allocate_producer_ids"
):
    """The response to an `AllocateProducerIdsReceived`: a block of ids, `start` its first."""

    request: int
    error: int
    start: int = 0
    length: int = 0
