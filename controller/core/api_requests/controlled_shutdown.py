"""ControlledShutdown: a broker is about to stop (KB 9.5)."""

from typing import ClassVar

from msgspec import Struct

from controller.core.api_requests.received_request import BrokerRequestReceived
from controller.core.error_codes import STALE_CONTROLLER_EPOCH


class ControlledShutdownReceived(
    BrokerRequestReceived, frozen=True, array_like=True, tag="controlled_shutdown_received"
):
    """A broker is about to stop."""

    RULE: ClassVar[str] = "controlled shutdown"
    CONTROLLER_EVENT: ClassVar[str] = "ControlledShutdown"
    CONTROLLER_STATE: ClassVar[str] = "ControlledShutdown"
    # Kafka's ControllerMovedException is STALE_CONTROLLER_EPOCH on the wire.
    NOT_CONTROLLER_ERROR: ClassVar[int] = STALE_CONTROLLER_EPOCH
    FENCED_ERROR: ClassVar[int] = STALE_CONTROLLER_EPOCH
    RESIGNS_WHEN_FENCED: ClassVar[bool] = False
    IS_URGENT: ClassVar[bool] = True

    def refusal(self, error: int) -> "ControlledShutdownResponse":
        """The response without partitions."""
        return ControlledShutdownResponse(self.request, error)


class ControlledShutdownResponse(
    Struct, frozen=True, array_like=True, tag="answer_controlled_shutdown"
):
    """The response to a `ControlledShutdownReceived`: the partitions that the broker still
    leads."""

    request: int
    error: int
    remaining: tuple[tuple[str, int], ...] = ()
