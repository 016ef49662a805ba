"""The declarations that each request of the endpoint has."""

from typing import ClassVar, Final

from msgspec import Struct

from controller.core.error_codes import NOT_CONTROLLER

ANONYMOUS: Final = "User:ANONYMOUS"
"""The principal of a client without an identity."""


class ClientIdentity(Struct, frozen=True, array_like=True, gc=False):
    """The sender of a request: the principal, such as "User:alice", and the address of its host."""

    principal: str
    host: str


class _FromClient(Struct, frozen=True, array_like=True, kw_only=True):
    """The last field of every request. It is None, as in logs from before it existed, where clients
    have no identity and there is no authorizer."""

    client: ClientIdentity | None = None


class ReceivedRequest(_FromClient, frozen=True, array_like=True):
    """A request of the endpoint. `request` numbers the requests of one daemon run; `version` is the
    API version.

    The class attributes declare how the controller treats an API; their defaults are those of an
    admin tool's request. Each class also has a method `refusal(error)`: the response with this
    error for everything in the request.
    """

    RULE: ClassVar[str]
    """The rule of the response (`Reason.rule`)."""
    NOT_CONTROLLER_ERROR: ClassVar[int] = NOT_CONTROLLER
    """The error if the daemon is not controller, or if the term ends before the request begins."""
    FENCED_ERROR: ClassVar[int] = NOT_CONTROLLER
    """The error if a newer controller fences a write of the request. Kafka never answers then; with
    NOT_CONTROLLER an admin tool looks for the new controller."""
    RESIGNS_WHEN_FENCED: ClassVar[bool] = True
    """Whether Kafka's controller resigns after a fencing error in the request (KB 1.3.5)."""
    IS_URGENT: ClassVar[bool] = False
    """Whether partitions may be without a leader, or producers waiting, until the request is
    handled (LONG_WORK_INTERRUPTED)."""

    CLUSTER_OPERATION: ClassVar[str | None] = None
    """The operation on the cluster that Kafka's ACLs must allow; None if the procedure asks them
    about topics."""
    CONTROLLER_EVENT: ClassVar[str] = ""
    """The event of Kafka's controller for the request (ControllerEvent); "": a broker of Kafka
    serves it without the controller."""
    CONTROLLER_STATE: ClassVar[str] = ""
    """The state in which Kafka's controller handles this event (ControllerState), by its name; "":
    Idle."""

    request: int
    version: int

    @property
    def rule(self) -> str:
        """`RULE`, unless it depends on the request."""
        return self.RULE

    @property
    def subject(self) -> str:
        """The subject of notices about the request."""
        return f"request {self.request}"


class BrokerRequestReceived(ReceivedRequest, frozen=True, array_like=True):
    """A request of a broker to its controller. `broker_epoch` is -1 if the version has none."""

    CLUSTER_OPERATION: ClassVar[str | None] = "ClusterAction"

    broker: int
    broker_epoch: int

    @property
    def subject(self) -> str:
        """The broker, which may repeat the request."""
        return f"broker {self.broker}"
