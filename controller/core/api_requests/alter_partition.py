"""AlterPartition: leaders request changes of ISRs (KB 11.2)."""

from typing import ClassVar

from msgspec import Struct

from controller.core.api_requests.received_request import BrokerRequestReceived
from controller.core.error_codes import UNKNOWN_SERVER_ERROR


class ProposedState(Struct, frozen=True, array_like=True, gc=False):
    """One partition of an AlterPartition request: the state that its leader proposes.

    `topic` is the name, or the topic id in hex from version 2 on.
    """

    topic: str
    partition: int
    leader_epoch: int
    isr: tuple[int, ...]
    recovery_state: int
    partition_epoch: int


class AlterPartitionReceived(
    BrokerRequestReceived, frozen=True, array_like=True, tag="alter_partition_received"
):
    """A leader asks for other ISRs. The broker epochs of ISR members in version 3 are left out, as
    Kafka's ZooKeeper controller ignores them."""

    RULE: ClassVar[str] = "AlterPartition"
    CONTROLLER_EVENT: ClassVar[str] = "AlterPartitionReceived"
    CONTROLLER_STATE: ClassVar[str] = "IsrChange"
    FENCED_ERROR: ClassVar[int] = UNKNOWN_SERVER_ERROR
    RESIGNS_WHEN_FENCED: ClassVar[bool] = False
    IS_URGENT: ClassVar[bool] = True

    partitions: list[ProposedState]

    def refusal(self, error: int) -> "AlterPartitionResponse":
        """The response without partitions."""
        return AlterPartitionResponse(self.request, error)


class AlteredPartition(Struct, frozen=True, array_like=True):
    """The answer for one partition of an AlterPartition request.

    `topic_id` is None where the request named topics by name. Without an error the other fields
    hold the current state; with an error they are as Kafka leaves them, zero or empty.
    """

    topic: str
    topic_id: bytes | None
    partition: int
    error: int
    leader: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    recovery_state: int = 0
    partition_epoch: int = 0


class AlterPartitionResponse(Struct, frozen=True, array_like=True, tag="answer_alter_partition"):
    """The response to an `AlterPartitionReceived`: `partitions` in the order of the request,
    grouped by topic."""

    request: int
    error: int
    partitions: tuple[AlteredPartition, ...] = ()
